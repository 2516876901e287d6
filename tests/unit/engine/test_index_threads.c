/* The index under threads: writers, readers without locks, and a mover that empties blocks, waits
 * for a grace period, spoils them and hands them out again, all while the table grows. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "engine/index.h"
#include "engine/item.h"
#include "engine/rcu.h"

#define BLOCK_BYTES     16384
#define BLOCKS          96
#define MOVER_RESERVE   2
#define LASTING         2000  /* keys there from the start to the end */
#define COMING          12000 /* keys of each writer, which come and go */
#define WRITERS         2
#define READERS         2
#define WRITES          100000
#define PLACES_OF_BLOCK ((uint64_t)BLOCK_BYTES)
#define ITEM_BYTES      ((uint32_t)(sizeof(struct gb_item) + sizeof(uint64_t)))

struct block_queue {
    unsigned blocks[BLOCKS];
    unsigned head;
    unsigned count;
};

struct world {
    unsigned char *arena;
    struct gb_index *index;
    pthread_mutex_t mutex; /* both queues and what was full when */
    pthread_cond_t changed;
    struct block_queue empty;
    struct block_queue full;
    atomic_uint writing; /* writers still at work */
    atomic_uint blocks_moved;
    uint64_t seed;
};

/* Where one thread puts items. */
struct pen {
    uint64_t at;
    uint64_t end;
};

static void push(struct block_queue *queue, unsigned block)
{
    queue->blocks[(queue->head + queue->count++) % BLOCKS] = block;
}

static unsigned pop(struct block_queue *queue)
{
    unsigned block = queue->blocks[queue->head];
    queue->head = (queue->head + 1) % BLOCKS;
    queue->count--;
    return block;
}

static uint64_t random_below(uint64_t *state, uint64_t limit)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*state >> 33) % limit;
}

/* Hands the pen's block to the mover and takes an empty one, of which `reserve` must be left. */
static void change_block(struct world *world, struct pen *pen, unsigned reserve)
{
    pthread_mutex_lock(&world->mutex);
    if (pen->end != 0) {
        push(&world->full, (unsigned)(pen->end / PLACES_OF_BLOCK - 1));
        pthread_cond_broadcast(&world->changed);
    }
    while (world->empty.count <= reserve) {
        pthread_cond_wait(&world->changed, &world->mutex);
    }
    unsigned block = pop(&world->empty);
    pthread_mutex_unlock(&world->mutex);
    pen->at = block * PLACES_OF_BLOCK + 8; /* a place is never 0 */
    pen->end = (block + 1) * PLACES_OF_BLOCK;
}

static struct gb_item *item_at(const struct world *world, uint64_t place)
{
    return (struct gb_item *)(void *)(world->arena + place);
}

/* The end of a block's items is a size_key of 0 or the block's end. */
static uint64_t allot(struct world *world, struct pen *pen, unsigned reserve)
{
    if (pen->at + ITEM_BYTES + sizeof(struct gb_item) > pen->end) {
        change_block(world, pen, reserve);
    }
    uint64_t place = pen->at;
    pen->at += ITEM_BYTES;
    item_at(world, pen->at)->size_key = 0;
    return place;
}

static uint64_t new_item(struct world *world, struct pen *pen, uint64_t number)
{
    uint64_t place = allot(world, pen, MOVER_RESERVE);
    struct gb_item *item = item_at(world, place);
    atomic_init(&item->sequence, 1);
    atomic_init(&item->expiry_meta, 1);
    item->size_key = gb_item_pack_size(1, sizeof(number), GB_FORM_DIRECT);
    item->resident_low = 0;
    item->resident_high = 0;
    memcpy(item->key, &number, sizeof(number));
    return place;
}

/* Inserts, replaces, removes or changes the fields of one key. */
static void write_once(struct world *world, struct pen *pen, uint64_t number, uint64_t choice)
{
    uint64_t hash = gb_index_hash(&number, sizeof(number));
    uint64_t place = choice < 2 ? new_item(world, pen, number) : 0;
    struct gb_locked locked;
    gb_index_lock(world->index, hash, &locked);
    struct gb_item *item = gb_index_find_locked(&locked, &number, sizeof(number));
    if (item == NULL) {
        if (choice < 2) {
            assert_int_equal(gb_index_insert_locked(&locked, place), 0);
        }
    } else if (choice < 2) {
        gb_index_replace_locked(&locked, place);
    } else if (choice == 2 && number >= LASTING) {
        gb_index_remove_locked(&locked);
    } else {
        uint64_t next = atomic_load_explicit(&item->sequence, memory_order_relaxed) + 1;
        atomic_store_explicit(&item->sequence, next, memory_order_relaxed);
        atomic_store_explicit(&item->expiry_meta, next, memory_order_relaxed);
    }
    gb_index_unlock(&locked);
}

struct writer {
    struct world *world;
    pthread_t thread;
    struct pen pen;
    uint64_t first; /* of its own keys */
    uint64_t random;
};

static void *write_many(void *arg)
{
    struct writer *writer = arg;
    for (uint64_t i = 0; i < WRITES; i++) {
        /* Its own keys come into play one by one, so that the table grows throughout; the lasting
         * ones belong to all writers. */
        uint64_t number =
            random_below(&writer->random, 4) == 0
                ? random_below(&writer->random, LASTING)
                : writer->first + random_below(&writer->random, 1 + i * COMING / WRITES);
        write_once(writer->world, &writer->pen, number, random_below(&writer->random, 4));
    }
    atomic_fetch_sub(&writer->world->writing, 1);
    pthread_cond_broadcast(&writer->world->changed);
    return NULL;
}

/* Copies what lives in the block elsewhere. */
static void empty_block(struct world *world, struct pen *pen, unsigned block)
{
    uint64_t end = (block + 1) * PLACES_OF_BLOCK;
    uint64_t place = block * PLACES_OF_BLOCK + 8;
    while (place + sizeof(struct gb_item) <= end && item_at(world, place)->size_key != 0) {
        const struct gb_item *item = item_at(world, place);
        uint64_t copy = allot(world, pen, 0);
        struct gb_locked locked;
        gb_index_lock(world->index, gb_index_hash(item->key, gb_item_key_len(item)), &locked);
        if (gb_index_find_place_locked(&locked, place)) {
            memcpy(item_at(world, copy), item, ITEM_BYTES);
            gb_index_replace_locked(&locked, copy);
            gb_index_unlock(&locked);
        } else {
            gb_index_unlock(&locked);
            pen->at -= ITEM_BYTES;
            item_at(world, pen->at)->size_key = 0;
        }
        place += ITEM_BYTES;
    }
}

static void *move_blocks(void *arg)
{
    struct world *world = arg;
    struct pen pen = {0};
    for (;;) {
        pthread_mutex_lock(&world->mutex);
        while (world->full.count == 0 && atomic_load(&world->writing) != 0) {
            /* The last writer to end may signal between the check and the wait. */
            struct timespec soon;
            (void)clock_gettime(CLOCK_REALTIME, &soon);
            soon.tv_sec += 1;
            (void)pthread_cond_timedwait(&world->changed, &world->mutex, &soon);
        }
        if (atomic_load(&world->writing) == 0) {
            pthread_mutex_unlock(&world->mutex);
            return NULL;
        }
        unsigned block = pop(&world->full);
        pthread_mutex_unlock(&world->mutex);
        empty_block(world, &pen, block);
        gb_rcu_synchronize();
        memset(world->arena + block * PLACES_OF_BLOCK, 0xdd, BLOCK_BYTES);
        pthread_mutex_lock(&world->mutex);
        push(&world->empty, block);
        pthread_cond_broadcast(&world->changed);
        pthread_mutex_unlock(&world->mutex);
        atomic_fetch_add(&world->blocks_moved, 1);
    }
}

/* Looks until the two fields are a consistent pair. False: a miss. */
static bool read_once(const struct world *world, uint64_t number)
{
    uint64_t hash = gb_index_hash(&number, sizeof(number));
    struct gb_glimpse glimpse;
    const struct gb_item *item;
    uint64_t sequence = 0;
    uint64_t expiry = 0;
    gb_rcu_read_lock();
    do {
        item = gb_index_find(world->index, hash, &number, sizeof(number), &glimpse);
        if (item != NULL) {
            sequence = atomic_load_explicit(&item->sequence, memory_order_relaxed);
            expiry = atomic_load_explicit(&item->expiry_meta, memory_order_relaxed);
        }
    } while (item != NULL && !gb_index_unchanged(&glimpse));
    bool right = item == NULL || memcmp(item->key, &number, sizeof(number)) == 0;
    gb_rcu_read_unlock();
    assert_true(right);
    assert_int_equal(sequence, expiry);
    return item != NULL;
}

static void *read_many(void *arg)
{
    struct writer *reader = arg;
    const struct world *world = reader->world;
    while (atomic_load_explicit(&world->writing, memory_order_relaxed) != 0) {
        for (int i = 0; i < 64; i++) {
            assert_true(read_once(world, random_below(&reader->random, LASTING)));
            (void)read_once(world,
                            LASTING + random_below(&reader->random, WRITERS * (uint64_t)COMING));
            assert_false(read_once(world, UINT64_C(1) << 40 | (uint64_t)i));
        }
    }
    return NULL;
}

static void mark_seen(void *arg, struct gb_locked *locked, struct gb_item *item)
{
    (void)locked;
    unsigned char *seen = arg;
    uint64_t number;
    memcpy(&number, item->key, sizeof(number));
    if (number < LASTING) {
        seen[number] = 1;
    }
}

/* Walks the whole table again and again; lasting keys are always met. */
static void *walk_many(void *arg)
{
    struct world *world = arg;
    static unsigned char seen[LASTING];
    while (atomic_load(&world->writing) != 0) {
        memset(seen, 0, sizeof(seen));
        uint64_t cursor = 0;
        do {
            gb_index_scan_bucket(world->index, &cursor, mark_seen, seen);
        } while (cursor != 0);
        for (unsigned i = 0; i < LASTING; i++) {
            assert_int_equal(seen[i], 1);
        }
    }
    return NULL;
}

static void open_world(struct world *world)
{
    const char *given = getenv("GOBLIN_SEED");
    *world = (struct world){
        .seed = given != NULL ? strtoull(given, NULL, 0) : (uint64_t)time(NULL),
        .mutex = PTHREAD_MUTEX_INITIALIZER,
        .changed = PTHREAD_COND_INITIALIZER,
    };
    (void)printf("seed %llu\n", (unsigned long long)world->seed);
    world->arena = aligned_alloc(4096, BLOCKS * PLACES_OF_BLOCK);
    assert_non_null(world->arena);
    for (unsigned i = 0; i < BLOCKS; i++) {
        push(&world->empty, i);
    }
    assert_int_equal(gb_index_create(&world->index, world->arena, GB_MIB), 0);
    atomic_init(&world->writing, WRITERS);
}

static void index__stays_right_under_writers_readers_a_mover_and_a_walker(void **state)
{
    (void)state;
    static struct world world;
    open_world(&world);
    struct writer writers[WRITERS];
    struct writer readers[READERS];
    pthread_t mover;
    pthread_t walker;
    for (unsigned i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){
            .world = &world, .first = LASTING + i * (uint64_t)COMING, .random = world.seed + i};
    }
    for (uint64_t number = 0; number < LASTING; number++) {
        write_once(&world, &writers[0].pen, number, 0);
    }
    assert_int_equal(pthread_create(&mover, NULL, move_blocks, &world), 0);
    assert_int_equal(pthread_create(&walker, NULL, walk_many, &world), 0);
    for (unsigned i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_create(&writers[i].thread, NULL, write_many, &writers[i]), 0);
    }
    for (unsigned i = 0; i < READERS; i++) {
        readers[i] = (struct writer){.world = &world, .random = world.seed + 100 + i};
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_many, &readers[i]), 0);
    }
    for (unsigned i = 0; i < WRITERS; i++) {
        pthread_join(writers[i].thread, NULL);
    }
    for (unsigned i = 0; i < READERS; i++) {
        pthread_join(readers[i].thread, NULL);
    }
    pthread_join(mover, NULL);
    pthread_join(walker, NULL);
    uint64_t found = 0;
    for (uint64_t number = 0; number < LASTING + WRITERS * COMING; number++) {
        found += read_once(&world, number);
    }
    assert_int_equal(found, gb_index_count(world.index));
    assert_true(found > LASTING);
    assert_true(atomic_load(&world.blocks_moved) > 0);
    (void)printf("%llu entries, %u blocks moved\n", (unsigned long long)found,
                 atomic_load(&world.blocks_moved));
    gb_index_destroy(world.index);
    free(world.arena);
}

/* Two threads race to insert the same keys: exactly one wins each, and every key is there once. */
struct racer {
    struct world *world;
    pthread_t thread;
    struct pen pen;
    uint64_t won;
};

static void *race(void *arg)
{
    struct racer *racer = arg;
    for (uint64_t number = 0; number < COMING; number++) {
        uint64_t place = new_item(racer->world, &racer->pen, number);
        struct gb_locked locked;
        gb_index_lock(racer->world->index, gb_index_hash(&number, sizeof(number)), &locked);
        if (gb_index_find_locked(&locked, &number, sizeof(number)) == NULL) {
            assert_int_equal(gb_index_insert_locked(&locked, place), 0);
            racer->won++;
        }
        gb_index_unlock(&locked);
    }
    return NULL;
}

static void insert__lets_one_of_two_racing_threads_win(void **state)
{
    (void)state;
    static struct world world;
    open_world(&world);
    struct racer racers[2] = {{.world = &world}, {.world = &world}};
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
    }
    for (unsigned i = 0; i < 2; i++) {
        pthread_join(racers[i].thread, NULL);
    }
    assert_int_equal(racers[0].won + racers[1].won, COMING);
    assert_int_equal(gb_index_count(world.index), COMING);
    for (uint64_t number = 0; number < COMING; number++) {
        assert_true(read_once(&world, number));
    }
    gb_index_destroy(world.index);
    free(world.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(index__stays_right_under_writers_readers_a_mover_and_a_walker),
        cmocka_unit_test(insert__lets_one_of_two_racing_threads_win),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
