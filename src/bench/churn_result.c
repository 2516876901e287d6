/* Figures of one engine, made of what its process and the bench have seen. */
#include "bench/churn.h"

#include "base/bits.h"

static const double us_ns = 1e3;
static const double ms_ns = 1e6;
static const double s_ns = 1e9;

static double ratio(double over, double under)
{
    return under > 0 ? over / under : 0;
}

/* By how much `figure` is off `truth`; 0 where either is missing. */
static double off(double figure, double truth)
{
    return figure > 0 && truth > 0 ? figure / truth - 1 : 0;
}

void gb_churn_counts_gain(struct gb_churn_counts *sum, const struct gb_churn_counts *before,
                          const struct gb_churn_counts *now)
{
    sum->user_bytes += now->user_bytes - before->user_bytes;
    sum->engine_user_bytes += now->engine_user_bytes - before->engine_user_bytes;
    sum->engine_bytes += now->engine_bytes - before->engine_bytes;
    sum->process_bytes += now->process_bytes - before->process_bytes;
    sum->device_bytes += now->device_bytes - before->device_bytes;
    sum->has_device = now->has_device;
    sum->live_bytes = now->live_bytes;
    sum->disk_used_bytes = now->disk_used_bytes;
    sum->disk_file_bytes = now->disk_file_bytes;
}

static void make_reads(const struct gb_churn_tally *tally, struct gb_churn_reads *reads)
{
    *reads = (struct gb_churn_reads){
        .count = tally->all.count + tally->misses,
        .disk_count = tally->disk.count,
        .misses = tally->misses,
        .seconds = (double)tally->ns / s_ns,
        .p50_us = gb_histogram_quantile(&tally->disk, 0.5) / us_ns,
        .p99_us = gb_histogram_quantile(&tally->disk, 0.99) / us_ns,
        .p999_us = gb_histogram_quantile(&tally->disk, 0.999) / us_ns,
        .max_us = (double)tally->disk.most / us_ns,
        .all_p99_us = gb_histogram_quantile(&tally->all, 0.99) / us_ns,
        .all_max_us = (double)tally->all.most / us_ns,
        .gap_ms = (double)tally->gap_ns / ms_ns,
    };
}

static void make_writes(const struct gb_churn_store *store, struct gb_churn_result *result)
{
    const struct gb_churn_tally *tally = &store->writes;
    result->puts = tally->all.count;
    result->refused = store->refused;
    result->asked_mib_s = (double)store->write_rate / (double)GB_MIB;
    result->written_mib_s = ratio((double)tally->bytes / (double)GB_MIB, (double)tally->ns / s_ns);
    result->put_p50_us = gb_histogram_quantile(&tally->all, 0.5) / us_ns;
    result->put_p99_us = gb_histogram_quantile(&tally->all, 0.99) / us_ns;
    result->put_max_ms = (double)tally->all.most / ms_ns;
    result->put_gap_ms = (double)tally->gap_ns / ms_ns;
}

static void make_amplification(uint64_t live_bytes, const struct gb_churn_outcome *outcome,
                               struct gb_churn_result *result)
{
    const struct gb_churn_counts *written = &outcome->written;
    double user = (double)written->user_bytes;
    double live = (double)live_bytes;
    result->engine_amplification =
        ratio((double)written->engine_bytes, (double)written->engine_user_bytes);
    result->process_amplification = ratio((double)written->process_bytes, user);
    if (written->has_device) {
        result->device_amplification = ratio((double)written->device_bytes, user);
    }
    result->engine_off = off(result->engine_amplification, result->process_amplification);
    result->device_off = off(result->device_amplification, result->process_amplification);
    result->peak_amplification = ratio((double)outcome->disk_peak_bytes, live);
    result->disk_amplification = ratio((double)outcome->disk_bytes, live);
    result->engine_space = ratio((double)written->disk_used_bytes, (double)written->live_bytes);
    result->file_off = off((double)written->disk_file_bytes, (double)outcome->disk_bytes);
}

void gb_churn_result_make(const char *name, uint64_t live_bytes, const struct gb_churn_store *store,
                          const struct gb_churn_outcome *outcome, struct gb_churn_result *result)
{
    *result = (struct gb_churn_result){.name = name, .outcome = outcome, .store = store};
    for (int i = 0; i < GB_CHURN_PHASES; i++) {
        make_reads(&store->reads[i], &result->reads[i]);
        result->reads[i].cpu_seconds = store->cpu_seconds[i];
    }
    result->busy_ratio =
        ratio(result->reads[GB_CHURN_BUSY].p99_us, result->reads[GB_CHURN_IDLE].p99_us);
    make_writes(store, result);
    make_amplification(live_bytes, outcome, result);
}

bool gb_churn_result_is_void(const struct gb_churn_result *result, bool keeps_all)
{
    uint64_t misses = result->store->lost;
    for (int i = 0; i < GB_CHURN_PHASES; i++) {
        misses += result->reads[i].misses;
    }
    return result->store->wrong > 0 || result->store->stale > 0 || (keeps_all && misses > 0);
}
