/* The verb get: an object's bytes, or its metadata, to standard output or a file. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <goblin/reader.h>

#include "cli/progress.h"
#include "cli/sink.h"
#include "cli/text.h"
#include "cli/verbs.h"

struct get_settings {
    const char *output;
    const char *range;
    bool meta;
    bool hex;
};

static const struct gb_option get_options[] = {
    {.name = "output",
     .letter = 'o',
     .kind = GB_OPTION_TEXT,
     .offset = offsetof(struct get_settings, output),
     .value = "FILE",
     .help = "write there; the file appears when it is whole (standard output)"},
    {.name = "range",
     .kind = GB_OPTION_TEXT,
     .offset = offsetof(struct get_settings, range),
     .value = "A-B",
     .help = "bytes A to B, both inclusive; A- to the end; -N the last N"},
    {.name = "meta",
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct get_settings, meta),
     .help = "the metadata instead of the value"},
    {.name = "hex",
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct get_settings, hex),
     .help = "KEY is given in hex"},
    {0},
};

struct transfer {
    const struct get_settings *settings;
    uint64_t first; /* of the range */
    struct gb_sink sink;
    struct gb_progress progress;
    bool started;
    int sink_fault;       /* the negative errno of the receiving side */
    bool is_past_end;     /* the range starts behind the last byte */
    uint64_t value_bytes; /* the object's size, once known */
};

static int start(struct transfer *transfer, const struct goblin_chunk *chunk)
{
    transfer->started = true;
    transfer->value_bytes = chunk->info->size;
    if (!transfer->settings->meta && transfer->first > 0 && transfer->first >= chunk->info->size) {
        transfer->is_past_end = true;
        return GOBLIN_CHUNK_STOP;
    }
    if (transfer->sink.path != NULL) {
        gb_progress_init(&transfer->progress, "get", chunk->info->size - transfer->first);
    }
    transfer->sink_fault = gb_sink_open(&transfer->sink);
    return transfer->sink_fault == 0 ? GOBLIN_CHUNK_DONE : GOBLIN_CHUNK_STOP;
}

static int take_chunk(void *arg, const struct goblin_chunk *chunk)
{
    struct transfer *transfer = arg;
    bool meta = transfer->settings->meta;
    if (!transfer->started && start(transfer, chunk) != GOBLIN_CHUNK_DONE) {
        return GOBLIN_CHUNK_STOP;
    }
    const void *data = meta ? chunk->meta.data : chunk->data;
    size_t len = meta ? chunk->meta.len : chunk->len;
    if (len > 0) {
        transfer->sink_fault = gb_sink_write(&transfer->sink, data, len);
    }
    if (transfer->progress.shown) {
        gb_progress_add(&transfer->progress, len);
    }
    return transfer->sink_fault == 0 ? GOBLIN_CHUNK_DONE : GOBLIN_CHUNK_STOP;
}

/* Turns the asked range into offset and length. Returns as goblin_stat, which only the last N bytes
 * need. */
static int place_request(struct gb_session *session, const struct get_settings *settings,
                         const struct gb_text_range *range, struct goblin_request *request)
{
    if (settings->meta) {
        request->flags = GOBLIN_GET_META;
        request->offset = UINT64_MAX; /* past any end: no value bytes */
        return GOBLIN_OK;
    }
    if (range->suffix) {
        struct goblin_info info;
        int result = goblin_stat(session->store, request->key, &info);
        if (result == GOBLIN_OK) {
            request->offset = info.size > range->last ? info.size - range->last : 0;
        }
        return result;
    }
    request->offset = range->first;
    request->length = range->last == UINT64_MAX ? 0 : range->last - range->first + 1;
    return GOBLIN_OK;
}

static int transfer_object(struct gb_session *session, struct goblin_request *request,
                           struct transfer *transfer)
{
    struct goblin_reader *reader;
    int result = goblin_reader_create(&reader, session->store, NULL);
    if (result < 0) {
        return result;
    }
    request->on_chunk = take_chunk;
    request->arg = transfer;
    result = goblin_get(reader, request);
    goblin_reader_destroy(reader);
    return result;
}

static enum gb_exit conclude(const struct gb_session *session, struct transfer *transfer,
                             const struct goblin_request *request, int result)
{
    char text[GB_TEXT_KEY];
    int fault = transfer->sink_fault;
    if (transfer->progress.shown) {
        gb_progress_clear(&transfer->progress);
    }
    int close_fault = gb_sink_close(&transfer->sink, result == GOBLIN_OK && fault == 0);
    fault = fault != 0 ? fault : close_fault;
    if (fault == -EPIPE) {
        return GB_EXIT_OK; /* the reader of the pipe has seen enough */
    }
    if (fault != 0) {
        return gb_say(GB_EXIT_FAULT, "%s: %s", gb_sink_name(&transfer->sink), strerror(-fault));
    }
    if (result == GOBLIN_MISS) {
        return gb_say(GB_EXIT_MISS, "'%s': no such object",
                      gb_text_format_key(text, request->key, false));
    }
    if (transfer->is_past_end) {
        return gb_say(GB_EXIT_MISS, "'%s': has %" PRIu64 " bytes, the range starts at %" PRIu64,
                      gb_text_format_key(text, request->key, false), transfer->value_bytes,
                      transfer->first);
    }
    if (result < 0) {
        return gb_session_say(session, "get", &request->key, result);
    }
    return GB_EXIT_OK;
}

static enum gb_exit run_get(const struct gb_verb_call *call)
{
    const struct get_settings *settings = call->settings;
    unsigned char storage[GOBLIN_KEY_MAX];
    struct goblin_request request = {0};
    struct gb_text_range range = {.last = UINT64_MAX};
    struct goblin_error error;
    if (settings->meta && settings->range != NULL) {
        return gb_say(GB_EXIT_USAGE, "get: --range is of the value; give it without --meta");
    }
    if (gb_text_parse_key(call->operands[1], settings->hex, storage, &request.key, &error) < 0 ||
        (settings->range != NULL && gb_text_parse_range(settings->range, &range, &error) < 0)) {
        return gb_say(GB_EXIT_USAGE, "get: %s", error.text);
    }
    if (call->remote->server != NULL) {
        return settings->meta
                   ? gb_remote_refuse("get", "meta")
                   : gb_remote_get(call->remote, request.key,
                                   settings->range != NULL ? &range : NULL, settings->output);
    }
    struct gb_session session;
    enum gb_exit code = gb_session_open(&session, call->operands[0], call->store,
                                        &(struct goblin_options){.read_only = true});
    if (code != GB_EXIT_OK) {
        return code;
    }
    struct transfer transfer = {.settings = settings};
    gb_sink_init(&transfer.sink, settings->output);
    int result = place_request(&session, settings, &range, &request);
    if (result == GOBLIN_OK) {
        transfer.first = settings->meta ? 0 : request.offset;
        result = transfer_object(&session, &request, &transfer);
    }
    code = conclude(&session, &transfer, &request, result);
    return gb_session_close(&session, code);
}

const struct gb_verb gb_verbs_get = {
    .name = "get",
    .operands = "DIR KEY",
    .summary = "Writes an object's bytes to standard output or a file",
    .details = "Exit code 1 says that there is no such object, or no byte in the range.",
    .options = get_options,
    .settings_bytes = sizeof(struct get_settings),
    .operands_least = 2,
    .operands_most = 2,
    .opens_store = true,
    .asks_server = true,
    .run = run_get,
};
