/* The cases of `goblin-bench micro`, their table and their JSON. */
#include "bench/micro.h"

#include "base/json.h"
#include "bench/explain.h"
#include "bench/flags.h"
#include "bench/scratch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MIB = 1 << 20,
    ARENA_TRIES = 4,
    RAM_SAMPLES = 64,
    /* First guesses; each case then measures what it got and opens again. */
    ITEM_GUESS_BYTES = GB_MICRO_VALUE_BYTES + 110,
    HEADER_GUESS_BYTES = 100,
};

static const double put_objects = 1e6;
static const double put_count = 4e6;
static const double get_objects = 2e6;
static const double get_count = 8e6;
static const double ram_objects = 1.5e6;
static const double open_objects = 373165; /* of the study */

struct micro_result {
    double put_per_s;
    double put_arena_ratio; /* capacity of the RAM log over its live bytes */
    double put_write_ratio; /* device bytes over user bytes */
    double crowded_per_s;
    double crowded_share; /* headers, keys and index over the memory */
    double get_one_per_s;
    double get_two_per_s;
    double get_hinted_per_s;
    double load_per_s;
    double get_resident_share;
    double ram_best; /* bytes an object, while the index grows under load */
    double ram_worst;
    double ram_last;
    double open_checkpoint_s;
    double open_summaries_s;
};

static uint64_t scaled(const struct gb_micro_options *options, double count)
{
    double number = count * options->scale;
    return number < 1000 ? 1000 : (uint64_t)number;
}

static uint64_t at_least_smallest(double memory_bytes)
{
    enum { SMALLEST_BYTES = 8 << 20 };
    return memory_bytes < SMALLEST_BYTES ? SMALLEST_BYTES : (uint64_t)memory_bytes;
}

/* Opens and loads, again and again, until the RAM log has 1.5 times its live bytes. */
static int micro_open_ratio(struct gb_micro_store *store, const struct gb_micro_options *options,
                            double ratio, double *got, struct goblin_error *error)
{
    store->objects = scaled(options, put_objects);
    store->memory_bytes =
        at_least_smallest((double)store->objects * ITEM_GUESS_BYTES * ratio + 16.0 * MIB);
    for (int i = 0;; i++) {
        struct goblin_stats stats;
        int rc = gb_micro_store_open(store, options, scaled(options, put_count), error);
        rc = rc < 0 ? rc : gb_micro_store_load(store, 0, store->objects, error);
        if (rc < 0) {
            return rc;
        }
        goblin_stats(store->goblin, &stats);
        double live = (double)stats.arena_live_bytes;
        double capacity = (double)stats.arena_capacity_bytes;
        *got = live > 0 ? capacity / live : 0;
        /* While not all is resident, live bytes say nothing of what they would be. */
        double all = live + (double)(store->objects * GB_MICRO_VALUE_BYTES - stats.resident_bytes);
        double wanted = (double)store->memory_bytes + ratio * all - capacity;
        if (i + 1 == ARENA_TRIES || (*got > ratio - 0.02 && *got < ratio + 0.02)) {
            return 0;
        }
        gb_micro_store_close(store);
        store->memory_bytes = at_least_smallest(wanted);
    }
}

static int micro_put(const struct gb_micro_options *options, struct micro_result *result,
                     struct goblin_error *error)
{
    struct gb_micro_store store = {0};
    struct goblin_stats before;
    struct goblin_stats after;
    double seconds = 0;
    uint64_t count = scaled(options, put_count);
    int rc = micro_open_ratio(&store, options, 1.5, &result->put_arena_ratio, error);
    if (rc == 0) {
        goblin_stats(store.goblin, &before);
        rc = gb_micro_store_overwrite(&store, count, &seconds, error);
    }
    if (rc == 0) {
        goblin_stats(store.goblin, &after);
        result->put_per_s = (double)count / seconds;
        result->put_write_ratio = (double)(after.device_write_bytes - before.device_write_bytes) /
                                  (double)(count * GB_MICRO_VALUE_BYTES);
    }
    gb_micro_store_close(&store);
    return rc;
}

/* Headers, keys and index take four fifths of the memory. */
static int micro_crowded(const struct gb_micro_options *options, struct micro_result *result,
                         struct goblin_error *error)
{
    struct gb_micro_store store = {.objects = scaled(options, put_objects)};
    struct goblin_stats stats;
    uint64_t count = scaled(options, put_count);
    double seconds = 0;
    double each = result->ram_last > 0 ? result->ram_last : HEADER_GUESS_BYTES;
    store.memory_bytes = at_least_smallest((double)store.objects * each / 0.8);
    /* The least memory of a store may be more than so few objects fill. */
    double fill = 0.8 * (double)store.memory_bytes / each;
    store.objects = (double)store.objects < fill ? (uint64_t)fill : store.objects;
    int rc = gb_micro_store_open(&store, options, count, error);
    rc = rc < 0 ? rc : gb_micro_store_load(&store, 0, store.objects, error);
    if (rc == 0) {
        each = gb_micro_store_object_bytes(&store, &stats);
        result->crowded_share = each * (double)stats.objects / (double)stats.memory_budget_bytes;
        rc = gb_micro_store_overwrite(&store, count, &seconds, error);
        result->crowded_per_s = rc == 0 ? (double)count / seconds : 0;
    }
    gb_micro_store_close(&store);
    return rc;
}

static int micro_get(const struct gb_micro_options *options, struct micro_result *result,
                     struct goblin_error *error)
{
    struct gb_micro_store store = {.objects = scaled(options, get_objects)};
    struct goblin_stats stats;
    struct gb_micro_gets gets = {.count = scaled(options, get_count), .threads = 1, .ahead = 1};
    double one = 0;
    double two = 0;
    double hinted = 0;
    double loaded = 0;
    store.memory_bytes =
        at_least_smallest((double)store.objects * ITEM_GUESS_BYTES * 1.5 + 32.0 * MIB);
    int rc = gb_micro_store_open(&store, options, 0, error);
    rc = rc < 0 ? rc : gb_micro_store_load(&store, 0, store.objects, error);
    rc = rc < 0 ? rc : gb_micro_store_get(&store, &gets, &one, error);
    gets.threads = 2;
    rc = rc < 0 ? rc : gb_micro_store_get(&store, &gets, &two, error);
    gets.threads = 1;
    gets.ahead = GB_MICRO_AHEAD_MAX;
    rc = rc < 0 ? rc : gb_micro_store_get(&store, &gets, &hinted, error);
    gets.ahead = 1;
    gets.load = true;
    rc = rc < 0 ? rc : gb_micro_store_get(&store, &gets, &loaded, error);
    if (rc == 0) {
        goblin_stats(store.goblin, &stats);
        result->get_one_per_s = (double)gets.count / one;
        result->get_two_per_s = (double)(gets.count - gets.count % 2) / two;
        result->get_hinted_per_s = (double)gets.count / hinted;
        result->load_per_s = (double)gets.count / loaded;
        result->get_resident_share =
            stats.gets ? (double)stats.hits_resident / (double)stats.gets : 0;
    }
    gb_micro_store_close(&store);
    return rc;
}

/* Loads step by step: the index is now nearly full, now freshly doubled. Early steps, in which
 * fixed costs still show, are left out. */
static int micro_ram(const struct gb_micro_options *options, struct micro_result *result,
                     struct goblin_error *error)
{
    struct gb_micro_store store = {.objects = scaled(options, ram_objects)};
    struct goblin_stats stats;
    store.memory_bytes = at_least_smallest((double)store.objects * HEADER_GUESS_BYTES * 2);
    int rc = gb_micro_store_open(&store, options, 0, error);
    for (uint64_t i = 0; i < RAM_SAMPLES && rc == 0; i++) {
        rc = gb_micro_store_load(&store, store.objects * i / RAM_SAMPLES,
                                 store.objects * (i + 1) / RAM_SAMPLES, error);
        double each = rc == 0 ? gb_micro_store_object_bytes(&store, &stats) : 0;
        if (i < RAM_SAMPLES / 4 || rc < 0) {
            continue;
        }
        result->ram_worst = each > result->ram_worst ? each : result->ram_worst;
        result->ram_best =
            result->ram_best > 0 && result->ram_best < each ? result->ram_best : each;
        result->ram_last = each;
    }
    gb_micro_store_close(&store);
    return rc;
}

static int micro_open(const struct gb_micro_options *options, struct micro_result *result,
                      struct goblin_error *error)
{
    struct gb_micro_store store = {.objects = scaled(options, open_objects),
                                   .value_bytes = GB_MICRO_LARGE_BYTES,
                                   .memory_bytes = UINT64_C(1024) * MIB};
    int rc = gb_micro_store_open(&store, options, 0, error);
    rc = rc < 0 ? rc : gb_micro_store_load(&store, 0, store.objects, error);
    rc = rc < 0 ? rc : gb_micro_store_reopen(&store, true, &result->open_checkpoint_s, error);
    rc = rc < 0 ? rc : gb_micro_store_reopen(&store, false, &result->open_summaries_s, error);
    gb_micro_store_close(&store);
    return rc;
}

/* ---- the command --------------------------------------------------------------------------- */

static void micro_print(const struct micro_result *result)
{
    printf("%-52s %12s  %s\n", "case", "figure", "");
    printf("%-52s %12.0f  arena / live %.2f, device / user bytes %.2f\n",
           "put of 400 bytes over an existing key, per second", result->put_per_s,
           result->put_arena_ratio, result->put_write_ratio);
    printf("%-52s %12.0f  headers, keys, index %.0f %% of memory\n", "  the same in crowded memory",
           result->crowded_per_s, result->crowded_share * 100);
    printf("%-52s %12.0f  %.1f %% from RAM\n", "get of resident 400 bytes, one thread, per second",
           result->get_one_per_s, result->get_resident_share * 100);
    printf("%-52s %12.0f  %.2f times one\n", "  two threads", result->get_two_per_s,
           result->get_one_per_s > 0 ? result->get_two_per_s / result->get_one_per_s : 0);
    printf("%-52s %12.0f  %.2f times one\n", "  one thread that knows 8 keys ahead and hints",
           result->get_hinted_per_s,
           result->get_one_per_s > 0 ? result->get_hinted_per_s / result->get_one_per_s : 0);
    printf("%-52s %12.0f  %.2f times one\n", "  one thread, into a buffer of its own (goblin_load)",
           result->load_per_s,
           result->get_one_per_s > 0 ? result->load_per_s / result->get_one_per_s : 0);
    printf("%-52s %12.1f  best %.1f, worst %.1f while the index grew\n",
           "RAM an object with a 20-byte key, nothing resident", result->ram_last, result->ram_best,
           result->ram_worst);
    printf("%-52s %12.3f  %.3f without its checkpoint\n",
           "first get after opening 8,000-byte objects, seconds", result->open_checkpoint_s,
           result->open_summaries_s);
}

static int micro_write(const struct gb_micro_options *options, const struct micro_result *result,
                       struct goblin_error *error)
{
    if (!options->out) {
        return 0;
    }
    FILE *file = fopen(options->out, "we");
    if (!file) {
        gb_explain_set(error, "--out %s: %s", options->out, strerror(errno));
        return -errno;
    }
    struct gb_json json;
    gb_json_init(&json, file);
    gb_json_object(&json, NULL);
    gb_json_real(&json, "scale", options->scale);
    gb_json_rounded(&json, "put_per_s", result->put_per_s, 0);
    gb_json_rounded(&json, "put_arena_over_live", result->put_arena_ratio, 3);
    gb_json_rounded(&json, "put_device_over_user_bytes", result->put_write_ratio, 3);
    gb_json_rounded(&json, "put_crowded_per_s", result->crowded_per_s, 0);
    gb_json_rounded(&json, "put_crowded_share", result->crowded_share, 3);
    gb_json_rounded(&json, "get_one_thread_per_s", result->get_one_per_s, 0);
    gb_json_rounded(&json, "get_two_threads_per_s", result->get_two_per_s, 0);
    gb_json_rounded(&json, "get_hinted_per_s", result->get_hinted_per_s, 0);
    gb_json_rounded(&json, "load_one_thread_per_s", result->load_per_s, 0);
    gb_json_rounded(&json, "get_resident_share", result->get_resident_share, 4);
    gb_json_rounded(&json, "ram_per_object_bytes", result->ram_last, 1);
    gb_json_rounded(&json, "ram_per_object_best_bytes", result->ram_best, 1);
    gb_json_rounded(&json, "ram_per_object_worst_bytes", result->ram_worst, 1);
    gb_json_rounded(&json, "open_checkpoint_s", result->open_checkpoint_s, 4);
    gb_json_rounded(&json, "open_summaries_s", result->open_summaries_s, 4);
    gb_json_end(&json);
    int rc = gb_json_finish(&json);
    if (fclose(file) != 0 || rc < 0) {
        gb_explain_set(error, "--out %s: not everything could be written", options->out);
        return -EIO;
    }
    return 0;
}

#define AT(field) offsetof(struct gb_micro_options, field)

static const struct gb_flag micro_flags[] = {
    {.name = "dir",
     .kind = GB_FLAG_TEXT,
     .offset = AT(dir),
     .value = "SCRATCH",
     .help = "where stores are made, one at a time, and removed"},
    {.name = "scale",
     .kind = GB_FLAG_REAL,
     .offset = AT(scale),
     .least = 1e-4,
     .most = 16,
     .value = "X",
     .help = "of objects and operations; default 1: needs 4 GiB of disk, 2 of RAM"},
    {.name = "out",
     .kind = GB_FLAG_TEXT,
     .offset = AT(out),
     .value = "FILE",
     .help = "the figures as JSON"},
    {.name = NULL},
};

static int micro_run(const struct gb_micro_options *options, struct goblin_error *error)
{
    struct micro_result result = {0};
    int rc = micro_ram(options, &result, error);
    rc = rc < 0 ? rc : micro_put(options, &result, error);
    rc = rc < 0 ? rc : micro_crowded(options, &result, error);
    rc = rc < 0 ? rc : micro_get(options, &result, error);
    rc = rc < 0 ? rc : micro_open(options, &result, error);
    if (rc < 0) {
        return rc;
    }
    micro_print(&result);
    return micro_write(options, &result, error);
}

int gb_cmd_micro(int argc, char **argv)
{
    struct gb_micro_options options = {.scale = 1};
    struct goblin_error error = {{0}};
    int rc = gb_flags_parse(micro_flags, &options, argc, argv, &error);
    if (rc == 1) {
        printf("Usage: goblin-bench micro --dir SCRATCH [flags]\n\n"
               "Small calls at full speed: puts of 400 bytes over existing keys with a RAM log of\n"
               "1.5 times its live bytes and with headers filling four fifths of the memory, gets\n"
               "of resident values by one and two threads and with keys known ahead, the RAM an\n"
               "object takes of which nothing is resident, and how long 373,165 objects take to\n"
               "open.\n\nFlags:\n");
        gb_flags_help(micro_flags, stdout);
        return 0;
    }
    if (rc == 0 && !options.dir) {
        gb_explain_set(&error, "--dir is missing: name a directory on a local drive");
        rc = -EINVAL;
    }
    int status = rc < 0 ? 2 : 0;
    if (rc == 0) {
        rc = micro_run(&options, &error);
        status = rc < 0;
    }
    if (rc < 0) {
        fprintf(stderr, "goblin-bench micro: %s\n",
                error.text[0] ? error.text : goblin_strerror(rc));
    }
    return status;
}
