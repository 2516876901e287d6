/* Pieces of the store that every call shares: checks, logging, accounts, budget. */
#include "engine/store.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

void gb_store_log(const struct goblin *store, enum goblin_log_level level, const char *format, ...)
{
    if (store->options.log == NULL) {
        return;
    }
    char line[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    store->options.log(store->options.log_arg, level, line);
}

void gb_store_count_identities(struct goblin *store)
{
    for (unsigned i = 0; i < store->drive_count; i++) {
        struct gb_drive *drive = &store->drives[i];
        for (; drive->writes > 0; drive->writes--) {
            gb_store_count_write(store, GB_BLOCK);
        }
        for (; drive->syncs > 0; drive->syncs--) {
            gb_store_count_sync(store);
        }
    }
}

void gb_store_write_failed(struct goblin *store, struct gb_segment *segment, uint64_t offset,
                           int fault)
{
    gb_store_log(store, GOBLIN_LOG_ERROR,
                 "segment %u: writing at %llu failed (%s): it is abandoned, what it was to hold "
                 "goes elsewhere",
                 segment->slot, (unsigned long long)offset, goblin_strerror(fault));
    /* A file system that is full says nothing of its drive. */
    if (gb_segments_fail(&store->segments, segment, fault != -ENOSPC)) {
        gb_store_log(store, GOBLIN_LOG_ERROR,
                     "%s: %u segments of the drive have failed: it is not written to any more, "
                     "but tried now and then; if it stays so, replace it",
                     store->drives[segment->drive].dir, GB_DRIVE_FAILURES_MAX);
    }
    gb_store_poke(store);
}

void gb_store_read_failed(struct goblin *store, struct gb_segment *segment, uint64_t offset,
                          int fault)
{
    gb_store_log(store, GOBLIN_LOG_ERROR,
                 "segment %u, offset %llu: %s; the object is dropped, the segment is to be emptied "
                 "and set aside",
                 segment->slot, (unsigned long long)offset, goblin_strerror(fault));
    if (!store->options.read_only) {
        (void)gb_segments_fail(&store->segments, segment, false);
        gb_store_poke(store);
    }
}

void gb_store_poke(struct goblin *store)
{
    const uint32_t all = GB_POKED_KEEPER | GB_POKED_CLEANER;
    if (atomic_fetch_or(&store->poked, all) == all) {
        return;
    }
    (void)pthread_mutex_lock(&store->keeper_lock);
    (void)pthread_cond_broadcast(&store->keeper_wake);
    (void)pthread_mutex_unlock(&store->keeper_lock);
}

/* Blocks that the arena may have, as the accounts stand. */
static uint32_t arena_share(const struct goblin *store)
{
    const struct gb_budget *budget = &store->budget;
    uint64_t spent = atomic_load(&budget->promised) + atomic_load(&budget->write) +
                     atomic_load(&budget->read) + atomic_load(&budget->other) +
                     gb_index_bytes(store->index) + gb_ordered_bytes(&store->ordered);
    uint64_t left = budget->total > spent ? budget->total - spent : 0;
    uint64_t blocks = left / store->arena.block_bytes;
    blocks -= gb_min(blocks, GB_RESIDENCY_HAND);
    /* Below this nothing can move; gb_store_open refuses budgets that start here. */
    blocks = gb_max(blocks, 8);
    return (uint32_t)gb_min(blocks, store->arena.block_count - GB_RESIDENCY_SPARE);
}

void gb_store_rebudget(struct goblin *store)
{
    atomic_store(&store->arena.allowed, arena_share(store));
}

void gb_store_tighten(struct goblin *store)
{
    uint32_t share = arena_share(store);
    uint32_t allowed = atomic_load(&store->arena.allowed);
    while (share < allowed &&
           !atomic_compare_exchange_weak(&store->arena.allowed, &allowed, share)) {
    }
}

bool gb_store_take_memory(struct goblin *store, _Atomic uint64_t *account, uint64_t bytes,
                          uint64_t most)
{
    struct gb_budget *budget = &store->budget;
    uint64_t promised = atomic_fetch_add(&budget->promised, bytes) + bytes;
    bool fits = atomic_load(account) + promised <= most;
    if (fits) {
        gb_store_rebudget(store);
        gb_residency_give_way(store);
        atomic_fetch_add(account, bytes);
    }
    atomic_fetch_sub(&budget->promised, bytes);
    gb_store_rebudget(store);
    return fits;
}

/* Calls `account` for the record and, for an object in extents, for each of them. */
static void for_each_span(struct goblin *store, const struct gb_item *item,
                          void (*account)(struct gb_segments *, uint64_t place, uint64_t span))
{
    uint32_t key_len = gb_item_key_len(item);
    uint64_t place = atomic_load_explicit(&item->place, memory_order_relaxed);
    if (gb_item_form(item) != GB_FORM_EXTENTS) {
        account(&store->segments, place, gb_span(key_len, gb_item_size(item)));
        return;
    }
    const unsigned char *side = item->key + key_len;
    uint64_t count = gb_load_le64(side);
    account(&store->segments, place, gb_span(key_len, count * GB_EXTENT_SIZE));
    for (uint64_t i = 0; i < count; i++) {
        struct gb_extent extent;
        if (gb_extent_decode(&extent, side + GB_EXTENTS_HEADER + i * GB_EXTENT_SIZE) == 0) {
            account(&store->segments, extent.place, gb_span(key_len, extent.len));
        }
    }
}

static uint64_t user_bytes(const struct gb_item *item)
{
    return gb_item_key_len(item) + gb_item_size(item);
}

void gb_store_disk_born(struct goblin *store, const struct gb_item *item)
{
    if (gb_item_ram_only(item)) {
        atomic_fetch_add_explicit(&store->admission.objects, 1, memory_order_relaxed);
        return;
    }
    for_each_span(store, item, gb_segments_born);
    atomic_fetch_add_explicit(&store->segments.live_user_bytes, user_bytes(item),
                              memory_order_relaxed);
}

void gb_store_disk_died(struct goblin *store, const struct gb_item *item)
{
    if (gb_item_ram_only(item)) {
        atomic_fetch_sub_explicit(&store->admission.objects, 1, memory_order_relaxed);
        return;
    }
    for_each_span(store, item, gb_segments_died);
    atomic_fetch_sub_explicit(&store->segments.live_user_bytes, user_bytes(item),
                              memory_order_relaxed);
}

void gb_store_move_locked(struct goblin *store, struct gb_item *item, uint64_t place,
                          struct gb_record *record)
{
    gb_item_tell(item, record);
    record->sequence = gb_store_next_sequence(store);
    gb_store_disk_died(store, item);
    atomic_store_explicit(&item->place, place, memory_order_relaxed);
    atomic_store_explicit(&item->sequence, record->sequence, memory_order_relaxed);
    gb_store_disk_born(store, item);
}

void gb_store_disk_replaced(struct goblin *store, const struct gb_item *old,
                            const struct gb_item *item)
{
    if (gb_item_ram_only(item) || gb_item_ram_only(old)) {
        gb_store_disk_born(store, item);
        gb_store_disk_died(store, old);
        return;
    }
    for_each_span(store, item, gb_segments_born);
    for_each_span(store, old, gb_segments_died);
    uint64_t more = user_bytes(item) - user_bytes(old); /* or fewer: it wraps */
    if (more != 0) {
        atomic_fetch_add_explicit(&store->segments.live_user_bytes, more, memory_order_relaxed);
    }
}

void gb_store_forget_locked(struct goblin *store, struct gb_locked *locked,
                            const struct gb_item *item)
{
    gb_index_remove_locked(locked);
    if (gb_ordered_kept(&store->ordered)) {
        gb_ordered_remove(&store->ordered, (struct goblin_slice){item->key, gb_item_key_len(item)});
    }
    gb_store_disk_died(store, item);
    gb_arena_died(&store->arena, item);
}
