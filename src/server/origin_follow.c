/* Who reads along with a fill: see origin.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "server/origin_internal.h"

/* ---- waking -------------------------------------------------------------------------------- */

static void woken(struct gb_post *post)
{
    struct gb_origin_follower *follower =
        (struct gb_origin_follower *)(void *)((char *)post -
                                              offsetof(struct gb_origin_follower, post));
    struct gb_origin_fill *fill = follower->fill;
    struct gb_loop *loop = follower->loop;
    (void)pthread_mutex_lock(&fill->lock);
    follower->queued = false;
    bool left = follower->left;
    (void)pthread_mutex_unlock(&fill->lock);
    if (left) {
        free(follower);
        gb_origin_unref(fill, loop);
    } else if (follower->wake != NULL) {
        follower->wake(follower->arg);
    }
}

static void wake_one_locked(struct gb_origin_follower *follower)
{
    if (follower->waits && !follower->queued) {
        follower->waits = false;
        follower->queued = true;
        follower->post.run = woken;
        gb_loop_post(follower->loop, &follower->post);
    }
}

void gb_origin_wake_locked(struct gb_origin_fill *fill)
{
    for (struct gb_origin_follower *at = fill->followers; at != NULL; at = at->next) {
        wake_one_locked(at);
    }
}

void gb_origin_refuse_locked(struct gb_origin_fill *fill)
{
    fill->closed = true;
    for (struct gb_origin_follower *at = fill->followers; at != NULL; at = at->next) {
        at->refused = !at->first;
    }
}

/* ---- coming and going ---------------------------------------------------------------------- */

struct gb_origin_follower *gb_origin_follower_create(struct gb_origin_fill *fill,
                                                     struct gb_loop *loop)
{
    struct gb_origin_follower *follower = calloc(1, sizeof(*follower));
    if (follower == NULL) {
        return NULL;
    }
    follower->fill = fill;
    follower->loop = loop;
    (void)pthread_mutex_lock(&fill->lock);
    follower->first = !fill->had_follower;
    fill->had_follower = true;
    follower->refused = !follower->first && fill->closed;
    follower->next = fill->followers;
    if (follower->next != NULL) {
        follower->next->prev = follower;
    }
    fill->followers = follower;
    (void)pthread_mutex_unlock(&fill->lock);
    return follower;
}

void gb_origin_set_wake(struct gb_origin_follower *follower, void (*wake)(void *arg), void *arg)
{
    follower->wake = wake;
    follower->arg = arg;
}

static void unlink_locked(struct gb_origin_follower *follower)
{
    struct gb_origin_fill *fill = follower->fill;
    if (follower->prev != NULL) {
        follower->prev->next = follower->next;
    } else {
        fill->followers = follower->next;
    }
    if (follower->next != NULL) {
        follower->next->prev = follower->prev;
    }
}

void gb_origin_leave(struct gb_origin_follower *follower)
{
    if (follower == NULL) {
        return;
    }
    struct gb_origin_fill *fill = follower->fill;
    struct gb_loop *loop = follower->loop;
    (void)pthread_mutex_lock(&fill->lock);
    unlink_locked(follower);
    follower->left = true;
    bool queued = follower->queued;
    if (fill->mode == GB_ORIGIN_MODE_PASS) {
        gb_origin_fill_poke_locked(fill); /* it was the slowest, or the last */
    }
    (void)pthread_mutex_unlock(&fill->lock);
    if (!queued) {
        free(follower);
        gb_origin_unref(fill, loop);
    } /* else its post does it */
}

/* ---- looking ------------------------------------------------------------------------------- */

enum gb_origin_state gb_origin_state(struct gb_origin_follower *follower)
{
    struct gb_origin_fill *fill = follower->fill;
    (void)pthread_mutex_lock(&fill->lock);
    enum gb_origin_state state = follower->refused ? GB_ORIGIN_REFUSED : fill->state;
    follower->waits = state == GB_ORIGIN_ASKING;
    (void)pthread_mutex_unlock(&fill->lock);
    return state;
}

const struct gb_origin_head *gb_origin_head(const struct gb_origin_follower *follower)
{
    return &follower->fill->head;
}

struct gb_http_text gb_origin_variant(const struct gb_origin_follower *follower)
{
    return follower->fill->variant_text;
}

const struct gb_origin_kept *gb_origin_keeps(const struct gb_origin_follower *follower,
                                             struct goblin_slice *meta)
{
    const struct gb_origin_fill *fill = follower->fill;
    *meta = (struct goblin_slice){fill->new_meta, fill->new_meta_len};
    return fill->keeps ? &fill->kept : NULL;
}

int gb_origin_failure(const struct gb_origin_follower *follower)
{
    struct gb_origin_fill *fill = follower->fill;
    (void)pthread_mutex_lock(&fill->lock);
    int failure = fill->failure;
    (void)pthread_mutex_unlock(&fill->lock);
    return failure;
}

/* ---- reading ------------------------------------------------------------------------------- */

static uint64_t tail_of(const struct gb_origin_fill *fill)
{
    return fill->come > fill->window_bytes ? fill->come - fill->window_bytes : 0;
}

void gb_origin_yield(struct gb_origin_fill *fill, struct gb_loop *loop)
{
    size_t bytes = 0;
    (void)pthread_mutex_lock(&fill->lock);
    if (fill->committed) {
        bytes = fill->window_bytes;
        free(fill->window);
        fill->window = NULL;
        fill->window_bytes = 0;
    }
    (void)pthread_mutex_unlock(&fill->lock);
    gb_loop_give_bytes(loop, bytes);
}

void gb_origin_wait(struct gb_origin_follower *follower)
{
    gb_origin_yield(follower->fill, follower->loop);
}

size_t gb_origin_room_locked(const struct gb_origin_fill *fill)
{
    uint64_t floor = 0;
    if (fill->mode == GB_ORIGIN_MODE_STREAM) {
        floor = fill->stored;
    } else if (fill->mode == GB_ORIGIN_MODE_PASS) {
        floor = fill->come;
        for (const struct gb_origin_follower *at = fill->followers; at != NULL; at = at->next) {
            /* Who has fallen behind before the store failed cannot be helped. */
            if (!at->refused && at->position >= tail_of(fill)) {
                floor = gb_min(floor, at->position);
            }
        }
    }
    if (fill->lent) {
        floor = gb_min(floor, fill->stored);
    }
    return fill->window_bytes - (size_t)(fill->come - floor);
}

static size_t copy_locked(const struct gb_origin_fill *fill, uint64_t position, void *to,
                          size_t most)
{
    size_t len = (size_t)gb_min(most, fill->come - position);
    size_t at = (size_t)(position % fill->window_bytes);
    size_t first = gb_min(len, fill->window_bytes - at);
    memcpy(to, fill->window + at, first);
    memcpy((unsigned char *)to + first, fill->window, len - first);
    return len;
}

static ssize_t read_behind_locked(struct gb_origin_follower *follower)
{
    const struct gb_origin_fill *fill = follower->fill;
    if (fill->committed) {
        return GB_ORIGIN_STORED;
    }
    if (fill->fault != 0) {
        return fill->fault;
    }
    if (fill->settled) {
        return GB_ORIGIN_LOST;
    }
    follower->waits = true;
    return GB_ORIGIN_WAIT;
}

static ssize_t read_locked(struct gb_origin_follower *follower, uint64_t position, void *to,
                           size_t most)
{
    struct gb_origin_fill *fill = follower->fill;
    if (position < tail_of(fill)) {
        return read_behind_locked(follower);
    }
    if (position < fill->come) {
        size_t len = copy_locked(fill, position, to, most);
        follower->position = position + len;
        return (ssize_t)len;
    }
    if (fill->fault != 0) {
        return fill->fault;
    }
    if (fill->complete) {
        return GB_ORIGIN_END;
    }
    follower->waits = true;
    return GB_ORIGIN_WAIT;
}

ssize_t gb_origin_read(struct gb_origin_follower *follower, uint64_t position, void *to,
                       size_t most)
{
    struct gb_origin_fill *fill = follower->fill;
    (void)pthread_mutex_lock(&fill->lock);
    follower->position = gb_max(follower->position, position);
    ssize_t result = read_locked(follower, position, to, most);
    /* A quarter of the window at a time, not every few bytes. */
    if (fill->mode == GB_ORIGIN_MODE_PASS && fill->stopped &&
        gb_origin_room_locked(fill) >= fill->window_bytes / 4) {
        gb_origin_fill_poke_locked(fill);
    }
    (void)pthread_mutex_unlock(&fill->lock);
    return result;
}

void gb_origin_stored(struct gb_origin_follower *follower, struct goblin_slice *key,
                      struct goblin_info *info)
{
    struct gb_origin_fill *fill = follower->fill;
    (void)pthread_mutex_lock(&fill->lock);
    *key = (struct goblin_slice){fill->put_key, fill->put_key_len};
    *info = (struct goblin_info){
        .version = fill->version, .size = fill->come, .expires_ms = fill->expires_ms};
    (void)pthread_mutex_unlock(&fill->lock);
}

/* ---- variants ------------------------------------------------------------------------------ */

bool gb_origin_place(struct goblin_slice base, struct gb_http_text variant, unsigned char *out,
                     size_t size, size_t *len)
{
    static const char mark[] = "\n#";
    char number[4];
    uint64_t hash =
        gb_origin_hash(base) ^ gb_origin_hash((struct goblin_slice){variant.at, variant.len});
    int digits = snprintf(number, sizeof(number), "%u", (unsigned)(hash % GB_ORIGIN_PLACES));
    *len = base.len + sizeof(mark) - 1 + (size_t)digits;
    if (*len > size) {
        return false;
    }
    memcpy(out, base.data, base.len);
    memcpy(out + base.len, mark, sizeof(mark) - 1);
    memcpy(out + base.len + sizeof(mark) - 1, number, (size_t)digits);
    return true;
}
