/* The command line of `goblin-bench churn`. */
#include "bench/churn.h"

#include "bench/explain.h"
#include "bench/flags.h"

#include <errno.h>
#include <string.h>

static int take_engines(void *target, const char *text, struct goblin_error *error)
{
    struct gb_churn_options *options = target;
    options->engine_count = 0;
    int rc = gb_engine_list(options->engines, &options->engine_count, text, error);
    for (size_t i = 0; i < options->engine_count && rc == 0; i++) {
        if (!options->engines[i]->keeps_bytes) {
            gb_explain_set(error, "\"%s\" keeps no values that could be overwritten",
                           options->engines[i]->name);
            rc = -EINVAL;
        }
    }
    return rc;
}

#define AT(field) offsetof(struct gb_churn_options, field)

static const struct gb_flag churn_flags[] = {
    {.name = "dir",
     .kind = GB_FLAG_TEXT,
     .offset = AT(dir),
     .value = "SCRATCH",
     .help = "where the engines store; a directory is made in it and removed afterwards"},
    {.name = "out",
     .kind = GB_FLAG_TEXT,
     .offset = AT(out),
     .value = "RESULTS",
     .help = "where churn.json, churn.md and the plots go"},
    {.name = "engines",
     .kind = GB_FLAG_CUSTOM,
     .value = "A,B,...",
     .take = take_engines,
     .help = "which ones of the study's; default goblin,rocksdb,rocksdb-blob"},
    {.name = "size",
     .kind = GB_FLAG_SIZE,
     .offset = AT(size_bytes),
     .least = 16 << 20,
     .most = 1e15,
     .value = "SIZE",
     .help = "of the store; default 4G. RocksDB knows no bound and takes more"},
    {.name = "fill",
     .kind = GB_FLAG_REAL,
     .offset = AT(fill),
     .least = 0.05,
     .most = 0.97,
     .value = "SHARE",
     .help = "of it that live objects take; default 0.9"},
    {.name = "least",
     .kind = GB_FLAG_SIZE,
     .offset = AT(least_bytes),
     .least = 64,
     .most = 64 << 20,
     .value = "SIZE",
     .help = "of an object; default 1K"},
    {.name = "most",
     .kind = GB_FLAG_SIZE,
     .offset = AT(most_bytes),
     .least = 64,
     .most = 64 << 20,
     .value = "SIZE",
     .help = "of an object, the logarithm being drawn evenly; default 256K"},
    {.name = "memory",
     .kind = GB_FLAG_SIZE,
     .offset = AT(memory_bytes),
     .least = 8 << 20,
     .most = 1e15,
     .value = "SIZE",
     .help = "for each engine; default 256M"},
    {.name = "write-rate",
     .kind = GB_FLAG_SIZE,
     .offset = AT(write_rate),
     .value = "SIZE",
     .help = "overwritten every second; default 20M, 0: flat out"},
    {.name = "read-rate",
     .kind = GB_FLAG_COUNT,
     .offset = AT(read_rate),
     .value = "N",
     .help = "reads every second; default 500, 0: one after the other"},
    {.name = "duration",
     .kind = GB_FLAG_COUNT,
     .offset = AT(duration_s),
     .least = 1,
     .most = GB_CHURN_SECONDS_MAX,
     .value = "SECONDS",
     .help = "of overwriting, all rounds together; default 60"},
    {.name = "idle",
     .kind = GB_FLAG_COUNT,
     .offset = AT(idle_s),
     .least = 1,
     .most = GB_CHURN_SECONDS_MAX,
     .value = "SECONDS",
     .help = "of reading alone before, and again after; default 10"},
    {.name = "rounds",
     .kind = GB_FLAG_COUNT,
     .offset = AT(rounds),
     .least = 1,
     .most = 100,
     .value = "N",
     .help = "in which the engines take turns; default 2"},
    {.name = "age",
     .kind = GB_FLAG_REAL,
     .offset = AT(age),
     .least = 0,
     .most = 100,
     .value = "X",
     .help = "of all live bytes, overwritten flat out before the first round; default 0.5"},
    {.name = "seed",
     .kind = GB_FLAG_COUNT,
     .offset = AT(seed),
     .value = "N",
     .help = "of objects, values and choices; default 1"},
    {.name = "cache",
     .kind = GB_FLAG_SWITCH,
     .offset = AT(evicts),
     .help = "let goblin evict when it is full, and count misses, instead of keeping all"},
    {.name = "rocksdb-lib",
     .kind = GB_FLAG_TEXT,
     .offset = AT(rocksdb_lib),
     .value = "PATH",
     .help = "the RocksDB to load; default librocksdb.so.7.8, then librocksdb.so"},
    {.name = "keep",
     .kind = GB_FLAG_SWITCH,
     .offset = AT(keep),
     .help = "leave the scratch directory behind"},
    {.name = NULL},
};

static void churn_help(void)
{
    printf(
        "Usage: goblin-bench churn --dir SCRATCH --out RESULTS [flags]\n\n"
        "Fills a store with live objects and measures a reader of random ones alone, beside\n"
        "steady overwrites of random ones, and right after them; each engine in its own process\n"
        "with the same memory budget, taking turns. A read's time ends with its last byte, and\n"
        "begins when it was due if the one before was late. Bytes and versions are compared,\n"
        "and in the end every object's. Bytes written are counted by the engine, by the kernel\n"
        "for its process and by the block device, from the first overwrite until nothing more\n"
        "is written; files are measured from outside beside what the engine says it uses.\n\n"
        "Flags:\n");
    gb_flags_help(churn_flags, stdout);
    printf("\nExit codes: 0 done, 1 failed or bytes were wrong, 2 usage.\n");
}

static int churn_check(const struct gb_churn_options *options, struct goblin_error *error)
{
    const char *text = NULL;
    if (!options->dir) {
        text = "--dir is missing: name a directory on the drive to measure";
    } else if (!options->out) {
        text = "--out is missing: name a directory for the results";
    } else if (options->least_bytes > options->most_bytes) {
        text = "--least is more than --most";
    } else if (options->duration_s < options->rounds || options->idle_s < options->rounds) {
        text = "every round needs a whole second of --duration and of --idle: give fewer --rounds";
    } else if (options->duration_s + 2 * options->idle_s > GB_CHURN_SECONDS_MAX) {
        text = "--duration and twice --idle come to more than an hour";
    }
    if (text) {
        gb_explain_set(error, "%s", text);
    }
    return text ? -EINVAL : 0;
}

int gb_churn_options_parse(struct gb_churn_options *options, int argc, char **argv,
                           struct goblin_error *error)
{
    *options = (struct gb_churn_options){
        .size_bytes = UINT64_C(4) << 30,
        .fill = 0.9,
        .least_bytes = 1 << 10,
        .most_bytes = 256 << 10,
        .memory_bytes = 256 << 20,
        .write_rate = 20 << 20,
        .read_rate = 500,
        .duration_s = 60,
        .idle_s = 10,
        .rounds = 2,
        .age = 0.5,
        .seed = 1,
    };
    gb_flags_command(options->command, sizeof(options->command), argc, argv);
    int rc = take_engines(options, "goblin,rocksdb,rocksdb-blob", error);
    rc = rc < 0 ? rc : gb_flags_parse(churn_flags, options, argc, argv, error);
    if (rc == 1) {
        churn_help();
        return 1;
    }
    return rc < 0 ? rc : churn_check(options, error);
}
