/*
 * How fast the index is: `index_perf [keys [value_bytes]]`. Not a test.
 *
 * Objects with keys of 20 bytes and values of `value_bytes` lie one after the other in one half of
 * a plain arena. Measured: filling (with the bytes of index per object sampled over the last
 * doubling), overwriting every key in random order into the other half, random gets that copy the
 * value out, and gets of absent keys; then gets in two threads, and gets beside a second thread
 * that moves the objects to and fro between the halves as the RAM log's reclaim does, a grace
 * period after each run. Rates are the best of several batches, which says most on a machine that
 * does other things too. Keys are made before the clock starts: bytes stored just before they are
 * hashed would tie each look to the end of the one before, and hide what the processor overlaps.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "engine/index.h"
#include "engine/item.h"
#include "engine/rcu.h"

#define KEY_BYTES 20
#define MOVE_RUN  2048 /* objects between two grace periods */
#define RUN       256
#define BATCH     250000
#define BATCHES   16

struct bed {
    uint64_t keys;
    uint32_t value_bytes;
    uint64_t footprint;
    unsigned char *arena;
    struct gb_index *index;
    uint64_t half_bytes;
    bool upper; /* the half where the objects are */
    atomic_bool stop;
};

static double now(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ x >> 32;
}

static void make_key(unsigned char key[static KEY_BYTES], uint64_t number)
{
    static const char digits[] = "0123456789abcdef";
    memset(key, ':', 4);
    for (int i = 0; i < 16; i++) {
        key[4 + i] = (unsigned char)digits[number >> (4 * i) & 15];
    }
}

/* Where the object in slot `i` of the half `upper` lies. */
static uint64_t place_of(const struct bed *bed, bool upper, uint64_t i)
{
    return (upper ? bed->half_bytes : 0) + 64 + i * bed->footprint;
}

static struct gb_item *item_at(const struct bed *bed, uint64_t place)
{
    return (struct gb_item *)(void *)(bed->arena + place);
}

static void fill_item(const struct bed *bed, uint64_t place, const unsigned char *key)
{
    struct gb_item *item = item_at(bed, place);
    item->size_key = gb_item_pack_size(bed->value_bytes, KEY_BYTES, GB_FORM_DIRECT);
    gb_item_set_resident(item, bed->value_bytes);
    memcpy(item->key, key, KEY_BYTES);
    memset(item->key + KEY_BYTES, (int)key[4], bed->value_bytes);
}

static void put(struct bed *bed, const unsigned char *key, uint64_t place)
{
    fill_item(bed, place, key);
    uint64_t hash = gb_index_hash(key, KEY_BYTES);
    struct gb_locked locked;
    gb_index_lock(bed->index, hash, &locked);
    if (gb_index_find_locked(&locked, key, KEY_BYTES) != NULL) {
        gb_index_replace_locked(&locked, place);
    } else if (gb_index_insert_locked(&locked, place) != 0) {
        (void)fprintf(stderr, "index_perf: the index is full\n");
        exit(1);
    }
    gb_index_unlock(&locked);
}

static bool get(const struct bed *bed, const unsigned char *key, unsigned char *value)
{
    uint64_t hash = gb_index_hash(key, KEY_BYTES);
    struct gb_glimpse glimpse;
    const struct gb_item *item;
    gb_rcu_read_lock();
    do {
        item = gb_index_find(bed->index, hash, key, KEY_BYTES, &glimpse);
        if (item != NULL) {
            memcpy(value, item->key + KEY_BYTES, bed->value_bytes);
        }
    } while (item != NULL && !gb_index_unchanged(&glimpse));
    gb_rcu_read_unlock();
    return item != NULL;
}

static void report(const char *what, double seconds_each)
{
    (void)printf("%-36s %6.2f M/s  %5.0f ns\n", what, 1e-6 / seconds_each, seconds_each * 1e9);
}

static void report_index_bytes(const struct bed *bed, uint64_t objects)
{
    static double sum;
    static double worst;
    static uint64_t samples;
    double each = (double)gb_index_bytes(bed->index) / (double)objects;
    sum += each;
    worst = each > worst ? each : worst;
    samples++;
    if (objects == bed->keys) {
        (void)printf("%-36s mean %.1f  worst %.1f\n", "bytes of index per object",
                     sum / (double)samples, worst);
    }
}

/* Keys of a batch, one behind the other. */
static unsigned char *new_keys(void)
{
    unsigned char *keys = malloc((size_t)BATCH * KEY_BYTES);
    if (keys == NULL) {
        (void)fprintf(stderr, "index_perf: no memory\n");
        exit(1);
    }
    return keys;
}

static void measure_fill(struct bed *bed)
{
    double spent = 0;
    double longest = 0;
    unsigned char *keys = new_keys();
    for (uint64_t i = 0; i < bed->keys; i += RUN) {
        uint64_t end = gb_min(i + RUN, bed->keys);
        for (uint64_t j = i; j < end; j++) {
            make_key(keys + (j - i) * KEY_BYTES, j);
        }
        double start = now();
        for (uint64_t j = i; j < end; j++) {
            put(bed, keys + (j - i) * KEY_BYTES, place_of(bed, false, j));
        }
        double run = now() - start;
        spent += run;
        longest = run > longest ? run : longest;
        if (end >= bed->keys / 2) {
            report_index_bytes(bed, end);
        }
    }
    report("put, new (mean)", spent / (double)bed->keys);
    (void)printf("%-36s %.0f us\n", "longest run of 256 puts", longest * 1e6);
    free(keys);
}

static void measure_overwrites(struct bed *bed)
{
    double best = 1;
    unsigned char *keys = new_keys();
    for (uint64_t i = 0; i < bed->keys; i += BATCH) {
        uint64_t end = gb_min(i + BATCH, bed->keys);
        for (uint64_t j = i; j < end; j++) {
            /* A prime larger than any number of keys makes this a permutation. */
            make_key(keys + (j - i) * KEY_BYTES, j * UINT64_C(2654435761) % bed->keys);
        }
        double start = now();
        for (uint64_t j = i; j < end; j++) {
            put(bed, keys + (j - i) * KEY_BYTES, place_of(bed, true, j));
        }
        double each = (now() - start) / (double)(end - i);
        best = each < best ? each : best;
    }
    free(keys);
    bed->upper = true;
    report("put, overwrite", best);
}

/* Seconds per get of random keys from `first` on, in the best batch. */
static double measure_gets(const struct bed *bed, uint64_t first, bool present)
{
    unsigned char *value = malloc(bed->value_bytes + 1);
    unsigned char *keys = new_keys();
    double best = 1;
    for (uint64_t batch = 0; batch < BATCHES; batch++) {
        for (uint64_t i = 0; i < BATCH; i++) {
            make_key(keys + i * KEY_BYTES, first + mix(batch * BATCH + i) % bed->keys);
        }
        uint64_t found = 0;
        double start = now();
        for (uint64_t i = 0; i < BATCH; i++) {
            found += get(bed, keys + i * KEY_BYTES, value);
        }
        double each = (now() - start) / BATCH;
        best = each < best ? each : best;
        if (found != (present ? BATCH : 0)) {
            (void)fprintf(stderr, "index_perf: a get was wrong\n");
            exit(1);
        }
    }
    free(keys);
    free(value);
    return best;
}

static void measure_looks(const struct bed *bed, const char *suffix)
{
    char what[64];
    (void)snprintf(what, sizeof(what), "get, random%s", suffix);
    report(what, measure_gets(bed, 0, true));
    (void)snprintf(what, sizeof(what), "get, absent%s", suffix);
    report(what, measure_gets(bed, bed->keys, false));
}

static void *look_beside(void *arg)
{
    measure_looks(arg, ", each of two threads");
    return NULL;
}

static bool move_one(struct bed *bed, uint64_t i)
{
    uint64_t from = place_of(bed, bed->upper, i);
    uint64_t to = place_of(bed, !bed->upper, i);
    const struct gb_item *item = item_at(bed, from);
    struct gb_locked locked;
    gb_index_lock(bed->index, gb_index_hash(item->key, KEY_BYTES), &locked);
    bool there = gb_index_find_place_locked(&locked, from);
    if (there) {
        memcpy(item_at(bed, to), item, bed->footprint);
        gb_index_replace_locked(&locked, to);
    }
    gb_index_unlock(&locked);
    return there;
}

static void *move(void *arg)
{
    struct bed *bed = arg;
    uint64_t moved = 0;
    double start = now();
    while (!atomic_load_explicit(&bed->stop, memory_order_relaxed)) {
        uint64_t at = moved % bed->keys;
        if (!move_one(bed, at)) {
            (void)fprintf(stderr, "index_perf: an object is not where it should be\n");
            exit(1);
        }
        moved++;
        if (moved % bed->keys == 0) {
            bed->upper = !bed->upper;
        }
        if (moved % MOVE_RUN == 0) {
            gb_rcu_synchronize();
        }
    }
    report("moves, meanwhile", (now() - start) / (double)moved);
    return NULL;
}

int main(int argc, char **argv)
{
    struct bed bed = {.keys = 2000000, .value_bytes = 400};
    if (argc > 1) {
        bed.keys = strtoull(argv[1], NULL, 0);
    }
    if (argc > 2) {
        bed.value_bytes = (uint32_t)strtoul(argv[2], NULL, 0);
    }
    bed.footprint = gb_align_up(sizeof(struct gb_item) + KEY_BYTES + bed.value_bytes, 8);
    bed.half_bytes = gb_align_up(64 + bed.keys * bed.footprint, 2 * GB_MIB);
    bed.arena = mmap(NULL, 2 * bed.half_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bed.keys < 2 || bed.arena == MAP_FAILED ||
        gb_index_create(&bed.index, bed.arena, GB_GIB) != 0) {
        (void)fprintf(stderr, "index_perf: no memory, or too few keys\n");
        return 1;
    }
    (void)madvise(bed.arena, 2 * bed.half_bytes, MADV_HUGEPAGE);
    memset(bed.arena, 0, 2 * bed.half_bytes); /* no page faults later */
    measure_fill(&bed);
    measure_overwrites(&bed);
    measure_looks(&bed, "");
    pthread_t second;
    if (pthread_create(&second, NULL, look_beside, &bed) == 0) {
        measure_looks(&bed, ", each of two threads");
        (void)pthread_join(second, NULL);
    }
    if (pthread_create(&second, NULL, move, &bed) == 0) {
        measure_looks(&bed, ", beside a mover");
        atomic_store(&bed.stop, true);
        (void)pthread_join(second, NULL);
    }
    gb_index_destroy(bed.index);
    (void)munmap(bed.arena, 2 * bed.half_bytes);
    return 0;
}
