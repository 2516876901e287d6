/*
 * How fast the tree of keys is and what a key takes: `keytree_perf [keys]`. Not a test.
 *
 * Keys of 20 bytes, numbered ones (decimal digits) and random ones (hex digits), come in order or
 * in random order, are walked through both ways, and go in random order. Keys are made before the
 * clock starts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bits.h"
#include "base/rng.h"
#include "engine/keytree.h"

#define KEY_BYTES 20u

/* Processor time of the thread, so that what else the machine does counts less. */
static double now(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

static void make_key(char *key, uint64_t number, bool hashed)
{
    char text[KEY_BYTES + 1];
    if (hashed) {
        (void)snprintf(text, sizeof(text), "key:%016llx", (unsigned long long)gb_rng_mix(number));
    } else {
        (void)snprintf(text, sizeof(text), "%020llu", (unsigned long long)number);
    }
    memcpy(key, text, KEY_BYTES);
}

static void shuffle(uint32_t *order, uint32_t count, struct gb_rng *rng)
{
    for (uint32_t i = count; i-- > 1;) {
        uint32_t j = (uint32_t)gb_rng_below(rng, i + 1);
        uint32_t swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
}

static double walk(const struct gb_keytree *tree, bool reverse, struct gb_keybatch *batch)
{
    double start = now();
    uint64_t seen = 0;
    char last[KEY_BYTES];
    struct goblin_slice bound = {NULL, 0};
    do {
        if (reverse) {
            gb_keytree_backward(tree, bound, GB_KEYBATCH_KEYS, batch);
        } else {
            gb_keytree_forward(tree, bound, true, GB_KEYBATCH_KEYS, batch);
        }
        seen += batch->count;
        if (batch->count > 0) {
            memcpy(last, gb_keybatch_key(batch, batch->count - 1).data, KEY_BYTES);
            bound = (struct goblin_slice){last, KEY_BYTES};
        }
    } while (batch->count > 0);
    double seconds = now() - start;
    if (seen != gb_keytree_count(tree)) {
        (void)fprintf(stderr, "keytree_perf: a walk missed keys\n");
        exit(1);
    }
    return seconds;
}

static void measure(uint32_t count, bool hashed, bool shuffled)
{
    struct gb_keytree tree = {0};
    struct gb_rng rng;
    gb_rng_init(&rng, 1);
    char *keys = malloc((size_t)count * KEY_BYTES);
    uint32_t *order = malloc(count * sizeof(*order));
    struct gb_keybatch *batch = malloc(sizeof(*batch));
    if (keys == NULL || order == NULL || batch == NULL || gb_keytree_init(&tree, 4 * GB_GIB) < 0) {
        (void)fprintf(stderr, "keytree_perf: no memory\n");
        exit(1);
    }
    for (uint32_t i = 0; i < count; i++) {
        order[i] = i;
    }
    if (shuffled) {
        shuffle(order, count, &rng);
    }
    for (uint32_t i = 0; i < count; i++) {
        make_key(keys + (size_t)i * KEY_BYTES, order[i], hashed);
    }
    double start = now();
    for (uint32_t i = 0; i < count; i++) {
        struct goblin_slice key = {keys + (size_t)i * KEY_BYTES, KEY_BYTES};
        if (gb_keytree_insert(&tree, key) != 1) {
            (void)fprintf(stderr, "keytree_perf: an insertion failed\n");
            exit(1);
        }
    }
    double inserted = now() - start;
    double bytes = (double)gb_keytree_bytes(&tree) / count;
    double forward = walk(&tree, false, batch);
    double backward = walk(&tree, true, batch);
    start = now();
    for (uint32_t i = 0; i < count; i++) {
        struct goblin_slice key = {keys + (size_t)i * KEY_BYTES, KEY_BYTES};
        if (!gb_keytree_remove(&tree, key)) {
            (void)fprintf(stderr, "keytree_perf: a key was not there\n");
            exit(1);
        }
    }
    double removed = now() - start;
    (void)printf("%-8s %-8s %6.2f B/key  come %4.0f ns  forward %4.1f ns  backward %4.1f ns  "
                 "go %4.0f ns\n",
                 hashed ? "random" : "numbered", shuffled ? "shuffled" : "in order", bytes,
                 inserted * 1e9 / count, forward * 1e9 / count, backward * 1e9 / count,
                 removed * 1e9 / count);
    gb_keytree_fini(&tree);
    free(batch);
    free(order);
    free(keys);
}

int main(int argc, char **argv)
{
    uint32_t count = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 2000000;
    if (count < 1) {
        (void)fprintf(stderr, "usage: keytree_perf [keys]\n");
        return 2;
    }
    measure(count, false, false);
    measure(count, false, true);
    measure(count, true, true);
    return 0;
}
