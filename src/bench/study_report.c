/* Figures into reports: the yardsticks, the offline bound, the files, the table on the terminal. */
#include "bench/study.h"

#include "base/units.h"
#include "bench/explain.h"
#include "bench/rocksdb_api.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NOTES_MAX = 32,
    NOTE_TEXT = 320,
    BOUND_FLOOR_BYTES = 8 << 10,
    BOUND_OVERHEAD_BYTES = 96, /* header, key and index of an object */
    MIB = 1 << 20,
};

struct notes {
    char texts[NOTES_MAX][NOTE_TEXT];
    const char *lines[NOTES_MAX];
    size_t count;
};

__attribute__((format(printf, 2, 3))) static void note(struct notes *notes, const char *format, ...)
{
    if (notes->count < NOTES_MAX) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(notes->texts[notes->count], NOTE_TEXT, format, arguments);
        va_end(arguments);
        notes->lines[notes->count] = notes->texts[notes->count];
        notes->count++;
    }
}

static const struct gb_engine_result *find_result(const struct gb_study *study,
                                                  const struct gb_engine_result *results,
                                                  const struct gb_engine_ops *ops)
{
    for (size_t i = 0; i < study->options.engine_count; i++) {
        if (study->options.engines[i] == ops) {
            return &results[i];
        }
    }
    return NULL;
}

static double populate_mib_s(const struct gb_engine_result *result)
{
    return result->populate_seconds > 0 ? (double)result->bytes / MIB / result->populate_seconds
                                        : 0;
}

/* ---- yardsticks ---------------------------------------------------------------------------- */

static int report_bound(const struct gb_study *study, double ram_us, struct gb_yardsticks *out)
{
    const struct gb_cost_curve curve = {study->curve, study->curve_count};
    const struct gb_bound_options options = {
        .corpus = &study->corpus,
        .schedule = &study->schedule,
        .budget_bytes = study->memory_bytes,
        .floor_bytes = BOUND_FLOOR_BYTES,
        .object_overhead_bytes = BOUND_OVERHEAD_BYTES,
        .curve = &curve,
    };
    struct gb_bound bound;
    struct gb_bound_cost cost;
    uint64_t half = study->schedule.count / 2;
    int rc = gb_bound_init_fixed(&bound, &study->corpus, GB_ENGINE_HEAD_BYTES, &curve);
    if (rc < 0) {
        return rc;
    }
    gb_bound_evaluate(&bound, &study->schedule, 0, 0, &cost);
    out->fixed_device_seconds = cost.device_us / 1e6;
    gb_bound_fini(&bound);
    rc = gb_bound_init(&bound, &options);
    if (rc < 0) {
        return rc;
    }
    gb_bound_evaluate(&bound, &study->schedule, 0, 0, &cost);
    out->bound_device_seconds = cost.device_us / 1e6;
    out->bound_seconds = (cost.device_us + (double)cost.requests * ram_us) / 1e6;
    gb_bound_evaluate(&bound, &study->schedule, half, 0, &cost);
    out->bound_half_seconds = (cost.device_us + (double)cost.requests * ram_us) / 1e6;
    out->bound_floor_bytes = bound.floor_bytes;
    out->bound_whole_objects = bound.whole_objects;
    gb_bound_fini(&bound);
    return 0;
}

static int report_yardsticks(const struct gb_study *study, const struct gb_engine_result *results,
                             struct gb_yardsticks *out)
{
    const struct gb_engine_result *null = find_result(study, results, &gb_engine_null);
    const struct gb_engine_result *control = find_result(study, results, &gb_engine_control);
    memset(out, 0, sizeof(*out));
    if (null) {
        out->null_populate_mib_s = populate_mib_s(null);
        out->null_request_us = null->ttlb.mean_us;
    }
    out->fio_write_mib_s = study->fio.write_mib_s;
    if (!control) {
        return 0;
    }
    if (out->fio_write_mib_s <= 0) {
        out->fio_write_mib_s = populate_mib_s(control);
    }
    out->fio_read_us = control->disk_ttlb.mean_us;
    out->copy_us = control->ttfb.mean_us;
    return study->curve_count ? report_bound(study, control->ttfb.mean_us, out) : 0;
}

/* ---- notes --------------------------------------------------------------------------------- */

static void note_engine(struct notes *notes, const struct gb_study *study, size_t i)
{
    const struct gb_study_tally *tally = &study->tallies[i];
    char sizes[4][GB_UNITS_TEXT];
    note(notes,
         "%s: reopened and answered a first get in %.3f s, warm %.3f s later; resident at the most "
         "%s while populating and %s while replaying; %s of bytes compared, %llu wrong.",
         study->options.engines[i]->name, tally->reopen_seconds, tally->warm_seconds,
         gb_units_format_size(sizes[0], GB_UNITS_TEXT, tally->populate_peak_bytes),
         gb_units_format_size(sizes[1], GB_UNITS_TEXT, tally->replay_peak_bytes),
         gb_units_format_size(sizes[2], GB_UNITS_TEXT, tally->verified_bytes),
         (unsigned long long)tally->verify_failures);
    if (tally->replayed.promotions) {
        note(notes, "%s: %llu promotions, %s moved in RAM while replaying.",
             study->options.engines[i]->name, (unsigned long long)tally->replayed.promotions,
             gb_units_format_size(sizes[3], GB_UNITS_TEXT, tally->replayed.arena_moved_bytes));
    }
}

static void note_method(struct notes *notes, const struct gb_study *study)
{
    note(notes, "Populating ends when the engine is closed, restartable: its time holds the final "
                "flush, the barrier for background work and the close.");
    note(notes, "A request's time ends at its last chunk's callback. Resident sizes are those of "
                "the engine's process less what the harness itself held in it.");
    note(notes, "`control` writes 1 MiB x 8 directly and answers a get by a bare copy of the head "
                "and direct reads of the tail, 64 KiB first, then 256 KiB x 4: the yardstick for "
                "reads of the same sizes and for the bare copy.");
    note(notes, "RocksDB reads through get_pinned, so a value is not copied out. Its 5,220 MiB "
                "(scaled) go through db_write_buffer_size, which makes the write buffer manager; "
                "the cached peers are reopened with the whole budget as cache, their memtables "
                "being empty then.");
    if (study->fio.version[0]) {
        note(notes,
             "%s, direct: write 1 MiB x 8 %.0f MiB/s, read 4 KiB x 1 %.1f us, read 256 KiB "
             "x 4 %.0f MiB/s.",
             study->fio.version, study->fio.write_mib_s, study->fio.read_4k_us,
             study->fio.read_256k_mib_s);
    }
    if (study->options.cap) {
        note(notes, "Capped by cgroups: 8 GiB of RAM, 33,542 read and 16,771 write operations a "
                    "second.");
    }
    if (study->curve_count) {
        char curve[NOTE_TEXT] = "Device cost, one value's tail at a time:";
        for (size_t i = 0; i < study->curve_count; i++) {
            size_t used = strlen(curve);
            snprintf(curve + used, sizeof(curve) - used, " %llu KiB %.0f us%s",
                     (unsigned long long)study->curve[i].bytes >> 10, study->curve[i].us,
                     i + 1 < study->curve_count ? "," : ".");
        }
        note(notes, "%s", curve);
    }
}

/* ---- the table ----------------------------------------------------------------------------- */

static void print_table(const struct gb_study *study, const struct gb_engine_result *results)
{
    printf("\n%-20s %9s %9s %9s %9s %9s %9s %9s %9s\n", "", "populate", "replay", "first", "first",
           "last", "disk last", "peak RSS", "link");
    printf("%-20s %9s %9s %9s %9s %9s %9s %9s %9s\n", "engine", "MiB/s", "MiB/s", "mean us",
           "p50 us", "mean us", "mean us", "MiB", "MiB/s");
    for (size_t i = 0; i < study->options.engine_count; i++) {
        const struct gb_engine_result *result = &results[i];
        double seconds = result->replay_seconds;
        printf("%-20s %9.1f %9.1f %9.2f %9.2f %9.1f %9.1f %9.0f %9.2f\n", result->name,
               populate_mib_s(result),
               seconds > 0 ? (double)result->replay_bytes / MIB / seconds : 0.0,
               result->ttfb.mean_us, result->ttfb.p50_us, result->ttlb.mean_us,
               result->disk_ttlb.mean_us, (double)result->rss_peak_bytes / MIB,
               gb_link_mib_s(&result->link));
    }
}

static int report_files(const struct gb_study *study, const struct gb_engine_result *results,
                        const struct notes *notes, struct gb_yardsticks yardsticks,
                        struct goblin_error *error)
{
    char reads[PATH_MAX];
    char library[PATH_MAX] = "none";
    struct gb_rocksdb_api api;
    struct goblin_error ignored;
    snprintf(reads, sizeof(reads), "%s/reads.csv", study->options.out);
    if (gb_rocksdb_api_open(&api, study->options.rocksdb_lib, &ignored) == 0) {
        gb_rocksdb_api_file(&api, library, sizeof(library));
        gb_rocksdb_api_close(&api);
    }
    const char *const versions[] = {"rocksdb", library, "fio",
                                    study->fio.version[0] ? study->fio.version : "none", NULL};
    const struct gb_report report = {
        .directory = study->options.out,
        .reads_path = reads,
        .command = study->options.command,
        .corpus = study->corpus.description,
        .scale = study->options.corpus.scale,
        .zipf_exponent = study->options.corpus.zipf_exponent,
        .seed = study->options.corpus.seed,
        .request_bytes = study->schedule.total_bytes,
        .engines = results,
        .engine_count = study->options.engine_count,
        .yardsticks = yardsticks,
        .notes = notes->lines,
        .note_count = notes->count,
    };
    return gb_report_write(&report, versions, error);
}

int gb_study_report(struct gb_study *study, struct goblin_error *error)
{
    struct gb_yardsticks yardsticks;
    size_t count = study->options.engine_count;
    uint64_t failures = 0;
    struct gb_engine_result *results = calloc(count, sizeof(*results));
    struct notes *notes = calloc(1, sizeof(*notes));
    int rc = results && notes ? 0 : -ENOMEM;
    for (size_t i = 0; i < count && rc == 0; i++) {
        gb_study_tally_result(&study->tallies[i], &study->workers[i], &study->schedule,
                              &results[i]);
        failures += results[i].verify_failures;
    }
    rc = rc < 0 ? rc : report_yardsticks(study, results, &yardsticks);
    if (rc == 0) {
        note_method(notes, study);
        for (size_t i = 0; i < count; i++) {
            note_engine(notes, study, i);
        }
        print_table(study, results);
        rc = report_files(study, results, notes, yardsticks, error);
    }
    if (rc >= 0 && failures) {
        gb_explain_set(error, "%llu answers did not have the object's bytes: this run is void",
                       (unsigned long long)failures);
        rc = -EBADMSG;
    }
    free(notes);
    free(results);
    return rc;
}
