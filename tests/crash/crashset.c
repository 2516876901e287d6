/* Drawing stores. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "crash/crash.h"

const char *crash_doing_name(uint32_t doing)
{
    static const char *const names[] = {
#define CRASH_X(name, text) text,
        CRASH_DOINGS(CRASH_X)
#undef CRASH_X
    };
    return names[doing];
}

static bool chance(struct gb_rng *rng, unsigned percent)
{
    return gb_rng_below(rng, 100) < percent;
}

/* Small: space and memory are reclaimed all the time. */
static void draw_sizes(struct gb_rng *rng, struct goblin_options *options)
{
    options->dir_count = chance(rng, 20) ? 2 : 1;
    options->segment_bytes = (chance(rng, 25) ? 2 : 1) * GB_MIB;
    options->lanes = 1 + (unsigned)gb_rng_below(rng, 3);
    uint64_t least = 8 * options->dir_count + 2 * options->lanes;
    options->size_bytes = (least + gb_rng_below(rng, 32)) * options->segment_bytes;
    options->memory_bytes = (12 + gb_rng_below(rng, 20)) * GB_MIB;
    options->write_block_bytes = (uint32_t)(64 * GB_KIB << gb_rng_below(rng, 3));
    options->head_bytes = (uint32_t)((1 + gb_rng_below(rng, 4)) * 4 * GB_KIB);
    options->chunk_bytes = (uint32_t)(64 * GB_KIB);
    options->first_chunk_bytes = (uint32_t)(16 * GB_KIB << gb_rng_below(rng, 3));
    options->depth = 1 + (unsigned)gb_rng_below(rng, 4);
}

void crash_draw_setting(struct crash_setting *setting, const char *root, uint64_t seed,
                        uint64_t number)
{
    struct gb_rng rng;
    gb_rng_init(&rng, gb_rng_mix(seed) + number);
    *setting = (struct crash_setting){.seed = seed, .number = number};
    struct goblin_options *options = &setting->options;
    options->create = true;
    draw_sizes(&rng, options);
    /* In turn, so that few stores meet every pair. */
    options->io = number % 2 == 0 ? GOBLIN_IO_URING : GOBLIN_IO_SYNC;
    options->mode = number / 2 % 2 == 0 ? GOBLIN_MODE_STORE : GOBLIN_MODE_CACHE;
    options->residency = chance(&rng, 30) ? GOBLIN_RESIDENCY_FIXED : GOBLIN_RESIDENCY_ADAPTIVE;
    options->caching = chance(&rng, 15) ? GOBLIN_CACHING_BUFFERED : GOBLIN_CACHING_DIRECT;
    options->durability = chance(&rng, 60) ? GOBLIN_DURABILITY_DEFAULT
                                           : (enum goblin_durability)(1 + gb_rng_below(&rng, 3));
    options->flush_ms = 20 + (uint32_t)gb_rng_below(&rng, 280);
    options->checkpoint_s = chance(&rng, 70) ? 1 : UINT32_MAX;
    setting->heads = chance(&rng, 30);
    setting->keys = 60 + (unsigned)gb_rng_below(&rng, 600);
    setting->clears = chance(&rng, 50);
    setting->hasty = chance(&rng, 35);
    if (setting->hasty) {
        options->durability = GOBLIN_DURABILITY_NONE;
    }
    for (unsigned i = 0; i < CRASH_DRIVES; i++) {
        (void)snprintf(setting->dir[i], sizeof(setting->dir[i]), "%s/drive%u", root, i);
    }
    (void)snprintf(setting->heads_dir, sizeof(setting->heads_dir), "%s/heads", root);
}

void crash_enlarge_setting(struct crash_setting *setting)
{
    struct goblin_options *options = &setting->options;
    options->dir_count = 1;
    options->segment_bytes = 2 * GB_MIB;
    options->size_bytes = 192 * GB_MIB;
    options->memory_bytes = 48 * GB_MIB;
    options->flush_ms = 1000;
    options->checkpoint_s = 60;
    setting->keys = 3000;
    setting->pause_us = 8000;
    setting->clears = false;
}

void crash_describe_setting(const struct crash_setting *setting, char *text, size_t len)
{
    const struct goblin_options *options = &setting->options;
    char checkpoints[24] = "asked for";
    if (options->checkpoint_s != UINT32_MAX) {
        (void)snprintf(checkpoints, sizeof(checkpoints), "every %u s", options->checkpoint_s);
    }
    (void)snprintf(
        text, len,
        "store %" PRIu64 ": %s on %s%s, %" PRIu64 " MiB in segments of %" PRIu64
        " MiB on %zu drives, %u lanes, memory %" PRIu64
        " MiB, blocks of %u KiB, flush %u ms, durability %d, checkpoints %s%s%s%s, %u keys",
        setting->number, options->mode == GOBLIN_MODE_STORE ? "store" : "cache",
        options->io == GOBLIN_IO_URING ? "io_uring" : "sync",
        options->caching == GOBLIN_CACHING_BUFFERED ? " buffered" : "",
        options->size_bytes / GB_MIB, options->segment_bytes / GB_MIB, options->dir_count,
        options->lanes, options->memory_bytes / GB_MIB, options->write_block_bytes / 1024,
        options->flush_ms, (int)options->durability, checkpoints,
        setting->heads ? ", heads apart" : "", setting->clears ? ", clears" : "",
        setting->hasty ? ", hasty" : "", setting->keys);
}
