/* The verb ls: the keys of a store, or a range of them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <goblin/scan.h>

#include "base/json.h"
#include "cli/text.h"
#include "cli/verbs.h"

struct ls_settings {
    bool details;
    bool json;
    bool hex;
    bool reverse;
    bool unsorted;
    const char *from;
    const char *to;
    const char *prefix;
    uint64_t limit;
};

static const struct gb_option ls_options[] = {
    {.name = "long",
     .letter = 'l',
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct ls_settings, details),
     .help = "size, resident bytes, version, flags and expiry too"},
    {.name = "json",
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct ls_settings, json),
     .help = "a JSON object per line"},
    {.name = "hex",
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct ls_settings, hex),
     .help = "keys in hex, also those given here, as other verbs take them with --hex"},
    {.name = "prefix",
     .kind = GB_OPTION_TEXT,
     .offset = offsetof(struct ls_settings, prefix),
     .value = "KEY",
     .help = "only keys that begin so"},
    {.name = "from",
     .kind = GB_OPTION_TEXT,
     .offset = offsetof(struct ls_settings, from),
     .value = "KEY",
     .help = "only this key and those after it"},
    {.name = "to",
     .kind = GB_OPTION_TEXT,
     .offset = offsetof(struct ls_settings, to),
     .value = "KEY",
     .help = "only keys before this one"},
    {.name = "reverse",
     .letter = 'r',
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct ls_settings, reverse),
     .help = "the last key first"},
    {.name = "unsorted",
     .letter = 'U',
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct ls_settings, unsorted),
     .help = "in no order: at once, and without memory to put the keys in order"},
    {.name = "limit",
     .kind = GB_OPTION_COUNT,
     .offset = offsetof(struct ls_settings, limit),
     .value = "N",
     .least = 1,
     .help = "stop after N objects"},
    {0},
};

struct listing {
    const struct ls_settings *settings;
    struct goblin_range range;
    unsigned char bytes[3][GOBLIN_KEY_MAX]; /* of bounds given in hex */
    uint64_t count;
};

enum { STOP = 100 }; /* an answer no library call has */

static void print_json(struct goblin_slice key, const struct goblin_info *info)
{
    struct gb_json json;
    gb_json_init(&json, stdout);
    json.compact = true;
    gb_text_json_info(&json, key, info);
    (void)gb_json_finish(&json);
}

static int count_one(struct listing *listing)
{
    listing->count++;
    bool enough = listing->settings->limit != 0 && listing->count >= listing->settings->limit;
    return enough || ferror(stdout) != 0 ? STOP : 0;
}

static int print_object(void *arg, struct goblin_slice key, const struct goblin_info *info)
{
    struct listing *listing = arg;
    char text[GB_TEXT_KEY];
    if (listing->settings->json) {
        print_json(key, info);
    } else {
        if (listing->settings->details) {
            char expires[GB_TEXT_TIME];
            (void)printf("%14" PRIu64 " %10" PRIu64 " %8" PRIu64 " %6" PRIu32 " %-24s ", info->size,
                         info->resident, info->version, info->flags,
                         gb_text_format_time(expires, info->expires_ms));
        }
        (void)puts(gb_text_format_key(text, key, listing->settings->hex));
    }
    return count_one(listing);
}

/* Of a server's list, which tells no more that could be shown. */
static int print_key(void *arg, struct goblin_slice key)
{
    struct listing *listing = arg;
    char text[GB_TEXT_KEY];
    (void)puts(gb_text_format_key(text, key, listing->settings->hex));
    return count_one(listing);
}

static enum gb_exit list_server(const struct gb_verb_call *call, struct listing *listing)
{
    const struct ls_settings *settings = listing->settings;
    const char *local = settings->details        ? "long"
                        : settings->json         ? "json"
                        : settings->reverse      ? "reverse"
                        : settings->unsorted     ? "unsorted"
                        : settings->from != NULL ? "from"
                        : settings->to != NULL   ? "to"
                                                 : NULL;
    return local != NULL ? gb_remote_refuse("ls", local)
                         : gb_remote_ls(call->remote, listing->range.prefix, print_key, listing);
}

static int compare(struct goblin_slice a, struct goblin_slice b)
{
    int order = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* What a scan would leave out, of an iteration that visits everything. */
static int print_if_wanted(void *arg, struct goblin_slice key, const struct goblin_info *info)
{
    const struct goblin_range *range = &((const struct listing *)arg)->range;
    bool begins =
        key.len >= range->prefix.len &&
        (range->prefix.len == 0 || memcmp(key.data, range->prefix.data, range->prefix.len) == 0);
    bool wanted = begins && (range->from.len == 0 || compare(key, range->from) >= 0) &&
                  (range->to.len == 0 || compare(key, range->to) < 0);
    return wanted ? print_object(arg, key, info) : 0;
}

static int parse_range(struct listing *listing, struct goblin_error *error)
{
    const struct ls_settings *settings = listing->settings;
    struct goblin_range *range = &listing->range;
    const char *const texts[] = {settings->prefix, settings->from, settings->to};
    struct goblin_slice *const bounds[] = {&range->prefix, &range->from, &range->to};
    int result = GOBLIN_OK;
    for (unsigned i = 0; i < 3 && result == GOBLIN_OK; i++) {
        if (texts[i] != NULL) {
            result =
                gb_text_parse_key(texts[i], settings->hex, listing->bytes[i], bounds[i], error);
        }
    }
    range->reverse = settings->reverse;
    range->limit = settings->limit;
    return result;
}

static enum gb_exit list(struct gb_session *session, struct listing *listing)
{
    int result;
    if (listing->settings->unsorted) {
        uint64_t cursor = 0;
        result = goblin_iterate(session->store, &cursor, 0, print_if_wanted, listing);
    } else {
        result = goblin_scan(session->store, &listing->range, print_object, listing);
    }
    if (result == -ENOMEM && !listing->settings->unsorted) {
        return gb_say(GB_EXIT_FAULT,
                      "%s: the keys do not fit into memory in order; give --memory more, or "
                      "--unsorted",
                      session->name);
    }
    return result < 0 ? gb_session_say(session, "list", NULL, result) : GB_EXIT_OK;
}

static enum gb_exit run_ls(const struct gb_verb_call *call)
{
    struct listing listing = {.settings = call->settings};
    struct goblin_error error = {{0}};
    if (listing.settings->unsorted && listing.settings->reverse) {
        return gb_say(GB_EXIT_USAGE, "ls: --reverse and --unsorted exclude each other");
    }
    if (parse_range(&listing, &error) != GOBLIN_OK) {
        return gb_say(GB_EXIT_USAGE, "ls: %s", error.text);
    }
    if (call->remote->server != NULL) {
        return list_server(call, &listing);
    }
    struct gb_session session;
    enum gb_exit code = gb_session_open(&session, call->operands[0], call->store,
                                        &(struct goblin_options){.read_only = true});
    if (code != GB_EXIT_OK) {
        return code;
    }
    return gb_session_close(&session, list(&session, &listing));
}

const struct gb_verb gb_verbs_ls = {
    .name = "ls",
    .operands = "DIR",
    .summary = "Lists the keys of a store in order, or a range of them",
    .details = "Keys are in the order of their bytes. Without --hex and --json, a backslash and "
               "bytes that are not printable UTF-8 are\n"
               "shown as \\xNN, so that a line is always one key.",
    .options = ls_options,
    .settings_bytes = sizeof(struct ls_settings),
    .operands_least = 1,
    .operands_most = 1,
    .opens_store = true,
    .asks_server = true,
    .run = run_ls,
};
