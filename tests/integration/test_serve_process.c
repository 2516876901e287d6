/* A server as a process: what it tells systemd, what signals do, and the files it leaves. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/serve.h"

struct process {
    struct gb_serve *serve;
    pid_t pid;
    int notify; /* systemd's end of the socket */
    char notify_path[320];
    char port_file[320];
    char pid_file[320];
    char log_file[320];
    char moved[330];
    char address[128];
};

static int setup(void **state)
{
    struct process *process = calloc(1, sizeof(*process));
    void *serve = NULL;
    if (process == NULL || gb_serve_setup(&serve) != 0) {
        free(process);
        return -1;
    }
    process->serve = serve;
    const char *root = process->serve->root;
    (void)snprintf(process->notify_path, sizeof(process->notify_path), "%s/notify", root);
    (void)snprintf(process->port_file, sizeof(process->port_file), "%s/ports", root);
    (void)snprintf(process->pid_file, sizeof(process->pid_file), "%s/pid", root);
    (void)snprintf(process->log_file, sizeof(process->log_file), "%s/log", root);
    (void)snprintf(process->moved, sizeof(process->moved), "%s/log.1", root);
    struct gb_server_options *options = &process->serve->options;
    options->port_file = process->port_file;
    options->pid_file = process->pid_file;
    options->log.file = process->log_file;
    options->log.level = GOBLIN_LOG_INFO;
    options->clock = NULL;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%.107s", process->notify_path);
    process->notify = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const struct timeval patience = {.tv_sec = 20};
    if (process->notify < 0 ||
        bind(process->notify, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        setsockopt(process->notify, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0) {
        return -1;
    }
    *state = process;
    return 0;
}

static int teardown(void **state)
{
    struct process *process = *state;
    if (process->pid > 0) {
        (void)kill(process->pid, SIGKILL);
        (void)waitpid(process->pid, NULL, 0);
    }
    (void)close(process->notify);
    void *serve = process->serve;
    free(process);
    return gb_serve_teardown(&serve);
}

/* Waits for a message that begins so; others, but for the watchdog's, are not expected. */
static void expect_notice(struct process *process, const char *wanted)
{
    char text[256];
    for (;;) {
        ssize_t n = TEMP_FAILURE_RETRY(recv(process->notify, text, sizeof(text) - 1, 0));
        if (n < 0) {
            fail_msg("no %s: %s", wanted, strerror(errno));
        }
        text[n] = '\0';
        if (strncmp(text, wanted, strlen(wanted)) == 0) {
            return;
        }
        assert_string_equal(text, "WATCHDOG=1");
    }
}

static void start(struct process *process, const char *watchdog_us)
{
    (void)fflush(NULL);
    process->pid = fork();
    assert_true(process->pid >= 0);
    if (process->pid == 0) {
        char pid[24];
        struct goblin_error error;
        (void)snprintf(pid, sizeof(pid), "%ld", (long)getpid());
        (void)setenv("NOTIFY_SOCKET", process->notify_path, 1);
        if (watchdog_us != NULL) {
            (void)setenv("WATCHDOG_USEC", watchdog_us, 1);
            (void)setenv("WATCHDOG_PID", pid, 1);
        }
        _exit(gb_server_run(&process->serve->options, &error) == GOBLIN_OK ? 0 : 1);
    }
    expect_notice(process, "READY=1");
    FILE *file = fopen(process->port_file, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "line %127s", process->address), 1);
    (void)fclose(file);
}

static void expect_exit(struct process *process)
{
    int status = 0;
    assert_int_equal(TEMP_FAILURE_RETRY(waitpid(process->pid, &status, 0)), process->pid);
    process->pid = 0;
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static bool has_line(const char *name, const char *text)
{
    char contents[65536];
    FILE *file = fopen(name, "r");
    if (file == NULL) {
        return false;
    }
    contents[fread(contents, 1, sizeof(contents) - 1, file)] = '\0';
    (void)fclose(file);
    return strstr(contents, text) != NULL;
}

static void sigterm__finishes_what_has_begun(void **state)
{
    struct process *process = *state;
    start(process, NULL);
    FILE *file = fopen(process->pid_file, "r");
    long pid = 0;
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld", &pid), 1);
    (void)fclose(file);
    assert_int_equal(pid, process->pid);
    int fd = gb_client_open_at(process->address);
    gb_client_say(fd, "set k 5\nhelloecho half a li");
    gb_client_expect(fd, "OK\n");
    assert_int_equal(kill(process->pid, SIGTERM), 0);
    expect_notice(process, "STOPPING=1");
    gb_client_say(fd, "ne\n");
    gb_client_expect(fd, "half a line\nBYE\n");
    gb_client_expect_end(fd);
    expect_exit(process);
    (void)close(fd);
    assert_int_equal(access(process->pid_file, F_OK), -1);
    process->serve->options.store.create = false;
    start(process, NULL); /* it is there again */
    fd = gb_client_open_at(process->address);
    gb_client_say(fd, "get k\n");
    gb_client_expect(fd, "VALUE 5\nhello\n");
    (void)close(fd);
    assert_int_equal(kill(process->pid, SIGINT), 0);
    expect_exit(process);
}

static void a_second_signal__ends_the_waiting(void **state)
{
    struct process *process = *state;
    start(process, NULL);
    int fd = gb_client_open_at(process->address);
    gb_client_say(fd, "echo a\necho half a li");
    gb_client_expect(fd, "a\n");
    assert_int_equal(kill(process->pid, SIGTERM), 0);
    expect_notice(process, "STOPPING=1");
    gb_await(has_line(process->log_file, "draining"));
    assert_int_equal(kill(process->pid, SIGTERM), 0);
    expect_exit(process);
    (void)close(fd);
}

static void sighup__opens_the_log_anew(void **state)
{
    struct process *process = *state;
    start(process, NULL);
    gb_await(has_line(process->log_file, "listening protocol=line address=127.0.0.1:"));
    assert_int_equal(rename(process->log_file, process->moved), 0);
    assert_int_equal(kill(process->pid, SIGHUP), 0);
    expect_notice(process, "RELOADING=1\nMONOTONIC_USEC=");
    expect_notice(process, "READY=1");
    assert_true(has_line(process->log_file, "reloaded"));
    int fd = gb_client_open_at(process->address);
    gb_client_say(fd, "echo a\n");
    gb_client_expect(fd, "a\n");
    (void)close(fd);
    assert_int_equal(kill(process->pid, SIGTERM), 0);
    expect_exit(process);
}

static void sigkill__loses_nothing_that_was_acknowledged_as_written(void **state)
{
    struct process *process = *state;
    enum { OBJECTS = 200 };
    char text[64];
    start(process, NULL);
    int fd = gb_client_open_at(process->address);
    for (unsigned i = 0; i < OBJECTS; i++) {
        (void)snprintf(text, sizeof(text), "sync k%u 5\n%05u", i, i);
        gb_client_say(fd, text);
    }
    for (unsigned i = 0; i < OBJECTS; i++) {
        gb_client_expect(fd, "OK\n");
    }
    assert_int_equal(kill(process->pid, SIGKILL), 0);
    int status = 0;
    assert_int_equal(TEMP_FAILURE_RETRY(waitpid(process->pid, &status, 0)), process->pid);
    assert_true(WIFSIGNALED(status));
    (void)close(fd);
    process->serve->options.store.create = false;
    start(process, NULL);
    fd = gb_client_open_at(process->address);
    for (unsigned i = 0; i < OBJECTS; i++) {
        (void)snprintf(text, sizeof(text), "get k%u\n", i);
        gb_client_say(fd, text);
        (void)snprintf(text, sizeof(text), "VALUE 5\n%05u\n", i);
        gb_client_expect(fd, text);
    }
    (void)close(fd);
    assert_int_equal(kill(process->pid, SIGTERM), 0);
    expect_exit(process);
}

static void watchdog__is_fed_while_all_loops_turn(void **state)
{
    struct process *process = *state;
    start(process, "60000");
    for (unsigned i = 0; i < 4; i++) {
        expect_notice(process, "WATCHDOG=1");
    }
    assert_int_equal(kill(process->pid, SIGTERM), 0);
    expect_notice(process, "STOPPING=1");
    expect_exit(process);
}

int main(void)
{
#define ON_PROCESS(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        ON_PROCESS(sigterm__finishes_what_has_begun),
        ON_PROCESS(a_second_signal__ends_the_waiting),
        ON_PROCESS(sighup__opens_the_log_anew),
        ON_PROCESS(sigkill__loses_nothing_that_was_acknowledged_as_written),
        ON_PROCESS(watchdog__is_fed_while_all_loops_turn),
    };
    return cmocka_run_group_tests_name("serve_process", tests, NULL, NULL);
}
