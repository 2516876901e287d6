/* The verb put: a file, or standard input, as one object. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/stream.h"
#include "cli/text.h"
#include "cli/verbs.h"

struct put_settings {
    int64_t ttl_ms;
    uint64_t flags;
    const char *meta;
    bool if_absent;
    bool if_present;
    uint64_t if_version; /* 0: not asked; no version is */
    int durability;      /* words of the option: none, written, synced */
    bool hex;
    bool json;
};

static const struct gb_option put_options[] = {
    {.name = "ttl",
     .kind = GB_OPTION_DURATION,
     .offset = offsetof(struct put_settings, ttl_ms),
     .value = "TIME",
     .least = 1,
     .most = INT64_MAX / 2,
     .help = "let the object expire after this time (never)"},
    {.name = "flags",
     .kind = GB_OPTION_COUNT,
     .offset = offsetof(struct put_settings, flags),
     .value = "N",
     .most = UINT32_MAX,
     .help = "a number kept with the object (0)"},
    {.name = "meta",
     .kind = GB_OPTION_TEXT,
     .offset = offsetof(struct put_settings, meta),
     .value = "TEXT",
     .help = "metadata kept with the object, up to 4096 bytes"},
    {.name = "if-absent",
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct put_settings, if_absent),
     .help = "only if there is no such object"},
    {.name = "if-present",
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct put_settings, if_present),
     .help = "only if there is one"},
    {.name = "if-version",
     .kind = GB_OPTION_COUNT,
     .offset = offsetof(struct put_settings, if_version),
     .value = "N",
     .least = 1,
     .help = "only if its version is N"},
    {.name = "durability",
     .kind = GB_OPTION_CHOICE,
     .offset = offsetof(struct put_settings, durability),
     .value = "none|written|synced",
     .help = "what has to have happened: nothing, write, fdatasync (none)"},
    {.name = "hex",
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct put_settings, hex),
     .help = "KEY is given in hex"},
    {.name = "json",
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct put_settings, json),
     .help = "print answer, version and size as a JSON object"},
    {0},
};

static enum gb_exit check_settings(const struct put_settings *settings)
{
    int conditions = settings->if_absent + settings->if_present + (settings->if_version != 0);
    if (conditions > 1) {
        return gb_say(GB_EXIT_USAGE, "put: give one of --if-absent, --if-present and --if-version");
    }
    if (settings->meta != NULL && strlen(settings->meta) > GOBLIN_META_MAX) {
        return gb_say(GB_EXIT_USAGE, "put: --meta has %zu bytes, at most %u are kept",
                      strlen(settings->meta), GOBLIN_META_MAX);
    }
    return GB_EXIT_OK;
}

static struct goblin_put_options make_options(const struct put_settings *settings)
{
    return (struct goblin_put_options){
        .meta = {settings->meta, settings->meta != NULL ? strlen(settings->meta) : 0},
        .expires_ms = settings->ttl_ms != 0 ? gb_text_now_ms() + settings->ttl_ms : 0,
        .flags = (uint32_t)settings->flags,
        .condition = settings->if_absent         ? GOBLIN_IF_ABSENT
                     : settings->if_present      ? GOBLIN_IF_PRESENT
                     : settings->if_version != 0 ? GOBLIN_IF_VERSION
                                                 : GOBLIN_ALWAYS,
        .if_version = settings->if_version,
        .durability = (enum goblin_durability)(GOBLIN_DURABILITY_NONE + settings->durability),
    };
}

static enum gb_exit report(const struct put_settings *settings, struct goblin_slice key, int answer,
                           uint64_t version, uint64_t size)
{
    static const char *const names[] = {"missing", "stored", "exists", "changed"};
    if (settings->json) {
        struct gb_json json;
        gb_json_init(&json, stdout);
        gb_json_object(&json, NULL);
        gb_text_json_key(&json, key);
        gb_json_string(&json, "answer", names[answer]);
        if (answer != GOBLIN_MISS) {
            gb_json_unsigned(&json, "version", version);
        }
        if (answer == GOBLIN_OK) {
            gb_json_unsigned(&json, "size", size);
        }
        gb_json_end(&json);
        (void)gb_json_finish(&json);
    }
    char text[GB_TEXT_KEY];
    (void)gb_text_format_key(text, key, false);
    switch (answer) {
    case GOBLIN_OK:
        return GB_EXIT_OK;
    case GOBLIN_MISS:
        return gb_say(GB_EXIT_MISS, "'%s': not stored: there is no such object", text);
    case GOBLIN_EXISTS:
        return gb_say(GB_EXIT_MISS, "'%s': not stored: there is one already, version %llu", text,
                      (unsigned long long)version);
    default:
        return gb_say(GB_EXIT_MISS, "'%s': not stored: its version is %llu, not %llu", text,
                      (unsigned long long)version, (unsigned long long)settings->if_version);
    }
}

static enum gb_exit put_to_server(const struct gb_verb_call *call, struct goblin_slice key, int fd,
                                  const char *path)
{
    const struct put_settings *settings = call->settings;
    const char *local = settings->flags != 0        ? "flags"
                        : settings->meta != NULL    ? "meta"
                        : settings->if_version != 0 ? "if-version"
                        : settings->json            ? "json"
                                                    : NULL;
    return local != NULL ? gb_remote_refuse("put", local)
                         : gb_remote_put(call->remote, key,
                                         &(struct gb_remote_put){
                                             .fd = fd,
                                             .path = path,
                                             .ttl_ms = settings->ttl_ms,
                                             .if_absent = settings->if_absent,
                                             .if_present = settings->if_present,
                                             .durability = settings->durability,
                                         });
}

/* The source is open, the key parsed. */
static enum gb_exit put_source(const struct gb_verb_call *call, struct goblin_slice key, int fd,
                               const char *path)
{
    const struct put_settings *settings = call->settings;
    if (call->remote->server != NULL) {
        return put_to_server(call, key, fd, path);
    }
    struct gb_session session;
    enum gb_exit code =
        gb_session_open(&session, call->operands[0], call->store, &(struct goblin_options){0});
    if (code != GB_EXIT_OK) {
        return code;
    }
    struct gb_progress progress;
    struct gb_stream_source source = {
        .fd = fd,
        .size = gb_stream_size(fd),
        .buffer = malloc(GB_STREAM_BUFFER),
        .progress = &progress,
    };
    gb_progress_init(&progress, "put", source.size != GOBLIN_SIZE_UNKNOWN ? source.size : 0);
    const struct goblin_put_options options = make_options(settings);
    uint64_t version = 0;
    int result = -ENOMEM;
    if (source.buffer != NULL) {
        result = gb_stream_put(session.store, key, &source, &options, &version);
    }
    gb_progress_clear(&progress);
    if (source.source_fault != 0) {
        code = gb_say(GB_EXIT_FAULT, "%s: %s", path, strerror(-source.source_fault));
    } else if (result < 0) {
        code = gb_session_say(&session, "put", &key, result);
    } else {
        code = report(settings, key, result, version, source.bytes);
    }
    free(source.buffer);
    return gb_session_close(&session, code);
}

static enum gb_exit run_put(const struct gb_verb_call *call)
{
    const struct put_settings *settings = call->settings;
    const char *path = call->operands[2];
    unsigned char storage[GOBLIN_KEY_MAX];
    struct goblin_slice key;
    struct goblin_error error;
    enum gb_exit code = check_settings(settings);
    if (code != GB_EXIT_OK) {
        return code;
    }
    if (gb_text_parse_key(call->operands[1], settings->hex, storage, &key, &error) < 0) {
        return gb_say(GB_EXIT_USAGE, "put: %s", error.text);
    }
    if (strcmp(path, "-") == 0) {
        return put_source(call, key, STDIN_FILENO, "standard input");
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return gb_say(GB_EXIT_FAULT, "%s: %s", path, strerror(errno));
    }
    code = put_source(call, key, fd, path);
    (void)close(fd);
    return code;
}

const struct gb_verb gb_verbs_put = {
    .name = "put",
    .operands = "DIR KEY FILE|-",
    .summary = "Stores a file, or standard input, as one object",
    .details =
        "The object becomes visible when all of it has been read, never in part. Exit code 1\n"
        "says that a condition did not hold.",
    .options = put_options,
    .settings_bytes = sizeof(struct put_settings),
    .operands_least = 3,
    .operands_most = 3,
    .opens_store = true,
    .asks_server = true,
    .run = run_put,
};
