/* Which drives are there: one may be away for some lives of a store, return as it was when it went,
 * or be replaced by an empty directory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/simrun_internal.h"

void simdrives_init(struct simrun *run, unsigned count)
{
    static const char *const names[] = {"one", "two", "three"};
    for (unsigned i = 0; i < count; i++) {
        struct simdrive *drive = &run->drives[i];
        (void)snprintf(drive->path, sizeof(drive->path), "/%s", names[i]);
        (void)snprintf(drive->nowhere, sizeof(drive->nowhere), "/nowhere/%s", names[i]);
        run->dirs[i] = drive->path;
    }
}

/* Whether a drive other than `i` is there that the store was last open with. The others cannot know
 * what became of the store without them, so they are never left alone. */
static bool others_know(const struct simrun *run, unsigned i)
{
    for (unsigned k = 0; k < run->options.dir_count; k++) {
        if (k != i && !run->drives[k].away && !run->drives[k].behind) {
            return true;
        }
    }
    return false;
}

static void take_away(struct simrun *run, unsigned i)
{
    simrun_trace(run, "drive %u goes", i);
    run->drives[i].away = true;
    run->losing = true;
}

static void bring_back(struct simrun *run, unsigned i)
{
    struct simdrive *drive = &run->drives[i];
    if (simrun_chance(run, 30)) {
        char *end = strrchr(drive->path, '.');
        (void)snprintf(end != NULL ? end : drive->path + strlen(drive->path), 4, ".%u",
                       ++drive->replaced % 10);
        int rc = run->disk->ops->make_dir(run->disk, drive->path);
        rc = rc < 0 ? rc : run->disk->ops->sync_dir(run->disk, "/"); /* or it may go once more */
        drive->behind = true;
        simrun_trace(run, "drive %u is replaced by %s: %d", i, drive->path, rc);
    } else {
        simrun_trace(run, "drive %u is back", i);
    }
    drive->away = false;
    run->losing = true;
}

/* What one drive refused to note, the loss of another may take away: an older value may be all that
 * is left of a key. Two faults at once, that are drawn only if asked for. */
static bool would_be_two_faults(const struct simrun *run, enum simcrash crash)
{
    return run->was_hurt && crash != SIMCRASH_NONE && getenv("GOBLIN_SIM_TWO_FAULTS") == NULL;
}

void simdrives_draw(struct simrun *run, enum simcrash crash)
{
    unsigned count = (unsigned)run->options.dir_count;
    if (count == 1 || !run->opened || run->headers.both || !simrun_chance(run, 40)) {
        return;
    }
    unsigned i = (unsigned)simrun_below(run, count);
    /* A store in store mode serves what is left after a crash, though it may be out of date. */
    bool exact = run->options.mode == GOBLIN_MODE_CACHE || crash == SIMCRASH_NONE;
    if (run->drives[i].away) {
        bring_back(run, i);
    } else if (exact && others_know(run, i) && !would_be_two_faults(run, crash)) {
        take_away(run, i);
    }
    for (i = 0; i < count; i++) {
        run->dirs[i] = run->drives[i].away ? run->drives[i].nowhere : run->drives[i].path;
    }
}

void simdrives_note(struct simrun *run, bool open)
{
    for (unsigned i = 0; i < run->options.dir_count; i++) {
        struct simdrive *drive = &run->drives[i];
        drive->behind = drive->away || (drive->behind && !open);
    }
}

bool simdrives_explain(const char *line)
{
    static const char *const lines[] = {"what lay on it is lost", "emptied and is used again",
                                        "takes the place of drive", "before a drive or segment",
                                        "before the loss of a drive"};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        if (strstr(line, lines[i]) != NULL) {
            return true;
        }
    }
    return false;
}
