/* Requests into figures. */
#include "bench/study.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { REQUESTS = 4, RATE_BPS = 8000 }; /* one byte takes 1 ms */

static uint64_t object_sizes[] = {10, 20, 30};
static uint32_t requested[REQUESTS] = {0, 1, 2, 1};

static const struct gb_worker_record records[REQUESTS] = {
    {.first_ns = 1000, .last_ns = 1000, .bytes = 10, .chunk_count = 1, .answer = GB_ENGINE_RAM},
    {.first_ns = 2000, .last_ns = 9000, .bytes = 20, .chunk_count = 2, .answer = GB_ENGINE_DISK},
    {.first_ns = 500, .last_ns = 500, .answer = GB_ENGINE_MISS},
    {.first_ns = 3000, .last_ns = 5000, .bytes = 20, .chunk_count = 2, .answer = GB_ENGINE_DISK},
};
static const struct gb_chunk chunks[] = {{10, 1000}, {8, 2000}, {12, 9000}, {8, 3000}, {12, 5000}};

static void give_slice(struct gb_study_tally *tally, const struct gb_worker *worker, size_t number,
                       struct gb_reads_writer *csv)
{
    /* Requests 0 and 1 have three chunks together, 2 and 3 have two. */
    size_t chunk = number == 0 ? 0 : 3;
    const struct gb_study_slice slice = {
        .number = number, .first = number * 2, .count = 2, .half = REQUESTS / 2};
    memcpy(worker->shared->records, records + slice.first, 2 * sizeof(records[0]));
    memcpy(worker->shared->chunks, chunks + chunk, (3 - number) * sizeof(chunks[0]));
    assert_int_equal(gb_study_tally_slice(tally, worker, &slice, csv), 0);
}

static void check_result(const struct gb_engine_result *result)
{
    assert_int_equal(result->objects, 3);
    assert_int_equal(result->requests, REQUESTS);
    assert_int_equal(result->replay_bytes, 50);
    assert_true(result->replay_seconds > 15.4e-6 && result->replay_seconds < 15.6e-6);
    assert_true(result->second_half_seconds > 5.4e-6 && result->second_half_seconds < 5.6e-6);
    assert_int_equal(result->misses, 1);
    assert_int_equal(result->disk_requests, 2);
    assert_true(result->ttfb.mean_us > 1.99 && result->ttfb.mean_us < 2.01);
    assert_true(result->disk_ttlb.mean_us > 6.99 && result->disk_ttlb.mean_us < 7.01);
    assert_int_equal(result->rss_peak_bytes, 9);
    assert_int_equal(result->link.bytes, 50);
    assert_int_equal(result->link.wire_ns, 50000000);
}

static void check_csv(const char *path)
{
    FILE *file = fopen(path, "re");
    char line[256] = "";
    size_t lines = 0;
    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        lines++;
    }
    fclose(file);
    assert_int_equal(lines, 1 + REQUESTS);
    assert_string_equal(line, "null,1,3,1,20,3000,5000,disk,8:3000 12:5000\n");
}

static void study_tally__sums_up_two_slices(void **state)
{
    (void)state;
    char path[] = "/tmp/goblin-tally-XXXXXX";
    struct gb_reads_writer *csv = NULL;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(gb_reads_writer_open(path, 0, &csv), 0);
    struct gb_corpus corpus = {.count = 3, .sizes = object_sizes, .total_bytes = 60};
    struct gb_schedule schedule = {.count = REQUESTS, .objects = requested, .total_bytes = 80};
    struct gb_content content = {.corpus = &corpus};
    struct gb_worker worker = {
        .ops = &gb_engine_null,
        .schedule = &schedule,
        .content = &content,
        .shared = gb_worker_shared_create(REQUESTS, 1 << 20),
    };
    struct gb_study_tally *tally = malloc(sizeof(*tally));
    struct gb_engine_result result;
    assert_non_null(tally);
    assert_non_null(worker.shared);
    gb_study_tally_init(tally, RATE_BPS);
    tally->populate_peak_bytes = 7;
    tally->replay_peak_bytes = 9;
    give_slice(tally, &worker, 0, csv);
    give_slice(tally, &worker, 1, csv);
    assert_int_equal(gb_reads_writer_close(csv), 0);
    gb_study_tally_result(tally, &worker, &schedule, &result);
    check_result(&result);
    check_csv(path);
    unlink(path);
    gb_study_tally_fini(tally);
    free(tally);
    gb_worker_shared_destroy(worker.shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(study_tally__sums_up_two_slices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
