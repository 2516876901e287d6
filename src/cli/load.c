/* The verb load: every file below a directory as an object, by several workers. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/units.h"
#include "cli/crew.h"
#include "cli/stream.h"
#include "cli/text.h"
#include "cli/verbs.h"
#include "cli/walk.h"

enum { WORKERS_DEFAULT = 4, COMPLAINTS_MAX = 20 };

struct load_settings {
    uint64_t workers;
    const char *prefix;
    int64_t ttl_ms;
    bool if_absent;
    bool json;
};

static const struct gb_option load_options[] = {
    {.name = "workers",
     .kind = GB_OPTION_COUNT,
     .offset = offsetof(struct load_settings, workers),
     .value = "N",
     .least = 1,
     .most = GB_CREW_MAX,
     .help = "files read at once (4)"},
    {.name = "prefix",
     .kind = GB_OPTION_TEXT,
     .offset = offsetof(struct load_settings, prefix),
     .value = "TEXT",
     .help = "put in front of every key"},
    {.name = "ttl",
     .kind = GB_OPTION_DURATION,
     .offset = offsetof(struct load_settings, ttl_ms),
     .value = "TIME",
     .least = 1,
     .most = INT64_MAX / 2,
     .help = "let the objects expire after this time (never)"},
    {.name = "if-absent",
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct load_settings, if_absent),
     .help = "leave objects that are there already as they are"},
    {.name = "json",
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct load_settings, json),
     .help = "print the summary as a JSON object"},
    {0},
};

struct load {
    const struct load_settings *settings;
    const char *source;
    struct gb_session session;
    struct goblin_put_options options;
    struct gb_crew crew;
    struct gb_progress progress;
    uint64_t skipped; /* not regular files; the foreman's */
    _Atomic uint64_t objects;
    _Atomic uint64_t bytes;
    _Atomic uint64_t present; /* left as they were */
    _Atomic uint64_t failed;
    _Atomic bool stopped; /* the store itself failed; said once */
};

/* One line per file that could not be loaded, until there have been enough. */
static void complain(struct load *load, const char *path, const char *why)
{
    uint64_t before = atomic_fetch_add(&load->failed, 1);
    if (before < COMPLAINTS_MAX) {
        gb_progress_clear(&load->progress);
        (void)gb_say(GB_EXIT_FAULT, "%s: %s", path, why);
    } else if (before == COMPLAINTS_MAX) {
        gb_progress_clear(&load->progress);
        (void)gb_say(GB_EXIT_FAULT, "more files could not be loaded; the summary counts them");
    }
}

/* Faults that one file has to answer for; all others end the whole load. */
static bool is_about_the_file(int fault)
{
    return fault == GOBLIN_EKEY || fault == GOBLIN_ETOOBIG || fault == GOBLIN_ESIZE;
}

static void stop(struct load *load, const char *doing, const struct goblin_slice *key, int fault)
{
    if (!atomic_exchange(&load->stopped, true)) {
        gb_progress_clear(&load->progress);
        (void)gb_session_say(&load->session, doing, key, fault);
    }
    gb_crew_call_off(&load->crew);
}

static void load_file(struct load *load, const char *relative, unsigned char *buffer)
{
    char *path = NULL;
    char *key_text = NULL;
    const char *prefix = load->settings->prefix != NULL ? load->settings->prefix : "";
    if (asprintf(&path, "%s/%s", load->source, relative) < 0) {
        path = NULL;
    }
    int key_len = asprintf(&key_text, "%s%s", prefix, relative);
    if (path == NULL || key_len < 0) {
        key_text = key_len < 0 ? NULL : key_text;
        complain(load, relative, strerror(ENOMEM));
        goto free_texts;
    }
    const struct goblin_slice key = {key_text, (size_t)key_len};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        complain(load, path, strerror(errno));
        goto free_texts;
    }
    struct gb_stream_source source = {
        .fd = fd, .size = gb_stream_size(fd), .progress = &load->progress};
    source.buffer = buffer;
    int result = gb_stream_put(load->session.store, key, &source, &load->options, NULL);
    (void)close(fd);
    if (source.source_fault != 0) {
        complain(load, path, strerror(-source.source_fault));
    } else if (is_about_the_file(result)) {
        complain(load, path, goblin_strerror(result));
    } else if (result < 0) {
        stop(load, "put", &key, result);
    } else if (result == GOBLIN_EXISTS) {
        atomic_fetch_add(&load->present, 1);
    } else {
        atomic_fetch_add(&load->objects, 1);
        atomic_fetch_add(&load->bytes, source.bytes);
    }

free_texts:
    free(key_text);
    free(path);
}

static void *work(void *arg)
{
    struct load *load = arg;
    unsigned char *buffer = malloc(GB_STREAM_BUFFER);
    if (buffer == NULL) {
        stop(load, "start a worker", NULL, -ENOMEM);
        return NULL;
    }
    struct gb_crew_job job;
    while (gb_crew_take(&load->crew, &job)) {
        load_file(load, job.bytes, buffer);
        free(job.bytes);
    }
    free(buffer);
    return NULL;
}

static int give_file(void *arg, const struct gb_walk_file *file)
{
    struct load *load = arg;
    if (file->fault != 0) {
        complain(load, file->path, strerror(file->fault));
        return 0;
    }
    return gb_crew_give(&load->crew, file->relative, strlen(file->relative) + 1);
}

static int add_size(void *arg, const struct gb_walk_file *file)
{
    *(uint64_t *)arg += file->size;
    return 0;
}

/* What the progress bar counts towards; not worth a walk when nobody looks. */
static uint64_t total_size(struct load *load)
{
    uint64_t total = 0;
    uint64_t skipped;
    if (gb_progress_visible()) {
        (void)gb_walk_run(load->source, load->session.dirs, load->session.dir_count, add_size,
                          &total, &skipped);
    }
    return total;
}

static void print_summary(const struct load *load, uint64_t elapsed_ns)
{
    double seconds = (double)elapsed_ns / 1e9;
    double rate = seconds > 0 ? (double)load->bytes / seconds : 0;
    if (load->settings->json) {
        struct gb_json json;
        gb_json_init(&json, stdout);
        gb_json_object(&json, NULL);
        gb_json_unsigned(&json, "objects", load->objects);
        gb_json_unsigned(&json, "bytes", load->bytes);
        gb_json_unsigned(&json, "present", load->present);
        gb_json_unsigned(&json, "skipped", load->skipped);
        gb_json_unsigned(&json, "failed", load->failed);
        gb_json_rounded(&json, "seconds", seconds, 3);
        gb_json_rounded(&json, "mib_s", rate / 1048576, 1);
        gb_json_end(&json);
        (void)gb_json_finish(&json);
        return;
    }
    char objects[GB_UNITS_TEXT];
    char bytes[GB_UNITS_TEXT];
    char time[GB_UNITS_TEXT];
    char rate_text[GB_UNITS_TEXT];
    (void)printf("loaded %s objects, %s in %s, %s/s",
                 gb_units_format_count(objects, sizeof(objects), load->objects),
                 gb_units_format_size(bytes, sizeof(bytes), load->bytes),
                 gb_units_format_duration(time, sizeof(time), elapsed_ns),
                 gb_units_format_size(rate_text, sizeof(rate_text), (uint64_t)rate));
    (void)printf("; %" PRIu64 " were there, %" PRIu64 " are no regular files, %" PRIu64 " failed\n",
                 load->present, load->skipped, load->failed);
}

/* Walks, waits for the workers and makes it last. */
static enum gb_exit load_all(struct load *load)
{
    const struct load_settings *settings = load->settings;
    unsigned workers = settings->workers != 0 ? (unsigned)settings->workers : WORKERS_DEFAULT;
    gb_progress_init(&load->progress, "load", total_size(load));
    int result = gb_crew_start(&load->crew, workers, work, load);
    if (result < 0) {
        return gb_session_say(&load->session, "start workers", NULL, result);
    }
    result = gb_walk_run(load->source, load->session.dirs, load->session.dir_count, give_file, load,
                         &load->skipped);
    gb_crew_finish(&load->crew);
    int synced = load->stopped ? GOBLIN_OK : goblin_sync(load->session.store);
    uint64_t elapsed_ns = gb_progress_now_ns() - load->progress.start_ns;
    gb_progress_clear(&load->progress);
    enum gb_exit code = load->stopped || load->failed != 0 ? GB_EXIT_FAULT : GB_EXIT_OK;
    if (result < 0) {
        code = gb_say(GB_EXIT_FAULT, "%s: %s", load->source, strerror(-result));
    }
    if (synced < 0) {
        code = gb_session_say(&load->session, "sync", NULL, synced);
    }
    print_summary(load, elapsed_ns);
    return code;
}

static enum gb_exit run_load(const struct gb_verb_call *call)
{
    const struct load_settings *settings = call->settings;
    struct load *load = calloc(1, sizeof(*load));
    if (load == NULL) {
        return gb_say(GB_EXIT_FAULT, "load: %s", strerror(ENOMEM));
    }
    load->settings = settings;
    load->source = call->operands[1];
    load->options = (struct goblin_put_options){
        .expires_ms = settings->ttl_ms != 0 ? gb_text_now_ms() + settings->ttl_ms : 0,
        .condition = settings->if_absent ? GOBLIN_IF_ABSENT : GOBLIN_ALWAYS,
    };
    enum gb_exit code = gb_session_open(&load->session, call->operands[0], call->store,
                                        &(struct goblin_options){0});
    if (code == GB_EXIT_OK) {
        code = gb_session_close(&load->session, load_all(load));
    }
    free(load);
    return code;
}

const struct gb_verb gb_verbs_load = {
    .name = "load",
    .operands = "DIR SRC",
    .summary = "Stores every regular file below a directory",
    .details =
        "A file's key is its path below SRC. Symbolic links and special files are passed over.\n"
        "What was loaded is synced at the end; exit code 3 says that some files failed.",
    .options = load_options,
    .settings_bytes = sizeof(struct load_settings),
    .operands_least = 2,
    .operands_most = 2,
    .opens_store = true,
    .run = run_load,
};
