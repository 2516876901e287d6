/* Statistics: the sum of all tallies, and gauges. */
#include <goblin/stats.h>

#include "engine/reader_internal.h"
#include "engine/store.h"

static const struct goblin_stats_field fields[] = {
#define GOBLIN_X(name, help) {#name, help, offsetof(struct goblin_stats, name), true},
    GOBLIN_COUNTERS(GOBLIN_X)
#undef GOBLIN_X
#define GOBLIN_X(name, help) {#name, help, offsetof(struct goblin_stats, name), false},
        GOBLIN_GAUGES(GOBLIN_X)
#undef GOBLIN_X
};

const struct goblin_stats_field *goblin_stats_fields(size_t *count)
{
    *count = sizeof(fields) / sizeof(fields[0]);
    return fields;
}

static void add(struct goblin_stats *stats, const struct gb_tally *tally)
{
#define GOBLIN_X(name, help) stats->name += gb_tally_get(tally, GB_COUNT_##name);
    GOBLIN_COUNTERS(GOBLIN_X)
#undef GOBLIN_X
}

/* What readers answered at once they count apart. */
static void add_small(struct goblin_stats *stats, const struct goblin_reader *reader)
{
    uint64_t hits = atomic_load_explicit(&reader->small_hits, memory_order_relaxed);
    uint64_t bytes = atomic_load_explicit(&reader->small_bytes, memory_order_relaxed);
    stats->gets += hits;
    stats->hits += hits;
    stats->hits_resident += hits;
    stats->get_bytes += bytes;
    stats->get_resident_bytes += bytes;
}

static void count_segments(struct goblin *store, struct goblin_stats *stats)
{
    struct gb_segments *segments = &store->segments;
    (void)pthread_mutex_lock(&segments->lock);
    stats->segments = segments->count;
    stats->segments_free = segments->free_count;
    stats->disk_bytes = segments->count * segments->segment_bytes;
    uint64_t made = 0;
    uint64_t away = 0; /* on drives that are missing */
    for (uint32_t i = 0; i < segments->count; i++) {
        const struct gb_segment *segment = &segments->table[i];
        made += segment->status == GB_SEGMENT_FREE && segment->file != NULL;
        away += gb_store_drive(store, segment)->missing;
        stats->segments_lost += segment->status == GB_SEGMENT_LOST;
        stats->segments_failing += atomic_load(&segment->failing) && gb_segment_is_log(segment);
    }
    stats->disk_used_bytes =
        (segments->count - segments->free_count - away) * segments->segment_bytes;
    stats->drives = store->drive_count;
    for (unsigned i = 0; i < store->drive_count; i++) {
        stats->drives_missing += store->drives[i].missing;
        stats->drives_retired += store->drives[i].retired;
    }
    (void)pthread_mutex_unlock(&segments->lock);
    stats->disk_used_bytes += atomic_load(&store->checkpoint_bytes) +
                              atomic_load(&store->heads_bytes) +
                              2 * (uint64_t)GB_BLOCK * (stats->drives - stats->drives_missing);
    stats->disk_file_bytes = stats->disk_used_bytes + made * segments->segment_bytes;
    stats->live_bytes = gb_segments_live_bytes(segments);
    stats->live_user_bytes = atomic_load(&segments->live_user_bytes);
}

static uint64_t permille(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : (uint64_t)(1000.0 * (double)part / (double)whole + 0.5);
}

void goblin_stats(struct goblin *store, struct goblin_stats *stats)
{
    *stats = (struct goblin_stats){0};
    (void)pthread_mutex_lock(&store->readers_lock);
    add(stats, &store->tally);
    for (const struct goblin_reader *reader = store->readers; reader != NULL;
         reader = reader->next) {
        add(stats, &reader->tally);
        add_small(stats, reader);
    }
    (void)pthread_mutex_unlock(&store->readers_lock);
    for (unsigned i = 0; i < store->lane_count; i++) {
        add(stats, &store->lanes[i].tally);
    }
    count_segments(store, stats);
    stats->write_amplification_permille =
        permille(stats->device_write_bytes, stats->put_bytes + stats->put_key_bytes);
    stats->space_amplification_permille = permille(stats->disk_used_bytes, stats->live_user_bytes);
    struct gb_arena *arena = &store->arena;
    stats->objects = gb_index_count(store->index);
    stats->ordered_keys = gb_ordered_count(&store->ordered);
    stats->ram_only_objects = atomic_load(&store->admission.objects);
    stats->write_budget_left_bytes = gb_admission_left(&store->admission);
    stats->memory_budget_bytes = store->budget.total;
    stats->memory_arena_bytes = (uint64_t)atomic_load(&arena->used) * arena->block_bytes;
    stats->memory_index_bytes = gb_index_bytes(store->index);
    stats->memory_ordered_bytes = gb_ordered_bytes(&store->ordered);
    stats->memory_write_bytes = atomic_load(&store->budget.write);
    stats->memory_read_bytes = atomic_load(&store->budget.read);
    stats->memory_other_bytes = atomic_load(&store->budget.other);
    stats->memory_used_bytes = stats->memory_arena_bytes + stats->memory_index_bytes +
                               stats->memory_ordered_bytes + stats->memory_write_bytes +
                               stats->memory_read_bytes + stats->memory_other_bytes;
    gb_arena_count(arena, &stats->arena_live_bytes, &stats->resident_bytes);
    stats->arena_capacity_bytes = (uint64_t)atomic_load(&arena->allowed) * arena->block_bytes;
    stats->pinned_blocks = atomic_load(&arena->pinned);
    stats->warming = atomic_load(&store->warming);
}
