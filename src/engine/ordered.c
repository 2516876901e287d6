/* The ordered set of keys: its states, and how it is built from the index. */
#include "engine/ordered.h"

#include <errno.h>

#include "base/assert.h"
#include "engine/store.h"

#define SLICE_BUCKETS 2048u /* of the index in one call of gb_ordered_build: some 9,000 keys */

void gb_ordered_init(struct gb_ordered *ordered)
{
    pthread_rwlockattr_t attributes;
    (void)pthread_rwlockattr_init(&attributes);
    /* Scans that follow one another closely must not keep writers out. */
    (void)pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    (void)pthread_rwlock_init(&ordered->lock, &attributes);
    (void)pthread_rwlockattr_destroy(&attributes);
    (void)pthread_mutex_init(&ordered->building, NULL);
}

void gb_ordered_fini(struct gb_ordered *ordered)
{
    gb_keytree_fini(&ordered->tree);
    (void)pthread_rwlock_destroy(&ordered->lock);
    (void)pthread_mutex_destroy(&ordered->building);
}

uint64_t gb_ordered_bytes(const struct gb_ordered *ordered)
{
    return gb_keytree_bytes(&ordered->tree);
}

uint64_t gb_ordered_count(const struct gb_ordered *ordered)
{
    return gb_keytree_count(&ordered->tree);
}

static unsigned state_of(const struct gb_ordered *ordered)
{
    return atomic_load_explicit(&ordered->state, memory_order_acquire);
}

/* Whether the state was `from`, and is `to` now. */
static bool change_state(struct gb_ordered *ordered, enum gb_ordered_state from,
                         enum gb_ordered_state to)
{
    (void)pthread_rwlock_wrlock(&ordered->lock);
    bool changes = state_of(ordered) == from;
    if (changes) {
        atomic_store_explicit(&ordered->state, to, memory_order_release);
    }
    (void)pthread_rwlock_unlock(&ordered->lock);
    return changes;
}

/* ---- one key ------------------------------------------------------------------------------- */

void gb_ordered_add(struct gb_ordered *ordered, struct goblin_slice key)
{
    (void)pthread_rwlock_wrlock(&ordered->lock);
    if (gb_ordered_kept(ordered) && gb_keytree_insert(&ordered->tree, key) < 0) {
        atomic_store_explicit(&ordered->state, GB_ORDERED_GIVEN_UP, memory_order_release);
    }
    (void)pthread_rwlock_unlock(&ordered->lock);
}

void gb_ordered_remove(struct gb_ordered *ordered, struct goblin_slice key)
{
    (void)pthread_rwlock_wrlock(&ordered->lock);
    if (gb_ordered_kept(ordered)) {
        (void)gb_keytree_remove(&ordered->tree, key); /* not yet walked: not there */
    }
    (void)pthread_rwlock_unlock(&ordered->lock);
}

bool gb_ordered_copy(struct gb_ordered *ordered, const struct gb_ordered_ask *ask)
{
    (void)pthread_rwlock_rdlock(&ordered->lock);
    bool whole = state_of(ordered) == GB_ORDERED_WHOLE;
    if (whole && ask->reverse) {
        gb_keytree_backward(&ordered->tree, ask->bound, ask->most, ask->batch);
    } else if (whole) {
        gb_keytree_forward(&ordered->tree, ask->bound, ask->behind, ask->most, ask->batch);
    }
    (void)pthread_rwlock_unlock(&ordered->lock);
    return whole;
}

/* ---- building ------------------------------------------------------------------------------ */

static void add_item(void *arg, struct gb_locked *locked, struct gb_item *item)
{
    (void)locked;
    struct gb_ordered *ordered = arg;
    if (gb_ordered_kept(ordered)) {
        gb_ordered_add(ordered, (struct goblin_slice){item->key, gb_item_key_len(item)});
    }
}

/* Frees what was given up; `building` is held, and nobody else looks at the tree in this state. */
static void clear_away(struct goblin *store)
{
    struct gb_ordered *ordered = &store->ordered;
    if (gb_ordered_bytes(ordered) == 0) {
        return;
    }
    ordered->too_many = gb_index_count(store->index);
    gb_store_log(store, GOBLIN_LOG_WARN,
                 "memory of %llu bytes is too small to keep %llu keys in order: scans are refused "
                 "until there are fewer; raise it",
                 (unsigned long long)store->budget.total, (unsigned long long)ordered->too_many);
    gb_keytree_fini(&ordered->tree);
    gb_store_rebudget(store);
}

/* Makes an empty set of one that is not there, unless it is known not to fit. */
static int begin(struct goblin *store)
{
    struct gb_ordered *ordered = &store->ordered;
    unsigned state = state_of(ordered);
    if (state == GB_ORDERED_GIVEN_UP) {
        clear_away(store);
        if (gb_index_count(store->index) > ordered->too_many / 4 * 3) {
            return -ENOMEM;
        }
    }
    int rc = gb_keytree_init(&ordered->tree, store->budget.total / 2);
    if (rc == 0) {
        ordered->cursor = 0;
        (void)change_state(ordered, state, GB_ORDERED_BUILDING);
    }
    return rc;
}

/* The arena gives way to what the set has grown by, but no object leaves: if headers and keys alone
 * would fill it, there is no room for the set. */
static void make_room(struct goblin *store)
{
    struct gb_arena *arena = &store->arena;
    gb_store_rebudget(store);
    uint64_t allowed = (uint64_t)atomic_load(&arena->allowed) * arena->block_bytes;
    uint64_t live = 0;
    uint64_t resident = 0;
    gb_arena_count(arena, &live, &resident);
    if (live - resident > allowed / 4 * 3) {
        (void)change_state(&store->ordered, GB_ORDERED_BUILDING, GB_ORDERED_GIVEN_UP);
    } else {
        gb_residency_give_way(store);
    }
}

static int build_slice(struct goblin *store)
{
    struct gb_ordered *ordered = &store->ordered;
    if (!gb_ordered_kept(ordered)) {
        int rc = begin(store);
        if (rc < 0) {
            return rc;
        }
    }
    if (state_of(ordered) == GB_ORDERED_BUILDING) {
        uint32_t buckets = 0;
        do {
            gb_index_scan_bucket(store->index, &ordered->cursor, add_item, ordered);
            buckets++;
        } while (ordered->cursor != 0 && buckets < SLICE_BUCKETS);
        make_room(store);
        if (ordered->cursor == 0) {
            (void)change_state(ordered, GB_ORDERED_BUILDING, GB_ORDERED_WHOLE);
        }
    }
    if (state_of(ordered) == GB_ORDERED_GIVEN_UP) {
        clear_away(store);
        return -ENOMEM;
    }
    return state_of(ordered) == GB_ORDERED_WHOLE;
}

int gb_ordered_build(struct goblin *store)
{
    if (state_of(&store->ordered) == GB_ORDERED_WHOLE) {
        return 1;
    }
    (void)pthread_mutex_lock(&store->ordered.building);
    int rc = build_slice(store);
    (void)pthread_mutex_unlock(&store->ordered.building);
    return rc;
}

void gb_ordered_keep(struct goblin *store)
{
    struct gb_ordered *ordered = &store->ordered;
    unsigned state = state_of(ordered);
    bool always = store->options.ordered == GOBLIN_ORDERED_ALWAYS;
    bool more = false;
    if (state == GB_ORDERED_GIVEN_UP || (always && state != GB_ORDERED_WHOLE)) {
        (void)pthread_mutex_lock(&ordered->building);
        if (always) {
            /* What does not fit has been logged, and is tried again. */
            more = build_slice(store) == 0;
        } else if (state_of(ordered) == GB_ORDERED_GIVEN_UP) {
            clear_away(store);
        }
        (void)pthread_mutex_unlock(&ordered->building);
    }
    if (more) {
        gb_store_poke(store); /* the next round comes at once */
    }
}

bool gb_ordered_give_up(struct goblin *store)
{
    struct gb_ordered *ordered = &store->ordered;
    if (!change_state(ordered, GB_ORDERED_WHOLE, GB_ORDERED_GIVEN_UP) &&
        !change_state(ordered, GB_ORDERED_BUILDING, GB_ORDERED_GIVEN_UP)) {
        return false;
    }
    (void)pthread_mutex_lock(&ordered->building);
    clear_away(store);
    (void)pthread_mutex_unlock(&ordered->building);
    return true;
}
