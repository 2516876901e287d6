/* Syncing one segment from several threads. */
#include "engine/segment.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

/* A file as Linux has it: that pages could not be written back is told once to a descriptor. The
 * caller who hears of it is held up until another has begun to sync. */
static struct {
    atomic_uint calls;
    atomic_bool other_begins;
} file_of;

static void rest(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    (void)nanosleep(&pause, NULL);
}

static int tell_once(struct gb_file *file)
{
    (void)file;
    if (atomic_fetch_add(&file_of.calls, 1) > 0) {
        return 0;
    }
    while (!atomic_load(&file_of.other_begins)) {
        rest();
    }
    for (unsigned i = 0; i < 20; i++) {
        rest(); /* time for the other to be told that all is well */
    }
    return -EIO;
}

static struct gb_segments segments;

static void *sync_too(void *arg)
{
    while (atomic_load(&file_of.calls) == 0) {
        rest();
    }
    atomic_store(&file_of.other_begins, true);
    *(int *)arg = gb_segment_sync(&segments, &segments.table[0]);
    return NULL;
}

static void failure__is_told_to_whoever_syncs_at_the_same_time(void **state)
{
    (void)state;
    static const struct gb_io_ops ops = {.file_sync = tell_once};
    struct gb_io io = {.ops = &ops};
    struct gb_file file = {.io = &io};
    struct gb_drive drive = {.identity = {.slot_count = 1, .lanes = 1}};
    assert_int_equal(gb_segments_init(&segments, &io, &drive, 1), 0);
    segments.table[0].file = &file;
    pthread_t thread;
    int told = 0;
    assert_int_equal(pthread_create(&thread, NULL, sync_too, &told), 0);
    assert_int_equal(gb_segment_sync(&segments, &segments.table[0]), -EIO);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(told, -EIO);
    assert_int_equal(atomic_load(&file_of.calls), 1);
    assert_true(segments.table[0].failing);
    segments.table[0].file = NULL;
    gb_segments_fini(&segments);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failure__is_told_to_whoever_syncs_at_the_same_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
