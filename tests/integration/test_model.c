/*
 * The model: several threads do random operations on a store of tiny segments, blocks and memory,
 * each on keys of its own, so that a plain table says what each must hold; others read these keys
 * too and check that values are whole and never older than what was acknowledged. Rounds end with
 * a comparison of everything, and with a clear or a clean reopening.
 *
 * GOBLIN_SEED replays the choices (not the scheduler's); GOBLIN_MODEL_MS is how long a case runs.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/rng.h"
#include "lib/fixture.h"
#include "lib/pattern.h"

#define OWNERS    3u
#define READERS   2u
#define KEYS      60u /* of each owner */
#define ROUNDS    5u
#define VALUE_MAX (3u << 20)
#define CASE_MS   3000u
#define WRITES    (1u << 24)

struct entry {
    bool present;
    bool left; /* it was evicted: nothing is there before the next write */
    uint32_t size;
    uint32_t meta_len;
    uint64_t version;
    int64_t expires_ms;
    uint8_t marks;
    uint32_t flags;         /* the number of the write, and from WRITES on what amendments made */
    _Atomic uint32_t acked; /* number of the last write or delete that returned */
};

struct model;

struct hand {
    struct model *model;
    unsigned number; /* owners first, then readers */
    pthread_t thread;
    struct gb_rng rng;
    struct goblin_reader *reader;
    unsigned char *value;
    struct goblin_buffer loaded;
    struct goblin_buffer meta;
    uint32_t next_write;
};

struct model {
    struct gb_fixture *fixture;
    uint64_t seed;
    bool cache;
    _Atomic bool over; /* the round */
    _Atomic uint64_t steps;
    pthread_mutex_t lock;
    char why[512]; /* the first broken promise */
    struct entry entries[OWNERS][KEYS];
    struct hand hands[OWNERS + READERS];
};

/* ---- telling ------------------------------------------------------------------------------- */

static bool complain(struct model *model, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Always false: cmocka's assertions belong to the main thread. */
static bool complain(struct model *model, const char *format, ...)
{
    (void)pthread_mutex_lock(&model->lock);
    if (model->why[0] == '\0') {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(model->why, sizeof(model->why), format, args);
        va_end(args);
    }
    (void)pthread_mutex_unlock(&model->lock);
    atomic_store(&model->over, true);
    return false;
}

static uint64_t value_seed(unsigned owner, unsigned key, uint32_t flags)
{
    return ((uint64_t)owner << 8 | key) << 32 | flags % WRITES;
}

static uint64_t meta_seed(unsigned owner, unsigned key, uint32_t flags)
{
    return value_seed(owner, key, flags) | UINT64_C(1) << 63;
}

static struct goblin_slice name_of(struct gb_key *key, unsigned owner, unsigned number)
{
    return gb_key_at(key, (uint64_t)owner * 1000 + number);
}

static uint64_t below(struct hand *hand, uint64_t bound)
{
    return gb_rng_below(&hand->rng, bound);
}

static int64_t now_of(const struct model *model)
{
    return atomic_load(&model->fixture->now_ms);
}

static bool visible(const struct model *model, const struct entry *entry)
{
    return entry->present && !entry->left &&
           (entry->expires_ms == 0 || entry->expires_ms > now_of(model));
}

/* A visible object is not there: evicted, if anything was. */
static bool may_have_left(struct model *model, struct entry *entry)
{
    struct goblin_stats stats = gb_fixture_stats(model->fixture);
    if (!model->cache || stats.left_disk + stats.left_ram == 0) {
        return false;
    }
    entry->left = true;
    return true;
}

/* ---- judging ------------------------------------------------------------------------------- */

/* What was found (NULL: nothing) against the table. */
static bool judge(struct hand *hand, unsigned key, const struct goblin_info *info, const char *how)
{
    struct model *model = hand->model;
    struct entry *entry = &model->entries[hand->number][key];
    bool there = visible(model, entry);
    if (info == NULL) {
        return !there || may_have_left(model, entry) ||
               complain(model, "%s: key %u of %u (flags %x) is gone", how, key, hand->number,
                        entry->flags);
    }
    if (!there) {
        return complain(model, "%s: key %u of %u holds flags %x, but nothing may be there%s", how,
                        key, hand->number, info->flags, entry->left ? " (it had left)" : "");
    }
    bool same = info->flags == entry->flags && info->marks == entry->marks &&
                info->size == entry->size && info->meta_len == entry->meta_len &&
                info->version == entry->version && info->expires_ms == entry->expires_ms;
    return same ||
           complain(model,
                    "%s: key %u of %u holds flags %x (%" PRIu64 " bytes, version %" PRIu64
                    ", expires %" PRId64 ", marks %x), not %x (%u, %" PRIu64 ", %" PRId64 ", %x)",
                    how, key, hand->number, info->flags, info->size, info->version,
                    info->expires_ms, info->marks, entry->flags, entry->size, entry->version,
                    entry->expires_ms, entry->marks);
}

static bool check_stat(struct hand *hand, unsigned key)
{
    struct gb_key name;
    struct goblin_info info;
    int rc = goblin_stat(hand->model->fixture->store, name_of(&name, hand->number, key), &info);
    if (rc < 0) {
        return complain(hand->model, "stat: %s", goblin_strerror(rc));
    }
    return judge(hand, key, rc == GOBLIN_OK ? &info : NULL, "stat");
}

static bool check_load(struct hand *hand, unsigned key)
{
    struct gb_key name;
    struct goblin_info info;
    int rc = goblin_load(hand->reader, name_of(&name, hand->number, key), &hand->loaded, &info,
                         &hand->meta);
    if (rc < 0) {
        return complain(hand->model, "load: %s", goblin_strerror(rc));
    }
    if (rc == GOBLIN_OK && (hand->loaded.len != info.size || hand->meta.len != info.meta_len ||
                            !gb_pattern_holds(hand->loaded.data, hand->loaded.len,
                                              value_seed(hand->number, key, info.flags), 0) ||
                            !gb_pattern_holds(hand->meta.data, hand->meta.len,
                                              meta_seed(hand->number, key, info.flags), 0))) {
        return complain(hand->model, "load: key %u of %u: wrong bytes", key, hand->number);
    }
    return judge(hand, key, rc == GOBLIN_OK ? &info : NULL, "load");
}

/* ---- reading in pieces, also other threads' keys ------------------------------------------- */

struct stretch {
    unsigned owner;
    unsigned key;
    uint64_t next;
    struct goblin_info info;
    bool bad;
};

static int take_chunk(void *arg, const struct goblin_chunk *chunk)
{
    struct stretch *stretch = arg;
    stretch->bad |= chunk->offset != stretch->next ||
                    !gb_pattern_holds(chunk->data, chunk->len,
                                      value_seed(stretch->owner, stretch->key, chunk->info->flags),
                                      chunk->offset);
    stretch->next = chunk->offset + chunk->len;
    stretch->info = *chunk->info;
    return GOBLIN_CHUNK_DONE;
}

static int read_stretch(struct hand *hand, struct stretch *stretch, uint64_t from, uint64_t length)
{
    struct gb_key name;
    stretch->next = from;
    struct goblin_request request = {
        .key = name_of(&name, stretch->owner, stretch->key),
        .offset = from,
        .length = length,
        .on_chunk = take_chunk,
        .arg = stretch,
    };
    int rc = goblin_get(hand->reader, &request);
    if (rc < 0 || stretch->bad) {
        (void)complain(hand->model, "get %" PRIu64 "+%" PRIu64 " of key %u of %u: %s", from, length,
                       stretch->key, stretch->owner, rc < 0 ? goblin_strerror(rc) : "wrong bytes");
    }
    return rc;
}

static bool check_range(struct hand *hand, unsigned key)
{
    struct entry *entry = &hand->model->entries[hand->number][key];
    struct stretch stretch = {.owner = hand->number, .key = key};
    uint64_t from = below(hand, entry->size + 1u);
    uint64_t length = below(hand, entry->size - from + 1);
    int rc = read_stretch(hand, &stretch, from, length);
    if (rc < 0 || stretch.bad) {
        return false;
    }
    uint64_t end = length == 0 ? entry->size : from + length;
    if (rc == GOBLIN_OK && stretch.next != end) {
        return complain(hand->model, "get of key %u of %u ended at %" PRIu64 ", not %" PRIu64, key,
                        hand->number, stretch.next, end);
    }
    return judge(hand, key, rc == GOBLIN_OK ? &stretch.info : NULL, "get");
}

/* A foreign key: whole, and not older than what had been acknowledged before. */
static bool check_foreign(struct hand *hand)
{
    struct stretch stretch = {.owner = (unsigned)below(hand, OWNERS),
                              .key = (unsigned)below(hand, KEYS)};
    struct entry *entry = &hand->model->entries[stretch.owner][stretch.key];
    uint32_t acked = atomic_load(&entry->acked);
    int rc = read_stretch(hand, &stretch, 0, 0);
    if (rc < 0 || stretch.bad) {
        return false;
    }
    if (rc == GOBLIN_OK &&
        (stretch.next != stretch.info.size || stretch.info.flags % WRITES < acked)) {
        return complain(hand->model,
                        "foreign key %u of %u: write %u (%u was acknowledged), %" PRIu64
                        " bytes of %" PRIu64,
                        stretch.key, stretch.owner, stretch.info.flags % WRITES, acked,
                        stretch.next, stretch.info.size);
    }
    return true;
}

/* ---- changing ------------------------------------------------------------------------------ */

static uint32_t draw_size(struct hand *hand)
{
    switch (below(hand, 64)) {
    case 0:
        return (uint32_t)below(hand, VALUE_MAX);
    case 1:
        return 0;
    case 2:
    case 3:
    case 4:
    case 5:
        return (uint32_t)below(hand, 200 * GB_KIB);
    case 6:
    case 7:
        return (uint32_t)(16 * GB_KIB - 2 + below(hand, 5));
    default:
        return (uint32_t)below(hand, 12 * GB_KIB);
    }
}

static int expected_answer(const struct hand *hand, unsigned key,
                           const struct goblin_put_options *options)
{
    const struct entry *entry = &hand->model->entries[hand->number][key];
    bool there = visible(hand->model, entry);
    switch (options->condition) {
    case GOBLIN_IF_ABSENT:
        return there ? GOBLIN_EXISTS : GOBLIN_OK;
    case GOBLIN_IF_PRESENT:
        return there ? GOBLIN_OK : GOBLIN_MISS;
    case GOBLIN_IF_VERSION:
        return !there                                  ? GOBLIN_MISS
               : entry->version == options->if_version ? GOBLIN_OK
                                                       : GOBLIN_CHANGED;
    case GOBLIN_ALWAYS:
    default:
        return GOBLIN_OK;
    }
}

/* Whether `rc` is the answer, if need be because the object has left. */
static bool answers(struct hand *hand, unsigned key, const struct goblin_put_options *options,
                    int rc, bool miss_if_gone, const char *what)
{
    struct entry *entry = &hand->model->entries[hand->number][key];
    for (unsigned i = 0; i < 2; i++) {
        int expected = expected_answer(hand, key, options);
        if (miss_if_gone && !visible(hand->model, entry)) {
            expected = GOBLIN_MISS;
        }
        if (rc == expected) {
            return true;
        }
        if (!visible(hand->model, entry) || !may_have_left(hand->model, entry)) {
            break;
        }
    }
    return complain(hand->model, "%s of key %u of %u: %d (%s)", what, key, hand->number, rc,
                    goblin_strerror(rc));
}

static void draw_condition(struct hand *hand, unsigned key, struct goblin_put_options *options)
{
    if (below(hand, 5) == 0) {
        options->condition = (enum goblin_condition)(1 + below(hand, 3));
        options->if_version =
            hand->model->entries[hand->number][key].version ^ (below(hand, 4) == 0);
    }
}

/* In memory, or in steps; a stream may also come to nothing (-ECANCELED). */
static int store_value(struct hand *hand, struct goblin_slice name, uint32_t size,
                       const struct goblin_put_options *options, uint64_t *version)
{
    struct goblin *store = hand->model->fixture->store;
    if (below(hand, 4) != 0) {
        return goblin_put(store, name, (struct goblin_slice){hand->value, size}, options, version);
    }
    struct goblin_writer *writer = NULL;
    uint64_t announced = below(hand, 2) == 0 ? size : GOBLIN_SIZE_UNKNOWN;
    int rc = goblin_writer_begin(&writer, store, name, announced, options);
    if (rc == -ENOMEM) {
        return -ECANCELED; /* no blocks left for another writer */
    }
    for (uint32_t at = 0; rc == GOBLIN_OK && at < size;) {
        uint32_t n = (uint32_t)gb_min(size - at, 1 + below(hand, 150 * GB_KIB));
        rc = goblin_writer_write(writer, hand->value + at, n);
        at += n;
    }
    if (rc != GOBLIN_OK || below(hand, 8) == 0) {
        goblin_writer_abort(writer);
        return rc != GOBLIN_OK ? rc : -ECANCELED;
    }
    return goblin_writer_commit(writer, version);
}

static bool step_put(struct hand *hand, unsigned key)
{
    struct entry *entry = &hand->model->entries[hand->number][key];
    unsigned char meta[GOBLIN_META_MAX];
    uint32_t size = draw_size(hand);
    uint32_t write = ++hand->next_write;
    uint32_t meta_len = below(hand, 6) == 0 ? (uint32_t)below(hand, GOBLIN_META_MAX + 1) : 0;
    gb_pattern_fill(meta, meta_len, meta_seed(hand->number, key, write), 0);
    gb_pattern_fill(hand->value, size, value_seed(hand->number, key, write), 0);
    struct goblin_put_options options = {
        .meta = {meta, meta_len},
        .expires_ms =
            below(hand, 8) == 0 ? now_of(hand->model) - 200 + (int64_t)below(hand, 3000) : 0,
        .version = below(hand, 20) == 0 ? 1 + below(hand, 1000000) : 0,
        .flags = write,
        .marks = (uint8_t)below(hand, GOBLIN_MARKS + 1),
        .durability = (enum goblin_durability)below(hand, 4),
    };
    draw_condition(hand, key, &options);
    struct gb_key name;
    uint64_t version = 0;
    int rc = store_value(hand, name_of(&name, hand->number, key), size, &options, &version);
    if (rc == -ECANCELED) {
        return true;
    }
    if (!answers(hand, key, &options, rc, false, "put")) {
        return false;
    }
    if (rc == GOBLIN_OK) {
        entry->present = true;
        entry->left = false;
        entry->size = size;
        entry->meta_len = meta_len;
        entry->version = version;
        entry->expires_ms = options.expires_ms;
        entry->flags = write;
        entry->marks = options.marks;
        atomic_store(&entry->acked, write);
    }
    return true;
}

static bool step_delete(struct hand *hand, unsigned key)
{
    struct entry *entry = &hand->model->entries[hand->number][key];
    struct goblin_put_options options = {.durability = (enum goblin_durability)below(hand, 4)};
    draw_condition(hand, key, &options);
    if (options.condition == GOBLIN_IF_ABSENT) {
        options.condition = GOBLIN_ALWAYS;
    }
    struct gb_key name;
    int rc =
        goblin_delete(hand->model->fixture->store, name_of(&name, hand->number, key), &options);
    if (!answers(hand, key, &options, rc, true, "delete")) {
        return false;
    }
    if (rc == GOBLIN_OK) {
        entry->present = false;
        atomic_store(&entry->acked, ++hand->next_write);
    }
    return true;
}

static bool step_touch(struct hand *hand, unsigned key)
{
    struct entry *entry = &hand->model->entries[hand->number][key];
    int64_t expires_ms =
        below(hand, 2) == 0 ? 0 : now_of(hand->model) - 100 + (int64_t)below(hand, 3000);
    struct gb_key name;
    int rc = goblin_touch(hand->model->fixture->store, name_of(&name, hand->number, key),
                          expires_ms, (enum goblin_durability)below(hand, 4));
    const struct goblin_put_options always = {0};
    if (!answers(hand, key, &always, rc, true, "touch")) {
        return false;
    }
    if (rc == GOBLIN_OK) {
        entry->expires_ms = expires_ms;
    }
    return true;
}

/* What is drawn for an amendment, and done to a copy of the entry. */
static struct goblin_amendment draw_amendment(struct hand *hand, struct entry *amended)
{
    struct goblin_amendment amendment = {
        .what = (unsigned)below(hand, 8),
        .flags = (amended->flags % WRITES) + WRITES * (uint32_t)below(hand, 256),
        .expires_ms = below(hand, 4) == 0 ? now_of(hand->model) + (int64_t)below(hand, 3000) : 0,
        .version = below(hand, 2) == 0 ? 1 + below(hand, 1000000) : 0,
        .marks_set = (uint8_t)below(hand, GOBLIN_MARKS + 1),
        .marks_clear = (uint8_t)below(hand, GOBLIN_MARKS + 1),
        .durability = (enum goblin_durability)below(hand, 4),
    };
    if ((amendment.what & GOBLIN_AMEND_EXPIRES) != 0) {
        amended->expires_ms = amendment.expires_ms;
    }
    if ((amendment.what & GOBLIN_AMEND_FLAGS) != 0) {
        amended->flags = amendment.flags;
    }
    if ((amendment.what & GOBLIN_AMEND_VERSION) != 0) {
        amended->version = amendment.version;
    }
    amended->marks = (uint8_t)((amended->marks & ~amendment.marks_clear) | amendment.marks_set);
    return amendment;
}

static bool step_amend(struct hand *hand, unsigned key)
{
    struct entry *entry = &hand->model->entries[hand->number][key];
    struct entry amended = {
        .flags = entry->flags,
        .marks = entry->marks,
        .version = entry->version,
        .expires_ms = entry->expires_ms,
    };
    struct goblin_amendment amendment = draw_amendment(hand, &amended);
    struct goblin_put_options options = {0};
    draw_condition(hand, key, &options);
    if (options.condition != GOBLIN_IF_ABSENT) {
        amendment.condition = options.condition;
        amendment.if_version = options.if_version;
    }
    options.condition = amendment.condition;
    struct gb_key name;
    const struct goblin_slice slice = name_of(&name, hand->number, key);
    struct goblin_info info;
    struct goblin *store = hand->model->fixture->store;
    int rc = goblin_amend(store, slice, &amendment, &info);
    if (!answers(hand, key, &options, rc, true, "amend")) {
        return false;
    }
    if (rc != GOBLIN_OK) {
        return true;
    }
    if (!judge(hand, key, &info, "before an amendment")) {
        return false;
    }
    entry->flags = amended.flags;
    entry->marks = amended.marks;
    entry->version = amended.version;
    entry->expires_ms = amended.expires_ms;
    if (amended.version == 0 && goblin_stat(store, slice, &info) == GOBLIN_OK) {
        entry->version = info.version; /* the store has numbered it */
    }
    return check_stat(hand, key);
}

/* ---- walking ------------------------------------------------------------------------------- */

struct walk {
    struct hand *hand;
    bool seen[KEYS];
};

static int visit(void *arg, struct goblin_slice name, const struct goblin_info *info)
{
    struct walk *walk = arg;
    for (unsigned key = 0; key < KEYS; key++) {
        struct gb_key own;
        struct goblin_slice slice = name_of(&own, walk->hand->number, key);
        if (slice.len == name.len && memcmp(slice.data, name.data, name.len) == 0) {
            walk->seen[key] = true;
            return judge(walk->hand, key, info, "walk") ? 0 : -1;
        }
    }
    return 0;
}

static bool check_walk(struct hand *hand)
{
    struct walk walk = {.hand = hand};
    uint64_t cursor = 0;
    do {
        int rc = goblin_iterate(hand->model->fixture->store, &cursor, 20, visit, &walk);
        if (rc != GOBLIN_OK) {
            return complain(hand->model, "walk: %d", rc);
        }
    } while (cursor != 0);
    for (unsigned key = 0; key < KEYS; key++) {
        if (!walk.seen[key] && !judge(hand, key, NULL, "walk")) {
            return false;
        }
    }
    return true;
}

static bool check_everything(struct hand *hand)
{
    for (unsigned key = 0; key < KEYS; key++) {
        if (!check_load(hand, key)) {
            return false;
        }
    }
    return check_walk(hand);
}

/* ---- threads ------------------------------------------------------------------------------- */

static bool step_whole(struct hand *hand)
{
    struct goblin *store = hand->model->fixture->store;
    uint64_t roll = below(hand, 8);
    if (roll < 3) {
        return check_walk(hand);
    }
    int rc = roll < 7 ? goblin_sync(store) : goblin_checkpoint(store);
    return rc == GOBLIN_OK || complain(hand->model, "sync or checkpoint: %s", goblin_strerror(rc));
}

static bool step(struct hand *hand)
{
    unsigned key = (unsigned)below(hand, KEYS);
    uint64_t roll = below(hand, 100);
    if (roll < 40) {
        return step_put(hand, key);
    } else if (roll < 50) {
        return step_delete(hand, key);
    } else if (roll < 57) {
        return below(hand, 2) == 0 ? step_touch(hand, key) : step_amend(hand, key);
    } else if (roll < 75) {
        return check_load(hand, key);
    } else if (roll < 88) {
        return check_range(hand, key);
    } else if (roll < 98) {
        return check_stat(hand, key);
    }
    return step_whole(hand);
}

static void *work(void *arg)
{
    struct hand *hand = arg;
    bool owner = hand->number < OWNERS;
    while (!atomic_load(&hand->model->over)) {
        if (!(owner ? step(hand) : check_foreign(hand))) {
            break;
        }
        atomic_fetch_add(&hand->model->steps, 1);
    }
    return NULL;
}

static void make_readers(struct model *model)
{
    const struct goblin_reader_options options = {.buffers = 2, .requests = 1};
    for (unsigned i = 0; i < OWNERS + READERS; i++) {
        assert_int_equal(
            goblin_reader_create(&model->hands[i].reader, model->fixture->store, &options),
            GOBLIN_OK);
    }
}

static void drop_readers(struct model *model)
{
    for (unsigned i = 0; i < OWNERS + READERS; i++) {
        goblin_reader_destroy(model->hands[i].reader);
        model->hands[i].reader = NULL;
    }
}

static void run_round(struct model *model, unsigned milliseconds)
{
    atomic_store(&model->over, false);
    for (unsigned i = 0; i < OWNERS + READERS; i++) {
        assert_int_equal(pthread_create(&model->hands[i].thread, NULL, work, &model->hands[i]), 0);
    }
    for (unsigned waited = 0; waited < milliseconds && !atomic_load(&model->over); waited += 10) {
        const struct timespec pause = {.tv_nsec = 10000000};
        (void)nanosleep(&pause, NULL);
    }
    atomic_store(&model->over, true);
    for (unsigned i = 0; i < OWNERS + READERS; i++) {
        assert_int_equal(pthread_join(model->hands[i].thread, NULL), 0);
    }
}

static void compare(struct model *model, const char *when)
{
    for (unsigned owner = 0; owner < OWNERS && model->why[0] == '\0'; owner++) {
        (void)check_everything(&model->hands[owner]);
    }
    struct goblin_stats stats = gb_fixture_stats(model->fixture);
    if (stats.left_bad + stats.checksum_errors + stats.read_errors + stats.write_errors > 0) {
        (void)complain(model, "something was found bad that nobody spoiled");
    }
    if (stats.memory_used_bytes > stats.memory_budget_bytes) {
        (void)complain(model, "%" PRIu64 " bytes of memory of %" PRIu64, stats.memory_used_bytes,
                       stats.memory_budget_bytes);
    }
    if (model->why[0] != '\0') {
        drop_readers(model); /* or the store could not be closed */
        fail_msg("GOBLIN_SEED=%" PRIu64 ", %s: %s\n%s", model->seed, when, model->why,
                 model->fixture->log);
    }
}

/* Between rounds nobody else is about. */
static void interlude(struct model *model, unsigned round)
{
    struct gb_fixture *fixture = model->fixture;
    compare(model, "after a round");
    atomic_fetch_add(&fixture->now_ms, 700);
    if (round == 1) {
        assert_int_equal(goblin_clear(fixture->store), GOBLIN_OK);
        for (unsigned owner = 0; owner < OWNERS; owner++) {
            for (unsigned key = 0; key < KEYS; key++) {
                struct entry *entry = &model->entries[owner][key];
                entry->present = false;
                atomic_store(&entry->acked, model->hands[owner].next_write + 1);
            }
            model->hands[owner].next_write++;
        }
        compare(model, "after clear");
    } else {
        drop_readers(model);
        gb_fixture_reopen(fixture);
        make_readers(model);
        compare(model, "after reopening");
    }
}

/* ---- cases --------------------------------------------------------------------------------- */

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 0) : otherwise;
}

static struct model *begin_model(struct gb_fixture *fixture, enum goblin_mode mode,
                                 enum goblin_residency residency)
{
    struct model *model = calloc(1, sizeof(*model));
    assert_non_null(model);
    uint64_t fresh = 0;
    assert_int_equal(getrandom(&fresh, sizeof(fresh), 0), sizeof(fresh));
    model->fixture = fixture;
    model->seed = number_from("GOBLIN_SEED", fresh);
    model->cache = mode == GOBLIN_MODE_CACHE;
    print_message("GOBLIN_SEED=%" PRIu64 "\n", model->seed);
    (void)pthread_mutex_init(&model->lock, NULL);
    fixture->options.mode = mode;
    fixture->options.residency = residency;
    /* Half of it holds what all owners may be streaming at once. */
    fixture->options.size_bytes = (model->cache ? 24 : 320) * GB_MIB;
    fixture->options.segment_bytes = GB_MIB;
    fixture->options.write_block_bytes = 64 * GB_KIB;
    fixture->options.memory_bytes = 8 * GB_MIB;
    fixture->options.head_bytes = 4096;
    fixture->options.chunk_bytes = 64 * GB_KIB;
    fixture->options.first_chunk_bytes = 32 * GB_KIB;
    fixture->options.flush_ms = 20;
    for (unsigned i = 0; i < OWNERS + READERS; i++) {
        struct hand *hand = &model->hands[i];
        hand->model = model;
        hand->number = i;
        gb_rng_init(&hand->rng, model->seed + i);
        hand->value = malloc(VALUE_MAX);
        assert_non_null(hand->value);
    }
    gb_fixture_open(fixture);
    make_readers(model);
    return model;
}

static void end_model(struct model *model)
{
    drop_readers(model);
    for (unsigned i = 0; i < OWNERS + READERS; i++) {
        free(model->hands[i].value);
        goblin_buffer_free(&model->hands[i].loaded);
        goblin_buffer_free(&model->hands[i].meta);
    }
    (void)pthread_mutex_destroy(&model->lock);
    free(model);
}

static void run_case(void **state, enum goblin_mode mode, enum goblin_residency residency)
{
    struct model *model = begin_model(*state, mode, residency);
    unsigned milliseconds = (unsigned)number_from("GOBLIN_MODEL_MS", CASE_MS) / ROUNDS;
    for (unsigned round = 0; round < ROUNDS; round++) {
        run_round(model, milliseconds);
        interlude(model, round);
    }
    print_message("%" PRIu64 " steps\n", atomic_load(&model->steps));
    assert_true(atomic_load(&model->steps) > 100);
    end_model(model);
}

static void store_with_fixed_heads__holds_what_the_model_holds(void **state)
{
    run_case(state, GOBLIN_MODE_STORE, GOBLIN_RESIDENCY_FIXED);
}

static void store_with_adaptive_heads__holds_what_the_model_holds(void **state)
{
    run_case(state, GOBLIN_MODE_STORE, GOBLIN_RESIDENCY_ADAPTIVE);
}

static void cache_with_fixed_heads__holds_what_the_model_holds_or_nothing(void **state)
{
    run_case(state, GOBLIN_MODE_CACHE, GOBLIN_RESIDENCY_FIXED);
}

static void cache_with_adaptive_heads__holds_what_the_model_holds_or_nothing(void **state)
{
    run_case(state, GOBLIN_MODE_CACHE, GOBLIN_RESIDENCY_ADAPTIVE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_BOTH_PATHS(store_with_fixed_heads__holds_what_the_model_holds),
        GB_ON_BOTH_PATHS(store_with_adaptive_heads__holds_what_the_model_holds),
        GB_ON_BOTH_PATHS(cache_with_fixed_heads__holds_what_the_model_holds_or_nothing),
        GB_ON_BOTH_PATHS(cache_with_adaptive_heads__holds_what_the_model_holds_or_nothing),
    };
    return gb_fixture_run("model", tests);
}
