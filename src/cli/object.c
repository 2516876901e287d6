/* Verbs about single objects that move no value: rm, touch, stat. */
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "cli/text.h"
#include "cli/verbs.h"

/* What a verb does with one of its keys. Returns as libgoblin: an answer or a fault. */
typedef int (*key_fn)(struct gb_session *session, struct goblin_slice key, const void *settings);

static enum gb_exit check_keys(const struct gb_verb_call *call, const char *verb, bool hex)
{
    unsigned char storage[GOBLIN_KEY_MAX];
    struct goblin_slice key;
    struct goblin_error error;
    for (int i = 1; i < call->operand_count; i++) {
        if (gb_text_parse_key(call->operands[i], hex, storage, &key, &error) < 0) {
            return gb_say(GB_EXIT_USAGE, "%s: %s", verb, error.text);
        }
    }
    return GB_EXIT_OK;
}

/* What a verb has a server do with one of its keys; misses and faults are said. */
typedef enum gb_exit (*ask_fn)(const struct gb_remote_settings *remote, struct goblin_slice key);

static enum gb_exit ask_for_each_key(const struct gb_verb_call *call, const char *verb, bool hex,
                                     ask_fn ask)
{
    unsigned char storage[GOBLIN_KEY_MAX];
    struct goblin_slice key;
    struct goblin_error error;
    enum gb_exit code = check_keys(call, verb, hex);
    for (int i = 1; i < call->operand_count && (code == GB_EXIT_OK || code == GB_EXIT_MISS); i++) {
        (void)gb_text_parse_key(call->operands[i], hex, storage, &key, &error);
        enum gb_exit answer = ask(call->remote, key);
        code = answer != GB_EXIT_OK ? answer : code;
    }
    return code;
}

/* Parses all keys before the first is touched, then does them in turn. A miss is said and does not
 * keep the others from being done. */
static enum gb_exit for_each_key(const struct gb_verb_call *call, const char *verb, bool hex,
                                 bool read_only, key_fn act)
{
    unsigned char storage[GOBLIN_KEY_MAX];
    struct goblin_slice key;
    struct goblin_error error;
    enum gb_exit code = check_keys(call, verb, hex);
    if (code != GB_EXIT_OK) {
        return code;
    }
    struct gb_session session;
    code = gb_session_open(&session, call->operands[0], call->store,
                           &(struct goblin_options){.read_only = read_only});
    if (code != GB_EXIT_OK) {
        return code;
    }
    for (int i = 1; i < call->operand_count && code != GB_EXIT_FAULT; i++) {
        (void)gb_text_parse_key(call->operands[i], hex, storage, &key, &error);
        int result = act(&session, key, call->settings);
        if (result < 0) {
            code = gb_session_say(&session, verb, &key, result);
        } else if (result != GOBLIN_OK) {
            char text[GB_TEXT_KEY];
            code =
                gb_say(GB_EXIT_MISS, "'%s': no such object", gb_text_format_key(text, key, false));
        }
    }
    return gb_session_close(&session, code);
}

/* ---- rm ------------------------------------------------------------------------------------ */

struct rm_settings {
    int durability;
    bool hex;
};

static const struct gb_option rm_options[] = {
    {.name = "durability",
     .kind = GB_OPTION_CHOICE,
     .offset = offsetof(struct rm_settings, durability),
     .value = "none|written|synced",
     .help = "what has to have happened: nothing, write, fdatasync (none)"},
    {.name = "hex",
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct rm_settings, hex),
     .help = "keys are given in hex"},
    {0},
};

static int rm_key(struct gb_session *session, struct goblin_slice key, const void *settings)
{
    const struct rm_settings *rm = settings;
    const struct goblin_put_options options = {
        .durability = (enum goblin_durability)(GOBLIN_DURABILITY_NONE + rm->durability)};
    return goblin_delete(session->store, key, &options);
}

static enum gb_exit run_rm(const struct gb_verb_call *call)
{
    const struct rm_settings *rm = call->settings;
    if (call->remote->server != NULL) {
        return rm->durability != 0 ? gb_remote_refuse("rm", "durability")
                                   : ask_for_each_key(call, "rm", rm->hex, gb_remote_rm);
    }
    return for_each_key(call, "rm", rm->hex, false, rm_key);
}

const struct gb_verb gb_verbs_rm = {
    .name = "rm",
    .operands = "DIR KEY...",
    .summary = "Removes objects",
    .details = "Exit code 1 says that some were not there; the others are removed all the same.",
    .options = rm_options,
    .settings_bytes = sizeof(struct rm_settings),
    .operands_least = 2,
    .operands_most = -1,
    .opens_store = true,
    .asks_server = true,
    .run = run_rm,
};

/* ---- touch --------------------------------------------------------------------------------- */

struct touch_settings {
    int64_t ttl_ms;
    bool forever;
    int durability;
    bool hex;
};

static const struct gb_option touch_options[] = {
    {.name = "ttl",
     .kind = GB_OPTION_DURATION,
     .offset = offsetof(struct touch_settings, ttl_ms),
     .value = "TIME",
     .least = 1,
     .most = INT64_MAX / 2,
     .help = "let them expire after this time, counted from now"},
    {.name = "forever",
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct touch_settings, forever),
     .help = "let them never expire"},
    {.name = "durability",
     .kind = GB_OPTION_CHOICE,
     .offset = offsetof(struct touch_settings, durability),
     .value = "none|written|synced",
     .help = "what has to have happened: nothing, write, fdatasync (none)"},
    {.name = "hex",
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct touch_settings, hex),
     .help = "keys are given in hex"},
    {0},
};

static int touch_key(struct gb_session *session, struct goblin_slice key, const void *settings)
{
    const struct touch_settings *touch = settings;
    return goblin_touch(session->store, key, touch->forever ? 0 : gb_text_now_ms() + touch->ttl_ms,
                        (enum goblin_durability)(GOBLIN_DURABILITY_NONE + touch->durability));
}

static enum gb_exit run_touch(const struct gb_verb_call *call)
{
    const struct touch_settings *touch = call->settings;
    if (touch->forever == (touch->ttl_ms != 0)) {
        return gb_say(GB_EXIT_USAGE, "touch: give one of --ttl TIME and --forever");
    }
    return for_each_key(call, "touch", touch->hex, false, touch_key);
}

const struct gb_verb gb_verbs_touch = {
    .name = "touch",
    .operands = "DIR KEY... --ttl TIME|--forever",
    .summary = "Sets when objects expire",
    .options = touch_options,
    .settings_bytes = sizeof(struct touch_settings),
    .operands_least = 2,
    .operands_most = -1,
    .opens_store = true,
    .run = run_touch,
};

/* ---- stat ---------------------------------------------------------------------------------- */

struct stat_settings {
    bool json;
    bool hex;
};

static const struct gb_option stat_options[] = {
    {.name = "json",
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct stat_settings, json),
     .help = "print a JSON object per key"},
    {.name = "hex",
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct stat_settings, hex),
     .help = "keys are given in hex"},
    {0},
};

static int stat_key(struct gb_session *session, struct goblin_slice key, const void *settings)
{
    const struct stat_settings *stat = settings;
    struct goblin_info info;
    int result = goblin_stat(session->store, key, &info);
    if (result != GOBLIN_OK) {
        return result;
    }
    if (stat->json) {
        struct gb_json json;
        gb_json_init(&json, stdout);
        gb_text_json_info(&json, key, &info);
        (void)gb_json_finish(&json);
        return result;
    }
    char text[GB_TEXT_KEY];
    char expires[GB_TEXT_TIME];
    (void)printf("key       %s\n", gb_text_format_key(text, key, false));
    (void)printf("size      %" PRIu64 "\n", info.size);
    (void)printf("resident  %" PRIu64 "\n", info.resident);
    (void)printf("version   %" PRIu64 "\n", info.version);
    (void)printf("flags     %" PRIu32 "\n", info.flags);
    (void)printf("expires   %s\n", gb_text_format_time(expires, info.expires_ms));
    (void)printf("metadata  %u\n", (unsigned)info.meta_len);
    (void)printf("marks     %u\n", (unsigned)info.marks);
    return result;
}

static enum gb_exit run_stat(const struct gb_verb_call *call)
{
    const struct stat_settings *stat = call->settings;
    if (call->remote->server != NULL) {
        return stat->json ? gb_remote_refuse("stat", "json")
                          : ask_for_each_key(call, "stat", stat->hex, gb_remote_stat);
    }
    return for_each_key(call, "stat", stat->hex, true, stat_key);
}

const struct gb_verb gb_verbs_stat = {
    .name = "stat",
    .operands = "DIR KEY...",
    .summary = "Prints size, version, expiry and flags of objects",
    .options = stat_options,
    .settings_bytes = sizeof(struct stat_settings),
    .operands_least = 2,
    .operands_most = -1,
    .opens_store = true,
    .asks_server = true,
    .run = run_stat,
};
