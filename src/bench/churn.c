/* The order of events of a churn: fill, age, rounds of idle, busy and after, inspection, report. */
#include "bench/churn.h"

#include "base/bits.h"
#include "base/units.h"
#include "bench/explain.h"
#include "bench/interrupt.h"
#include "bench/procfs.h"
#include "bench/progress.h"
#include "bench/rocksdb_api.h"
#include "bench/scratch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    WAIT_MS = 100,
    FILL_WORKERS = 4,
};

static const uint64_t worker_overhead_bytes = UINT64_C(256) << 20;

/* ---- preparations -------------------------------------------------------------------------- */

static int churn_check_room(const struct gb_churn *churn, struct goblin_error *error)
{
    const struct gb_churn_options *options = &churn->options;
    double disk = 0;
    uint64_t available = UINT64_MAX;
    uint64_t memory = options->engine_count * (options->memory_bytes + worker_overhead_bytes);
    for (size_t i = 0; i < options->engine_count; i++) {
        disk += options->engines[i]->disk_factor * (double)options->size_bytes;
    }
    int rc = gb_scratch_check(options->dir, (uint64_t)disk, error);
    if (rc < 0) {
        return rc;
    }
    gb_procfs_available(&available);
    if (memory > available) {
        char need[GB_UNITS_TEXT];
        char have[GB_UNITS_TEXT];
        gb_explain_set(error,
                       "%zu engines at once may need %s of RAM and %s are free: give fewer "
                       "--engines or less --memory",
                       options->engine_count, gb_units_format_size(need, sizeof(need), memory),
                       gb_units_format_size(have, sizeof(have), available));
        return -ENOMEM;
    }
    return 0;
}

static int churn_prepare(struct gb_churn *churn, struct goblin_error *error)
{
    const struct gb_churn_options *options = &churn->options;
    int rc = gb_scratch_make(options->out, error);
    rc = rc < 0 ? rc : gb_scratch_make(options->dir, error);
    rc = rc < 0 ? rc : churn_check_room(churn, error);
    rc = rc < 0 ? rc : gb_churn_corpus(options, &churn->corpus, error);
    rc = rc < 0 ? rc : gb_content_init(&churn->content, &churn->corpus, error);
    if (rc < 0) {
        return rc;
    }
    churn->shared = gb_worker_shared_create(1, 1);
    if (!churn->shared) {
        gb_explain_set(error, "out of memory");
        return -ENOMEM;
    }
    snprintf(churn->scratch, sizeof(churn->scratch), "%s/goblin-churn-%d", options->dir,
             (int)getpid());
    return gb_scratch_make(churn->scratch, error);
}

static int churn_start_worker(struct gb_churn *churn, size_t i, struct goblin_error *error)
{
    const struct gb_churn_options *options = &churn->options;
    struct gb_worker *worker = &churn->workers[i];
    worker->ops = options->engines[i];
    worker->schedule = &churn->schedule;
    worker->content = &churn->content;
    worker->shared = churn->shared;
    worker->churn = gb_churn_store_create(churn->corpus.count);
    if (!worker->churn) {
        gb_explain_set(error, "out of memory");
        return -ENOMEM;
    }
    worker->churn->write_rate = options->write_rate;
    worker->churn->read_rate = options->read_rate;
    worker->churn->seed = options->seed;
    if ((size_t)snprintf(worker->dir, sizeof(worker->dir), "%s/%s", churn->scratch,
                         worker->ops->name) >= sizeof(worker->dir)) {
        gb_explain_set(error, "--dir: the path is too long");
        return -ENAMETOOLONG;
    }
    worker->config = (struct gb_engine_config){
        .dir = worker->dir,
        .rocksdb_lib = options->rocksdb_lib,
        .memory_bytes = options->memory_bytes,
        .objects = churn->corpus.count,
        .bytes = churn->corpus.total_bytes,
        .scale = (double)options->memory_bytes / (double)GB_STUDY_MEMORY_BYTES,
        .disk_bytes = options->size_bytes,
        .keeps_all = !options->evicts,
        .workers = FILL_WORKERS,
    };
    int rc = gb_scratch_make(worker->dir, error);
    return rc < 0 ? rc : gb_worker_start(worker, error);
}

/* ---- orders -------------------------------------------------------------------------------- */

static uint64_t churn_look_at_disk(struct gb_churn *churn, size_t i)
{
    struct gb_churn_outcome *outcome = &churn->outcomes[i];
    uint64_t bytes = 0;
    if (gb_scratch_usage(churn->workers[i].dir, &bytes) == 0) {
        outcome->disk_peak_bytes = gb_max(outcome->disk_peak_bytes, bytes);
    }
    return bytes;
}

/* Waits for the reply to the last order, drawing progress and measuring the engine's files. */
static int churn_wait(struct gb_churn *churn, size_t i, struct gb_progress *progress,
                      struct gb_worker_reply *reply, struct goblin_error *error)
{
    int rc = 0;
    while (rc == 0) {
        if (gb_interrupt_seen()) {
            gb_explain_set(error, "interrupted");
            return -EINTR;
        }
        rc = gb_worker_receive(&churn->workers[i], WAIT_MS, reply, error);
        (void)churn_look_at_disk(churn, i);
        gb_progress_update(progress,
                           atomic_load_explicit(&churn->shared->done_bytes, memory_order_relaxed));
    }
    if (rc > 0) {
        churn->outcomes[i].rss_peak_bytes =
            gb_max(churn->outcomes[i].rss_peak_bytes, reply->peak_bytes);
    }
    return rc < 0 ? rc : 0;
}

static int churn_order(struct gb_churn *churn, size_t i, const struct gb_worker_order *order,
                       const char *what, struct gb_worker_reply *reply, struct goblin_error *error)
{
    char label[64];
    struct gb_progress progress;
    uint64_t bytes = churn->corpus.total_bytes;
    if (order->verb == GB_WORKER_AGE) {
        bytes = order->count;
    } else if (order->verb == GB_WORKER_PHASE) {
        bytes = order->count * churn->options.write_rate;
    }
    snprintf(label, sizeof(label), "%s %s", what, churn->workers[i].ops->name);
    gb_progress_begin(&progress, label, bytes);
    int rc = gb_worker_send(&churn->workers[i], order, error);
    rc = rc < 0 ? rc : churn_wait(churn, i, &progress, reply, error);
    gb_progress_end(&progress);
    return rc;
}

static int churn_settle(struct gb_churn *churn, size_t i, struct goblin_error *error)
{
    struct gb_worker_reply reply;
    const struct gb_worker_order order = {.verb = GB_WORKER_SETTLE};
    int rc = churn_order(churn, i, &order, "settle", &reply, error);
    if (rc == 0) {
        churn->outcomes[i].settle_seconds += churn->workers[i].churn->settle_seconds;
        churn->outcomes[i].unsettled |= !churn->workers[i].churn->quiet;
        churn->outcomes[i].disk_bytes = churn_look_at_disk(churn, i);
    }
    return rc;
}

static int churn_fill(struct gb_churn *churn, size_t i, struct goblin_error *error)
{
    struct gb_worker_reply reply;
    struct gb_churn_outcome *outcome = &churn->outcomes[i];
    struct gb_worker_order order = {.verb = GB_WORKER_POPULATE};
    int rc = churn_order(churn, i, &order, "fill", &reply, error);
    if (rc < 0) {
        return rc;
    }
    outcome->fill_seconds = reply.seconds;
    outcome->disk_peak_bytes = 0; /* what filling needed is of no interest */
    outcome->rss_peak_bytes = 0;
    order.verb = GB_WORKER_REOPEN;
    rc = churn_order(churn, i, &order, "reopen", &reply, error);
    order.verb = GB_WORKER_AGE;
    order.count = (uint64_t)(churn->options.age * (double)churn->corpus.total_bytes);
    rc = rc < 0 ? rc : churn_order(churn, i, &order, "age", &reply, error);
    if (rc < 0) {
        return rc;
    }
    outcome->age_seconds = reply.seconds;
    outcome->age_bytes = churn->workers[i].churn->counts.user_bytes;
    churn->workers[i].churn->refused = 0;
    rc = churn_settle(churn, i, error);
    outcome->settle_seconds = 0;
    fprintf(stderr, "%-20s filled in %.1f s, aged in %.1f s\n", churn->workers[i].ops->name,
            outcome->fill_seconds, outcome->age_seconds);
    return rc;
}

/* Whole seconds of a round's share of `seconds`; what is left over goes to the first rounds. */
static uint64_t round_seconds(const struct gb_churn_options *options, uint64_t seconds,
                              uint64_t round)
{
    return seconds / options->rounds + (round < seconds % options->rounds);
}

static int churn_round(struct gb_churn *churn, size_t i, uint64_t round, struct goblin_error *error)
{
    const struct gb_churn_options *options = &churn->options;
    const struct gb_churn_store *store = churn->workers[i].churn;
    uint64_t idle_s = round_seconds(options, options->idle_s, round);
    uint64_t busy_s = round_seconds(options, options->duration_s, round);
    struct gb_worker_order order = {GB_WORKER_PHASE, GB_CHURN_IDLE, idle_s};
    struct gb_worker_reply reply;
    int rc = churn_order(churn, i, &order, "idle", &reply, error);
    const struct gb_churn_counts before = store->counts;
    order = (struct gb_worker_order){GB_WORKER_PHASE, GB_CHURN_BUSY, busy_s};
    rc = rc < 0 ? rc : churn_order(churn, i, &order, "overwrite", &reply, error);
    order = (struct gb_worker_order){GB_WORKER_PHASE, GB_CHURN_AFTER, idle_s};
    rc = rc < 0 ? rc : churn_order(churn, i, &order, "after", &reply, error);
    rc = rc < 0 ? rc : churn_settle(churn, i, error);
    if (rc == 0) {
        gb_churn_counts_gain(&churn->outcomes[i].written, &before, &store->counts);
    }
    return rc;
}

/* Every engine has its first round, then every engine its second, another one beginning. */
static int churn_rounds(struct gb_churn *churn, struct goblin_error *error)
{
    size_t count = churn->options.engine_count;
    int rc = 0;
    for (uint64_t round = 0; round < churn->options.rounds; round++) {
        for (size_t turn = 0; turn < count && rc == 0; turn++) {
            rc = churn_round(churn, (size_t)(turn + round) % count, round, error);
        }
    }
    return rc;
}

static int churn_finish(struct gb_churn *churn, size_t i, struct goblin_error *error)
{
    struct gb_worker_reply reply;
    struct gb_worker_order order = {.verb = GB_WORKER_INSPECT};
    int rc = churn_order(churn, i, &order, "inspect", &reply, error);
    order.verb = GB_WORKER_END;
    return rc < 0 ? rc : churn_order(churn, i, &order, "close", &reply, error);
}

/* ---- all of it ----------------------------------------------------------------------------- */

static int churn_each(struct gb_churn *churn,
                      int (*step)(struct gb_churn *, size_t, struct goblin_error *),
                      struct goblin_error *error)
{
    int rc = 0;
    for (size_t i = 0; i < churn->options.engine_count && rc == 0; i++) {
        rc = step(churn, i, error);
    }
    return rc;
}

static int churn_ready(struct gb_churn *churn, size_t i, struct goblin_error *error)
{
    struct gb_worker_reply reply;
    struct gb_progress progress;
    gb_progress_begin(&progress, "start", 0);
    return churn_wait(churn, i, &progress, &reply, error);
}

/* Does the directory lie where the system's own files do? Then others write to the device, too. */
static bool is_shared(const char *dir)
{
    struct stat own;
    struct stat root;
    return stat(dir, &own) < 0 || stat("/", &root) < 0 || own.st_dev == root.st_dev;
}

static int churn_report(struct gb_churn *churn, struct goblin_error *error)
{
    const struct gb_churn_options *options = &churn->options;
    struct gb_churn_result results[GB_ENGINES_MAX];
    char library[PATH_MAX] = "none";
    struct gb_rocksdb_api api;
    struct goblin_error ignored;
    bool is_void = false;
    for (size_t i = 0; i < options->engine_count; i++) {
        const struct gb_worker *worker = &churn->workers[i];
        gb_churn_result_make(worker->ops->name, gb_churn_live_bytes(&churn->corpus), worker->churn,
                             &churn->outcomes[i], &results[i]);
        is_void = is_void || gb_churn_result_is_void(&results[i], !options->evicts);
    }
    if (gb_rocksdb_api_open(&api, options->rocksdb_lib, &ignored) == 0) {
        gb_rocksdb_api_file(&api, library, sizeof(library));
        gb_rocksdb_api_close(&api);
    }
    const char *const versions[] = {"rocksdb", library, NULL};
    const struct gb_churn_report report = {
        .options = options,
        .corpus = &churn->corpus,
        .results = results,
        .count = options->engine_count,
        .device_shared = is_shared(options->dir),
        .versions = versions,
    };
    gb_churn_report_print(&report, stdout);
    int rc = gb_churn_report_write(&report, error);
    if (rc >= 0 && is_void) {
        gb_explain_set(error, "an engine lost objects, or returned bytes or versions that it must "
                              "not: this run is void");
        rc = -EBADMSG;
    }
    return rc < 0 ? rc : 0;
}

static int churn_run(struct gb_churn *churn, struct goblin_error *error)
{
    int rc = churn_prepare(churn, error);
    rc = rc < 0 ? rc : churn_each(churn, churn_start_worker, error);
    rc = rc < 0 ? rc : churn_each(churn, churn_ready, error);
    rc = rc < 0 ? rc : churn_each(churn, churn_fill, error);
    rc = rc < 0 ? rc : churn_rounds(churn, error);
    rc = rc < 0 ? rc : churn_each(churn, churn_finish, error);
    for (size_t i = 0; i < churn->options.engine_count; i++) {
        gb_worker_stop(&churn->workers[i]);
    }
    if (churn->scratch[0] && !churn->options.keep) {
        gb_scratch_remove(churn->scratch);
    }
    return rc < 0 ? rc : churn_report(churn, error);
}

static void churn_fini(struct gb_churn *churn)
{
    for (size_t i = 0; i < churn->options.engine_count; i++) {
        gb_churn_store_destroy(churn->workers[i].churn);
    }
    gb_worker_shared_destroy(churn->shared);
    if (churn->content.corpus) {
        gb_content_fini(&churn->content);
    }
    gb_corpus_fini(&churn->corpus);
    free(churn);
}

int gb_cmd_churn(int argc, char **argv)
{
    struct goblin_error error = {{0}};
    struct gb_churn *churn = calloc(1, sizeof(*churn));
    if (!churn) {
        fprintf(stderr, "goblin-bench churn: out of memory\n");
        return 1;
    }
    int status = 2;
    int rc = gb_churn_options_parse(&churn->options, argc, argv, &error);
    if (rc == 0) {
        gb_interrupt_catch();
        rc = churn_run(churn, &error);
        status = 1;
    }
    if (rc < 0) {
        fprintf(stderr, "goblin-bench churn: %s\n",
                error.text[0] ? error.text : goblin_strerror(rc));
    }
    churn_fini(churn);
    return rc < 0 ? status : 0;
}
