/* Damage to the headers of segments while nobody has the store open: one of a segment's two, which
 * must change nothing, or both, by which it is lost. Bits are flipped, or blocks unreadable. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "engine/format_headers.h"
#include "sim/simpages.h"
#include "sim/simrun_internal.h"

#define SEGMENTS_MAX 128u

/* Segments with two good headers. */
struct whole {
    struct simrun *run;
    const char *dir;
    char paths[SEGMENTS_MAX][40];
    unsigned count;
};

static bool is_good(struct gb_file *file, uint64_t offset, uint64_t *generation)
{
    unsigned char block[GB_BLOCK];
    struct gb_segment_header header;
    bool good = file->io->ops->file_read(file, block, GB_BLOCK, offset) == GB_BLOCK &&
                gb_segment_header_decode(&header, block) == 0;
    *generation = good ? header.generation : 0;
    return good;
}

static int visit_name(void *arg, const char *name)
{
    struct whole *whole = arg;
    struct gb_io *disk = whole->run->disk;
    char *path = whole->paths[whole->count % SEGMENTS_MAX];
    struct gb_file *file = NULL;
    if (strstr(name, ".seg") == NULL || whole->count == SEGMENTS_MAX) {
        return 0;
    }
    (void)snprintf(path, sizeof(whole->paths[0]), "%s/%s", whole->dir, name);
    if (disk->ops->file_open(disk, path, GB_OPEN_READ_ONLY, &file) < 0) {
        return 0;
    }
    uint64_t first = 0;
    uint64_t second = 0;
    uint64_t at = gb_segment_header_at(whole->run->options.segment_bytes, 1);
    bool both = is_good(file, 0, &first) && is_good(file, at, &second);
    whole->count += both && first == second;
    disk->ops->file_close(file);
    return 0;
}

static void wound(struct simrun *run, const char *path, unsigned copy, bool flip)
{
    struct simwound *wound = &run->headers.wounds[run->headers.count++];
    *wound = (struct simwound){
        .offset = gb_segment_header_at(run->options.segment_bytes, copy),
        .flipped = flip,
    };
    (void)snprintf(wound->path, sizeof(wound->path), "%s", path);
    int rc = 0;
    if (flip) {
        wound->offset += simrun_below(run, 64);
        rc = simdisk_flip(run->disk, path, wound->offset, 0x20);
    } else {
        rc = simdisk_unreadable(run->disk, path, wound->offset, GB_BLOCK);
    }
    simrun_trace(run, "header %u of %s is %s: %d", copy, path, flip ? "flipped" : "unreadable", rc);
    run->result->headers++;
}

static bool any_away(const struct simrun *run)
{
    bool away = false;
    for (unsigned i = 0; i < run->options.dir_count; i++) {
        away |= run->drives[i].away;
    }
    return away;
}

static void draw_both(struct simrun *run, const char *path)
{
    bool store = run->options.mode == GOBLIN_MODE_STORE;
    wound(run, path, 0, simrun_chance(run, 50));
    wound(run, path, 1, simrun_chance(run, 50));
    run->headers.both = true;
    run->options.degraded = !store; /* and so it must be refused */
    run->losing |= !store;
    run->result->segments_lost++;
}

void simheaders_draw(struct simrun *run)
{
    if (!run->opened || run->headers.count > 0 || !simrun_chance(run, 20)) {
        return;
    }
    run->headers.cuts = run->cuts;
    struct whole *whole = sim_alloc(sizeof(*whole));
    *whole = (struct whole){.run = run};
    for (unsigned i = 0; i < run->options.dir_count; i++) {
        if (!run->drives[i].away) {
            whole->dir = run->drives[i].path;
            (void)run->disk->ops->list(run->disk, whole->dir, visit_name, whole);
        }
    }
    uint64_t roll = simrun_below(run, 10);
    unsigned first = whole->count == 0 ? 0 : (unsigned)simrun_below(run, whole->count);
    if (whole->count > 0 && roll < 3 && !any_away(run) && !run->losing) {
        draw_both(run, whole->paths[first]);
    } else {
        unsigned count = (unsigned)gb_min(whole->count, 1 + simrun_below(run, 4));
        for (unsigned i = 0; i < count; i++) {
            wound(run, whole->paths[(first + i) % whole->count], (unsigned)simrun_below(run, 2),
                  simrun_chance(run, 50));
        }
    }
    free(whole);
}

static void forget(struct simrun *run)
{
    run->headers = (struct simheaders){.count = 0};
    run->options.degraded = true;
    simdisk_readable(run->disk);
}

bool simheaders_refused(struct simrun *run, int rc, const char *text)
{
    if (rc != GOBLIN_ESEGMENT || !run->headers.both || run->options.degraded) {
        return false;
    }
    if (strstr(text, run->headers.wounds[0].path) == NULL || strstr(text, "--repair") == NULL ||
        strstr(text, "--degraded") == NULL) {
        return false;
    }
    for (unsigned i = 0; i < run->headers.count; i++) {
        const struct simwound *wound = &run->headers.wounds[i];
        if (wound->flipped) {
            (void)simdisk_flip(run->disk, wound->path, wound->offset, 0x20);
        }
    }
    forget(run);
    return true;
}

bool simheaders_opened(struct simrun *run)
{
    struct goblin_stats stats;
    goblin_stats(run->store, &stats);
    unsigned count = run->headers.both ? 0 : run->headers.count;
    /* Some may have been mended before a power cut, or have gone with their drive. */
    bool certain = run->headers.cuts == run->cuts && !run->losing;
    forget(run);
    return !certain || stats.headers_by_copy == count ||
           simrun_fail(run, "%u headers were damaged, %llu were told by their copies", count,
                       (unsigned long long)stats.headers_by_copy);
}

bool simheaders_explain(const struct simrun *run, const char *line)
{
    return run->headers.count > 0 && strstr(line, "headers can") != NULL;
}
