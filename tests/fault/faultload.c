/*
 * One store, told what to do line by line, and judged against a log kept outside of it:
 *
 *     faultload LOG < commands
 *
 *     open DIR [name=value ...]         create=1 read_only=1 size segment memory lanes mode io
 *                                       caching flush_ms block head heads=1
 *     put FIRST COUNT LEAST MOST HOW    values of LEAST to MOST bytes; HOW: none written synced
 *     stream FIRST COUNT LEAST MOST HOW the same through writers
 *     delete FIRST COUNT HOW
 *     read FIRST COUNT                  every byte held against the log
 *     churn SECONDS KEYS LEAST MOST HOW all of these at random
 *     verify FLOOR                      every key: what was acknowledged at FLOOR must be there
 *     sync | checkpoint | close
 *     stats NAME...
 *     sleep MS
 *
 * Each command answers with one line: its name, then name=value pairs. The store's log goes to
 * standard error. At the end of the input the process ends at once and closes nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <goblin/reader.h>
#include <goblin/stats.h>
#include <goblin/writer.h>

#include "base/bits.h"
#include "base/rng.h"
#include "base/units.h"
#include "fault/faultmodel.h"
#include "lib/pattern.h"

#define WORDS_MAX   16
#define STREAM_STEP ((size_t)100000)

struct tally {
    uint64_t ok;
    uint64_t failed;
    int first_fault;
    uint64_t right;
    uint64_t missing;
    uint64_t stale;
    uint64_t wrong;
    uint64_t slowest_ms;
};

struct load {
    struct fault_model model;
    struct goblin *store;
    struct goblin_reader *reader;
    struct goblin_buffer value;  /* of a put */
    struct goblin_buffer loaded; /* of a read */
    struct gb_rng rng;
};

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void say_line(void *arg, enum goblin_log_level level, const char *line)
{
    static const char *const names[] = {"error", "warn", "info"};
    (void)arg;
    (void)fprintf(stderr, "%s: %s\n", names[level], line);
}

static uint64_t number(const char *text)
{
    uint64_t value = 0;
    if (gb_units_parse_size(text, &value) < 0) {
        (void)fprintf(stderr, "faultload: '%s' is no number\n", text);
        _exit(3);
    }
    return value;
}

static enum fault_level level_of(const char *text)
{
    static const char *const names[] = {"tried", "none", "written", "synced"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(text, names[i]) == 0) {
            return (enum fault_level)i;
        }
    }
    (void)fprintf(stderr, "faultload: '%s' is no durability\n", text);
    _exit(3);
}

static struct goblin_slice key_text(char *text, size_t len, uint64_t key)
{
    int n = snprintf(text, len, "fault/%llu", (unsigned long long)key);
    return (struct goblin_slice){text, (size_t)n};
}

/* ---- opening and closing ------------------------------------------------------------------- */

static int choose(const char *value, const char *const *names)
{
    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(value, names[i]) == 0) {
            return i;
        }
    }
    (void)fprintf(stderr, "faultload: '%s' is no choice\n", value);
    _exit(3);
}

static void set_option(struct goblin_options *options, const char *name, const char *value)
{
    static const char *const ios[] = {"auto", "uring", "sync", NULL};
    static const char *const modes[] = {"cache", "store", NULL};
    static const char *const cachings[] = {"direct", "buffered", NULL};
    if (strcmp(name, "io") == 0) {
        options->io = (enum goblin_io)choose(value, ios);
    } else if (strcmp(name, "mode") == 0) {
        options->mode = (enum goblin_mode)choose(value, modes);
    } else if (strcmp(name, "caching") == 0) {
        options->caching = (enum goblin_caching)choose(value, cachings);
    } else if (strcmp(name, "create") == 0) {
        options->create = number(value) != 0;
    } else if (strcmp(name, "read_only") == 0) {
        options->read_only = number(value) != 0;
    } else if (strcmp(name, "degraded") == 0) {
        options->degraded = number(value) != 0;
    } else if (strcmp(name, "size") == 0) {
        options->size_bytes = number(value);
    } else if (strcmp(name, "segment") == 0) {
        options->segment_bytes = number(value);
    } else if (strcmp(name, "memory") == 0) {
        options->memory_bytes = number(value);
    } else if (strcmp(name, "lanes") == 0) {
        options->lanes = (unsigned)number(value);
    } else if (strcmp(name, "flush_ms") == 0) {
        options->flush_ms = (uint32_t)number(value);
    } else if (strcmp(name, "block") == 0) {
        options->write_block_bytes = (uint32_t)number(value);
    } else if (strcmp(name, "head") == 0) {
        options->head_bytes = (uint32_t)number(value);
    } else if (strcmp(name, "heads") == 0) {
        options->heads_dir = number(value) != 0 ? options->dirs[0] : NULL;
    } else {
        (void)fprintf(stderr, "faultload: '%s' is no option\n", name);
        _exit(3);
    }
}

static void run_open(struct load *load, char **words, int count)
{
    const char *dirs[1] = {words[1]};
    struct goblin_options options = {
        .dirs = dirs,
        .dir_count = 1,
        .memory_bytes = 64 * GB_MIB,
        .checkpoint_s = UINT32_MAX,
        .log = say_line,
    };
    for (int i = 2; i < count; i++) {
        char *value = strchr(words[i], '=');
        if (value != NULL) {
            *value++ = '\0';
            set_option(&options, words[i], value);
        }
    }
    struct goblin_error error = {.text = ""};
    int64_t start = now_ms();
    int rc = goblin_open(&load->store, &options, &error);
    long long took = (long long)(now_ms() - start);
    if (rc == GOBLIN_OK) {
        rc = goblin_reader_create(&load->reader, load->store, NULL);
    }
    (void)printf("open rc=%d ms=%lld text=%s\n", rc, took, error.text);
}

static void run_close(struct load *load)
{
    goblin_reader_destroy(load->reader);
    load->reader = NULL;
    int64_t start = now_ms();
    int rc = goblin_close(load->store);
    load->store = NULL;
    (void)printf("close rc=%d ms=%lld\n", rc, (long long)(now_ms() - start));
}

/* ---- one operation ------------------------------------------------------------------------- */

static int stream(struct load *load, struct goblin_slice key, uint64_t size,
                  const struct goblin_put_options *options)
{
    struct goblin_writer *writer = NULL;
    int rc = goblin_writer_begin(&writer, load->store, key, size, options);
    for (uint64_t at = 0; rc == GOBLIN_OK && at < size; at += STREAM_STEP) {
        rc = goblin_writer_write(writer, load->value.data + at,
                                 (size_t)gb_min(STREAM_STEP, size - at));
    }
    if (rc != GOBLIN_OK) {
        goblin_writer_abort(writer);
        return rc;
    }
    return goblin_writer_commit(writer, NULL);
}

static void count_answer(struct load *load, struct tally *tally, uint64_t key, int rc,
                         enum fault_level level)
{
    if (rc >= 0) {
        tally->ok++;
        fault_model_acknowledge(&load->model, key, level);
    } else {
        tally->failed++;
        tally->first_fault = tally->first_fault == 0 ? rc : tally->first_fault;
    }
}

static void note_time(struct tally *tally, int64_t start)
{
    tally->slowest_ms = gb_max(tally->slowest_ms, (uint64_t)(now_ms() - start));
}

struct how {
    enum fault_level level;
    bool streamed;
};

static void put_one(struct load *load, struct tally *tally, uint64_t key, uint64_t size,
                    struct how how)
{
    char text[32];
    const struct goblin_put_options options = {.durability = (enum goblin_durability)how.level};
    uint64_t seed = fault_model_try(&load->model, key, size);
    gb_pattern_fill(load->value.data, size, seed, 0);
    struct goblin_slice name = key_text(text, sizeof(text), key);
    int64_t start = now_ms();
    int rc = how.streamed
                 ? stream(load, name, size, &options)
                 : goblin_put(load->store, name, (struct goblin_slice){load->value.data, size},
                              &options, NULL);
    note_time(tally, start);
    count_answer(load, tally, key, rc, how.level);
}

static void delete_one(struct load *load, struct tally *tally, uint64_t key, enum fault_level level)
{
    char text[32];
    const struct goblin_put_options options = {.durability = (enum goblin_durability)level};
    (void)fault_model_try(&load->model, key, UINT64_MAX);
    int64_t start = now_ms();
    int rc = goblin_delete(load->store, key_text(text, sizeof(text), key), &options);
    note_time(tally, start);
    count_answer(load, tally, key, rc, level);
}

static void read_one(struct load *load, struct tally *tally, uint64_t key, enum fault_level floor)
{
    char text[32];
    int64_t start = now_ms();
    int rc =
        goblin_load(load->reader, key_text(text, sizeof(text), key), &load->loaded, NULL, NULL);
    note_time(tally, start);
    if (rc < 0) {
        tally->failed++;
        tally->first_fault = tally->first_fault == 0 ? rc : tally->first_fault;
        return;
    }
    uint64_t seed = 0;
    uint64_t size = load->loaded.len;
    if (rc == GOBLIN_OK) {
        seed = size >= sizeof(seed) ? gb_pattern_seed(load->loaded.data) : 0;
        if (seed == 0 || !gb_pattern_holds(load->loaded.data, size, seed, 0)) {
            tally->wrong++;
            return;
        }
        tally->ok++;
    }
    switch (fault_model_judge(&load->model, key, seed, size, floor)) {
    case FAULT_RIGHT:
        tally->right++;
        break;
    case FAULT_MISSING:
        tally->missing++;
        break;
    case FAULT_STALE:
        tally->stale++;
        break;
    case FAULT_WRONG:
        tally->wrong++;
        break;
    }
}

/* ---- many ---------------------------------------------------------------------------------- */

static void print_tally(const char *name, const struct tally *tally)
{
    (void)printf("%s ok=%llu failed=%llu fault=%d right=%llu missing=%llu stale=%llu wrong=%llu "
                 "slowest_ms=%llu\n",
                 name, (unsigned long long)tally->ok, (unsigned long long)tally->failed,
                 tally->first_fault, (unsigned long long)tally->right,
                 (unsigned long long)tally->missing, (unsigned long long)tally->stale,
                 (unsigned long long)tally->wrong, (unsigned long long)tally->slowest_ms);
}

static uint64_t draw_size(struct load *load, uint64_t least, uint64_t most)
{
    uint64_t size = least + gb_rng_below(&load->rng, most - least + 1);
    /* Small ones are as common as large ones. */
    return gb_rng_below(&load->rng, 2) == 0 ? size : least + (size - least) / 64;
}

static void reserve(struct load *load, uint64_t most)
{
    if (load->value.capacity < most) {
        unsigned char *data = realloc(load->value.data, most);
        if (data == NULL) {
            _exit(3);
        }
        load->value.data = data;
        load->value.capacity = most;
    }
}

static void run_put(struct load *load, char **words)
{
    struct tally tally = {0};
    uint64_t first = number(words[1]);
    uint64_t count = number(words[2]);
    uint64_t least = gb_max(8, number(words[3]));
    uint64_t most = gb_max(least, number(words[4]));
    const struct how how = {level_of(words[5]), strcmp(words[0], "stream") == 0};
    reserve(load, most);
    for (uint64_t key = first; key < first + count; key++) {
        put_one(load, &tally, key, draw_size(load, least, most), how);
    }
    print_tally(words[0], &tally);
}

static void run_delete(struct load *load, char **words)
{
    struct tally tally = {0};
    uint64_t first = number(words[1]);
    uint64_t count = number(words[2]);
    for (uint64_t key = first; key < first + count; key++) {
        delete_one(load, &tally, key, level_of(words[3]));
    }
    print_tally(words[0], &tally);
}

static void run_read(struct load *load, char **words)
{
    struct tally tally = {0};
    uint64_t first = number(words[1]);
    uint64_t count = number(words[2]);
    for (uint64_t key = first; key < first + count; key++) {
        read_one(load, &tally, key, FAULT_NONE);
    }
    print_tally(words[0], &tally);
}

static void run_churn(struct load *load, char **words)
{
    struct tally tally = {0};
    int64_t end = now_ms() + (int64_t)number(words[1]) * 1000;
    uint64_t keys = number(words[2]);
    uint64_t least = gb_max(8, number(words[3]));
    uint64_t most = gb_max(least, number(words[4]));
    const struct how plain = {level_of(words[5]), false};
    const struct how streamed = {plain.level, true};
    reserve(load, most);
    while (now_ms() < end) {
        uint64_t key = gb_rng_below(&load->rng, keys);
        switch (gb_rng_below(&load->rng, 8)) {
        case 0:
            delete_one(load, &tally, key, plain.level);
            break;
        case 1:
            put_one(load, &tally, key, draw_size(load, least, most), streamed);
            break;
        case 2:
        case 3:
            put_one(load, &tally, key, draw_size(load, least, most), plain);
            break;
        default:
            read_one(load, &tally, key, FAULT_NONE);
            break;
        }
    }
    print_tally("churn", &tally);
}

struct strangers {
    struct load *load;
    uint64_t count;
};

static int look_for_strangers(void *arg, struct goblin_slice key, const struct goblin_info *info)
{
    struct strangers *strangers = arg;
    char text[64] = "";
    unsigned long long named = 0;
    char rest = 0;
    (void)info;
    (void)memcpy(text, key.data, gb_min(key.len, sizeof(text) - 1));
    if (sscanf(text, "fault/%llu%c", &named, &rest) != 1 || named >= FAULT_KEYS_MAX ||
        strangers->load->model.keys[named].count == 0) {
        strangers->count++;
    }
    return 0;
}

static void run_verify(struct load *load, char **words)
{
    struct tally tally = {0};
    enum fault_level floor = level_of(words[1]);
    for (uint64_t key = 0; key < FAULT_KEYS_MAX; key++) {
        if (load->model.keys[key].count > 0) {
            read_one(load, &tally, key, floor);
        }
    }
    struct strangers strangers = {.load = load};
    uint64_t cursor = 0;
    int rc = goblin_iterate(load->store, &cursor, 0, look_for_strangers, &strangers);
    tally.wrong += strangers.count + (rc < 0);
    print_tally("verify", &tally);
}

static void run_stats(struct load *load, char **words, int count)
{
    struct goblin_stats stats;
    size_t fields = 0;
    const struct goblin_stats_field *field = goblin_stats_fields(&fields);
    goblin_stats(load->store, &stats);
    (void)printf("stats");
    for (int i = 1; i < count; i++) {
        for (size_t f = 0; f < fields; f++) {
            if (strcmp(field[f].name, words[i]) == 0) {
                uint64_t value;
                memcpy(&value, (const char *)&stats + field[f].offset, sizeof(value));
                (void)printf(" %s=%llu", words[i], (unsigned long long)value);
            }
        }
    }
    (void)printf("\n");
}

static void run_sync(struct load *load)
{
    int rc = goblin_sync(load->store);
    if (rc >= 0) {
        fault_model_raise(&load->model, FAULT_SYNCED);
    }
    (void)printf("sync rc=%d\n", rc);
}

/* ---- lines --------------------------------------------------------------------------------- */

static bool run_on_store(struct load *load, char **words, int count)
{
    if (strcmp(words[0], "put") == 0 || strcmp(words[0], "stream") == 0) {
        run_put(load, words);
    } else if (strcmp(words[0], "delete") == 0) {
        run_delete(load, words);
    } else if (strcmp(words[0], "read") == 0) {
        run_read(load, words);
    } else if (strcmp(words[0], "churn") == 0) {
        run_churn(load, words);
    } else if (strcmp(words[0], "verify") == 0) {
        run_verify(load, words);
    } else if (strcmp(words[0], "stats") == 0) {
        run_stats(load, words, count);
    } else if (strcmp(words[0], "sync") == 0) {
        run_sync(load);
    } else if (strcmp(words[0], "checkpoint") == 0) {
        (void)printf("checkpoint rc=%d\n", goblin_checkpoint(load->store));
    } else if (strcmp(words[0], "close") == 0) {
        run_close(load);
    } else {
        return false;
    }
    return true;
}

static bool run_line(struct load *load, char *line)
{
    static const struct {
        const char *name;
        int words;
    } least[] = {{"open", 2},  {"put", 6},   {"stream", 6}, {"delete", 4},
                 {"read", 3},  {"churn", 6}, {"verify", 2}, {"stats", 1},
                 {"sleep", 2}, {"sync", 1},  {"close", 1},  {"checkpoint", 1}};
    char *words[WORDS_MAX];
    int count = 0;
    char *rest = line;
    for (char *word; count < WORDS_MAX && (word = strtok_r(rest, " \n", &rest)) != NULL;) {
        words[count++] = word;
    }
    if (count == 0) {
        return true;
    }
    bool fits = false;
    for (size_t i = 0; i < sizeof(least) / sizeof(least[0]); i++) {
        fits |= strcmp(words[0], least[i].name) == 0 && count >= least[i].words;
    }
    if (!fits) {
        return false;
    }
    if (strcmp(words[0], "open") == 0) {
        run_open(load, words, count);
        return true;
    }
    if (strcmp(words[0], "sleep") == 0) {
        (void)usleep((useconds_t)number(words[1]) * 1000);
        (void)printf("sleep\n");
        return true;
    }
    if (load->store == NULL) {
        (void)printf("%s rc=%d text=no store is open\n", words[0], -ENODEV);
        return true;
    }
    return run_on_store(load, words, count);
}

int main(int argc, char **argv)
{
    struct load load = {0};
    if (argc != 2 || fault_model_open(&load.model, argv[1]) < 0) {
        (void)fprintf(stderr, "usage: faultload LOG < commands\n");
        return 2;
    }
    const char *seed_text = getenv("GOBLIN_SEED");
    uint64_t seed = seed_text != NULL ? number(seed_text) : (uint64_t)time(NULL);
    (void)fprintf(stderr, "GOBLIN_SEED=%llu\n", (unsigned long long)seed);
    gb_rng_init(&load.rng, seed);
    reserve(&load, 1);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    char line[4096];
    while (fgets(line, sizeof(line), stdin) != NULL) {
        if (!run_line(&load, line)) {
            (void)fprintf(stderr, "faultload: no such command: %s", line);
            return 2;
        }
    }
    _exit(0);
}
