/*
 * What becomes of an answer's bytes: see origin.h.
 *
 * An answer that ends within the window is put at once, a longer one is streamed. Of one whose
 * length nobody told, that is known when the window is full.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "server/origin_internal.h"

static void maybe_finish(struct gb_origin_fill *fill)
{
    if (fill->ending && !fill->stream_used && !fill->change_busy && !fill->finished) {
        fill->finished = true;
        gb_origin_fill_finish(fill);
    }
}

/* It is not stored after all. */
static void give_up(struct gb_origin_fill *fill)
{
    gb_origin_leave_table(fill);
    gb_metrics_add(fill->loop->metrics, GB_METRICS_origin_unstored, 1);
    (void)pthread_mutex_lock(&fill->lock);
    fill->mode = GB_ORIGIN_MODE_PASS;
    fill->settled = true;
    gb_origin_wake_locked(fill);
    gb_origin_fill_poke_locked(fill); /* the window moves with the followers now */
    (void)pthread_mutex_unlock(&fill->lock);
}

/* ---- afterwards ---------------------------------------------------------------------------- */

static void change_over(struct gb_change *change)
{
    struct gb_origin_fill *fill = change->arg;
    fill->change_busy = false;
    maybe_finish(fill);
}

static void make_change(struct gb_origin_fill *fill, void (*done)(struct gb_change *change))
{
    fill->change.arg = fill;
    fill->change.done = done;
    fill->change_busy = true;
    if (gb_backend_change(fill->loop, &fill->change) != GB_PENDING) {
        done(&fill->change);
    }
}

/* Says at the key itself that which object is meant depends on the request. */
static void put_vary(struct gb_origin_fill *fill)
{
    struct gb_http_meta_writer writer;
    gb_http_meta_begin(&writer, fill->vary_meta, sizeof(fill->vary_meta));
    if (!gb_origin_head_keep_vary(fill->head.vary, &writer)) {
        maybe_finish(fill); /* too long, see chooses_place */
        return;
    }
    fill->change = (struct gb_change){
        .kind = GB_CHANGE_PUT,
        .key = {fill->base, fill->base_len},
        .options = {.meta = {fill->vary_meta, writer.len},
                    .expires_ms = fill->expires_ms + INT64_C(4000) * GB_ORIGIN_HEAD_KEEP_S},
    };
    make_change(fill, change_over);
}

static bool is_at(const struct gb_origin_fill *fill, const unsigned char *key, size_t len)
{
    return fill->put_key_len == len && memcmp(fill->put_key, key, len) == 0;
}

/* The store has taken it, or not. */
static void settle(struct gb_origin_fill *fill, int result, uint64_t version)
{
    if (result != GOBLIN_OK) {
        give_up(fill);
        maybe_finish(fill);
        return;
    }
    (void)pthread_mutex_lock(&fill->lock);
    fill->committed = true;
    fill->settled = true;
    fill->version = version;
    gb_origin_wake_locked(fill);
    (void)pthread_mutex_unlock(&fill->lock);
    if (!is_at(fill, fill->base, fill->base_len) && !is_at(fill, fill->key, fill->key_len)) {
        put_vary(fill);
    } else {
        maybe_finish(fill);
    }
}

/* ---- at once ------------------------------------------------------------------------------- */

static struct goblin_put_options put_options(const struct gb_origin_fill *fill)
{
    struct goblin_put_options options = {
        .meta = {fill->new_meta, fill->new_meta_len},
        .expires_ms = fill->expires_ms,
    };
    /* What somebody else has put there meanwhile is newer than what was asked for before. */
    if (is_at(fill, fill->key, fill->key_len)) {
        options.condition = fill->old_version == 0 ? GOBLIN_IF_ABSENT : GOBLIN_IF_VERSION;
        options.if_version = fill->old_version;
    }
    return options;
}

static void put_over(struct gb_change *change)
{
    struct gb_origin_fill *fill = change->arg;
    fill->change_busy = false;
    settle(fill, change->result, change->version);
}

static void put_whole(struct gb_origin_fill *fill)
{
    fill->change = (struct gb_change){
        .kind = GB_CHANGE_PUT,
        .key = {fill->put_key, fill->put_key_len},
        .value = {fill->window, fill->come},
        .options = put_options(fill),
    };
    make_change(fill, put_over);
}

/* ---- streaming ----------------------------------------------------------------------------- */

static void lend(struct gb_origin_fill *fill, bool lent)
{
    (void)pthread_mutex_lock(&fill->lock);
    fill->lent = lent;
    (void)pthread_mutex_unlock(&fill->lock);
}

static void stream_gone(struct gb_stream *stream)
{
    struct gb_origin_fill *fill = stream->arg;
    (void)pthread_mutex_lock(&fill->lock);
    fill->lent = false;
    gb_origin_fill_poke_locked(fill);
    (void)pthread_mutex_unlock(&fill->lock);
    fill->stream_used = false;
    maybe_finish(fill);
}

/* It may be over with the fill when this returns. */
static void drop_stream(struct gb_origin_fill *fill)
{
    if (fill->stream_used) {
        gb_backend_stream_abort(&fill->stream);
    }
}

static void stream_went(struct gb_origin_fill *fill)
{
    const struct gb_stream *stream = &fill->stream;
    bool committing = fill->committing;
    if (committing || (stream->result < 0 && !fill->stream_open)) {
        fill->stream_used = false;
        settle(fill, stream->result, stream->version);
    } else if (stream->result < 0) {
        give_up(fill);
        drop_stream(fill);
    } else {
        (void)pthread_mutex_lock(&fill->lock);
        fill->stored += fill->writing;
        (void)pthread_mutex_unlock(&fill->lock);
        fill->writing = 0;
        fill->stream_open = true;
        gb_origin_store_pump(fill);
    }
    gb_origin_fill_go_on(fill);
}

static void stream_done(struct gb_stream *stream)
{
    struct gb_origin_fill *fill = stream->arg;
    struct gb_loop *loop = fill->loop;
    gb_origin_ref(fill);
    fill->stream_busy = false;
    lend(fill, false);
    stream_went(fill);
    gb_origin_unref(fill, loop);
}

static void begin_stream(struct gb_origin_fill *fill)
{
    (void)pthread_mutex_lock(&fill->lock);
    fill->mode = GB_ORIGIN_MODE_STREAM;
    (void)pthread_mutex_unlock(&fill->lock);
    fill->stream = (struct gb_stream){
        .key = {fill->put_key, fill->put_key_len},
        .size = fill->head.length == GB_ORIGIN_HEAD_LENGTH_UNKNOWN ? GOBLIN_SIZE_UNKNOWN
                                                                   : fill->head.length,
        .options = put_options(fill),
        .done = stream_done,
        .gone = stream_gone,
        .arg = fill,
    };
    fill->stream_used = fill->stream_busy = true;
    gb_backend_stream_begin(fill->loop, &fill->stream);
}

static void write_stream(struct gb_origin_fill *fill, uint64_t waiting)
{
    size_t at = (size_t)(fill->stored % fill->window_bytes);
    fill->writing = (size_t)gb_min(waiting, fill->window_bytes - at);
    fill->stream_busy = true;
    lend(fill, true);
    gb_backend_stream_write(&fill->stream, fill->window + at, fill->writing);
}

static void pump_stream(struct gb_origin_fill *fill)
{
    uint64_t waiting = fill->come - fill->stored;
    if (fill->stream_busy) {
        return;
    }
    if (waiting >= GB_ORIGIN_PIECE_BYTES || (waiting > 0 && (fill->stopped || fill->complete))) {
        write_stream(fill, waiting);
    } else if (fill->complete) {
        fill->committing = fill->stream_busy = true;
        gb_backend_stream_commit(&fill->stream);
    }
}

void gb_origin_store_pump(struct gb_origin_fill *fill)
{
    if (fill->mode != GB_ORIGIN_MODE_PASS && fill->come > fill->origin->options.object_bytes) {
        give_up(fill);
        if (fill->stream_used) {
            drop_stream(fill);
            return;
        }
    }
    switch (fill->mode) {
    case GB_ORIGIN_MODE_PASS:
        maybe_finish(fill);
        break;
    case GB_ORIGIN_MODE_GATHER:
        if (fill->complete) {
            put_whole(fill);
        } else if (fill->stopped) {
            begin_stream(fill);
        }
        break;
    case GB_ORIGIN_MODE_STREAM:
        pump_stream(fill);
        break;
    }
}

void gb_origin_store_abort(struct gb_origin_fill *fill)
{
    (void)pthread_mutex_lock(&fill->lock);
    bool was_settled = fill->settled;
    fill->mode = GB_ORIGIN_MODE_PASS;
    fill->settled = true;
    (void)pthread_mutex_unlock(&fill->lock);
    if (!was_settled && fill->stream_used) {
        drop_stream(fill);
        return;
    }
    maybe_finish(fill);
}

/* ---- deciding ------------------------------------------------------------------------------ */

/* Where it goes. False: nowhere. */
static bool choose_place(struct gb_origin_fill *fill)
{
    const struct goblin_slice base = {fill->base, fill->base_len};
    fill->put_key = malloc(GOBLIN_KEY_MAX);
    if (fill->put_key == NULL || fill->head.vary.len >= GB_ORIGIN_VARY_BYTES - 16) {
        return false;
    }
    if (fill->variant_text.at != NULL) {
        return gb_origin_place(base, fill->variant_text, fill->put_key, GOBLIN_KEY_MAX,
                               &fill->put_key_len);
    }
    memcpy(fill->put_key, base.data, base.len);
    fill->put_key_len = base.len;
    return true;
}

static bool is_kept(struct gb_origin_fill *fill)
{
    struct gb_http_meta_writer writer;
    const struct gb_origin_head *head = &fill->head;
    if (fill->unstored || !gb_origin_head_may_keep(head, &fill->control) ||
        (head->length != GB_ORIGIN_HEAD_LENGTH_UNKNOWN &&
         head->length > fill->origin->options.object_bytes) ||
        !choose_place(fill)) {
        return false;
    }
    gb_http_meta_begin(&writer, fill->new_meta, sizeof(fill->new_meta));
    if (!gb_origin_head_keep(head, fill->variant_text, &writer)) {
        return false;
    }
    fill->new_meta_len = writer.len;
    fill->expires_ms = (gb_origin_head_birth_s(head) + gb_origin_head_kept_s(head)) * 1000;
    return fill->expires_ms > fill->loop->wall_ms;
}

void gb_origin_store_begin(struct gb_origin_fill *fill)
{
    fill->keeps = is_kept(fill);
    if (!fill->keeps) {
        return;
    }
    gb_origin_head_kept(&fill->kept, fill->new_meta, fill->new_meta_len, fill->expires_ms);
    if (fill->head.length != GB_ORIGIN_HEAD_LENGTH_UNKNOWN &&
        fill->head.length > fill->window_bytes) {
        begin_stream(fill);
    }
}

/* ---- a 304 --------------------------------------------------------------------------------- */

static void tell_same(struct gb_origin_fill *fill)
{
    gb_metrics_add(fill->loop->metrics, GB_METRICS_origin_revalidated, 1);
    gb_origin_leave_table(fill);
    (void)pthread_mutex_lock(&fill->lock);
    fill->state = GB_ORIGIN_SAME;
    gb_origin_wake_locked(fill);
    (void)pthread_mutex_unlock(&fill->lock);
    maybe_finish(fill);
}

/* However it went: what there is was good at the moment the origin said so. */
static void amended(struct gb_change *change)
{
    struct gb_origin_fill *fill = change->arg;
    fill->change_busy = false;
    tell_same(fill);
}

static void rewritten(struct gb_edit *edit)
{
    struct gb_origin_fill *fill = edit->arg;
    fill->change_busy = false;
    tell_same(fill);
}

static enum gb_edit_answer rewrite(struct gb_edit *edit, const struct goblin_info *info,
                                   struct goblin_slice meta, struct goblin_slice value)
{
    const struct gb_origin_fill *fill = edit->arg;
    (void)meta;
    (void)value;
    if (info == NULL || info->version != fill->old_version) {
        return GB_EDIT_LEAVE;
    }
    edit->options.meta = (struct goblin_slice){fill->new_meta, fill->new_meta_len};
    edit->options.expires_ms = fill->expires_ms;
    edit->options.flags = info->flags;
    return GB_EDIT_JOIN; /* with nothing */
}

static void rewrite_meta(struct gb_origin_fill *fill)
{
    struct gb_http_meta_writer writer;
    const struct gb_http_text meta = {(const char *)fill->old_meta, fill->old_meta_len};
    gb_http_meta_begin(&writer, fill->new_meta, sizeof(fill->new_meta));
    if (!gb_origin_head_renew(&fill->head, meta, &fill->old, &writer, &fill->expires_ms)) {
        tell_same(fill);
        return;
    }
    fill->new_meta_len = writer.len;
    fill->edit = (struct gb_edit){
        .key = {fill->key, fill->key_len},
        .decide = rewrite,
        .done = rewritten,
        .arg = fill,
    };
    fill->change_busy = true;
    if (gb_backend_edit(fill->loop, &fill->edit) != GB_PENDING) {
        rewritten(&fill->edit);
    }
}

void gb_origin_store_renew(struct gb_origin_fill *fill)
{
    int64_t expires_ms = 0;
    if (!gb_origin_head_same(&fill->head, &fill->old, &expires_ms)) {
        rewrite_meta(fill);
        return;
    }
    fill->change = (struct gb_change){
        .kind = GB_CHANGE_AMEND,
        .key = {fill->key, fill->key_len},
        .amendment = {.what = GOBLIN_AMEND_EXPIRES,
                      .expires_ms = expires_ms,
                      .condition = GOBLIN_IF_VERSION,
                      .if_version = fill->old_version},
    };
    make_change(fill, amended);
}
