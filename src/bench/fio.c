/* Runs fio and reads its terse output. */
#include "bench/fio.h"

#include "bench/explain.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    OUTPUT_TEXT = 8192,
    ARGUMENTS_MAX = 20,
    /* Fields of terse version 3, counted from 0, as fio's manual lists them. */
    FIELD_READ_KIB_S = 6,
    FIELD_READ_LATENCY_US = 39,
    FIELD_WRITE_KIB_S = 47,
};

/* Runs a program and keeps the first OUTPUT_TEXT bytes that it prints. */
static int run(char *const arguments[], char *output, struct goblin_error *error)
{
    int ends[2];
    pid_t pid = 0;
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return -errno;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int rc = -posix_spawnp(&pid, arguments[0], &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    size_t used = 0;
    while (rc == 0) {
        char discard[512];
        size_t room = OUTPUT_TEXT - 1 - used;
        ssize_t got =
            room ? read(ends[0], output + used, room) : read(ends[0], discard, sizeof(discard));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        used += room ? (size_t)got : 0;
    }
    output[used] = '\0';
    close(ends[0]);
    int status = 0;
    if (rc == 0 && (waitpid(pid, &status, 0) < 0 || status != 0)) {
        gb_explain_set(error, "fio failed: %.200s", output);
        rc = -EIO;
    }
    return rc;
}

/* The field of the first line that is a result. */
static double terse_field(const char *output, int number)
{
    const char *at = strstr(output, "3;");
    for (int i = 0; at && i < number; i++) {
        at = strchr(at, ';');
        at = at ? at + 1 : NULL;
    }
    return at ? strtod(at, NULL) : 0;
}

static int fio_job(const char *file, const char *const *settings, char *output,
                   struct goblin_error *error)
{
    char name[PATH_MAX + 16];
    char *arguments[ARGUMENTS_MAX];
    size_t count = 0;
    snprintf(name, sizeof(name), "--filename=%s", file);
    static const char *const common[] = {
        "fio",        "--name=device",       "--minimal", "--terse-version=3",
        "--direct=1", "--ioengine=io_uring", NULL};
    for (size_t i = 0; common[i]; i++) {
        arguments[count++] = (char *)common[i];
    }
    arguments[count++] = name;
    for (size_t i = 0; settings[i] && count < ARGUMENTS_MAX - 1; i++) {
        arguments[count++] = (char *)settings[i];
    }
    arguments[count] = NULL;
    return run(arguments, output, error);
}

static int fio_jobs(struct gb_fio *fio, const char *file, uint64_t bytes, char *output,
                    struct goblin_error *error)
{
    char size[48];
    snprintf(size, sizeof(size), "--size=%llu", (unsigned long long)bytes);
    const char *const write[] = {"--rw=write",    "--bs=1M", "--iodepth=8",
                                 "--end_fsync=1", size,      NULL};
    const char *const small[] = {"--rw=randread", "--bs=4k", "--iodepth=1", "--time_based",
                                 "--runtime=3",   size,      NULL};
    const char *const large[] = {"--rw=randread", "--bs=256k", "--iodepth=4", "--time_based",
                                 "--runtime=3",   size,        NULL};
    int rc = fio_job(file, write, output, error);
    fio->write_mib_s = rc == 0 ? terse_field(output, FIELD_WRITE_KIB_S) / 1024 : 0;
    if (rc == 0) {
        rc = fio_job(file, small, output, error);
        fio->read_4k_us = rc == 0 ? terse_field(output, FIELD_READ_LATENCY_US) : 0;
    }
    if (rc == 0) {
        rc = fio_job(file, large, output, error);
        fio->read_256k_mib_s = rc == 0 ? terse_field(output, FIELD_READ_KIB_S) / 1024 : 0;
    }
    return rc;
}

int gb_fio_run(struct gb_fio *fio, const char *dir, uint64_t bytes, struct goblin_error *error)
{
    enum { LEAST_BYTES = 4 << 20, UNIT_BYTES = 1 << 20 };
    char file[PATH_MAX];
    memset(fio, 0, sizeof(*fio));
    char *output = malloc(OUTPUT_TEXT);
    if (!output) {
        return -ENOMEM;
    }
    char *const version[] = {(char *)"fio", (char *)"--version", NULL};
    if (run(version, output, error) < 0) {
        free(output);
        error->text[0] = '\0';
        return 0;
    }
    snprintf(fio->version, sizeof(fio->version), "%.*s", (int)strcspn(output, "\n"), output);
    snprintf(file, sizeof(file), "%s/fio", dir);
    bytes = bytes < LEAST_BYTES ? LEAST_BYTES : bytes / UNIT_BYTES * UNIT_BYTES;
    int rc = fio_jobs(fio, file, bytes, output, error);
    unlink(file);
    free(output);
    return rc;
}
