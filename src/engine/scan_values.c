/*
 * Scans that hand values over, through the requests of a reader.
 *
 * Keys come in batches, of which there are two: the one being handed over, and the one behind it.
 * What is small and in RAM is handed over when its turn comes, and that is all there is to it. The
 * first entry that is not has the scan read ahead: of the entries behind it those that need the
 * device are found, neighbours on disk are joined to runs (run.h), and each gets a request that
 * reads and waits for its turn.
 *
 * Nobody waits for a buffer that somebody behind him has: a request is begun only when all of what
 * those before it will read is on its way.
 */
#include <errno.h>
#include <stdlib.h>

#include <goblin/scan.h>

#include "engine/rcu.h"
#include "engine/reader_internal.h"
#include "engine/scan_internal.h"

#define WAITING_MOST 8u  /* requests: each may pin a block of RAM, and puts need those */
#define AHEAD_FIRST  16u /* entries */
#define AHEAD_MOST   (UINT64_C(2) * GB_KEYBATCH_KEYS)
#define HINTED       16u                       /* entries that memory is asked for at once */
#define SHARED_MOST  (GB_PACKED_MAX + GB_UNIT) /* payload still on disk that goes into a run */

struct entry {
    struct goblin_request request;
    struct gb_value_scan *scan;
    struct goblin_slice key;
    uint64_t hash;
    struct gb_run *run;
    int result;
    bool wanted; /* from the device, as it looked a moment ago */
    bool begun;
    bool ended;
    bool handed; /* some of it */
};

/* A batch of keys, and what has become of each. */
struct stretch {
    struct gb_keybatch keys;
    struct entry entries[GB_KEYBATCH_KEYS];
    uint32_t next;   /* to hand over */
    uint32_t hinted; /* those before it are */
    uint32_t looked; /* those before it were looked at for reading ahead */
    uint32_t begun;  /* and those that needed it have been begun */
};

struct gb_value_scan {
    struct goblin_reader *reader;
    goblin_scan_fn visit;
    void *arg;
    unsigned flags;
    int answer;     /* the callback's */
    size_t left;    /* objects still wanted */
    uint32_t ahead; /* entries that reading ahead may reach */
    uint32_t begun; /* requests that have not ended */
    bool running;
    struct entry *turn; /* whose it is; NULL: nobody's */
    struct entry *last; /* begun ahead; NULL: none */
    unsigned at;        /* the stretch being handed over */
    struct gb_scan scan;
    struct gb_runs runs;
    struct stretch stretches[2];
};

/* ---- memory -------------------------------------------------------------------------------- */

void gb_value_scan_free(struct goblin_reader *reader)
{
    if (reader->runs != NULL) {
        gb_runs_fini(reader->runs);
    }
    free(reader->values);
    reader->values = NULL;
    reader->runs = NULL;
}

static int take_memory(struct goblin_reader *reader)
{
    struct goblin *store = reader->store;
    struct gb_value_scan *scan = reader->values;
    if (scan != NULL) {
        return scan->running ? -EBUSY : 0;
    }
    /* Beyond the half that readers may take: whoever has one can scan with it. */
    if (!gb_store_take_memory(store, &store->budget.read, sizeof(*scan),
                              store->budget.total / 4 * 3)) {
        return -ENOMEM;
    }
    scan = malloc(sizeof(*scan));
    if (scan == NULL) {
        atomic_fetch_sub(&store->budget.read, sizeof(*scan));
        gb_store_rebudget(store);
        return -ENOMEM;
    }
    scan->reader = reader;
    scan->running = false;
    gb_runs_init(&scan->runs);
    reader->values = scan;
    reader->runs = &scan->runs;
    reader->budget_bytes += sizeof(*scan);
    return 0;
}

/* ---- keys ---------------------------------------------------------------------------------- */

static int hand_chunk(void *arg, const struct goblin_chunk *chunk)
{
    struct entry *entry = arg;
    struct gb_value_scan *scan = entry->scan;
    entry->handed = true;
    scan->answer = scan->visit(scan->arg, entry->key, chunk);
    return scan->answer != 0 ? GOBLIN_CHUNK_STOP : GOBLIN_CHUNK_DONE;
}

static void note_end(void *arg, int result, const struct goblin_info *info)
{
    struct entry *entry = arg;
    (void)info;
    entry->result = result;
    entry->ended = true;
    entry->scan->begun -= entry->begun;
}

static uint32_t remaining(const struct stretch *stretch)
{
    return stretch->keys.count - stretch->next;
}

/* Has the next keys in `stretch`, none if there are none or enough are at hand. Negative: a fault.
 */
static int fill(struct gb_value_scan *scan, struct stretch *stretch)
{
    const struct stretch *other = &scan->stretches[stretch == &scan->stretches[0]];
    size_t most = scan->left - gb_min(scan->left, remaining(other));
    int count = gb_scan_next(&scan->scan, &stretch->keys, most);
    if (scan->last >= stretch->entries && scan->last < stretch->entries + GB_KEYBATCH_KEYS) {
        scan->last = NULL; /* it has had its turn */
    }
    stretch->next = 0;
    stretch->hinted = 0;
    stretch->looked = 0;
    stretch->begun = 0;
    for (int i = 0; i < count; i++) {
        struct entry *entry = &stretch->entries[i];
        *entry = (struct entry){.scan = scan, .key = gb_keybatch_key(&stretch->keys, (uint32_t)i)};
        entry->hash = gb_index_hash(entry->key.data, entry->key.len);
        entry->request = (struct goblin_request){
            .key = entry->key,
            .flags = scan->flags,
            .on_chunk = hand_chunk,
            .on_done = note_end,
            .arg = entry,
        };
    }
    return count;
}

/* Bucket and item of entry `i` and of some behind it are on their way from memory. */
static void hint(const struct gb_value_scan *scan, struct stretch *stretch, uint32_t i)
{
    const struct gb_index *index = scan->reader->store->index;
    if (i < stretch->hinted) {
        return;
    }
    uint32_t end = (uint32_t)gb_min(i + HINTED, stretch->keys.count);
    for (uint32_t j = i; j < end; j++) {
        gb_index_prefetch(index, stretch->entries[j].hash);
    }
    for (uint32_t j = i; j < end; j++) {
        gb_index_prefetch_item(index, stretch->entries[j].hash);
    }
    stretch->hinted = end;
}

/* ---- reading ahead ------------------------------------------------------------------------- */

/* Inside the read-side section: the run that brings what is not resident, if others may need the
 * same stretch. */
static struct gb_run *plan(struct goblin_reader *reader, uint64_t place, uint64_t size,
                           uint32_t resident)
{
    struct goblin *store = reader->store;
    struct gb_segment *segment = gb_segment_at(&store->segments, place);
    uint32_t alignment = gb_store_drive(store, segment)->alignment.offset;
    uint64_t offset = gb_place_offset(place);
    uint64_t end = gb_table_offset(offset, size) + gb_units(size) * GB_SUM_SIZE;
    return gb_run_plan(reader, segment, gb_align_down(offset + resident, alignment),
                       gb_align_up(end, alignment));
}

/* Whether the entry needs the device, and where from. Only a guess: the request looks again. */
static void foresee(struct gb_value_scan *scan, struct entry *entry)
{
    struct goblin *store = scan->reader->store;
    struct gb_glimpse glimpse;
    gb_rcu_read_lock();
    const struct gb_item *item =
        gb_index_find(store->index, entry->hash, entry->key.data, entry->key.len, &glimpse);
    if (item != NULL && !gb_item_ram_only(item)) {
        uint64_t place = atomic_load_explicit(&item->place, memory_order_relaxed);
        uint64_t size = gb_item_size(item);
        uint32_t resident = gb_item_resident(item);
        bool direct = gb_item_form(item) == GB_FORM_DIRECT;
        entry->wanted = gb_index_unchanged(&glimpse) && resident < size;
        if (entry->wanted && direct && size - resident <= SHARED_MOST) {
            entry->run = plan(scan->reader, place, size, resident);
        }
    }
    gb_rcu_read_unlock();
}

static void give_plan_up(struct entry *entry)
{
    if (entry->run != NULL) {
        gb_run_unplan(entry->run);
        entry->run = NULL;
    }
}

/* Requests that the scan may still begin. */
static bool has_request(const struct gb_value_scan *scan)
{
    const struct goblin_reader *reader = scan->reader;
    unsigned most = (unsigned)gb_min(WAITING_MOST, reader->get_count - reader->get_count / 4);
    return reader->free_gets != NULL && (scan->begun < most || scan->begun == 0);
}

static void begin(struct gb_value_scan *scan, struct entry *entry)
{
    entry->begun = true;
    scan->begun++;
    gb_get_start_ahead(scan->reader, &entry->request, entry->hash, entry->run);
    give_plan_up(entry);
}

/* Whether what the last one begun will read is not all on its way. */
static bool is_held_up(const struct gb_value_scan *scan)
{
    return scan->last != NULL && !scan->last->ended && !gb_get_planned(&scan->last->request);
}

static void look_ahead(struct gb_value_scan *scan, struct stretch *stretch, uint32_t end)
{
    stretch->looked = (uint32_t)gb_max(stretch->looked, stretch->next);
    for (; stretch->looked < gb_min(end, stretch->keys.count); stretch->looked++) {
        hint(scan, stretch, stretch->looked);
        foresee(scan, &stretch->entries[stretch->looked]);
    }
}

/* False: no more can be begun now. */
static bool begin_ahead(struct gb_value_scan *scan, struct stretch *stretch)
{
    stretch->begun = (uint32_t)gb_max(stretch->begun, stretch->next);
    for (; stretch->begun < stretch->looked; stretch->begun++) {
        struct entry *entry = &stretch->entries[stretch->begun];
        bool late = entry->run != NULL && entry->run->data == NULL; /* not asked for yet */
        if (entry->wanted && (late || is_held_up(scan) || !has_request(scan))) {
            return false;
        }
        if (entry->wanted) {
            begin(scan, entry);
            scan->last = entry;
        }
    }
    return true;
}

/* Looks ahead, further each time, once half of what was looked at before has been handed over; and
 * begins of it what can be begun. */
static int read_ahead(struct gb_value_scan *scan)
{
    struct goblin_reader *reader = scan->reader;
    struct stretch *stretch = &scan->stretches[scan->at];
    struct stretch *other = &scan->stretches[!scan->at];
    uint32_t looked = stretch->looked - (uint32_t)gb_min(stretch->next, stretch->looked);
    looked += remaining(other) > 0 ? other->looked : 0;
    if ((scan->flags & GOBLIN_GET_RESIDENT) != 0) {
        return 0;
    }
    if (looked <= scan->ahead / 2) {
        scan->ahead = (uint32_t)gb_min(UINT64_C(2) * scan->ahead, AHEAD_MOST);
        look_ahead(scan, stretch, stretch->next + scan->ahead);
        uint32_t more = scan->ahead - (uint32_t)gb_min(scan->ahead, remaining(stretch));
        if (more > 0) {
            int rc = remaining(other) == 0 ? fill(scan, other) : 0;
            if (rc < 0) {
                return rc;
            }
            look_ahead(scan, other, more);
        }
    }
    gb_runs_start(reader);
    if (begin_ahead(scan, stretch) && remaining(other) > 0) {
        (void)begin_ahead(scan, other);
    }
    (void)reader->queue->io->ops->queue_submit(reader->queue);
    return 0;
}

/* Takes back what was begun and planned for entries that have not had their turn. */
static void take_back(struct gb_value_scan *scan)
{
    for (unsigned i = 0; i < 2; i++) {
        struct stretch *stretch = &scan->stretches[i];
        for (uint32_t j = stretch->next; j < stretch->keys.count; j++) {
            struct entry *entry = &stretch->entries[j];
            give_plan_up(entry);
            if (entry != scan->turn && entry->begun && !entry->ended) {
                goblin_cancel(scan->reader, &entry->request);
                entry->begun = false;
                entry->ended = false;
            }
        }
    }
    scan->last = NULL;
}

/* ---- handing over -------------------------------------------------------------------------- */

/* Waits for a request to be there, if that can be. */
static int await_request(struct gb_value_scan *scan)
{
    struct goblin_reader *reader = scan->reader;
    while (!has_request(scan)) {
        take_back(scan); /* those behind it have them all, or others than the scan */
        bool idle = reader->queue->io->ops->queue_in_flight(reader->queue) == 0;
        int rc = goblin_poll(reader, -1);
        if (rc < 0) {
            return rc;
        }
        if (idle && !has_request(scan)) {
            return -EAGAIN;
        }
    }
    return 0;
}

/* Not small, or not in RAM: by a request. */
static int hand_over_slowly(struct gb_value_scan *scan, struct entry *entry)
{
    int rc = read_ahead(scan);
    if (rc == 0 && !entry->begun) {
        rc = await_request(scan);
    }
    if (rc < 0) {
        return rc;
    }
    if (!entry->begun) {
        begin(scan, entry);
    }
    if (!entry->ended) {
        gb_get_take_turn(&entry->request);
    }
    while (rc >= 0 && !entry->ended) {
        if (gb_get_starves(&entry->request)) {
            take_back(scan); /* those behind it have its buffers */
        }
        rc = goblin_poll(scan->reader, -1);
    }
    return rc < 0 ? rc : 0;
}

/* 0: go on with the next; else the scan is at its end. */
static int hand_over(struct gb_value_scan *scan, struct stretch *stretch)
{
    struct entry *entry = &stretch->entries[stretch->next];
    hint(scan, stretch, stretch->next);
    int rc = 0;
    if (entry->begun || scan->reader->free_gets == NULL ||
        gb_get_small(scan->reader, &entry->request, entry->hash) == GB_GET_NOT_SMALL) {
        scan->turn = entry;
        rc = hand_over_slowly(scan, entry);
        scan->turn = NULL;
    }
    if (rc < 0 || scan->answer != 0) {
        return rc < 0 ? rc : scan->answer;
    }
    give_plan_up(entry);
    stretch->next++;
    scan->left -= entry->handed;
    bool fault = entry->result < 0 && entry->result != GOBLIN_ECORRUPT;
    return fault ? entry->result : 0;
}

static int hand_over_all(struct gb_value_scan *scan)
{
    while (scan->left > 0) {
        struct stretch *stretch = &scan->stretches[scan->at];
        if (remaining(stretch) > 0) {
            int rc = hand_over(scan, stretch);
            if (rc != 0) {
                return rc;
            }
            continue;
        }
        scan->at = !scan->at;
        stretch = &scan->stretches[scan->at];
        int count = remaining(stretch) > 0 ? 1 : fill(scan, stretch);
        if (count <= 0) {
            return count;
        }
    }
    return 0; /* no more are wanted */
}

/* ---- the whole ----------------------------------------------------------------------------- */

int goblin_scan_values(struct goblin_reader *reader, const struct goblin_range *range,
                       unsigned flags, goblin_scan_fn visit, void *arg)
{
    static const struct goblin_range all;
    range = range != NULL ? range : &all;
    int rc = take_memory(reader);
    if (rc < 0) {
        return rc;
    }
    struct gb_value_scan *scan = reader->values;
    rc = gb_scan_init(&scan->scan, reader->store, range);
    if (rc < 0) {
        return rc;
    }
    scan->visit = visit;
    scan->arg = arg;
    scan->flags = flags;
    scan->answer = 0;
    scan->left = gb_scan_limit(range);
    scan->ahead = AHEAD_FIRST / 2;
    scan->begun = 0;
    scan->turn = NULL;
    scan->last = NULL;
    scan->at = 0;
    for (unsigned i = 0; i < 2; i++) {
        scan->stretches[i].keys.count = 0;
        scan->stretches[i].next = 0;
        scan->stretches[i].looked = 0;
    }
    scan->running = true;
    rc = hand_over_all(scan);
    take_back(scan);
    scan->running = false;
    return rc != 0 ? rc : GOBLIN_OK;
}
