/* Many gets in one call. Keys are taken in groups: memory is asked for all buckets of a group, then
 * for all items, then each request is started; what the group needs of the device is submitted at
 * once. */
#include <errno.h>

#include "engine/reader_internal.h"

#define AT_ONCE 32u
#define PENDING INT32_MAX /* no result */

struct many {
    struct goblin_reader *reader;
    struct goblin_request *requests;
    int *results;
    size_t count;
    size_t started; /* requests before this one are, or have ended */
    size_t ended;   /* requests before this one have */
};

static int check(const struct goblin_request *requests, size_t count)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = requests[i].on_chunk == NULL ? -EINVAL : gb_check_key(requests[i].key);
    }
    return rc;
}

/* Lets requests of the reader go on. When the device has nothing to do then, they wait for what the
 * caller holds. */
static int go_on(struct goblin_reader *reader)
{
    int rc = goblin_poll(reader, -1);
    bool stuck = reader->queue->io->ops->queue_in_flight(reader->queue) == 0;
    return rc < 0 ? rc : stuck ? -EAGAIN : 0;
}

static int start(struct many *many, uint64_t hash)
{
    struct goblin_reader *reader = many->reader;
    int rc = 0;
    while (rc == 0 && reader->free_gets == NULL) {
        rc = go_on(reader);
        rc = reader->free_gets != NULL && rc == -EAGAIN ? 0 : rc;
    }
    if (rc < 0) {
        return rc;
    }
    struct goblin_request *request = &many->requests[many->started];
    int *result = &many->results[many->started];
    many->started++;
    int answer = gb_get_small(reader, request, hash);
    if (answer == GB_GET_NOT_SMALL) {
        gb_get_start(reader, request, hash, result, NULL);
    } else {
        *result = answer;
    }
    return 0;
}

static int start_group(struct many *many, size_t count)
{
    struct goblin_reader *reader = many->reader;
    const struct gb_index *index = reader->store->index;
    const struct goblin_request *requests = &many->requests[many->started];
    uint64_t hash[AT_ONCE];
    for (size_t i = 0; i < count; i++) {
        hash[i] = gb_index_hash(requests[i].key.data, requests[i].key.len);
        gb_index_prefetch(index, hash[i]);
    }
    for (size_t i = 0; i < count; i++) {
        gb_index_prefetch_item(index, hash[i]);
    }
    int rc = 0;
    reader->gathers = true;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = start(many, hash[i]);
    }
    reader->gathers = false;
    (void)reader->queue->io->ops->queue_submit(reader->queue); /* a poll tries again */
    return rc;
}

static bool all_ended(struct many *many)
{
    while (many->ended < many->count && many->results[many->ended] != PENDING) {
        many->ended++;
    }
    return many->ended == many->count;
}

/* Nothing in the reader may point to the results any more. */
static void abandon(struct many *many)
{
    for (size_t i = many->ended; i < many->count; i++) {
        struct goblin_request *request = &many->requests[i];
        if (many->results[i] != PENDING) {
            continue;
        }
        if (i < many->started) {
            goblin_cancel(many->reader, request);
            continue;
        }
        many->results[i] = GOBLIN_ECANCELED;
        if (request->on_done != NULL) {
            request->on_done(request->arg, GOBLIN_ECANCELED, NULL);
        }
    }
}

int goblin_get_many(struct goblin_reader *reader, struct goblin_request *requests, size_t count,
                    int *results)
{
    struct many many = {.reader = reader, .requests = requests, .results = results, .count = count};
    int rc = check(requests, count);
    if (rc < 0) {
        return rc;
    }
    for (size_t i = 0; i < count; i++) {
        results[i] = PENDING;
    }
    while (rc == 0 && many.started < count) {
        rc = start_group(&many, gb_min(count - many.started, AT_ONCE));
    }
    while (rc == 0 && !all_ended(&many)) {
        rc = go_on(reader);
        rc = rc == -EAGAIN && all_ended(&many) ? 0 : rc;
    }
    if (rc < 0) {
        abandon(&many);
    }
    return rc < 0 ? rc : GOBLIN_OK;
}
