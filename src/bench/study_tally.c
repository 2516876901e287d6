/* Requests into figures, one engine at a time. */
#include "bench/procfs.h"
#include "bench/progress.h"
#include "bench/study.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { RSS_INTERVAL_NS = 200 * 1000 * 1000 };

void gb_study_tally_init(struct gb_study_tally *tally, uint64_t link_rate_bps)
{
    memset(tally, 0, sizeof(*tally));
    gb_histogram_init(&tally->first);
    gb_histogram_init(&tally->last);
    gb_histogram_init(&tally->disk_first);
    gb_histogram_init(&tally->disk_last);
    gb_link_init(&tally->link, link_rate_bps);
}

void gb_study_tally_fini(struct gb_study_tally *tally)
{
    free(tally->rss);
    tally->rss = NULL;
}

static void tally_add(struct gb_study_tally *tally, const struct gb_read *read)
{
    gb_link_add(&tally->link, read->chunks, read->chunk_count, read->last_ns);
    tally->total_ns += read->last_ns;
    tally->bytes += read->bytes;
    if (read->source == GB_READ_MISS) {
        tally->misses++;
        return;
    }
    gb_histogram_add(&tally->first, read->first_ns);
    gb_histogram_add(&tally->last, read->last_ns);
    if (read->source == GB_READ_DISK) {
        gb_histogram_add(&tally->disk_first, read->first_ns);
        gb_histogram_add(&tally->disk_last, read->last_ns);
    }
}

static enum gb_read_source read_source(const struct gb_worker_record *record)
{
    if (record->answer == GB_ENGINE_MISS) {
        return GB_READ_MISS;
    }
    return record->answer == GB_ENGINE_DISK ? GB_READ_DISK : GB_READ_RAM;
}

int gb_study_tally_slice(struct gb_study_tally *tally, const struct gb_worker *worker,
                         const struct gb_study_slice *slice, struct gb_reads_writer *csv)
{
    const struct gb_chunk *chunks = worker->shared->chunks;
    int rc = 0;
    for (uint64_t i = 0; i < slice->count && rc >= 0; i++) {
        const struct gb_worker_record *record = &worker->shared->records[i];
        struct gb_read read = {
            .engine = worker->ops->name,
            .slice = slice->number,
            .index = slice->first + i,
            .object = worker->schedule->objects[slice->first + i],
            .bytes = record->bytes,
            .first_ns = record->first_ns,
            .last_ns = record->last_ns,
            .source = read_source(record),
            .chunks = chunks,
            .chunk_count = record->chunk_count,
        };
        tally_add(tally, &read);
        if (read.index >= slice->half) {
            tally->second_half_ns += read.last_ns;
        }
        chunks += record->chunk_count;
        rc = gb_reads_writer_add(csv, &read);
    }
    return rc < 0 ? rc : gb_reads_writer_flush(csv);
}

int gb_study_tally_rss(struct gb_study_tally *tally, const struct gb_worker *worker,
                       uint64_t started_ns)
{
    uint64_t now_ns = gb_progress_now_ns();
    uint64_t rss = 0;
    uint64_t peak = 0;
    if (now_ns - tally->rss_sampled_ns < RSS_INTERVAL_NS ||
        gb_procfs_rss(worker->pid, &rss, &peak) < 0) {
        return 0;
    }
    if (tally->rss_count == tally->rss_capacity) {
        size_t capacity = tally->rss_capacity ? 2 * tally->rss_capacity : 256;
        struct gb_rss_sample *grown = realloc(tally->rss, capacity * sizeof(*grown));
        if (!grown) {
            return -ENOMEM;
        }
        tally->rss = grown;
        tally->rss_capacity = capacity;
    }
    tally->rss_sampled_ns = now_ns;
    tally->rss[tally->rss_count++] = (struct gb_rss_sample){
        .at_s = (double)(now_ns - started_ns) / 1e9,
        .rss_bytes = rss > tally->harness_bytes ? rss - tally->harness_bytes : 0,
    };
    return 0;
}

void gb_study_tally_result(const struct gb_study_tally *tally, const struct gb_worker *worker,
                           const struct gb_schedule *schedule, struct gb_engine_result *result)
{
    const struct gb_corpus *corpus = worker->content->corpus;
    memset(result, 0, sizeof(*result));
    result->name = worker->ops->name;
    result->objects = corpus->count;
    result->bytes = corpus->total_bytes;
    result->populate_seconds = tally->populate_seconds;
    result->barrier_seconds = tally->barrier_seconds;
    result->requests = schedule->count;
    result->replay_bytes = tally->bytes;
    result->replay_seconds = (double)tally->total_ns / 1e9;
    gb_report_latency(&tally->first, &result->ttfb);
    gb_report_latency(&tally->last, &result->ttlb);
    gb_report_latency(&tally->disk_first, &result->disk_ttfb);
    gb_report_latency(&tally->disk_last, &result->disk_ttlb);
    result->disk_requests = tally->disk_last.count;
    result->misses = tally->misses;
    result->verify_failures = tally->verify_failures;
    result->device_reads = tally->replayed.device_reads;
    result->device_read_bytes = tally->replayed.device_read_bytes;
    result->device_write_bytes = tally->populated.device_write_bytes;
    result->rss_peak_bytes = tally->populate_peak_bytes > tally->replay_peak_bytes
                                 ? tally->populate_peak_bytes
                                 : tally->replay_peak_bytes;
    result->reopen_seconds = tally->reopen_seconds;
    result->warm_seconds = tally->warm_seconds;
    result->verified_bytes = tally->verified_bytes;
    result->rss_populate_bytes = tally->populate_peak_bytes;
    result->rss_replay_bytes = tally->replay_peak_bytes;
    result->replay_write_bytes = tally->replayed.device_write_bytes;
    result->promotions = tally->replayed.promotions;
    result->arena_moved_bytes = tally->replayed.arena_moved_bytes;
    result->memory_budget_bytes = worker->config.memory_bytes;
    result->second_half_seconds = (double)tally->second_half_ns / 1e9;
    result->link = tally->link;
    result->rss = tally->rss;
    result->rss_count = tally->rss_count;
}
