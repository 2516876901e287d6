/* The order of events of a study: prepare, populate, reopen, replay in turns, verify, report. */
#include "bench/study.h"

#include "base/units.h"
#include "bench/cgroup.h"
#include "bench/explain.h"
#include "bench/interrupt.h"
#include "bench/procfs.h"
#include "bench/progress.h"
#include "bench/scratch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    WAIT_MS = 100,
    PROBE_READS = 200,
    PROBE_FIRST_BYTES = 4 << 10,
};

static const uint64_t cap_memory_bytes = UINT64_C(8) << 30;
static const uint64_t cap_read_iops = 33542;
static const uint64_t cap_write_iops = 16771;
static const uint64_t worker_overhead_bytes = UINT64_C(256) << 20;

static uint64_t size_of_object(void *arg, uint64_t number)
{
    const struct gb_corpus *corpus = arg;
    return corpus->sizes[number];
}

/* ---- preparations -------------------------------------------------------------------------- */

static uint64_t study_memory(const struct gb_study *study)
{
    enum { LEAST_BYTES = 8 << 20, UNIT_BYTES = 64 << 10 };
    if (study->options.memory_bytes) {
        return study->options.memory_bytes;
    }
    double share = (double)study->corpus.total_bytes / (double)GB_STUDY_OBJECT_BYTES;
    if (study->options.corpus.kind == GB_CORPUS_STUDY) {
        share = study->options.corpus.scale;
    }
    uint64_t bytes = (uint64_t)(share * (double)GB_STUDY_MEMORY_BYTES) / UNIT_BYTES * UNIT_BYTES;
    return bytes < LEAST_BYTES ? LEAST_BYTES : bytes;
}

static int study_check_room(const struct gb_study *study, struct goblin_error *error)
{
    double disk = study->options.no_fio ? 0 : (double)study->corpus.total_bytes;
    double kept = 0;
    double most = 0;
    uint64_t available = UINT64_MAX;
    uint64_t memory = study->options.engine_count * (study->memory_bytes + worker_overhead_bytes);
    for (size_t i = 0; i < study->options.engine_count; i++) {
        double factor = study->options.engines[i]->disk_factor;
        double settled = factor > 1.2 ? 1.2 : factor;
        kept += settled * (double)study->corpus.total_bytes;
        most = factor - settled > most ? factor - settled : most;
    }
    /* Engines populate one after the other, so the extra room of one at a time is enough. */
    kept += most * (double)study->corpus.total_bytes;
    int rc = gb_scratch_check(study->options.dir, (uint64_t)(disk > kept ? disk : kept), error);
    if (rc < 0) {
        return rc;
    }
    gb_procfs_available(&available);
    if (study->options.cap && available > cap_memory_bytes) {
        available = cap_memory_bytes;
    }
    if (memory > available) {
        char need[GB_UNITS_TEXT];
        char have[GB_UNITS_TEXT];
        gb_explain_set(error,
                       "%zu engines at once may need %s of RAM and %s are free: give fewer "
                       "--engines, a smaller --scale or less --memory",
                       study->options.engine_count,
                       gb_units_format_size(need, sizeof(need), memory),
                       gb_units_format_size(have, sizeof(have), available));
        return -ENOMEM;
    }
    return 0;
}

static uint64_t study_slice_first(const struct gb_study *study, uint64_t slice)
{
    return study->schedule.count * slice / study->options.slices;
}

/* Memory for the records of the largest slice. */
static int study_share(struct gb_study *study, struct goblin_error *error)
{
    uint64_t requests = 1;
    uint64_t bytes = 0;
    for (uint64_t slice = 0; slice < study->options.slices; slice++) {
        uint64_t first = study_slice_first(study, slice);
        uint64_t end = study_slice_first(study, slice + 1);
        uint64_t sum = 0;
        for (uint64_t i = first; i < end; i++) {
            sum += study->corpus.sizes[study->schedule.objects[i]];
        }
        requests = end - first > requests ? end - first : requests;
        bytes = sum > bytes ? sum : bytes;
    }
    study->shared = gb_worker_shared_create(requests, bytes);
    if (!study->shared) {
        gb_explain_set(error, "no memory for the records of a slice: give more --slices");
        return -ENOMEM;
    }
    return 0;
}

static int study_prepare(struct gb_study *study, struct goblin_error *error)
{
    char reads[PATH_MAX];
    const struct gb_study_options *options = &study->options;
    int rc = gb_corpus_make(&options->corpus, &study->corpus, &study->schedule, error);
    if (rc < 0) {
        return rc;
    }
    study->memory_bytes = study_memory(study);
    if (study->schedule.count < options->slices) {
        study->options.slices = study->schedule.count ? study->schedule.count : 1;
    }
    rc = gb_content_init(&study->content, &study->corpus, error);
    rc = rc < 0 ? rc : study_share(study, error);
    rc = rc < 0 ? rc : gb_scratch_make(options->out, error);
    rc = rc < 0 ? rc : gb_scratch_make(options->dir, error);
    rc = rc < 0 ? rc : study_check_room(study, error);
    if (rc < 0) {
        return rc;
    }
    snprintf(study->scratch, sizeof(study->scratch), "%s/goblin-study-%d", options->dir,
             (int)getpid());
    rc = gb_scratch_make(study->scratch, error);
    snprintf(reads, sizeof(reads), "%s/reads.csv", options->out);
    unlink(reads);
    rc = rc < 0 ? rc : gb_reads_writer_open(reads, 0, &study->csv);
    if (rc < 0 && !error->text[0]) {
        gb_explain_set(error, "--out %s: %s", options->out, strerror(-rc));
    }
    return rc;
}

static int study_start_worker(struct gb_study *study, size_t i, struct goblin_error *error)
{
    const struct gb_study_options *options = &study->options;
    struct gb_worker *worker = &study->workers[i];
    worker->ops = options->engines[i];
    worker->schedule = &study->schedule;
    worker->content = &study->content;
    worker->shared = study->shared;
    worker->verify_every = options->verify_every;
    if ((size_t)snprintf(worker->dir, sizeof(worker->dir), "%s/%s", study->scratch,
                         worker->ops->name) >= sizeof(worker->dir)) {
        gb_explain_set(error, "--dir: the path is too long");
        return -ENAMETOOLONG;
    }
    worker->config = (struct gb_engine_config){
        .dir = worker->dir,
        .rocksdb_lib = options->rocksdb_lib,
        .memory_bytes = study->memory_bytes,
        .floor_bytes = study->options.floor_bytes,
        .first_chunk_bytes = study->options.first_chunk_bytes,
        .objects = study->corpus.count,
        .bytes = study->corpus.total_bytes,
        .scale = (double)study->memory_bytes / (double)GB_STUDY_MEMORY_BYTES,
        .workers = (unsigned)options->workers,
        .size_of = size_of_object,
        .size_arg = &study->corpus,
    };
    int rc = gb_scratch_make(worker->dir, error);
    return rc < 0 ? rc : gb_worker_start(worker, error);
}

/* ---- orders -------------------------------------------------------------------------------- */

/* Waits for the reply to the last order, drawing progress and sampling the resident size. */
static int study_wait(struct gb_study *study, size_t i, struct gb_progress *progress,
                      struct gb_worker_reply *reply, struct goblin_error *error)
{
    struct gb_study_tally *tally = &study->tallies[i];
    int rc = 0;
    while (rc == 0) {
        if (gb_interrupt_seen()) {
            gb_explain_set(error, "interrupted");
            return -EINTR;
        }
        rc = gb_worker_receive(&study->workers[i], WAIT_MS, reply, error);
        if (progress) {
            gb_progress_update(
                progress, atomic_load_explicit(&study->shared->done_bytes, memory_order_relaxed));
            gb_study_tally_rss(tally, &study->workers[i], study->started_ns);
        }
    }
    if (rc > 0) {
        tally->harness_bytes = reply->harness_bytes;
        tally->verified_bytes += reply->verified_bytes;
        tally->verify_failures += reply->verify_failures;
    }
    return rc < 0 ? rc : 0;
}

/* One order and its reply, under a progress line of `bytes` bytes. */
static int study_order(struct gb_study *study, size_t i, const struct gb_worker_order *order,
                       uint64_t bytes, struct gb_worker_reply *reply, struct goblin_error *error)
{
    static const char *const labels[] = {
        [GB_WORKER_POPULATE] = "populate", [GB_WORKER_REOPEN] = "reopen",
        [GB_WORKER_PROBE] = "probe",       [GB_WORKER_REPLAY] = "replay",
        [GB_WORKER_VERIFY] = "verify",     [GB_WORKER_END] = "end",
    };
    char label[64];
    struct gb_progress progress;
    uint64_t done =
        order->verb == GB_WORKER_REPLAY ? order->first * 100 / study->schedule.count : 0;
    snprintf(label, sizeof(label), "%s %s", labels[order->verb], study->workers[i].ops->name);
    if (order->verb == GB_WORKER_REPLAY) {
        size_t used = strlen(label);
        snprintf(label + used, sizeof(label) - used, " (%u %% of the schedule)", (unsigned)done);
    }
    gb_progress_begin(&progress, label, bytes);
    int rc = gb_worker_send(&study->workers[i], order, error);
    rc = rc < 0 ? rc : study_wait(study, i, &progress, reply, error);
    gb_progress_end(&progress);
    return rc;
}

static int study_populate(struct gb_study *study, size_t i, struct goblin_error *error)
{
    struct gb_worker_reply reply;
    const struct gb_worker_order order = {.verb = GB_WORKER_POPULATE};
    struct gb_study_tally *tally = &study->tallies[i];
    int rc = study_order(study, i, &order, study->corpus.total_bytes, &reply, error);
    if (rc < 0) {
        return rc;
    }
    tally->populate_seconds = reply.seconds;
    tally->barrier_seconds = reply.barrier_seconds;
    tally->populate_peak_bytes = reply.peak_bytes;
    tally->populated = reply.device;
    char barrier[GB_UNITS_TEXT];
    fprintf(stderr, "%-20s populated: %9.1f MiB/s (%s of barrier)\n", study->workers[i].ops->name,
            (double)study->corpus.total_bytes / (1 << 20) / reply.seconds,
            gb_units_format_duration(barrier, sizeof(barrier),
                                     (uint64_t)(reply.barrier_seconds * 1e9)));
    return 0;
}

static int study_reopen(struct gb_study *study, size_t i, struct goblin_error *error)
{
    struct gb_worker_reply reply;
    const struct gb_worker_order order = {.verb = GB_WORKER_REOPEN};
    int rc = study_order(study, i, &order, 0, &reply, error);
    if (rc == 0) {
        study->tallies[i].reopen_seconds = reply.seconds;
        study->tallies[i].warm_seconds = reply.warm_seconds;
    }
    return rc;
}

/* The device's cost curve, by the engine that has nothing but the device. */
static int study_probe(struct gb_study *study, size_t i, struct goblin_error *error)
{
    uint64_t bytes = PROBE_FIRST_BYTES;
    for (size_t point = 0; point < GB_STUDY_CURVE_POINTS; point++, bytes *= 2) {
        struct gb_worker_reply reply;
        const struct gb_worker_order order = {GB_WORKER_PROBE, bytes, PROBE_READS};
        if (bytes > study->corpus.total_bytes) {
            break;
        }
        int rc = study_order(study, i, &order, 0, &reply, error);
        if (rc < 0) {
            return rc;
        }
        study->curve[point] = (struct gb_cost_point){bytes, reply.probe_us};
        study->curve_count = point + 1;
    }
    return 0;
}

static int study_replay_slice(struct gb_study *study, size_t i, const struct gb_study_slice *slice,
                              struct goblin_error *error)
{
    struct gb_worker_reply reply;
    struct gb_study_tally *tally = &study->tallies[i];
    const struct gb_worker_order order = {GB_WORKER_REPLAY, slice->first, slice->count};
    int rc = study_order(study, i, &order, study->schedule.total_bytes / study->options.slices,
                         &reply, error);
    if (rc < 0) {
        return rc;
    }
    tally->replay_peak_bytes =
        reply.peak_bytes > tally->replay_peak_bytes ? reply.peak_bytes : tally->replay_peak_bytes;
    tally->replayed.device_reads += reply.device.device_reads;
    tally->replayed.device_read_bytes += reply.device.device_read_bytes;
    tally->replayed.device_writes += reply.device.device_writes;
    tally->replayed.device_write_bytes += reply.device.device_write_bytes;
    tally->replayed.promotions += reply.device.promotions;
    tally->replayed.arena_moved_bytes += reply.device.arena_moved_bytes;
    tally->replayed.memory_used_bytes = reply.device.memory_used_bytes;
    rc = gb_study_tally_slice(tally, &study->workers[i], slice, study->csv);
    if (rc < 0) {
        gb_explain_set(error, "--out: writing reads.csv: %s", strerror(-rc));
    }
    return rc;
}

/* Every engine replays slice 0, then every engine slice 1, beginning with another one each time. */
static int study_replay(struct gb_study *study, struct goblin_error *error)
{
    size_t count = study->options.engine_count;
    for (uint64_t number = 0; number < study->options.slices; number++) {
        struct gb_study_slice slice = {
            .number = number,
            .first = study_slice_first(study, number),
            .half = study->schedule.count / 2,
        };
        slice.count = study_slice_first(study, number + 1) - slice.first;
        for (size_t turn = 0; turn < count; turn++) {
            int rc = study_replay_slice(study, (size_t)(turn + number) % count, &slice, error);
            if (rc < 0) {
                return rc;
            }
        }
    }
    char requests[GB_UNITS_TEXT];
    fprintf(stderr, "%zu engines replayed %s requests in %llu turns\n", count,
            gb_units_format_count(requests, sizeof(requests), study->schedule.count),
            (unsigned long long)study->options.slices);
    return 0;
}

static int study_verify(struct gb_study *study, size_t i, struct goblin_error *error)
{
    struct gb_worker_reply reply;
    const struct gb_worker_order order = {.verb = GB_WORKER_VERIFY};
    if (!study->options.verify_every || !study->workers[i].ops->keeps_bytes) {
        return 0;
    }
    return study_order(study, i, &order, study->corpus.total_bytes, &reply, error);
}

static int study_end(struct gb_study *study, size_t i, struct goblin_error *error)
{
    struct gb_worker_reply reply;
    const struct gb_worker_order order = {.verb = GB_WORKER_END};
    return study_order(study, i, &order, 0, &reply, error);
}

/* ---- all of it ----------------------------------------------------------------------------- */

static int study_each(struct gb_study *study,
                      int (*step)(struct gb_study *, size_t, struct goblin_error *),
                      struct goblin_error *error)
{
    int rc = 0;
    for (size_t i = 0; i < study->options.engine_count && rc == 0; i++) {
        rc = step(study, i, error);
    }
    return rc;
}

static int study_ready(struct gb_study *study, size_t i, struct goblin_error *error)
{
    struct gb_worker_reply reply;
    return study_wait(study, i, NULL, &reply, error);
}

static int study_probe_control(struct gb_study *study, size_t i, struct goblin_error *error)
{
    return study->workers[i].ops->probe ? study_probe(study, i, error) : 0;
}

static int study_measure(struct gb_study *study, struct goblin_error *error)
{
    int rc = 0;
    if (!study->options.no_fio) {
        fprintf(stderr, "fio: writing as many bytes as the corpus has, then reading\n");
        rc = gb_fio_run(&study->fio, study->scratch, study->corpus.total_bytes, error);
    }
    study->started_ns = gb_progress_now_ns();
    rc = rc < 0 ? rc : study_each(study, study_start_worker, error);
    rc = rc < 0 ? rc : study_each(study, study_ready, error);
    rc = rc < 0 ? rc : study_each(study, study_populate, error);
    rc = rc < 0 ? rc : study_each(study, study_reopen, error);
    rc = rc < 0 ? rc : study_each(study, study_probe_control, error);
    rc = rc < 0 ? rc : study_replay(study, error);
    rc = rc < 0 ? rc : study_each(study, study_verify, error);
    return rc < 0 ? rc : study_each(study, study_end, error);
}

static int study_run(struct gb_study *study, struct goblin_error *error)
{
    int rc = study_prepare(study, error);
    if (rc == 0) {
        rc = study_measure(study, error);
    }
    for (size_t i = 0; i < study->options.engine_count; i++) {
        gb_worker_stop(&study->workers[i]);
    }
    int closed = gb_reads_writer_close(study->csv);
    study->csv = NULL;
    if (rc == 0 && closed < 0) {
        rc = closed;
        gb_explain_set(error, "--out: writing reads.csv: %s", strerror(-rc));
    }
    if (study->scratch[0] && !study->options.keep) {
        gb_scratch_remove(study->scratch);
    }
    return rc < 0 ? rc : gb_study_report(study, error);
}

static int study_enter_cap(const struct gb_study *study, struct gb_cgroup *group,
                           struct goblin_error *error)
{
    struct gb_cgroup_limits limits = {
        .read_iops = cap_read_iops,
        .write_iops = cap_write_iops,
        .memory_bytes = cap_memory_bytes,
    };
    if (!study->options.cap) {
        return 0;
    }
    int rc = gb_scratch_make(study->options.dir, error);
    rc = rc < 0 ? rc
                : gb_cgroup_device(study->options.dir, &limits.device_major, &limits.device_minor,
                                   error);
    return rc < 0 ? rc : gb_cgroup_enter(group, NULL, &limits, error);
}

static int study_init(struct gb_study *study)
{
    study->tallies = calloc(study->options.engine_count, sizeof(*study->tallies));
    if (!study->tallies) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < study->options.engine_count; i++) {
        gb_study_tally_init(&study->tallies[i], study->options.link_rate_bps);
    }
    return 0;
}

static void study_fini(struct gb_study *study)
{
    for (size_t i = 0; i < study->options.engine_count && study->tallies; i++) {
        gb_study_tally_fini(&study->tallies[i]);
    }
    free(study->tallies);
    gb_worker_shared_destroy(study->shared);
    if (study->content.corpus) {
        gb_content_fini(&study->content);
    }
    gb_corpus_fini(&study->corpus);
    gb_schedule_fini(&study->schedule);
    free(study);
}

int gb_cmd_study(int argc, char **argv)
{
    struct goblin_error error = {{0}};
    struct gb_study *study = calloc(1, sizeof(*study));
    struct gb_cgroup *group = calloc(1, sizeof(*group));
    int status = 1;
    if (!study || !group) {
        fprintf(stderr, "goblin-bench study: out of memory\n");
        goto free_all;
    }
    int rc = gb_study_options_parse(&study->options, argc, argv, &error);
    if (rc != 0) {
        status = rc < 0 ? 2 : 0;
        goto report_fault;
    }
    gb_interrupt_catch();
    rc = study_init(study);
    rc = rc < 0 ? rc : study_enter_cap(study, group, &error);
    rc = rc < 0 ? rc : study_run(study, &error);
    status = rc < 0;
    if (gb_cgroup_leave(group) < 0) {
        fprintf(stderr, "goblin-bench study: a cgroup of --cap could not be removed\n");
    }
report_fault:
    if (rc < 0) {
        fprintf(stderr, "goblin-bench study: %s\n",
                error.text[0] ? error.text : goblin_strerror(rc));
    }
free_all:
    if (study) {
        study_fini(study);
    }
    free(group);
    return status;
}
