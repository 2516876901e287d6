/* Lives and crashes: opening, working, dying, and opening again. */
#include "sim/simrun.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "sim/simpages.h"
#include "sim/simrun_internal.h"
#include "sim/simshell.h"

#define CYCLES_MAX 6u
#define STEPS_MAX  150u

/* ---- telling ------------------------------------------------------------------------------- */

bool simrun_fail(struct simrun *run, const char *format, ...)
{
    if (!simrun_failed(run)) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(run->result->why, sizeof(run->result->why), format, args);
        va_end(args);
        simrun_trace(run, "FAILED: %s", run->result->why);
    }
    return false;
}

bool simrun_failed(const struct simrun *run)
{
    return run->result->why[0] != '\0';
}

void simrun_trace(const struct simrun *run, const char *format, ...)
{
    if (!run->trace) {
        return;
    }
    va_list args;
    va_start(args, format);
    (void)vprintf(format, args);
    va_end(args);
    (void)putchar('\n');
}

/* The store complains only of what the disk did to it; so it may of a segment whose list of records
 * a power cut has torn. */
static void listen(void *arg, enum goblin_log_level level, const char *line)
{
    struct simrun *run = arg;
    simrun_trace(run, "log %d: %s", (int)level, line);
    if (level != GOBLIN_LOG_INFO && !simrun_dark(run) && !simrun_hurt(run) && !run->killed &&
        strstr(line, "did not list") == NULL && !simdrives_explain(line) &&
        !simfaults_explain(run, line) && !simheaders_explain(run, line)) {
        (void)simrun_fail(run, "the store says: %s", line);
    }
}

static int64_t tell_time(void *arg)
{
    const struct simrun *run = arg;
    return run->now_ms;
}

bool simrun_dark(struct simrun *run)
{
    struct simdisk_counts counts;
    simdisk_counts(run->disk, &counts);
    return counts.cuts != run->cuts;
}

bool simrun_hurt(struct simrun *run)
{
    struct simdisk_counts counts;
    simdisk_counts(run->disk, &counts);
    return counts.failed != run->failed;
}

struct goblin_slice simrun_name(struct simrun *run, unsigned key)
{
    static unsigned char name[SIMRUN_NAME_MAX];
    uint64_t mixed = gb_rng_mix(run->seed + key);
    size_t len = 4 + mixed % 60;
    if (mixed >> 32 & 1 && key % 8 == 0) {
        len = SIMRUN_NAME_MAX - mixed % 200;
    }
    memset(name, 'k', len);
    name[0] = (unsigned char)('A' + key);
    return (struct goblin_slice){name, len};
}

/* ---- birth --------------------------------------------------------------------------------- */

static void draw_world(struct simrun *run)
{
    struct goblin_options *options = &run->options;
    unsigned drives = simrun_chance(run, 60) ? 1 : 2 + (unsigned)simrun_below(run, 2);
    simdrives_init(run, drives);
    *options = (struct goblin_options){
        .dirs = run->dirs,
        .dir_count = drives,
        .create = true,
        .degraded = true,
        .readd_drives = true,
        .size_bytes = (8 * drives + simrun_below(run, simrun_chance(run, 50) ? 4 : 24)) * GB_MIB,
        .segment_bytes = GB_MIB,
        .lanes = 1 + (unsigned)simrun_below(run, 3),
        .mode = simrun_chance(run, 50) ? GOBLIN_MODE_STORE : GOBLIN_MODE_CACHE,
        .memory_bytes = 8 * GB_MIB,
        .residency = simrun_chance(run, 50) ? GOBLIN_RESIDENCY_FIXED : GOBLIN_RESIDENCY_ADAPTIVE,
        .head_bytes = 4096,
        .durability = (enum goblin_durability)(1 + simrun_below(run, 3)),
        .write_block_bytes = 64 * GB_KIB,
        .flush_ms = UINT32_MAX, /* blocks are flushed when a step says so, not by a real clock */
        .checkpoint_s = UINT32_MAX,
        .caching = simrun_chance(run, 80) ? GOBLIN_CACHING_DIRECT : GOBLIN_CACHING_BUFFERED,
        .log = listen,
        .log_arg = run,
        .clock = tell_time,
        .clock_arg = run,
    };
    if (options->mode == GOBLIN_MODE_CACHE && simrun_chance(run, 50)) {
        options->admit = simrun_chance(run, 70) ? GOBLIN_ADMIT_SECOND : GOBLIN_ADMIT_ALL;
        /* Of a day's budget some hundred KiB are there at first, and a few come with the steps. */
        options->write_budget_day_bytes =
            simrun_chance(run, 50) ? (64 + simrun_below(run, 1024)) * GB_MIB : 0;
    }
    run->now_ms = INT64_C(1700000000000);
    run->fails = simrun_chance(run, 20);
    run->key_count = 3 + (unsigned)simrun_below(run, SIMRUN_KEYS_MAX - 3);
    simdisk_set_alignment(run->disk, simrun_chance(run, 50) ? 512 : 4096);
    bool reserves = simrun_chance(run, 80);
    simdisk_set_allocate(run->disk, reserves);
    simfaults_init(run, reserves);
    simrun_trace(run,
                 "%u drives, %llu segments, %u lanes, mode %d, residency %d, durability %d, "
                 "admit %d, budget %llu, %u keys",
                 drives, (unsigned long long)(options->size_bytes / GB_MIB), options->lanes,
                 (int)options->mode, (int)options->residency, (int)options->durability,
                 (int)options->admit, (unsigned long long)options->write_budget_day_bytes,
                 run->key_count);
}

/* ---- opening ------------------------------------------------------------------------------- */

static void take_apart(struct simrun *run)
{
    simwork_drop_streams(run);
    goblin_reader_destroy(run->reader);
    run->reader = NULL;
    if (run->store != NULL) {
        gb_store_abandon(run->store);
    }
    run->result->reclaimed += run->reclaimed;
    run->result->evicted += run->evicted;
    run->result->kept_in_ram += run->kept_in_ram;
    run->result->written_later += run->written_later;
    run->result->rescued += run->rescued;
    run->result->returned += run->returned;
    run->reclaimed = 0;
    run->evicted = 0;
    run->kept_in_ram = 0;
    run->written_later = 0;
    run->rescued = 0;
    run->returned = 0;
    run->store = NULL;
}

static void power_up(struct simrun *run)
{
    take_apart(run);
    simdisk_restart(run->disk);
    struct simdisk_counts counts;
    simdisk_counts(run->disk, &counts);
    run->result->power_cuts += (unsigned)(counts.cuts - run->cuts);
    run->cuts = counts.cuts;
    run->failed = counts.failed;
    run->killed = false;
}

static int open_once(struct simrun *run, struct goblin_error *error)
{
    simdrives_note(run, false);
    int rc = gb_store_open(&run->store, &run->options, simshell_create(run->disk), error);
    if (rc == GOBLIN_OK) {
        simdrives_note(run, true);
        const struct goblin_reader_options options = {
            .buffers = (unsigned)simrun_below(run, 4),
            .requests = 1,
        };
        rc = goblin_reader_create(&run->reader, run->store, &options);
    } else {
        run->store = NULL;
    }
    simrun_trace(run, "open: %d %s", rc, error->text);
    return rc;
}

/* Opens, perhaps with the power failing meanwhile, until it stays open. */
static bool open_store(struct simrun *run, enum simcrash *crash)
{
    for (;;) {
        simdrives_draw(run, *crash);
        simheaders_draw(run);
        if (simrun_chance(run, 15)) {
            simdisk_cut_at_nth(run->disk, SIMDISK_ANY, 1 + simrun_below(run, 60));
        } else if (simrun_chance(run, 10)) {
            simdisk_cut_at_nth(run->disk, SIMDISK_WRITE, 1 + simrun_below(run, 3));
        }
        struct goblin_error error = {""};
        int rc = open_once(run, &error);
        if (rc != GOBLIN_OK && !simrun_dark(run)) {
            if (simheaders_refused(run, rc, error.text)) {
                continue;
            }
            return simrun_fail(run, "cannot reopen: %s", error.text);
        }
        if (rc == GOBLIN_OK && !simrun_dark(run) &&
            (!simheaders_opened(run) || !simcheck_all(run, *crash))) {
            return false;
        }
        if (!simrun_dark(run)) {
            simdisk_cut_at_nth(run->disk, SIMDISK_ANY, 0);
            simdisk_cut_at_nth(run->disk, SIMDISK_WRITE, 0);
            run->opened = true;
            run->losing = false;
            return true;
        }
        simrun_trace(run, "the power fails while opening");
        *crash = SIMCRASH_POWER;
        power_up(run);
    }
}

/* ---- dying --------------------------------------------------------------------------------- */

static enum simcrash close_store(struct simrun *run)
{
    simwork_drop_streams(run);
    goblin_reader_destroy(run->reader);
    run->reader = NULL;
    if (simrun_chance(run, 20)) {
        simdisk_cut_at_nth(run->disk, SIMDISK_ANY, 1 + simrun_below(run, 40));
    }
    bool given_up = simfaults_given_up(run);
    int rc = goblin_close(run->store);
    run->store = NULL;
    simdisk_cut_at_nth(run->disk, SIMDISK_ANY, 0);
    simrun_trace(run, "close: %d", rc);
    if (rc == GOBLIN_OK) {
        simfaults_all_synced(run, given_up);
    } else if (!simrun_dark(run) && !simrun_hurt(run)) {
        (void)simrun_fail(run, "close: %s", goblin_strerror(rc));
    }
    run->result->clean_closes += rc == GOBLIN_OK;
    return rc == GOBLIN_OK ? SIMCRASH_NONE : SIMCRASH_KILL;
}

/* Ends the store's life by the seed's choice; the disk is up again afterwards. */
static enum simcrash end_life(struct simrun *run)
{
    enum simcrash crash = SIMCRASH_NONE;
    if (!simrun_dark(run)) {
        uint64_t roll = simrun_below(run, 10);
        if (roll < 3) {
            crash = close_store(run);
            if (simrun_chance(run, 50) && !simrun_dark(run)) {
                simdisk_power_cut(run->disk);
            }
        } else if (roll < 6) {
            simrun_trace(run, "kill");
            run->killed = true;
            simdisk_crash_process(run->disk);
            crash = SIMCRASH_KILL;
        } else {
            simdisk_power_cut(run->disk);
        }
    }
    if (simrun_hurt(run) && !simrun_dark(run)) {
        /* The next process could not know that a sync failed in this one. */
        simdisk_power_cut(run->disk);
    }
    if (simrun_dark(run)) {
        simrun_trace(run, "the power failed");
        crash = SIMCRASH_POWER;
    }
    run->result->crashes++;
    run->was_hurt = simrun_hurt(run);
    power_up(run);
    return crash;
}

/* ---- one life after the other -------------------------------------------------------------- */

static bool work(struct simrun *run)
{
    run->faults.writes_alone = true;
    if (simrun_chance(run, 40)) {
        static const enum simdisk_kind kinds[] = {SIMDISK_WRITE, SIMDISK_SYNC, SIMDISK_NAME,
                                                  SIMDISK_ANY};
        simdisk_cut_at_nth(run->disk, kinds[simrun_below(run, 4)], 1 + simrun_below(run, 100));
    }
    if (run->fails && simrun_chance(run, 60)) {
        static const enum simdisk_kind kinds[] = {SIMDISK_WRITE, SIMDISK_SYNC, SIMDISK_NAME};
        uint64_t nth = 1 + simrun_below(run, 60);
        enum simdisk_kind kind = kinds[simrun_below(run, 3)];
        simdisk_fail_nth(run->disk, kind, nth);
        run->faults.writes_alone = kind == SIMDISK_WRITE;
    }
    simfaults_begin(run);
    uint64_t steps = simrun_below(run, STEPS_MAX);
    bool good = true;
    for (uint64_t i = 0; i < steps && good && !simrun_dark(run); i++) {
        simfaults_step(run);
        good = simwork_step(run) && simcheck_counters(run) && !simrun_failed(run);
    }
    simfaults_end(run);
    run->evicts |= simrun_hurt(run) && run->options.mode == GOBLIN_MODE_CACHE;
    for (unsigned kind = 0; kind < SIMDISK_KINDS; kind++) {
        simdisk_cut_at_nth(run->disk, (enum simdisk_kind)kind, 0);
    }
    return good;
}

static void live(struct simrun *run)
{
    uint64_t cycles = 2 + simrun_below(run, CYCLES_MAX - 1);
    enum simcrash crash = SIMCRASH_NONE;
    for (uint64_t i = 0; i < cycles; i++) {
        if (!open_store(run, &crash) || !work(run)) {
            break;
        }
        crash = end_life(run);
        if (simrun_failed(run)) {
            break;
        }
    }
    if (!simrun_failed(run)) {
        (void)open_store(run, &crash);
    }
    take_apart(run);
}

bool simrun(uint64_t seed, bool trace, struct simrun_result *result)
{
    *result = (struct simrun_result){0};
    struct simrun *run = sim_alloc(sizeof(*run));
    *run = (struct simrun){.seed = seed, .trace = trace, .result = result};
    gb_rng_init(&run->rng, seed);
    run->disk = simdisk_create(gb_rng_next(&run->rng));
    run->value = sim_alloc(SIMRUN_VALUE_MAX);
    draw_world(run);
    for (unsigned key = 0; key < run->key_count; key++) {
        simkey_init(&run->keys[key]);
    }
    live(run);
    for (unsigned key = 0; key < run->key_count; key++) {
        simkey_fini(&run->keys[key]);
    }
    goblin_buffer_free(&run->loaded);
    goblin_buffer_free(&run->meta);
    run->disk->ops->destroy(run->disk);
    free(run->value);
    free(run);
    return result->why[0] == '\0';
}
