/* The io_uring backend alone. What becomes of it where the kernel refuses rings: each refusal
 * happens in a child that has forbidden itself something. And what odd answers come to. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/io.h"

#define DIR_ABSENT "/nonexistent-goblin-probe"

/* What a child found, sent through a pipe. */
struct report {
    int rc;
    int sync_rc;
    char why[256];
};

/* Makes `number` fail with `error` from here on in this process. */
static int forbid_syscall(unsigned number, unsigned error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error & SECCOMP_RET_DATA)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return -errno;
    }
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0 ? -errno : 0;
}

struct hardship {
    unsigned syscall; /* 0: none */
    unsigned error;
    int resource; /* -1: none */
    rlim_t limit;
    const char *dir;
};

static int endure(const struct hardship *hardship)
{
    if (hardship->resource >= 0) {
        struct rlimit limit = {hardship->limit, hardship->limit};
        if (setrlimit((__rlimit_resource_t)hardship->resource, &limit) != 0) {
            return -errno;
        }
    }
    return hardship->syscall != 0 ? forbid_syscall(hardship->syscall, hardship->error) : 0;
}

static void try_in_child(const struct hardship *hardship, int to)
{
    struct report report = {0};
    int rc = endure(hardship);
    if (rc == 0) {
        struct gb_io *io;
        report.rc = gb_io_uring_create(&io, hardship->dir, report.why, sizeof(report.why));
        if (report.rc == 0) {
            io->ops->destroy(io);
        }
        report.sync_rc = gb_io_sync_create(&io);
        if (report.sync_rc == 0) {
            io->ops->destroy(io);
        }
        rc = write(to, &report, sizeof(report)) == sizeof(report) ? 0 : -errno;
    }
    _exit(rc == 0 ? 0 : 1);
}

static struct report try_under(struct hardship hardship)
{
    struct report report;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        try_in_child(&hardship, ends[1]);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &report, sizeof(report)), sizeof(report));
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(report.sync_rc, 0);
    assert_null(strchr(report.why, '\n'));
    return report;
}

static const char *scratch(void)
{
    const char *root = getenv("TMPDIR");
    return root != NULL ? root : "/tmp";
}

/* Some tests have a point only where rings work without the hardship. */
static void need_uring(void)
{
    struct report report = try_under((struct hardship){.resource = -1, .dir = scratch()});
    if (report.rc != 0) {
        print_message("no io_uring here: %s\n", report.why);
        skip();
    }
}

static void uring_create__names_a_forbidden_setup(void **state)
{
    (void)state;
    struct report report =
        try_under((struct hardship){SYS_io_uring_setup, EPERM, .resource = -1, .dir = scratch()});
    assert_int_equal(report.rc, -EPERM);
    assert_string_equal(report.why, "io_uring_setup: Operation not permitted (seccomp or "
                                    "kernel.io_uring_disabled)");
}

static void uring_create__names_a_missing_setup(void **state)
{
    (void)state;
    struct report report =
        try_under((struct hardship){SYS_io_uring_setup, ENOSYS, .resource = -1, .dir = scratch()});
    assert_int_equal(report.rc, -ENOSYS);
    assert_string_equal(report.why, "io_uring_setup: Function not implemented (not in this "
                                    "kernel, or hidden by seccomp)");
}

static void uring_create__names_a_lack_of_locked_memory(void **state)
{
    (void)state;
    struct report report =
        try_under((struct hardship){SYS_io_uring_setup, ENOMEM, .resource = -1, .dir = scratch()});
    assert_int_equal(report.rc, -ENOMEM);
    assert_non_null(strstr(report.why, "RLIMIT_MEMLOCK"));
}

static void uring_create__notices_a_ring_that_cannot_be_entered(void **state)
{
    (void)state;
    need_uring();
    struct report report =
        try_under((struct hardship){SYS_io_uring_enter, EPERM, .resource = -1, .dir = scratch()});
    assert_int_equal(report.rc, -EPERM);
    assert_non_null(strstr(report.why, "write through io_uring: Operation not permitted"));
}

static void uring_create__gives_up_on_a_ring_that_takes_nothing(void **state)
{
    (void)state;
    need_uring();
    struct report report =
        try_under((struct hardship){SYS_io_uring_enter, EAGAIN, .resource = -1, .dir = scratch()});
    assert_int_equal(report.rc, -EAGAIN);
}

static void uring_create__names_a_lack_of_descriptors(void **state)
{
    (void)state;
    need_uring();
    struct report report =
        try_under((struct hardship){.resource = RLIMIT_NOFILE, .limit = 0, .dir = scratch()});
    assert_int_equal(report.rc, -EMFILE);
    assert_non_null(strstr(report.why, "Too many open files"));
}

static void uring_create__fits_64_kib_of_locked_memory(void **state)
{
    (void)state;
    need_uring();
    struct report report =
        try_under((struct hardship){.resource = RLIMIT_MEMLOCK, .limit = 65536, .dir = scratch()});
    assert_int_equal(report.rc, 0);
}

static void uring_create__blames_the_directory_for_a_missing_directory(void **state)
{
    (void)state;
    need_uring();
    struct report report = try_under((struct hardship){.resource = -1, .dir = DIR_ABSENT});
    assert_int_equal(report.rc, -ENOENT);
    assert_string_equal(report.why, "probe file: No such file or directory");
}

static int count_names(void *arg, const char *name)
{
    (void)name;
    (*(unsigned *)arg)++;
    return 0;
}

static void uring_create__leaves_no_name_behind(void **state)
{
    (void)state;
    need_uring();
    char dir[128];
    snprintf(dir, sizeof(dir), "%s/goblin-probe-XXXXXX", scratch());
    assert_non_null(mkdtemp(dir));
    struct gb_io *io;
    char why[256];
    assert_int_equal(gb_io_uring_create(&io, dir, why, sizeof(why)), 0);
    unsigned names = 0;
    assert_int_equal(io->ops->list(io, dir, count_names, &names), 0);
    assert_int_equal(names, 0);
    io->ops->destroy(io);
    assert_int_equal(rmdir(dir), 0);
}

/* ---- answers of the kernel that contract tests do not meet --------------------------------- */

static int32_t run_one(struct gb_io *io, const struct gb_operation *operation)
{
    struct gb_queue *queue;
    struct gb_event event = {.result = -ENOTRECOVERABLE};
    if (io->ops->queue_create(io, 1, &queue) == 0) {
        io->ops->queue_prepare(queue, operation);
        io->ops->queue_reap(queue, &event, 1, -1);
        io->ops->queue_destroy(queue);
    }
    return event.result;
}

/* In a directory of its own, the name gone again. */
static struct gb_file *open_scratch(struct gb_io **io)
{
    char dir[128];
    char path[160];
    char why[256];
    struct gb_file *file;
    snprintf(dir, sizeof(dir), "%s/goblin-uring-XXXXXX", scratch());
    assert_non_null(mkdtemp(dir));
    assert_int_equal(gb_io_uring_create(io, dir, why, sizeof(why)), 0);
    snprintf(path, sizeof(path), "%s/file", dir);
    assert_int_equal((*io)->ops->file_open(*io, path, GB_OPEN_CREATE, &file), 0);
    assert_int_equal((*io)->ops->unlink(*io, path), 0);
    assert_int_equal(rmdir(dir), 0);
    return file;
}

static void queue_read__gives_up_on_a_bad_buffer(void **state)
{
    (void)state;
    need_uring();
    struct gb_io *io;
    struct gb_file *file = open_scratch(&io);
    assert_int_equal(io->ops->file_write(file, "bytes", 5, 0), 5);
    void *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(nowhere, MAP_FAILED);
    struct gb_operation read_it = {GB_OP_READ, file, nowhere, 5, 0, nowhere};
    assert_int_equal(run_one(io, &read_it), -EFAULT);
    munmap(nowhere, 4096);
    io->ops->file_close(file);
    io->ops->destroy(io);
}

static void queue_write__carries_a_short_write_on_until_the_fault(void **state)
{
    (void)state;
    need_uring();
    struct gb_io *io;
    struct gb_file *file = open_scratch(&io);
    unsigned char bytes[8192] = {0};
    struct gb_operation write_it = {GB_OP_WRITE, file, bytes, sizeof(bytes), 0, bytes};
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    struct rlimit small = {4096, old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int32_t result = run_one(io, &write_it);
    int64_t blocking = io->ops->file_write(file, bytes, sizeof(bytes), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(result, -EFBIG);
    assert_int_equal(blocking, -EFBIG);
    uint64_t size = 0;
    assert_int_equal(io->ops->file_size(file, &size), 0);
    assert_int_equal(size, 4096);
    io->ops->file_close(file);
    io->ops->destroy(io);
}

/* ---- the death of a process ---------------------------------------------------------------- */

#define DYING_WRITES 16u
#define DYING_BYTES  (1u << 20)

static const char *scratch_dir(void)
{
    const char *dir = getenv("TMPDIR");
    return dir != NULL ? dir : "/var/tmp";
}

/* Takes the lock, gives the kernel many writes, says so, and waits to be killed. */
static void write_until_killed(const char *name, const char *lock_name, int to)
{
    char why[256];
    struct gb_io *io = NULL;
    struct gb_file *file = NULL;
    struct gb_file *lock = NULL;
    struct gb_queue *queue = NULL;
    unsigned char *buffer = aligned_alloc(4096, DYING_BYTES);
    int rc = buffer == NULL ? -ENOMEM : gb_io_uring_create(&io, scratch_dir(), why, sizeof(why));
    rc = rc < 0 ? rc : io->ops->file_open(io, lock_name, 0, &lock);
    rc = rc < 0 ? rc : io->ops->file_lock(lock, false);
    rc = rc < 0 ? rc : io->ops->file_open(io, name, GB_OPEN_DIRECT, &file);
    rc = rc < 0 ? rc : io->ops->queue_create(io, DYING_WRITES, &queue);
    for (unsigned i = 0; rc >= 0 && i < DYING_WRITES; i++) {
        const struct gb_operation write_it = {.op = GB_OP_WRITE,
                                              .file = file,
                                              .buffer = memset(buffer, 'x', DYING_BYTES),
                                              .len = DYING_BYTES,
                                              .offset = (uint64_t)i * DYING_BYTES,
                                              .tag = buffer};
        rc = io->ops->queue_prepare(queue, &write_it);
    }
    rc = rc < 0 ? rc : io->ops->queue_submit(queue);
    if (write(to, &rc, sizeof(rc)) == (ssize_t)sizeof(rc)) {
        (void)pause();
    }
    _exit(1);
}

static unsigned count_written(struct gb_io *io, const char *name)
{
    struct gb_file *file = NULL;
    unsigned count = 0;
    assert_int_equal(io->ops->file_open(io, name, GB_OPEN_READ_ONLY, &file), 0);
    for (unsigned i = 0; i < DYING_WRITES; i++) {
        unsigned char last = 0;
        uint64_t end = (uint64_t)(i + 1) * DYING_BYTES;
        assert_int_equal(io->ops->file_read(file, &last, 1, end - 1), 1);
        count += last == 'x';
    }
    io->ops->file_close(file);
    return count;
}

static void make_file(struct gb_io *io, const char *name, uint64_t bytes)
{
    struct gb_file *file = NULL;
    assert_int_equal(io->ops->file_open(io, name, GB_OPEN_CREATE, &file), 0);
    assert_true(io->ops->file_allocate(file, bytes) >= 0);
    io->ops->file_close(file);
}

static void kill_while_it_writes(const char *name, const char *lock_name)
{
    int ends[2];
    int rc = -1;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        write_until_killed(name, lock_name, ends[1]);
    }
    assert_int_equal(read(ends[0], &rc, sizeof(rc)), sizeof(rc));
    assert_int_equal(rc, 0);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void file_lock__outlives_a_killed_process_until_its_writes_have_ended(void **state)
{
    (void)state;
    char dir[256];
    char name[300];
    char lock_name[300];
    char why[256];
    struct gb_io *io = NULL;
    struct gb_file *lock = NULL;
    if (gb_io_uring_create(&io, scratch_dir(), why, sizeof(why)) < 0) {
        print_message("no io_uring here: %s\n", why);
        skip();
    }
    io->ops->destroy(io);
    (void)snprintf(dir, sizeof(dir), "%s/goblin-dying-XXXXXX", scratch_dir());
    assert_non_null(mkdtemp(dir));
    (void)snprintf(name, sizeof(name), "%s/data", dir);
    (void)snprintf(lock_name, sizeof(lock_name), "%s/lock", dir);
    assert_int_equal(gb_io_sync_create(&io), 0);
    make_file(io, name, (uint64_t)DYING_WRITES * DYING_BYTES);
    make_file(io, lock_name, 4096);
    kill_while_it_writes(name, lock_name);
    const struct timespec pause = {.tv_nsec = 1000000};
    assert_int_equal(io->ops->file_open(io, lock_name, 0, &lock), 0);
    for (unsigned i = 0; io->ops->file_lock(lock, false) != 0; i++) {
        assert_true(i < 30000);
        (void)nanosleep(&pause, NULL);
    }
    unsigned written = count_written(io, name);
    const struct timespec later = {.tv_nsec = 300000000};
    (void)nanosleep(&later, NULL);
    assert_int_equal(count_written(io, name), written);
    io->ops->file_close(lock);
    io->ops->destroy(io);
    (void)unlink(name);
    (void)unlink(lock_name);
    (void)rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uring_create__names_a_forbidden_setup),
        cmocka_unit_test(uring_create__names_a_missing_setup),
        cmocka_unit_test(uring_create__names_a_lack_of_locked_memory),
        cmocka_unit_test(uring_create__notices_a_ring_that_cannot_be_entered),
        cmocka_unit_test(uring_create__gives_up_on_a_ring_that_takes_nothing),
        cmocka_unit_test(uring_create__names_a_lack_of_descriptors),
        cmocka_unit_test(uring_create__fits_64_kib_of_locked_memory),
        cmocka_unit_test(uring_create__blames_the_directory_for_a_missing_directory),
        cmocka_unit_test(uring_create__leaves_no_name_behind),
        cmocka_unit_test(queue_read__gives_up_on_a_bad_buffer),
        cmocka_unit_test(queue_write__carries_a_short_write_on_until_the_fault),
        cmocka_unit_test(file_lock__outlives_a_killed_process_until_its_writes_have_ended),
    };
    return cmocka_run_group_tests_name("uring", tests, NULL, NULL);
}
