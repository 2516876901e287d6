/* Reading tails: which stretches, with which sums, and whether they are what was written. */
#include <errno.h>
#include <stdlib.h>

#include "base/assert.h"
#include "engine/reader_internal.h"

#define LONG_TAIL (512 * GB_KIB)

/* One stretch of payload that lies in one piece on disk. */
struct extent_view {
    uint32_t number;
    uint64_t start; /* payload position of its first byte */
    uint64_t len;
    struct gb_segment *segment;
    uint64_t offset; /* of its first byte in the segment */
};

static int find_extent(const struct gb_get *get, uint64_t position, struct extent_view *view)
{
    struct gb_segments *segments = &get->reader->store->segments;
    if (gb_item_form(get->item) != GB_FORM_EXTENTS) {
        *view = (struct extent_view){
            .len = get->size,
            .segment = gb_segment_at(segments, get->place),
            .offset = gb_place_offset(get->place),
        };
        return 0;
    }
    const unsigned char *list = get->item->key + gb_item_key_len(get->item) + GB_EXTENTS_HEADER;
    uint64_t start = 0;
    for (uint32_t i = 0; i < get->extent_count; i++) {
        struct gb_extent extent;
        int rc = gb_extent_decode(&extent, list + (size_t)i * GB_EXTENT_SIZE);
        if (rc < 0) {
            return rc;
        }
        if (position < start + extent.len) {
            *view = (struct extent_view){
                .number = i,
                .start = start,
                .len = extent.len,
                .segment = gb_segment_at(segments, extent.place),
                .offset = gb_place_offset(extent.place),
            };
            return view->segment->generation == extent.generation ? 0 : GOBLIN_ECORRUPT;
        }
        start += extent.len;
    }
    return GOBLIN_ECORRUPT;
}

/* ---- what to read -------------------------------------------------------------------------- */

static int queue_read(struct gb_get *get, const struct gb_operation *read)
{
    struct goblin_reader *reader = get->reader;
    int rc = reader->queue->io->ops->queue_prepare(reader->queue, read);
    if (rc == 0) {
        get->in_flight++;
        gb_tally_add(&reader->tally, GB_COUNT_device_reads, 1);
        gb_tally_add(&reader->tally, GB_COUNT_device_read_bytes, read->len);
    }
    return rc;
}

static uint32_t alignment_of(const struct gb_get *get, const struct gb_segment *segment)
{
    return gb_store_drive(get->reader->store, segment)->alignment.offset;
}

/* A window that holds the sums of units [first, first + count): one that is there, or a new read.
 * 0: *out is set; -EAGAIN: both windows are in use. */
static int get_window(struct gb_get *get, const struct extent_view *view, uint64_t first,
                      uint64_t count, struct gb_window **out)
{
    struct gb_window *spare = NULL;
    for (unsigned i = 0; i < 2; i++) {
        struct gb_window *window = &get->windows[i];
        if (window->used && window->extent == view->number && window->first <= first &&
            first + count <= window->first + window->count) {
            window->refs++;
            *out = window;
            return 0;
        }
        if (!window->reading && window->refs == 0) {
            spare = window;
        }
    }
    if (spare == NULL) {
        return -EAGAIN;
    }
    if (spare->data == NULL) {
        void *data = NULL;
        if (posix_memalign(&data, GB_BLOCK, GB_WINDOW_BYTES) != 0) {
            return -ENOMEM;
        }
        spare->data = data;
        get->reader->budget_bytes += GB_WINDOW_BYTES;
        atomic_fetch_add(&get->reader->store->budget.read, GB_WINDOW_BYTES);
    }
    uint32_t alignment = alignment_of(get, view->segment);
    uint64_t table = gb_table_offset(view->offset, view->len);
    uint64_t from = gb_align_down(table + first * GB_SUM_SIZE, alignment);
    uint32_t skew = (uint32_t)(table + first * GB_SUM_SIZE - from);
    uint64_t most = gb_min((GB_WINDOW_BYTES - skew) / GB_SUM_SIZE, gb_units(view->len) - first);
    GB_ASSERT(most >= count);
    uint32_t len = (uint32_t)gb_align_up(skew + most * GB_SUM_SIZE, alignment);
    const struct gb_operation read = {
        .op = GB_OP_READ,
        .file = view->segment->file,
        .buffer = spare->data,
        .len = len,
        .offset = from,
        .tag = gb_tail_tag(spare, GB_TAG_WINDOW),
    };
    int rc = queue_read(get, &read);
    if (rc < 0) {
        return rc;
    }
    spare->get = get;
    spare->used = true;
    spare->reading = true;
    spare->extent = view->number;
    spare->first = first;
    spare->count = most;
    spare->sums = spare->data + skew;
    spare->refs = 1;
    *out = spare;
    return 0;
}

/* Where the piece lands: at its final place in the buffer of goblin_load if that is aligned, else
 * in one of the reader's. */
static void place_piece(struct gb_get *get, struct gb_piece *piece, uint32_t alignment)
{
    struct goblin_reader *reader = get->reader;
    piece->buffer = GB_NO_BUFFER;
    if (get->load != NULL && piece->skew == 0 && piece->from >= get->meta_len) {
        uint64_t at = piece->from - get->meta_len;
        /* Only behind the value's end may a read bring more than payload: sums, padding. */
        bool exact = piece->len == piece->to - piece->from || piece->to == get->size;
        if (exact && at % alignment == 0 && at + piece->len <= get->load->capacity) {
            piece->data = get->load->data + at;
            return;
        }
    }
    piece->buffer = gb_reader_take_buffer(reader);
    piece->data = reader->buffers[piece->buffer].data;
}

/* How far one read goes from `from`, inside the extent and the range. */
static uint64_t choose_end(const struct gb_get *get, const struct extent_view *view, uint64_t from)
{
    const struct goblin_options *options = &get->reader->store->options;
    uint64_t limit = gb_min(view->start + view->len, gb_align_up(get->end, GB_UNIT));
    uint64_t chunk = get->first_planned ? options->chunk_bytes : options->first_chunk_bytes;
    /* A little more than a chunk is not worth another read. */
    if (limit - from <= gb_min(chunk + chunk / 2, options->chunk_bytes)) {
        return limit;
    }
    return gb_align_down(from + chunk, GB_UNIT);
}

/* Bytes that the device does not have yet come from the lane's blocks. 1: done. */
static int fetch_unwritten(struct gb_get *get, struct gb_piece *piece,
                           const struct extent_view *view, uint64_t need)
{
    struct goblin *store = get->reader->store;
    if (gb_item_form(get->item) == GB_FORM_EXTENTS ||
        atomic_load_explicit(&view->segment->written, memory_order_acquire) >= need) {
        return 0;
    }
    int rc = gb_lane_fetch(&store->lanes[view->segment->lane], view->segment, piece->at,
                           piece->data + piece->skew, (uint32_t)(piece->to - piece->from), need);
    if (rc == 1) {
        piece->trusted = true;
        piece->state = GB_PIECE_READY;
        piece->result = (int32_t)piece->len;
    }
    return rc;
}

/* Chooses the stretch from the next position on that one read brings. True: its sums come along. */
static bool choose_piece(struct gb_get *get, const struct extent_view *view, struct gb_piece *piece,
                         uint64_t *read_from)
{
    uint32_t alignment = alignment_of(get, view->segment);
    uint64_t from = gb_max(gb_align_down(get->plan_at, GB_UNIT), get->resident);
    uint64_t to = choose_end(get, view, from);
    uint64_t at = view->offset + (from - view->start);
    uint64_t payload_end = view->offset + (to - view->start);
    uint64_t first_unit = (from - view->start) / GB_UNIT;
    uint64_t table = gb_table_offset(view->offset, view->len);
    uint64_t table_end = table + gb_units(to - view->start) * GB_SUM_SIZE;
    *read_from = gb_align_down(at, alignment);
    /* A stretch up to the extent's end brings its sums along if they fit. */
    bool along = to == view->start + view->len && !get->windows[0].used &&
                 gb_align_up(table_end, alignment) - *read_from <= get->reader->buffer_bytes;
    uint64_t read_end = gb_align_up(along ? table_end : payload_end, alignment);
    *piece = (struct gb_piece){
        .get = get,
        .segment = view->segment,
        .from = from,
        .to = to,
        .at = at,
        .skew = (uint32_t)(at - *read_from),
        .sums = (uint32_t)(table + first_unit * GB_SUM_SIZE - *read_from),
        .len = (uint32_t)(read_end - *read_from),
        .state = GB_PIECE_READING,
    };
    GB_ASSERT(piece->len <= get->reader->buffer_bytes);
    return along;
}

/* Reads the piece that was chosen, and its sums if they do not come along, for this request alone.
 */
static int read_piece(struct gb_get *get, const struct extent_view *view, struct gb_piece *piece,
                      bool along, uint64_t read_from)
{
    struct goblin_reader *reader = get->reader;
    uint64_t first_unit = (piece->from - view->start) / GB_UNIT;
    uint64_t unit_end = gb_units(piece->to - view->start);
    uint64_t table_end = gb_table_offset(view->offset, view->len) + unit_end * GB_SUM_SIZE;
    place_piece(get, piece, gb_store_drive(reader->store, view->segment)->alignment.memory);
    int rc =
        fetch_unwritten(get, piece, view, gb_align_up(table_end, alignment_of(get, view->segment)));
    if (rc == 0 && !along) {
        rc = get_window(get, view, first_unit, unit_end - first_unit, &piece->window);
    }
    if (rc == 0) {
        const struct gb_operation read = {
            .op = GB_OP_READ,
            .file = view->segment->file,
            .buffer = piece->data,
            .len = piece->len,
            .offset = read_from,
            .tag = gb_tail_tag(piece, GB_TAG_PIECE),
        };
        rc = queue_read(get, &read);
    }
    if (rc < 0) {
        if (piece->window != NULL) {
            piece->window->refs--;
        }
        if (piece->buffer != GB_NO_BUFFER) {
            gb_reader_give_buffer(reader, piece->buffer);
        }
        return rc;
    }
    return 0;
}

/* 1: there is no buffer for it. */
static int plan_piece(struct gb_get *get, const struct extent_view *view, struct gb_piece *piece)
{
    uint64_t read_from = 0;
    bool along = choose_piece(get, view, piece, &read_from);
    if (along && gb_run_take(get->run, piece, read_from)) {
        return 0;
    }
    return get->reader->buffers_free == 0 ? 1 : read_piece(get, view, piece, along, read_from);
}

/* A long tail's first chunk goes to the device alone: beside the others it would come much later,
 * and the bytes that follow the head are the ones that somebody waits for. */
static bool waits_for_first(const struct gb_get *get)
{
    return get->first_planned && get->piece_count > 0 && !get->tail_handed &&
           get->end - get->plan_at > LONG_TAIL;
}

static bool may_read_on(const struct gb_get *get)
{
    return get->plan_at < get->end && get->piece_count < get->reader->depth &&
           (get->ahead == 0 || get->piece_count + get->held < get->ahead);
}

int gb_tail_plan(struct gb_get *get)
{
    struct goblin_reader *reader = get->reader;
    while (may_read_on(get)) {
        if (waits_for_first(get)) {
            return 0;
        }
        struct extent_view view;
        int rc = find_extent(get, get->plan_at, &view);
        if (rc < 0) {
            return rc;
        }
        unsigned slot = (get->piece_head + get->piece_count) % GB_DEPTH_MAX;
        struct gb_piece *piece = &get->pieces[slot];
        rc = plan_piece(get, &view, piece);
        if (rc == -EAGAIN) {
            return get->in_flight > 0 || get->piece_count > 0 ? 0 : -EIO;
        }
        if (rc < 0) {
            return rc;
        }
        if (rc > 0) {
            reader->starved = true;
            return 0;
        }
        get->piece_count++;
        get->first_planned = true;
        get->plan_at = piece->to;
        /* Metadata that lies apart from the range is read first. */
        if (get->want_meta && get->plan_at < get->start && piece->to >= get->meta_len) {
            get->plan_at = get->start;
        }
    }
    return 0;
}

/* ---- what came ----------------------------------------------------------------------------- */

void gb_tail_complete(void *tag, int32_t result)
{
    unsigned char *what = (unsigned char *)tag - (uintptr_t)tag % GB_TAGS;
    switch ((enum gb_tag)((uintptr_t)tag % GB_TAGS)) {
    case GB_TAG_WINDOW: {
        struct gb_window *window = (struct gb_window *)(void *)what;
        window->reading = false;
        window->result = result;
        window->get->in_flight--;
        break;
    }
    case GB_TAG_RUN:
        gb_run_complete((struct gb_run *)(void *)what, result);
        break;
    default: {
        struct gb_piece *piece = (struct gb_piece *)(void *)what;
        piece->state = GB_PIECE_READY;
        piece->result = result;
        piece->get->in_flight--;
        break;
    }
    }
}

static int32_t result_of(const struct gb_piece *piece)
{
    return piece->run != NULL ? gb_run_result(piece) : piece->result;
}

/* The sum of the piece's first unit, and those of the others behind it; NULL if they did not all
 * come. A file may end with the record, short of what the read's alignment asked for. */
static const unsigned char *find_sums(const struct gb_piece *piece, const struct extent_view *view)
{
    const struct gb_window *window = piece->window;
    uint64_t first_unit = (piece->from - view->start) / GB_UNIT;
    uint64_t count = gb_units(piece->to - view->start) - first_unit;
    const unsigned char *from = window == NULL ? piece->data : window->data;
    const unsigned char *sums = window == NULL
                                    ? from + piece->sums
                                    : window->sums + (first_unit - window->first) * GB_SUM_SIZE;
    int32_t result = window == NULL ? result_of(piece) : window->result;
    uint64_t end = (uint64_t)(sums - from) + count * GB_SUM_SIZE;
    return result >= 0 && (uint64_t)result >= end ? sums : NULL;
}

int gb_tail_verify(const struct gb_get *get, const struct gb_piece *piece)
{
    if (piece->trusted) {
        return 0;
    }
    struct extent_view view;
    int rc = find_extent(get, piece->from, &view);
    if (rc < 0) {
        return rc;
    }
    const unsigned char *bytes = piece->data + piece->skew;
    const unsigned char *sums = find_sums(piece, &view);
    int32_t result = result_of(piece);
    if (sums == NULL || result < 0 || (uint64_t)result < piece->skew + (piece->to - piece->from)) {
        return -EIO; /* the file ends where it should not */
    }
    for (uint64_t at = piece->from; at < piece->to; sums += GB_SUM_SIZE) {
        uint64_t unit = gb_align_down(at, GB_UNIT);
        uint64_t end = gb_min(unit + GB_UNIT, piece->to);
        uint64_t offset = view.offset + (unit - view.start);
        size_t len = (size_t)(end - at);
        uint64_t sum = 0;
        if (at == unit) {
            sum = gb_unit_sum(bytes, len, piece->segment->salt, offset);
        } else {
            /* The unit's first bytes are resident. */
            sum = gb_unit_sum2(gb_item_bytes(get->item) + unit, (size_t)(at - unit), bytes, len,
                               piece->segment->salt, offset);
        }
        if (sum != gb_load_le64(sums)) {
            return GOBLIN_ECORRUPT;
        }
        bytes += len;
        at = end;
    }
    return 0;
}

void gb_tail_release(struct gb_get *get, struct gb_piece *piece, bool keep_buffer)
{
    GB_ASSERT(piece == &get->pieces[get->piece_head]);
    if (piece->window != NULL) {
        piece->window->refs--;
    }
    if (piece->run != NULL) {
        gb_run_release(piece);
    } else if (piece->buffer != GB_NO_BUFFER && keep_buffer) {
        get->reader->buffers[piece->buffer].holder = get;
        get->held++;
    } else if (piece->buffer != GB_NO_BUFFER) {
        gb_reader_give_buffer(get->reader, piece->buffer);
    }
    get->piece_head = (get->piece_head + 1) % GB_DEPTH_MAX;
    get->piece_count--;
}
