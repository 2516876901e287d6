/*
 * The verb check: reads every byte of every object, so that every checksum is verified.
 *
 * It looks at a store that is open for reading only: nothing is resident then, and all bytes come
 * from the drives. A repair opens the store again afterwards and removes what was found.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <goblin/reader.h>
#include <goblin/stats.h>

#include "base/json.h"
#include "base/units.h"
#include "cli/crew.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "cli/verbs.h"

enum { WORKERS_DEFAULT = 4 };

struct check_settings {
    uint64_t workers;
    bool repair;
    bool json;
};

static const struct gb_option check_options[] = {
    {.name = "workers",
     .kind = GB_OPTION_COUNT,
     .offset = offsetof(struct check_settings, workers),
     .value = "N",
     .least = 1,
     .most = GB_CREW_MAX,
     .help = "objects read at once (4)"},
    {.name = "repair",
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct check_settings, repair),
     .help = "remove the objects that are bad"},
    {.name = "json",
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct check_settings, json),
     .help = "print the findings as a JSON object"},
    {0},
};

struct check {
    const struct check_settings *settings;
    struct gb_session session;
    struct gb_crew crew;
    struct gb_progress progress;
    pthread_mutex_t output_lock; /* over stdout, json and found */
    struct gb_json json;
    struct bad *found; /* the bad objects, the last one first; under output_lock */
    struct goblin_stats stats;
    uint64_t elapsed_ns;
    _Atomic unsigned readers; /* workers that have a reader, or may still get one */
    _Atomic uint64_t objects;
    _Atomic uint64_t bytes;
    _Atomic uint64_t expired;
    _Atomic uint64_t bad;
    uint64_t removed;
    _Atomic bool stopped; /* could not go on; said once */
};

struct bad {
    struct bad *next;
    uint64_t version;
    size_t key_len;
    unsigned char key[];
};

/* One object as the index knows it, and what reading it has given so far. */
struct look {
    struct goblin_info info;
    struct check *check;
    uint64_t next; /* offset of the byte that has to come */
    bool out_of_order;
};

static void stop(struct check *check, const char *doing, int fault)
{
    if (!atomic_exchange(&check->stopped, true)) {
        gb_progress_clear(&check->progress);
        (void)gb_session_say(&check->session, doing, NULL, fault);
    }
    gb_crew_call_off(&check->crew);
}

static void remember_locked(struct check *check, struct goblin_slice key, uint64_t version)
{
    struct bad *bad = malloc(sizeof(*bad) + key.len);
    if (bad == NULL) {
        stop(check, "remember a bad object", -ENOMEM);
        return;
    }
    bad->next = check->found;
    bad->version = version;
    bad->key_len = key.len;
    memcpy(bad->key, key.data, key.len);
    check->found = bad;
}

static void report_bad(const struct look *look, struct goblin_slice key, const char *why)
{
    struct check *check = look->check;
    atomic_fetch_add(&check->bad, 1);
    (void)pthread_mutex_lock(&check->output_lock);
    gb_progress_clear(&check->progress);
    if (check->settings->json) {
        gb_json_object(&check->json, NULL);
        gb_text_json_key(&check->json, key);
        gb_json_string(&check->json, "why", why);
        gb_json_end(&check->json);
    } else {
        char text[GB_TEXT_KEY];
        (void)printf("bad: %s: %s\n", gb_text_format_key(text, key, false), why);
    }
    if (check->settings->repair) {
        remember_locked(check, key, look->info.version);
    }
    (void)pthread_mutex_unlock(&check->output_lock);
}

static int take_chunk(void *arg, const struct goblin_chunk *chunk)
{
    struct look *look = arg;
    look->out_of_order |= chunk->offset != look->next;
    look->next += chunk->len;
    gb_progress_add(&look->check->progress, chunk->len);
    return GOBLIN_CHUNK_DONE;
}

static void check_object(struct check *check, struct goblin_reader *reader, struct look *look,
                         struct goblin_slice key)
{
    struct goblin_request request = {
        .key = key,
        .flags = GOBLIN_GET_META | GOBLIN_GET_QUIET,
        .on_chunk = take_chunk,
        .arg = look,
    };
    look->check = check;
    int result = goblin_get(reader, &request);
    int64_t expires_ms = look->info.expires_ms;
    if (result == GOBLIN_MISS && expires_ms != 0 && expires_ms <= gb_text_now_ms()) {
        atomic_fetch_add(&check->expired, 1);
        return;
    }
    atomic_fetch_add(&check->objects, 1);
    atomic_fetch_add(&check->bytes, look->next);
    if (result == GOBLIN_MISS) {
        report_bad(look, key, "the index knows it, but it could not be read back");
    } else if (result == -ENOMEM) {
        stop(check, "read", result);
    } else if (result < 0) {
        report_bad(look, key, goblin_strerror(result));
    } else if (look->out_of_order || look->next != look->info.size) {
        report_bad(look, key, "reading it gave other bytes than its size says");
    }
}

static void *work(void *arg)
{
    struct check *check = arg;
    struct goblin_reader *reader;
    int result = goblin_reader_create(&reader, check->session.store, NULL);
    if (result < 0) {
        /* Fewer readers do too, as long as there is one. */
        if (atomic_fetch_sub(&check->readers, 1) == 1) {
            stop(check, "read", result);
        }
        return NULL;
    }
    struct gb_crew_job job;
    while (gb_crew_take(&check->crew, &job)) {
        struct look look;
        memcpy(&look, job.bytes, sizeof(look));
        const struct goblin_slice key = {(char *)job.bytes + sizeof(look), job.len - sizeof(look)};
        check_object(check, reader, &look, key);
        free(job.bytes);
    }
    goblin_reader_destroy(reader);
    return NULL;
}

static int give_object(void *arg, struct goblin_slice key, const struct goblin_info *info)
{
    struct check *check = arg;
    struct {
        struct look look;
        unsigned char key[GOBLIN_KEY_MAX];
    } job;
    job.look = (struct look){.info = *info};
    memcpy(job.key, key.data, key.len);
    return gb_crew_give(&check->crew, &job, sizeof(job.look) + key.len);
}

static int add_size(void *arg, struct goblin_slice key, const struct goblin_info *info)
{
    (void)key;
    *(uint64_t *)arg += info->size;
    return 0;
}

static uint64_t total_size(const struct check *check)
{
    uint64_t total = 0;
    uint64_t cursor = 0;
    if (gb_progress_visible() &&
        goblin_iterate(check->session.store, &cursor, 0, add_size, &total) < 0) {
        total = 0;
    }
    return total;
}

static void print_json_summary(struct check *check)
{
    double seconds = (double)check->elapsed_ns / 1e9;
    struct gb_json *json = &check->json;
    gb_json_end(json); /* the array of bad objects */
    gb_json_unsigned(json, "objects", check->objects);
    gb_json_unsigned(json, "bytes", check->bytes);
    gb_json_unsigned(json, "bad_objects", check->bad);
    gb_json_unsigned(json, "removed", check->removed);
    gb_json_unsigned(json, "expired", check->expired);
    gb_json_unsigned(json, "checksum_errors", check->stats.checksum_errors);
    gb_json_unsigned(json, "read_errors", check->stats.read_errors);
    gb_json_rounded(json, "seconds", seconds, 3);
    gb_json_rounded(json, "mib_s", seconds > 0 ? (double)check->bytes / 1048576 / seconds : 0, 1);
    gb_json_end(json);
    (void)gb_json_finish(json);
}

static void print_summary(struct check *check)
{
    if (check->settings->json) {
        print_json_summary(check);
        return;
    }
    double seconds = (double)check->elapsed_ns / 1e9;
    uint64_t rate = seconds > 0 ? (uint64_t)((double)check->bytes / seconds) : 0;
    char objects[GB_UNITS_TEXT];
    char bytes[GB_UNITS_TEXT];
    char time[GB_UNITS_TEXT];
    char rate_text[GB_UNITS_TEXT];
    (void)printf("read %s objects, %s in %s, %s/s\n",
                 gb_units_format_count(objects, sizeof(objects), check->objects),
                 gb_units_format_size(bytes, sizeof(bytes), check->bytes),
                 gb_units_format_duration(time, sizeof(time), check->elapsed_ns),
                 gb_units_format_size(rate_text, sizeof(rate_text), rate));
    (void)printf("%" PRIu64 " bad, %" PRIu64 " of them removed; %" PRIu64 " expired; %" PRIu64
                 " checksum errors, %" PRIu64 " read errors\n",
                 check->bad, check->removed, check->expired, check->stats.checksum_errors,
                 check->stats.read_errors);
}

static enum gb_exit check_all(struct check *check)
{
    const struct check_settings *settings = check->settings;
    unsigned workers = settings->workers != 0 ? (unsigned)settings->workers : WORKERS_DEFAULT;
    atomic_init(&check->readers, workers);
    gb_progress_init(&check->progress, "check", total_size(check));
    int result = gb_crew_start(&check->crew, workers, work, check);
    if (result < 0) {
        return gb_session_say(&check->session, "start workers", NULL, result);
    }
    unsigned refused = workers - check->crew.thread_count;
    if (atomic_fetch_sub(&check->readers, refused) == refused) {
        stop(check, "start readers", -ENOMEM);
    }
    uint64_t cursor = 0;
    result = goblin_iterate(check->session.store, &cursor, 0, give_object, check);
    if (result < 0) {
        stop(check, "list the objects", result);
    }
    gb_crew_finish(&check->crew);
    check->elapsed_ns = gb_progress_now_ns() - check->progress.start_ns;
    gb_progress_clear(&check->progress);
    goblin_stats(check->session.store, &check->stats);
    bool damaged =
        check->bad != 0 || check->stats.checksum_errors != 0 || check->stats.read_errors != 0;
    return check->stopped ? GB_EXIT_FAULT : damaged ? GB_EXIT_MISS : GB_EXIT_OK;
}

/* Removes what was found, unless it has been replaced meanwhile. */
static enum gb_exit repair(struct check *check, const struct gb_verb_call *call, enum gb_exit code)
{
    enum gb_exit opened = gb_session_open(&check->session, call->operands[0], call->store,
                                          &(struct goblin_options){0});
    if (opened != GB_EXIT_OK) {
        return opened;
    }
    for (const struct bad *bad = check->found; bad != NULL; bad = bad->next) {
        const struct goblin_slice key = {bad->key, bad->key_len};
        const struct goblin_put_options options = {
            .condition = GOBLIN_IF_VERSION,
            .if_version = bad->version,
            .durability = GOBLIN_DURABILITY_WRITTEN,
        };
        int result = goblin_delete(check->session.store, key, &options);
        if (result < 0) {
            code = gb_session_say(&check->session, "remove", &key, result);
            break;
        }
        check->removed += result != GOBLIN_CHANGED; /* a miss: opening it found the damage too */
    }
    return gb_session_close(&check->session, code);
}

static enum gb_exit check_and_repair(struct check *check, const struct gb_verb_call *call)
{
    enum gb_exit code = gb_session_open(&check->session, call->operands[0], call->store,
                                        &(struct goblin_options){.read_only = true});
    if (code != GB_EXIT_OK) {
        return code;
    }
    if (check->settings->json) {
        gb_json_init(&check->json, stdout);
        gb_json_object(&check->json, NULL);
        gb_json_array(&check->json, "bad");
    }
    code = gb_session_close(&check->session, check_all(check));
    if (check->found != NULL && code != GB_EXIT_FAULT) {
        code = repair(check, call, code);
    }
    print_summary(check);
    return code;
}

static enum gb_exit run_check(const struct gb_verb_call *call)
{
    struct check *check = calloc(1, sizeof(*check));
    if (check == NULL) {
        return gb_say(GB_EXIT_FAULT, "check: %s", strerror(ENOMEM));
    }
    check->settings = call->settings;
    (void)pthread_mutex_init(&check->output_lock, NULL);
    enum gb_exit code = check_and_repair(check, call);
    (void)pthread_mutex_destroy(&check->output_lock);
    while (check->found != NULL) {
        struct bad *next = check->found->next;
        free(check->found);
        check->found = next;
    }
    free(check);
    return code;
}

const struct gb_verb gb_verbs_check = {
    .name = "check",
    .operands = "DIR",
    .summary = "Reads every byte of a store and reports what is damaged",
    .details =
        "Exit code 1 says that damage was found, also when --repair has removed it. Without\n"
        "--repair nothing is written.",
    .options = check_options,
    .settings_bytes = sizeof(struct check_settings),
    .operands_least = 1,
    .operands_most = 1,
    .opens_store = true,
    .run = run_check,
};
