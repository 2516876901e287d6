/* The crew: every job is done once, calling off ends everybody, nobody waits for ever. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/crew.h"

enum { JOBS = 5000 };

struct site {
    struct gb_crew crew;
    unsigned quit_after; /* 0: never; else a worker calls the work off at this job */
    _Atomic unsigned done;
    _Atomic uint64_t sum;
};

static void *work(void *arg)
{
    struct site *site = arg;
    struct gb_crew_job job;
    while (gb_crew_take(&site->crew, &job)) {
        uint32_t number;
        assert_int_equal(job.len, sizeof(number));
        memcpy(&number, job.bytes, sizeof(number));
        free(job.bytes);
        atomic_fetch_add(&site->sum, number);
        if (atomic_fetch_add(&site->done, 1) + 1 == site->quit_after) {
            gb_crew_call_off(&site->crew);
        }
    }
    return NULL;
}

/* Returns how many jobs were given. */
static uint32_t give_all(struct site *site, unsigned workers)
{
    assert_int_equal(gb_crew_start(&site->crew, workers, work, site), 0);
    uint32_t given = 0;
    while (given < JOBS && gb_crew_give(&site->crew, &given, sizeof(given)) == 0) {
        given++;
    }
    gb_crew_finish(&site->crew);
    return given;
}

static void crew__does_every_job_once(void **state)
{
    (void)state;
    static const unsigned workers[] = {1, 4, GB_CREW_MAX};
    for (size_t i = 0; i < sizeof(workers) / sizeof(workers[0]); i++) {
        struct site *site = calloc(1, sizeof(*site));
        assert_non_null(site);
        assert_int_equal(give_all(site, workers[i]), JOBS);
        assert_int_equal(site->done, JOBS);
        assert_int_equal(site->sum, (uint64_t)JOBS * (JOBS - 1) / 2);
        free(site);
    }
}

static void crew__stops_giving_and_taking_when_called_off(void **state)
{
    (void)state;
    struct site *site = calloc(1, sizeof(*site));
    assert_non_null(site);
    site->quit_after = 10;
    uint32_t given = give_all(site, 2);
    assert_true(given <= 10 + GB_CREW_QUEUE + 2);
    assert_true(site->done >= 10 && site->done <= 12);
    free(site);
}

static void crew__ends_without_jobs(void **state)
{
    (void)state;
    struct site *site = calloc(1, sizeof(*site));
    assert_non_null(site);
    assert_int_equal(gb_crew_start(&site->crew, 3, work, site), 0);
    gb_crew_finish(&site->crew);
    assert_int_equal(site->done, 0);
    free(site);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crew__does_every_job_once),
        cmocka_unit_test(crew__stops_giving_and_taking_when_called_off),
        cmocka_unit_test(crew__ends_without_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
