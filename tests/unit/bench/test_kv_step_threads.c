/* Steps of kv on libgoblin itself, small, in this process: every answer is right, and what is not
 * is found. */
#include "bench/kv_step.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/scratch.h"

enum { KEYS = 1000, KEY_BYTES = 20, VALUE_BYTES = 400, MEMORY_BYTES = 12 << 20 };

struct bench {
    char dir[64];
    struct gb_kv_values values;
    struct gb_kv_shared *shared;
    struct gb_kv_ops ops; /* of libgoblin, a copy that a test may spoil */
    unsigned threads;
};

/* How the spoilt engine misbehaves. Set before threads start. */
static enum { SOUND, OTHER_ENTRY, FLIPPED, FORGETFUL, FAILING } fault;

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof(*bench));
    assert_non_null(bench);
    strcpy(bench->dir, "/tmp/goblin-kv-step.XXXXXX");
    assert_non_null(mkdtemp(bench->dir));
    assert_int_equal(gb_kv_values_init(&bench->values, KEY_BYTES, VALUE_BYTES, 0.5, 1), 0);
    bench->shared = gb_kv_shared_create((uint64_t)KEYS * 2);
    assert_non_null(bench->shared);
    bench->ops = gb_kv_goblin;
    bench->threads = 1;
    fault = SOUND;
    *state = bench;
    return 0;
}

static int teardown(void **state)
{
    struct bench *bench = *state;
    gb_kv_values_fini(&bench->values);
    gb_kv_shared_destroy(bench->shared);
    assert_int_equal(gb_scratch_remove(bench->dir), 0);
    free(bench);
    return 0;
}

static const struct gb_kv_result *do_step(struct bench *bench, const struct gb_kv_step *step)
{
    const struct gb_kv_task task = {
        .step = step,
        .ops = &bench->ops,
        .values = &bench->values,
        .shared = bench->shared,
        .config = {.dir = bench->dir,
                   .create = step->kind == GB_KV_FILL,
                   .direct = true,
                   .memory_bytes = MEMORY_BYTES,
                   .keys_most = KEYS,
                   .key_bytes = KEY_BYTES,
                   .value_bytes = VALUE_BYTES,
                   .threads = bench->threads,
                   .size_factor = 2},
        .keys = KEYS,
        .seconds = 0.05,
        .warm_s = 0.01,
        .fill_cache = true,
        .range = 10,
        .batch = 10,
        .write_rate = 1 << 20,
        .zipf = 0.99,
        .seed = 1,
    };
    gb_kv_task_run(&task);
    return &bench->shared->result;
}

static const struct gb_kv_result *step_well(struct bench *bench, const char *name)
{
    const struct gb_kv_step *step = gb_kv_step_find(name, strlen(name));
    assert_non_null(step);
    const struct gb_kv_result *result = do_step(bench, step);
    if (result->code != 0) {
        print_error("%s: %s\n", name, result->error.text);
    }
    assert_int_equal(result->code, 0);
    assert_int_equal(result->wrong, 0);
    assert_int_equal(result->stale, 0);
    assert_int_equal(result->missed, 0);
    assert_true(result->ops > 0);
    assert_true(result->seconds > 0);
    assert_true(result->p50_us <= result->p99_us && result->p99_us <= result->p999_us);
    assert_true(result->gap_ms > 0);
    return result;
}

static void check_well(struct bench *bench)
{
    const struct gb_kv_result *result = do_step(bench, &gb_kv_step_check);
    assert_int_equal(result->code, 0);
    assert_int_equal(result->wrong + result->stale + result->missed, 0);
    assert_int_equal(result->entries, atomic_load(&bench->shared->keys));
}

static void kv_steps__all_give_right_answers(void **state)
{
    struct bench *bench = *state;
    const struct gb_kv_result *result = step_well(bench, "fillseq");
    assert_int_equal(result->ops, KEYS);
    assert_int_equal(result->live_bytes, (uint64_t)KEYS * (KEY_BYTES + VALUE_BYTES));
    assert_true(result->disk_bytes > result->live_bytes);
    assert_int_equal(step_well(bench, "overwritesome")->ops, KEYS / 10);
    for (const struct gb_kv_step *step = gb_kv_steps; step->name; step++) {
        if (step->kind == GB_KV_FILL || step->kind == GB_KV_SOME) {
            continue;
        }
        result = step_well(bench, step->name);
        assert_int_equal(result->puts > 0,
                         step->writer || step->kind == GB_KV_WRITE ||
                             step->mix.update + step->mix.insert + step->mix.modify > 0);
        if (step->kind == GB_KV_RANGE) {
            assert_true(result->entries > result->ops);
        }
    }
    assert_true(atomic_load(&bench->shared->keys) > KEYS);
    check_well(bench);
}

static void kv_steps__work_with_several_threads(void **state)
{
    struct bench *bench = *state;
    bench->threads = 3;
    step_well(bench, "fillrandom");
    step_well(bench, "overwrite");
    step_well(bench, "fwdrangeww");
    step_well(bench, "ycsbd");
    check_well(bench);
}

/* ---- an engine that is not sound ----------------------------------------------------------- */

struct spoiler {
    gb_kv_entry_fn entry;
    void *arg;
    bool is_first;
};

static void spoil(void *arg, struct gb_kv_bytes key, struct gb_kv_bytes value)
{
    struct spoiler *spoiler = arg;
    unsigned char copy[VALUE_BYTES];
    memcpy(copy, value.data, value.len);
    copy[VALUE_BYTES - 1] ^= fault == FLIPPED;
    if (fault == FORGETFUL || (fault == OTHER_ENTRY && spoiler->is_first)) {
        spoiler->is_first = false;
        return;
    }
    spoiler->entry(spoiler->arg, key, (struct gb_kv_bytes){copy, value.len});
}

static int spoilt_scan(void *session, const struct gb_kv_range *range, gb_kv_entry_fn entry,
                       void *arg)
{
    struct spoiler spoiler = {entry, arg, true};
    if (fault == FAILING) {
        return -EIO;
    }
    int found = gb_kv_goblin.scan(session, range, spoil, &spoiler);
    return fault == FORGETFUL ? 0 : found;
}

static void kv_steps__find_what_is_not_right(void **state)
{
    struct bench *bench = *state;
    step_well(bench, "fillseq");
    bench->ops.scan = spoilt_scan;
    fault = FLIPPED;
    assert_int_equal(do_step(bench, &gb_kv_step_check)->wrong, KEYS);
    fault = OTHER_ENTRY;
    assert_true(do_step(bench, &gb_kv_step_check)->wrong > 0);
    fault = FORGETFUL;
    assert_int_equal(do_step(bench, &gb_kv_step_check)->missed, KEYS);
    fault = FAILING;
    assert_int_equal(do_step(bench, &gb_kv_step_check)->code, -EIO);
    assert_non_null(strstr(bench->shared->result.error.text, "every entry"));
    fault = SOUND;
    check_well(bench);
    /* A newer version should be there; a version is there that was never put; one key more. */
    atomic_store(&bench->shared->versions[7].begun, 1);
    atomic_store(&bench->shared->versions[7].ended, 1);
    assert_int_equal(do_step(bench, &gb_kv_step_check)->stale, 1);
    atomic_store(&bench->shared->versions[7].begun, 0);
    atomic_store(&bench->shared->versions[7].ended, 0);
    atomic_store(&bench->shared->keys, KEYS + 1);
    assert_int_equal(do_step(bench, &gb_kv_step_check)->missed, 1);
}

static void kv_steps__say_why_an_engine_does_not_open(void **state)
{
    struct bench *bench = *state;
    const struct gb_kv_result *result = do_step(bench, gb_kv_step_find("readww", 6));
    assert_true(result->code < 0);
    assert_true(result->error.text[0] != '\0');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kv_steps__all_give_right_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(kv_steps__work_with_several_threads, setup, teardown),
        cmocka_unit_test_setup_teardown(kv_steps__find_what_is_not_right, setup, teardown),
        cmocka_unit_test_setup_teardown(kv_steps__say_why_an_engine_does_not_open, setup, teardown),
    };
    return cmocka_run_group_tests_name("kv_step", tests, NULL, NULL);
}
