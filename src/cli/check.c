/*
 * The verb check: goblin_check with its findings in words or as JSON.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <goblin/check.h>

#include "base/json.h"
#include "base/units.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "cli/verbs.h"

struct check_settings {
    uint64_t workers;
    bool repair;
    bool yes;
    bool json;
};

static const struct gb_option check_options[] = {
    {.name = "workers",
     .kind = GB_OPTION_COUNT,
     .offset = offsetof(struct check_settings, workers),
     .value = "N",
     .least = 1,
     .most = 64,
     .help = "objects read at once (4)"},
    {.name = "repair",
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct check_settings, repair),
     .help = "mend what can be mended, remove objects that are bad"},
    {.name = "yes",
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct check_settings, yes),
     .help = "with --repair: empty drives that missed an opening and use them again, use empty "
             "directories in the place of lost drives"},
    {.name = "json",
     .kind = GB_OPTION_FLAG,
     .offset = offsetof(struct check_settings, json),
     .help = "print the findings as a JSON object"},
    {0},
};

struct check {
    const struct check_settings *settings;
    struct gb_progress progress;
    uint64_t shown_bytes; /* that the progress line knows of */
    struct gb_json json;
    bool begun;     /* the JSON document */
    bool repairing; /* its second array */
    char key[GB_TEXT_KEY];
};

static const char *const states[] = {"found", "repaired", "unrepaired"};

static void begin_json(struct check *check, bool repairs)
{
    if (!check->begun) {
        gb_json_init(&check->json, stdout);
        gb_json_object(&check->json, NULL);
        gb_json_array(&check->json, "findings");
        check->begun = true;
    }
    if (repairs && !check->repairing) {
        gb_json_end(&check->json);
        gb_json_array(&check->json, "repairs");
        check->repairing = true;
    }
}

static void print_json(struct check *check, const struct goblin_finding *finding)
{
    begin_json(check, finding->state != GOBLIN_FINDING_FOUND);
    struct gb_json *json = &check->json;
    gb_json_object(json, NULL);
    gb_json_string(json, "part", goblin_part_name(finding->part));
    if (finding->key.data != NULL) {
        gb_text_json_key(json, finding->key);
    }
    gb_json_string(json, "path", finding->path);
    gb_json_unsigned(json, "offset", finding->offset);
    gb_json_string(json, "state", states[finding->state]);
    if (finding->state == GOBLIN_FINDING_FOUND) {
        gb_json_bool(json, "harmless", finding->harmless);
        gb_json_string(json, "what", finding->what);
        gb_json_string(json, "means", finding->means);
        if (finding->remedy != NULL) {
            gb_json_string(json, "repair", finding->remedy);
        }
    } else if (finding->fault < 0) {
        gb_json_string(json, "why", goblin_strerror(finding->fault));
    }
    gb_json_end(json);
}

/* "bad: key" or "damaged: segment header: store/00000003.seg". */
static void print_head(struct check *check, const struct goblin_finding *finding, const char *word)
{
    if (finding->part == GOBLIN_PART_OBJECT) {
        (void)printf("%s: %s", word, gb_text_format_key(check->key, finding->key, false));
    } else {
        (void)printf("%s: %s: %s", word, goblin_part_name(finding->part), finding->path);
    }
}

static void print_text(struct check *check, const struct goblin_finding *finding)
{
    if (finding->state == GOBLIN_FINDING_FOUND) {
        bool object = finding->part == GOBLIN_PART_OBJECT;
        print_head(check, finding, object ? "bad" : finding->harmless ? "harmless" : "damaged");
        (void)printf(": %s\n    at %s, offset %" PRIu64 "\n    it means: %s\n", finding->what,
                     finding->path, finding->offset, finding->means);
        (void)printf("    a repair %s\n",
                     finding->remedy != NULL ? finding->remedy : "can do nothing about it");
    } else if (finding->state == GOBLIN_FINDING_REPAIRED) {
        print_head(check, finding, "repaired");
        (void)putchar('\n');
    } else if (!finding->harmless || finding->fault < 0) {
        print_head(check, finding, "not repaired");
        (void)printf(finding->fault < 0 ? ": %s\n" : "\n", goblin_strerror(finding->fault));
    }
}

static void take_finding(void *arg, const struct goblin_finding *finding)
{
    struct check *check = arg;
    gb_progress_clear(&check->progress);
    if (check->settings->json) {
        print_json(check, finding);
    } else {
        print_text(check, finding);
    }
}

static void take_progress(void *arg, uint64_t done_bytes, uint64_t total_bytes)
{
    struct check *check = arg;
    check->progress.total_bytes = total_bytes;
    gb_progress_add(&check->progress, done_bytes - check->shown_bytes);
    check->shown_bytes = done_bytes;
}

/* ---- in the end ---------------------------------------------------------------------------- */

static void finish_json(struct check *check, const struct goblin_check_result *result,
                        double seconds)
{
    begin_json(check, true);
    struct gb_json *json = &check->json;
    gb_json_end(json);
    gb_json_unsigned(json, "objects", result->objects);
    gb_json_unsigned(json, "bytes", result->bytes);
    gb_json_unsigned(json, "segments", result->segments);
    gb_json_unsigned(json, "segments_unsealed", result->unsealed);
    gb_json_unsigned(json, "damaged", result->damaged);
    gb_json_unsigned(json, "harmless", result->harmless);
    gb_json_unsigned(json, "bad_objects", result->bad_objects);
    gb_json_unsigned(json, "repaired", result->repaired);
    gb_json_unsigned(json, "unrepaired", result->unrepaired);
    gb_json_unsigned(json, "removed", result->removed);
    gb_json_unsigned(json, "expired", result->expired);
    gb_json_unsigned(json, "checksum_errors", result->checksum_errors);
    gb_json_unsigned(json, "read_errors", result->read_errors);
    gb_json_rounded(json, "seconds", seconds, 3);
    gb_json_rounded(json, "mib_s", seconds > 0 ? (double)result->bytes / 1048576 / seconds : 0, 1);
    gb_json_end(json);
    (void)gb_json_finish(json); /* a write error stays with stdout, which is checked at the end */
}

static void finish_text(const struct check *check, const struct goblin_check_result *result,
                        uint64_t elapsed_ns)
{
    double seconds = (double)elapsed_ns / 1e9;
    uint64_t rate = seconds > 0 ? (uint64_t)((double)result->bytes / seconds) : 0;
    char objects[GB_UNITS_TEXT];
    char bytes[GB_UNITS_TEXT];
    char time[GB_UNITS_TEXT];
    char rate_text[GB_UNITS_TEXT];
    (void)printf("read %s objects, %s in %s, %s/s\n",
                 gb_units_format_count(objects, sizeof(objects), result->objects),
                 gb_units_format_size(bytes, sizeof(bytes), result->bytes),
                 gb_units_format_duration(time, sizeof(time), elapsed_ns),
                 gb_units_format_size(rate_text, sizeof(rate_text), rate));
    (void)printf("%" PRIu64 " bad, %" PRIu64 " of them removed; %" PRIu64 " expired; %" PRIu64
                 " checksum errors, %" PRIu64 " read errors\n",
                 result->bad_objects, result->removed, result->expired, result->checksum_errors,
                 result->read_errors);
    if (result->damaged + result->harmless > result->bad_objects) {
        (void)printf("%" PRIu64 " damaged, %" PRIu64 " harmless findings besides; ",
                     result->damaged - result->bad_objects, result->harmless);
        (void)(check->settings->repair ? printf("%" PRIu64 " repaired in all\n", result->repaired)
                                       : printf("--repair mends what can be mended\n"));
    }
}

static enum gb_exit check_store(struct check *check, const struct gb_verb_call *call)
{
    struct gb_session session;
    struct goblin_error error = {{0}};
    struct goblin_options options = {.readd_drives = check->settings->yes};
    int result = gb_session_prepare(&session, call->operands[0], call->store, &options, &error);
    struct goblin_check_result found;
    if (result == GOBLIN_OK) {
        const struct goblin_check_options how = {
            .store = &options,
            .repair = check->settings->repair,
            .reads = (unsigned)check->settings->workers,
            .on_finding = take_finding,
            .on_progress = gb_progress_visible() ? take_progress : NULL,
            .arg = check,
        };
        gb_progress_init(&check->progress, "check", 0);
        result = goblin_check(&how, &found, &error);
        gb_progress_clear(&check->progress);
        gb_session_forget(&session);
    }
    if (result != GOBLIN_OK) {
        return gb_session_say_open(result, &error);
    }
    uint64_t elapsed_ns = gb_progress_now_ns() - check->progress.start_ns;
    if (check->settings->json) {
        finish_json(check, &found, (double)elapsed_ns / 1e9);
    } else {
        finish_text(check, &found, elapsed_ns);
    }
    return found.damaged > 0 ? GB_EXIT_MISS : GB_EXIT_OK;
}

static enum gb_exit run_check(const struct gb_verb_call *call)
{
    const struct check_settings *settings = call->settings;
    if (settings->yes && !settings->repair) {
        return gb_say(GB_EXIT_USAGE, "check: --yes says what --repair may do; give both");
    }
    struct check *check = calloc(1, sizeof(*check));
    if (check == NULL) {
        return gb_say(GB_EXIT_FAULT, "check: %s", strerror(ENOMEM));
    }
    check->settings = settings;
    enum gb_exit code = check_store(check, call);
    free(check);
    return code;
}

const struct gb_verb gb_verbs_check = {
    .name = "check",
    .operands = "DIR",
    .summary = "Reads all of a store, and explains and mends what is damaged",
    .details =
        "Every structure is looked at and every byte of every object read. Exit code 1 says\n"
        "that damage was found, also when --repair has mended it; a second check then finds\n"
        "nothing. Harmless findings, such as what a crash leaves, do not count. Without\n"
        "--repair nothing is written. The store must not be open elsewhere for writing.",
    .options = check_options,
    .settings_bytes = sizeof(struct check_settings),
    .operands_least = 1,
    .operands_most = 1,
    .opens_store = true,
    .run = run_check,
};
