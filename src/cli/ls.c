/* The verb ls: every key of a store. */
#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"
#include "cli/text.h"
#include "cli/verbs.h"

struct ls_settings {
    bool details;
    bool json;
    bool hex;
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
     .help = "keys in hex, as other verbs take them with --hex"},
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
    listing->count++;
    bool enough = listing->settings->limit != 0 && listing->count >= listing->settings->limit;
    return enough || ferror(stdout) != 0 ? STOP : 0;
}

static enum gb_exit run_ls(const struct gb_verb_call *call)
{
    struct listing listing = {.settings = call->settings};
    struct gb_session session;
    enum gb_exit code = gb_session_open(&session, call->operands[0], call->store,
                                        &(struct goblin_options){.read_only = true});
    if (code != GB_EXIT_OK) {
        return code;
    }
    uint64_t cursor = 0;
    int result = goblin_iterate(session.store, &cursor, 0, print_object, &listing);
    if (result < 0) {
        code = gb_session_say(&session, "list", NULL, result);
    }
    return gb_session_close(&session, code);
}

const struct gb_verb gb_verbs_ls = {
    .name = "ls",
    .operands = "DIR",
    .summary = "Lists the keys of a store, in no order",
    .details = "Without --hex and --json, a backslash and bytes that are not printable UTF-8 are\n"
               "shown as \\xNN, so that a line is always one key.",
    .options = ls_options,
    .settings_bytes = sizeof(struct ls_settings),
    .operands_least = 1,
    .operands_most = 1,
    .opens_store = true,
    .run = run_ls,
};
