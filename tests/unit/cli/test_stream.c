/* Bytes through descriptors: pipes that are slow, small and non-blocking; sizes of what is open. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/stream.h"

enum { BYTES = 1 << 20 }; /* many times what a pipe holds */

static unsigned char pattern(size_t i)
{
    return (unsigned char)(i * 7 + i / 251);
}

static void *write_pattern(void *arg)
{
    int fd = *(int *)arg;
    unsigned char *bytes = malloc(BYTES);
    for (size_t i = 0; bytes != NULL && i < BYTES; i++) {
        bytes[i] = pattern(i);
    }
    int result = bytes != NULL ? gb_stream_write(fd, bytes, BYTES) : -ENOMEM;
    free(bytes);
    (void)close(fd);
    return result == 0 ? arg : NULL;
}

static void check_pipe(int flags)
{
    int ends[2];
    pthread_t writer;
    void *written;
    assert_int_equal(pipe2(ends, flags), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_pattern, &ends[1]), 0);
    unsigned char *bytes = malloc(BYTES + 1);
    assert_non_null(bytes);
    size_t got = 0;
    assert_int_equal(gb_stream_read(ends[0], bytes, BYTES + 1, &got), 0);
    assert_int_equal(pthread_join(writer, &written), 0);
    assert_ptr_equal(written, &ends[1]);
    assert_int_equal(got, BYTES);
    for (size_t i = 0; i < BYTES; i++) {
        if (bytes[i] != pattern(i)) {
            fail_msg("byte %zu differs", i);
        }
    }
    free(bytes);
    (void)close(ends[0]);
}

static void stream__goes_whole_through_a_pipe(void **state)
{
    (void)state;
    check_pipe(0);
}

static void stream__waits_on_a_pipe_that_does_not_block(void **state)
{
    (void)state;
    check_pipe(O_NONBLOCK);
}

static void write__says_when_the_reader_has_gone(void **state)
{
    (void)state;
    int ends[2];
    (void)signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe(ends), 0);
    (void)close(ends[0]);
    assert_int_equal(gb_stream_write(ends[1], "x", 1), -EPIPE);
    (void)close(ends[1]);
}

static void read__reports_faults(void **state)
{
    (void)state;
    char byte;
    size_t got = 1;
    int fd = open("/", O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(gb_stream_read(fd, &byte, 1, &got), -EISDIR);
    assert_int_equal(got, 0);
    (void)close(fd);
}

static void size__is_known_for_files_with_bytes_left(void **state)
{
    (void)state;
    char path[] = "/tmp/goblin-stream.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    assert_true(gb_stream_size(fd) == GOBLIN_SIZE_UNKNOWN);
    assert_int_equal(gb_stream_write(fd, "0123456789", 10), 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(gb_stream_size(fd), 10);
    assert_int_equal(lseek(fd, 4, SEEK_SET), 4);
    assert_int_equal(gb_stream_size(fd), 6);
    (void)close(fd);
    int made_up = open("/proc/self/status", O_RDONLY);
    assert_true(made_up >= 0);
    assert_true(gb_stream_size(made_up) == GOBLIN_SIZE_UNKNOWN);
    (void)close(made_up);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream__goes_whole_through_a_pipe),
        cmocka_unit_test(stream__waits_on_a_pipe_that_does_not_block),
        cmocka_unit_test(write__says_when_the_reader_has_gone),
        cmocka_unit_test(read__reports_faults),
        cmocka_unit_test(size__is_known_for_files_with_bytes_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
