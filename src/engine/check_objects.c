/* Checking objects: every byte of every one is read, a few at a time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <goblin/reader.h>

#include "engine/check_internal.h"

#define READS_DEFAULT 4u
#define READS_MAX     64u

/* An object that is being read. */
struct look {
    struct goblin_request request;
    struct tour *tour;
    struct goblin_info info; /* as the index knows it */
    uint64_t next;           /* offset of the byte that has to come */
    bool out_of_order;
    bool busy;
    size_t key_len;
    unsigned char key[GOBLIN_KEY_MAX];
};

struct tour {
    struct gb_check *check;
    struct goblin_reader *reader;
    struct look *looks;
    unsigned count;
};

static int take_chunk(void *arg, const struct goblin_chunk *chunk)
{
    struct look *look = arg;
    struct gb_check *check = look->tour->check;
    look->out_of_order |= chunk->offset != look->next;
    look->next += chunk->len;
    check->result->bytes += chunk->len;
    if (check->options->on_progress != NULL) {
        check->options->on_progress(check->options->arg, check->result->bytes, check->total_bytes);
    }
    return GOBLIN_CHUNK_DONE;
}

/* Where its record says that its payload, or the list of its extents, lies. */
static uint64_t place_of(struct goblin *store, const struct look *look)
{
    uint64_t place = 0;
    struct gb_locked locked;
    gb_index_lock(store->index, gb_index_hash(look->key, look->key_len), &locked);
    const struct gb_item *item = gb_index_find_locked(&locked, look->key, look->key_len);
    if (item != NULL) {
        place = atomic_load_explicit(&item->place, memory_order_relaxed);
    }
    gb_index_unlock(&locked);
    return place;
}

static void find_bad(struct look *look, const char *what)
{
    struct gb_check *check = look->tour->check;
    uint64_t place = place_of(check->store, look);
    struct gb_case about = {
        .trouble = GB_TROUBLE_OBJECT,
        .what = what,
        .slot = gb_place_slot(place),
        .offset = gb_place_offset(place),
        .version = look->info.version,
    };
    if (gb_segment_path(&check->store->segments, about.slot, about.path, sizeof(about.path)) < 0) {
        about.path[0] = '\0';
    }
    gb_check_found(check, &about, (struct goblin_slice){look->key, look->key_len});
}

static void judge(void *arg, int result, const struct goblin_info *info)
{
    (void)info;
    struct look *look = arg;
    struct gb_check *check = look->tour->check;
    look->busy = false;
    if (result == GOBLIN_MISS && gb_expired(look->info.expires_ms, gb_store_now_ms(check->store))) {
        check->result->expired++;
        return;
    }
    if (result == -ENOMEM || result == -EMFILE || result == GOBLIN_ECANCELED) {
        check->fault = check->fault < 0 ? check->fault : result;
        return;
    }
    check->result->objects++;
    if (result == GOBLIN_MISS) {
        find_bad(look, "the index knows it, but it could not be read back");
    } else if (result < 0) {
        find_bad(look, goblin_strerror(result));
    } else if (look->out_of_order || look->next != look->info.size) {
        find_bad(look, "reading it gave other bytes than its size says");
    }
}

static struct look *find_free(struct tour *tour)
{
    while (tour->check->fault == 0) {
        for (unsigned i = 0; i < tour->count; i++) {
            if (!tour->looks[i].busy) {
                return &tour->looks[i];
            }
        }
        int rc = goblin_poll(tour->reader, -1);
        tour->check->fault = rc < 0 ? rc : tour->check->fault;
    }
    return NULL;
}

/* Nonzero ends the iteration. */
static int visit(void *arg, struct goblin_slice key, const struct goblin_info *info)
{
    struct tour *tour = arg;
    struct look *look = find_free(tour);
    if (look == NULL) {
        return 1;
    }
    memcpy(look->key, key.data, key.len);
    look->key_len = key.len;
    look->info = *info;
    look->next = 0;
    look->out_of_order = false;
    look->busy = true;
    look->request = (struct goblin_request){
        .key = {look->key, look->key_len},
        .flags = GOBLIN_GET_META | GOBLIN_GET_QUIET,
        .on_chunk = take_chunk,
        .on_done = judge,
        .arg = look,
    };
    int rc = goblin_submit(tour->reader, &look->request);
    while (rc == -EAGAIN) {
        /* One that has failed keeps its place until its other reads are in. */
        rc = goblin_poll(tour->reader, -1);
        rc = rc < 0 ? rc : goblin_submit(tour->reader, &look->request);
    }
    if (rc < 0) {
        look->busy = false;
        tour->check->fault = rc;
    }
    return tour->check->fault < 0;
}

static int add_size(void *arg, struct goblin_slice key, const struct goblin_info *info)
{
    (void)key;
    *(uint64_t *)arg += info->size;
    return 0;
}

static int read_all(struct tour *tour)
{
    struct gb_check *check = tour->check;
    uint64_t cursor = 0;
    if (check->options->on_progress != NULL) {
        int rc = goblin_iterate(check->store, &cursor, 0, add_size, &check->total_bytes);
        if (rc < 0) {
            return rc;
        }
    }
    int rc = goblin_iterate(check->store, &cursor, 0, visit, tour);
    while (rc >= 0 && (rc = goblin_poll(tour->reader, -1)) > 0) {
        /* what is in flight comes in */
    }
    return rc;
}

void gb_check_objects(struct gb_check *check)
{
    struct tour tour = {.check = check, .count = check->options->reads};
    tour.count = (unsigned)gb_min(tour.count != 0 ? tour.count : READS_DEFAULT, READS_MAX);
    tour.looks = calloc(tour.count, sizeof(*tour.looks));
    const struct goblin_reader_options options = {.requests = tour.count};
    int rc =
        tour.looks != NULL ? goblin_reader_create(&tour.reader, check->store, &options) : -ENOMEM;
    if (rc >= 0) {
        for (unsigned i = 0; i < tour.count; i++) {
            tour.looks[i].tour = &tour;
        }
        rc = read_all(&tour);
        goblin_reader_destroy(tour.reader);
    }
    free(tour.looks);
    check->fault = check->fault < 0 ? check->fault : rc < 0 ? rc : 0;
}
