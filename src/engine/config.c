/* Options: the validator that explains, and the defaults. */
#include "engine/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/bits.h"
#include "engine/lane.h"

#define MEMORY_LEAST   (8 * GB_MIB)
#define SEGMENTS_LEAST 8u
#define BUDGET_MOST    (UINT64_C(1) << 45)

void gb_error_set(struct goblin_error *error, const char *format, ...)
{
    if (error == NULL) {
        return;
    }
    va_list args;
    va_start(args, format);
    (void)vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
}

void gb_error_wrap(struct goblin_error *error, const char *format, ...)
{
    if (error == NULL) {
        return;
    }
    char inner[sizeof(error->text)];
    memcpy(inner, error->text, sizeof(inner));
    va_list args;
    va_start(args, format);
    int n = vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
    if (n > 0 && (size_t)n < sizeof(error->text) && inner[0] != '\0') {
        size_t room = sizeof(error->text) - (size_t)n;
        (void)snprintf(error->text + n, room, ": %.*s", (int)room, inner);
    }
}

void goblin_options_init(struct goblin_options *options)
{
    *options = (struct goblin_options)GOBLIN_OPTIONS_INIT;
}

/* One row of the validator: a value that is 0 (default) or must lie in [least, most]. */
struct range {
    const char *name;
    uint64_t value;
    uint64_t least;
    uint64_t most;
    uint64_t multiple; /* of this; 0: a power of two; 1: anything */
};

static int check_range(const struct range *range, struct goblin_error *error)
{
    if (range->value == 0) {
        return GOBLIN_OK;
    }
    if (range->value < range->least || range->value > range->most) {
        gb_error_set(error, "%s is %llu: it must be between %llu and %llu, or 0 for the default",
                     range->name, (unsigned long long)range->value,
                     (unsigned long long)range->least, (unsigned long long)range->most);
        return GOBLIN_EOPTION;
    }
    if (range->multiple == 0 && !gb_is_power_of_two(range->value)) {
        gb_error_set(error, "%s is %llu: it must be a power of two", range->name,
                     (unsigned long long)range->value);
        return GOBLIN_EOPTION;
    }
    if (range->multiple > 1 && range->value % range->multiple != 0) {
        gb_error_set(error, "%s is %llu: it must be a multiple of %llu", range->name,
                     (unsigned long long)range->value, (unsigned long long)range->multiple);
        return GOBLIN_EOPTION;
    }
    return GOBLIN_OK;
}

static int check_enums(const struct goblin_options *options, struct goblin_error *error)
{
    const struct {
        const char *name;
        unsigned value;
        unsigned most;
    } enums[] = {
        {"mode", (unsigned)options->mode, GOBLIN_MODE_STORE},
        {"residency", (unsigned)options->residency, GOBLIN_RESIDENCY_FIXED},
        {"durability", (unsigned)options->durability, GOBLIN_DURABILITY_SYNCED},
        {"admit", (unsigned)options->admit, GOBLIN_ADMIT_SECOND},
        {"io", (unsigned)options->io, GOBLIN_IO_SYNC},
        {"caching", (unsigned)options->caching, GOBLIN_CACHING_BUFFERED},
        {"ordered", (unsigned)options->ordered, GOBLIN_ORDERED_OFF},
    };
    for (size_t i = 0; i < sizeof(enums) / sizeof(enums[0]); i++) {
        if (enums[i].value > enums[i].most) {
            gb_error_set(error, "%s is %u: the largest value is %u", enums[i].name, enums[i].value,
                         enums[i].most);
            return GOBLIN_EOPTION;
        }
    }
    return GOBLIN_OK;
}

/* What must lie safe on disk may not be kept from it. */
static int check_admission(const struct goblin_options *options, enum goblin_mode mode,
                           struct goblin_error *error)
{
    if (mode == GOBLIN_MODE_STORE &&
        (options->admit != GOBLIN_ADMIT_ALL || options->write_budget_day_bytes != 0)) {
        gb_error_set(error, "%s: only for a cache; a store writes all that it takes",
                     options->admit != GOBLIN_ADMIT_ALL ? "admit" : "write_budget_day_bytes");
        return GOBLIN_EOPTION;
    }
    return GOBLIN_OK;
}

int goblin_options_check(const struct goblin_options *options, struct goblin_error *error)
{
    gb_error_set(error, "%s", "");
    if (options->dirs == NULL || options->dir_count == 0 || options->dir_count > 255) {
        gb_error_set(error, "dirs: 1 to 255 directories are needed, one per drive");
        return GOBLIN_EOPTION;
    }
    if (options->create && options->read_only) {
        gb_error_set(error, "create and read_only exclude each other");
        return GOBLIN_EOPTION;
    }
    const struct range ranges[] = {
        {"size_bytes", options->size_bytes, SEGMENTS_LEAST * GB_MIB, UINT64_C(1) << 50, 1},
        {"segment_bytes", options->segment_bytes, GB_MIB, GB_GIB, 0},
        {"lanes", options->lanes, 1, GB_LANES_MAX, 1},
        {"memory_bytes", options->memory_bytes, MEMORY_LEAST, UINT64_C(1) << 44, 1},
        {"head_bytes", options->head_bytes, GB_BLOCK, 64 * GB_KIB, GB_BLOCK},
        {"chunk_bytes", options->chunk_bytes, GB_UNIT, 4 * GB_MIB, GB_UNIT},
        {"first_chunk_bytes", options->first_chunk_bytes, GB_UNIT, 4 * GB_MIB, GB_UNIT},
        {"depth", options->depth, 1, 64, 1},
        {"write_block_bytes", options->write_block_bytes, 64 * GB_KIB, 8 * GB_MIB, 0},
        {"write_budget_day_bytes", options->write_budget_day_bytes, GB_MIB, BUDGET_MOST, 1},
    };
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        int rc = check_range(&ranges[i], error);
        if (rc < 0) {
            return rc;
        }
    }
    if (options->create && options->size_bytes == 0) {
        gb_error_set(error, "size_bytes: a new store needs a size, such as 100G");
        return GOBLIN_EOPTION;
    }
    if (options->size_bytes != 0 && options->segment_bytes != 0 &&
        gb_config_slots(options->size_bytes, options->segment_bytes, (unsigned)options->dir_count) <
            SEGMENTS_LEAST) {
        gb_error_set(error, "size_bytes: each drive needs room for at least %u segments",
                     SEGMENTS_LEAST);
        return GOBLIN_EOPTION;
    }
    int rc = check_enums(options, error);
    return rc < 0 ? rc : check_admission(options, options->mode, error);
}

/* ---- defaults ------------------------------------------------------------------------------ */

static uint64_t power_of_two_below(uint64_t value)
{
    return value == 0 ? 0 : UINT64_C(1) << (63 - __builtin_clzll(value));
}

static uint64_t clamp(uint64_t value, uint64_t least, uint64_t most)
{
    return gb_min(gb_max(value, least), most);
}

static int64_t real_clock(void *arg)
{
    (void)arg;
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

uint32_t gb_config_slots(uint64_t size_bytes, uint64_t segment_bytes, unsigned drives)
{
    return (uint32_t)gb_min(size_bytes / drives / segment_bytes, GB_SLOTS_MAX / drives);
}

void gb_config_resolve(struct goblin_options *options)
{
    struct goblin_options *o = options;
    bool fixed = o->residency == GOBLIN_RESIDENCY_FIXED;
    o->memory_bytes = o->memory_bytes != 0 ? o->memory_bytes : 256 * GB_MIB;
    if (o->segment_bytes == 0 && o->size_bytes != 0) {
        /* A few hundred segments, so that one is a small part of the store; but not so many files
         * that a large store runs out of descriptors. */
        uint64_t wanted = power_of_two_below(o->size_bytes / o->dir_count / 256);
        o->segment_bytes = clamp(wanted, GB_MIB, 256 * GB_MIB);
        if (o->size_bytes > 256 * GB_GIB) {
            o->segment_bytes = GB_GIB;
        }
    }
    if (o->lanes == 0) {
        uint64_t per_drive =
            o->segment_bytes == 0
                ? SEGMENTS_LEAST
                : gb_config_slots(o->size_bytes, o->segment_bytes, (unsigned)o->dir_count);
        uint64_t slots = per_drive * o->dir_count;
        o->lanes = o->memory_bytes < 32 * GB_MIB || slots < 32 ? 2 : 4;
        /* As many for each drive, so that each lane can keep to one. */
        size_t dealt = (o->lanes + o->dir_count - 1) / o->dir_count * o->dir_count;
        o->lanes = dealt <= GB_LANES_MAX ? (unsigned)dealt : o->lanes;
    }
    o->head_bytes = o->head_bytes != 0 ? o->head_bytes : (uint32_t)((fixed ? 16 : 8) * GB_KIB);
    o->chunk_bytes = o->chunk_bytes != 0 ? o->chunk_bytes : (uint32_t)(256 * GB_KIB);
    o->first_chunk_bytes =
        o->first_chunk_bytes != 0 ? o->first_chunk_bytes : (uint32_t)(64 * GB_KIB);
    o->depth = o->depth != 0 ? o->depth : 4;
    if (o->write_block_bytes == 0) {
        uint64_t block = power_of_two_below(o->memory_bytes / 256);
        o->write_block_bytes = (uint32_t)clamp(block, 64 * GB_KIB, 2 * GB_MIB);
        if (o->segment_bytes != 0) {
            o->write_block_bytes = (uint32_t)gb_min(o->write_block_bytes, o->segment_bytes / 4);
        }
    }
    o->durability = o->durability != 0 ? o->durability : GOBLIN_DURABILITY_NONE;
    o->flush_ms = o->flush_ms != 0 ? o->flush_ms : 1000;
    o->checkpoint_s = o->checkpoint_s != 0 ? o->checkpoint_s : 300;
    o->clock = o->clock != NULL ? o->clock : real_clock;
}

static int disagree(struct goblin_error *error, const char *name, uint64_t asked, uint64_t made)
{
    gb_error_set(error, "%s is %llu, but the store was made with %llu: leave it out", name,
                 (unsigned long long)asked, (unsigned long long)made);
    return GOBLIN_EOPTION;
}

int gb_config_adopt(struct goblin_options *options, const struct gb_identity *identity,
                    struct goblin_error *error)
{
    if (options->size_bytes != 0 && options->size_bytes != identity->size_bytes) {
        return disagree(error, "size_bytes", options->size_bytes, identity->size_bytes);
    }
    if (options->segment_bytes != 0 && options->segment_bytes != identity->segment_bytes) {
        return disagree(error, "segment_bytes", options->segment_bytes, identity->segment_bytes);
    }
    if (options->lanes != 0 && options->lanes != identity->lanes) {
        return disagree(error, "lanes", options->lanes, identity->lanes);
    }
    int rc = check_admission(options, (enum goblin_mode)identity->mode, error);
    if (rc < 0) {
        return rc;
    }
    options->size_bytes = identity->size_bytes;
    options->segment_bytes = identity->segment_bytes;
    options->lanes = identity->lanes;
    options->mode = (enum goblin_mode)identity->mode;
    return GOBLIN_OK;
}
