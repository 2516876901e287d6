/*
 * The index between any two instructions of a look. A timer interrupts the thread that looks, and
 * the signal's handler changes the table and lets it grow before the look goes on. So the narrow
 * windows that threads on few processors hit once in a week are hit thousands of times a second.
 * (ThreadSanitizer delays signals to the next system call; under it this proves nothing.)
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include <cmocka.h>

#include "engine/index.h"
#include "engine/item.h"

#define LASTING    300   /* keys that are always there */
#define NUMBERS    20000 /* all keys; their items lie ready in the arena */
#define ITEM_BYTES (sizeof(struct gb_item) + sizeof(uint64_t))
#define ROUNDS     100

static unsigned char *arena;
static struct gb_index *index_under_test;
static uint64_t hashes[NUMBERS];
static uint64_t random_state;
static volatile uint64_t present; /* numbers below it have been inserted, and some removed again */
static unsigned interrupts;
static volatile sig_atomic_t may_change;

static uint64_t random_below(uint64_t limit)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (random_state >> 33) % limit;
}

static uint64_t place_of(uint64_t number)
{
    return ITEM_BYTES * (number + 1);
}

/* What a handler may not do in general is safe here: the interrupted look holds no lock but perhaps
 * its bucket's, which is only tried. */
/* NOLINTBEGIN(bugprone-signal-handler,cert-sig30-c) */

/* Inserts or removes, unless the interrupted thread holds the bucket. */
static void change(uint64_t number, bool add)
{
    struct gb_locked locked;
    if (!gb_index_try_lock(index_under_test, hashes[number], &locked)) {
        return;
    }
    bool there = gb_index_find_locked(&locked, &number, sizeof(number)) != NULL;
    if (add && !there) {
        (void)gb_index_insert_locked(&locked, place_of(number));
    } else if (!add && there) {
        gb_index_remove_locked(&locked);
    }
    gb_index_unlock(&locked);
}

static void interrupt(int signal_number)
{
    (void)signal_number;
    if (!may_change) {
        return;
    }
    interrupts++;
    uint64_t steps = 1 + random_below(200);
    for (uint64_t i = 0; i < steps; i++) {
        if (random_below(4) != 0 && present < NUMBERS) {
            change(present++, true);
        } else if (present > LASTING) {
            change(LASTING + random_below(present - LASTING), false);
        }
    }
}

/* NOLINTEND(bugprone-signal-handler,cert-sig30-c) */

static bool is_found(uint64_t number)
{
    struct gb_glimpse glimpse;
    return gb_index_find(index_under_test, hashes[number], &number, sizeof(number), &glimpse) !=
           NULL;
}

static bool is_found_locked(uint64_t number)
{
    struct gb_locked locked;
    may_change = 1;
    gb_index_lock(index_under_test, hashes[number], &locked);
    bool found = gb_index_find_locked(&locked, &number, sizeof(number)) != NULL;
    may_change = 0; /* unlocking may split, which takes locks that the handler would wait for */
    gb_index_unlock(&locked);
    return found;
}

static void start_timer(long interval_us)
{
    struct itimerval timer = {.it_interval = {.tv_usec = interval_us},
                              .it_value = {.tv_usec = interval_us}};
    assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

/* Looks for the lasting keys in rounds, each from a small table to one that has doubled often. */
static void look_through_interrupts(bool (*look)(uint64_t number), bool changes_all_along)
{
    uint64_t misses = 0;
    for (int round = 0; round < ROUNDS; round++) {
        gb_index_reset(index_under_test);
        for (present = 0; present < LASTING;) {
            change(present++, true);
        }
        may_change = changes_all_along;
        for (unsigned looks = 0; looks < 2000000 && present < NUMBERS; looks++) {
            misses += !look(looks % LASTING);
        }
        may_change = 0;
    }
    assert_int_equal(misses, 0);
}

static void find__never_misses_whatever_changes_between_two_instructions(void **state)
{
    (void)state;
    look_through_interrupts(is_found, true);
    (void)printf("%u interrupts\n", interrupts);
}

static void lock__never_locks_a_bucket_that_the_key_has_left(void **state)
{
    (void)state;
    look_through_interrupts(is_found_locked, false);
    (void)printf("%u interrupts\n", interrupts);
}

static int set_up(void **state)
{
    (void)state;
    const char *given = getenv("GOBLIN_SEED");
    random_state = given != NULL ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
    (void)printf("seed %llu\n", (unsigned long long)random_state);
    arena = calloc(NUMBERS + 1, ITEM_BYTES);
    assert_non_null(arena);
    for (uint64_t number = 0; number < NUMBERS; number++) {
        struct gb_item *item = (struct gb_item *)(void *)(arena + place_of(number));
        item->size_key = gb_item_pack_size(0, sizeof(number), GB_FORM_DIRECT);
        memcpy(item->key, &number, sizeof(number));
        hashes[number] = gb_index_hash(&number, sizeof(number));
    }
    assert_int_equal(gb_index_create(&index_under_test, arena, 4 * GB_MIB), 0);
    assert_true(signal(SIGALRM, interrupt) != SIG_ERR);
    start_timer(30);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    start_timer(0);
    gb_index_destroy(index_under_test);
    free(arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(find__never_misses_whatever_changes_between_two_instructions),
        cmocka_unit_test(lock__never_locks_a_bucket_that_the_key_has_left),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
