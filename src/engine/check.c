/* Checking: the store is opened for reading only and looked at, then, for a repair, opened for
 * writing without background threads, mended and closed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/check_internal.h"
#include "engine/config.h"
#include "engine/drive.h"

/* ---- words --------------------------------------------------------------------------------- */

static const struct {
    enum goblin_part part;
    bool harmless;
    const char *what;
    const char *means;
    const char *remedy;
} troubles[] = {
    [GB_TROUBLE_DRIVE_GONE] = {GOBLIN_PART_DRIVE, false, "the drive is missing",
                               "what lies on it is not found; the rest is whole", NULL},
    [GB_TROUBLE_DRIVE_OUTSIDE] = {GOBLIN_PART_DRIVE, false,
                                  "the drive is missing: it missed an opening, or its directory is "
                                  "empty",
                                  "what lay on it is lost; the rest is whole",
                                  "empties the directory and uses it again, if that is asked for "
                                  "(readd_drives, --yes)"},
    [GB_TROUBLE_STRANGER] = {GOBLIN_PART_FILE, true, "this is not a file of the store", "nothing",
                             NULL},
    [GB_TROUBLE_IDENTITY] = {GOBLIN_PART_IDENTITY, false,
                             "one of the two identity blocks does not verify",
                             "the other one serves; without it the drive would be missing",
                             "writes both anew"},
    [GB_TROUBLE_CHECKPOINT] = {GOBLIN_PART_CHECKPOINT, false, "the checkpoint does not verify",
                               "its copy or the log serves instead", "writes it anew"},
    [GB_TROUBLE_CHECKPOINT_HALF] = {GOBLIN_PART_CHECKPOINT, true,
                                    "a checkpoint that was never finished", "nothing",
                                    "removes it"},
    [GB_TROUBLE_UNREADABLE] = {GOBLIN_PART_FILE, false, "the segment file cannot be read",
                               "objects in it are lost", NULL},
    [GB_TROUBLE_SHORT] = {GOBLIN_PART_FILE, false, "the segment file is shorter than a segment",
                          "records behind its end are lost", "gives it its length again"},
    [GB_TROUBLE_SHORT_FREE] = {GOBLIN_PART_FILE, true,
                               "the file of a free segment is shorter than a segment", "nothing",
                               "gives it its length"},
    [GB_TROUBLE_LONG] = {GOBLIN_PART_FILE, true, "the segment file is longer than a segment",
                         "nothing: what is behind its end was never the store's",
                         "cuts it to its length"},
    [GB_TROUBLE_HEADER] = {GOBLIN_PART_HEADER, false,
                           "one of the two headers of the segment does not verify",
                           "the other one serves; without it the segment would be lost",
                           "writes it anew"},
    [GB_TROUBLE_HEADER_HALF] = {GOBLIN_PART_HEADER, true,
                                "one of the two headers of the segment is empty, as a crash may "
                                "leave it",
                                "nothing: the other one serves", "writes it anew"},
    [GB_TROUBLE_HEADER_FREE] = {GOBLIN_PART_HEADER, true, "a header of a free segment is not empty",
                                "nothing", "wipes it"},
    [GB_TROUBLE_HEADERS] = {GOBLIN_PART_HEADER, false,
                            "neither of the two headers of the segment verifies",
                            "the segment cannot be read: objects in it are lost, and in store mode "
                            "what it replaced or deleted may be back",
                            "frees the segment; what is left becomes the state of the store"},
    [GB_TROUBLE_GONE] = {GOBLIN_PART_FILE, false,
                         "the segment held something when the store was closed, and is empty",
                         "objects in it are lost",
                         "notes the loss; what is left becomes the state of the store"},
    [GB_TROUBLE_FOOTER] = {GOBLIN_PART_SUMMARY, false, "the footer of the segment does not verify",
                           "its records are found by reading all of it, which takes longer",
                           "removes the footer"},
    [GB_TROUBLE_SUMMARY] = {GOBLIN_PART_SUMMARY, false,
                            "the list of the segment's records does not verify",
                            "its records are found by reading all of it, which takes longer",
                            "removes the list"},
    [GB_TROUBLE_RECORD] = {GOBLIN_PART_RECORD, false, "the record's header does not verify",
                           "the list of the segment's records serves; without it the record would "
                           "be lost",
                           "writes it anew from the list"},
    [GB_TROUBLE_OBJECT] = {GOBLIN_PART_OBJECT, false, NULL, "the object is lost",
                           "removes it, so that nothing older of its key comes back"},
};

const char *goblin_part_name(enum goblin_part part)
{
    static const char *const names[] = {
        "drive", "file", "identity", "checkpoint", "segment header", "summary", "record", "object",
    };
    return names[part];
}

static void tell(const struct gb_check *check, const struct gb_case *about,
                 enum goblin_finding_state state, int fault)
{
    const struct goblin_finding finding = {
        .part = troubles[about->trouble].part,
        .state = state,
        .harmless = troubles[about->trouble].harmless,
        .path = about->path,
        .offset = about->offset,
        .key = {about->key_len > 0 ? about->key : NULL, about->key_len},
        .what = about->what,
        .means = troubles[about->trouble].means,
        .remedy = troubles[about->trouble].remedy,
        .fault = fault,
    };
    check->options->on_finding(check->options->arg, &finding);
}

void gb_check_found(struct gb_check *check, const struct gb_case *about, struct goblin_slice key)
{
    struct gb_case *found = malloc(sizeof(*found) + key.len);
    if (found == NULL) {
        check->fault = -ENOMEM;
        return;
    }
    *found = *about;
    found->next = NULL;
    found->what = about->what != NULL ? about->what : troubles[about->trouble].what;
    found->key_len = key.len;
    if (key.len > 0) {
        memcpy(found->key, key.data, key.len);
    }
    *check->last = found;
    check->last = &found->next;
    bool harmless = troubles[found->trouble].harmless;
    check->result->harmless += harmless;
    check->result->damaged += !harmless;
    check->result->bad_objects += found->trouble == GB_TROUBLE_OBJECT;
    tell(check, found, GOBLIN_FINDING_FOUND, 0);
}

void gb_check_dealt(struct gb_check *check, const struct gb_case *about, bool repaired, int fault)
{
    check->result->repaired += repaired;
    check->result->unrepaired += !repaired;
    tell(check, about, repaired ? GOBLIN_FINDING_REPAIRED : GOBLIN_FINDING_UNREPAIRED, fault);
}

/* ---- the order of things ------------------------------------------------------------------- */

static int open_store(struct gb_check *check, const struct goblin_options *options,
                      struct goblin_error *error)
{
    int rc = goblin_options_check(options, error);
    struct gb_io *io = NULL;
    rc = rc < 0 ? rc : gb_drives_choose_io(&io, options, error);
    return rc < 0 ? rc : gb_store_open(&check->store, options, io, error);
}

static int look(struct gb_check *check, struct goblin_error *error)
{
    struct goblin_options options = *check->options->store;
    options.create = false;
    options.read_only = true;
    options.degraded = true;
    options.readd_drives = false;
    options.heads_dir = NULL;
    int rc = open_store(check, &options, error);
    if (rc < 0) {
        return rc;
    }
    gb_check_files(check);
    if (check->fault == 0) {
        gb_check_objects(check);
    }
    struct goblin_stats stats;
    goblin_stats(check->store, &stats);
    check->result->checksum_errors = stats.checksum_errors;
    check->result->read_errors = stats.read_errors;
    rc = goblin_close(check->store);
    rc = check->fault < 0 ? check->fault : rc;
    if (rc < 0) {
        gb_error_set(error, "check: %s", goblin_strerror(rc));
    }
    return rc;
}

static int mend(struct gb_check *check, struct goblin_error *error)
{
    struct goblin_options options = *check->options->store;
    options.create = false;
    options.read_only = false;
    options.degraded = true;
    int rc = open_store(check, &options, error);
    if (rc < 0) {
        gb_error_wrap(error, "repair");
        return rc;
    }
    gb_check_mend(check);
    rc = goblin_close(check->store);
    rc = check->fault < 0 ? check->fault : rc;
    if (rc < 0) {
        gb_error_set(error, "repair: %s", goblin_strerror(rc));
    }
    return rc;
}

int goblin_check(const struct goblin_check_options *options, struct goblin_check_result *result,
                 struct goblin_error *error)
{
    *result = (struct goblin_check_result){0};
    struct gb_check check = {.options = options, .result = result};
    check.last = &check.first;
    int rc = look(&check, error);
    if (rc >= 0 && options->repair && check.first != NULL) {
        rc = mend(&check, error);
    }
    while (check.first != NULL) {
        struct gb_case *next = check.first->next;
        free(check.first);
        check.first = next;
    }
    return rc < 0 ? rc : GOBLIN_OK;
}
