/* Runs: planning, slices of buffers, and who still needs one. */
#include "engine/run.h"

#include "base/assert.h"
#include "engine/reader_internal.h"

#define NEAR      16u            /* runs, the last ones planned, that may grow */
#define GAP_BYTES (16 * GB_KIB)  /* between two values: cheaper to read than another read */
#define RUN_BYTES (128 * GB_KIB) /* more come in several reads at once */

void gb_runs_init(struct gb_runs *runs)
{
    *runs = (struct gb_runs){.filling = GB_NO_BUFFER};
}

void gb_runs_fini(struct gb_runs *runs)
{
    for (uint32_t i = 0; i < GB_RUNS_MAX; i++) {
        if (runs->runs[i].segment != NULL) {
            atomic_fetch_sub(&runs->runs[i].segment->readers, 1);
            runs->runs[i].segment = NULL;
        }
    }
}

/* ---- slices -------------------------------------------------------------------------------- */

static void give_slice(struct goblin_reader *reader, uint32_t number)
{
    struct gb_runs *runs = reader->runs;
    struct gb_chunk_buffer *buffer = &reader->buffers[number];
    GB_ASSERT(buffer->slices > 0);
    if (--buffer->slices == 0) {
        if (runs->filling == number) {
            runs->filling = GB_NO_BUFFER;
        }
        gb_reader_give_buffer(reader, number);
    }
}

static bool take_slice(struct goblin_reader *reader, struct gb_run *run)
{
    struct gb_runs *runs = reader->runs;
    uint32_t bytes = (uint32_t)gb_align_up(run->to - run->from, GB_BLOCK);
    if (runs->filling == GB_NO_BUFFER || runs->fill + bytes > reader->buffer_bytes) {
        if (reader->buffers_free == 0) {
            return false;
        }
        runs->filling = gb_reader_take_buffer(reader);
        runs->fill = 0;
    }
    run->buffer = runs->filling;
    run->data = reader->buffers[run->buffer].data + runs->fill;
    reader->buffers[run->buffer].slices++;
    runs->fill += bytes;
    return true;
}

/* Nobody needs it, and nothing is on its way to it: it is gone. */
static void let_go(struct gb_run *run)
{
    if (run->plans > 0 || run->pieces > 0 || run->reading) {
        return;
    }
    if (run->data != NULL) {
        give_slice(run->reader, run->buffer);
    } else {
        run->reader->runs->waiting--;
    }
    atomic_fetch_sub(&run->segment->readers, 1);
    run->segment = NULL;
}

/* ---- planning ------------------------------------------------------------------------------ */

static bool covers(const struct gb_run *run, const struct gb_segment *segment, uint64_t from,
                   uint64_t to)
{
    return run->segment == segment && run->from <= from && to <= run->to;
}

/* Whether the planned run reaches [from, to) too now. */
static bool extend(struct gb_run *run, uint64_t from, uint64_t to, uint64_t most)
{
    uint64_t low = gb_min(run->from, from);
    uint64_t high = gb_max(run->to, to);
    if (from > run->to + GAP_BYTES || run->from > to + GAP_BYTES || high - low > most) {
        return false;
    }
    run->from = low;
    run->to = high;
    return true;
}

static struct gb_run *find_near(struct gb_runs *runs, const struct gb_segment *segment,
                                uint64_t from, uint64_t to, uint64_t most)
{
    for (uint32_t i = 0; i < NEAR; i++) {
        struct gb_run *run = &runs->runs[(runs->last - i) % GB_RUNS_MAX];
        if (covers(run, segment, from, to) ||
            (run->segment == segment && run->data == NULL && extend(run, from, to, most))) {
            return run;
        }
    }
    return NULL;
}

static struct gb_run *find_free(struct gb_runs *runs)
{
    for (uint32_t i = 1; i <= GB_RUNS_MAX; i++) {
        uint32_t at = (runs->last + i) % GB_RUNS_MAX;
        if (runs->runs[at].segment == NULL) {
            runs->last = at;
            return &runs->runs[at];
        }
    }
    return NULL;
}

struct gb_run *gb_run_plan(struct goblin_reader *reader, struct gb_segment *segment, uint64_t from,
                           uint64_t to)
{
    struct gb_runs *runs = reader->runs;
    uint64_t most = gb_min(RUN_BYTES, gb_align_down(reader->buffer_bytes, GB_BLOCK));
    /* Acquire: as where a request reads for itself. What is taken from a run was there before. */
    if (to - from > most || atomic_load_explicit(&segment->written, memory_order_acquire) < to) {
        return NULL;
    }
    struct gb_run *run = find_near(runs, segment, from, to, most);
    if (run == NULL) {
        run = find_free(runs);
        if (run == NULL) {
            return NULL;
        }
        *run = (struct gb_run){.segment = segment, .from = from, .to = to, .reader = reader};
        atomic_fetch_add(&segment->readers, 1);
        runs->waiting++;
    }
    run->shared = run->plans + run->pieces > 0;
    run->plans++;
    return run;
}

void gb_run_unplan(struct gb_run *run)
{
    GB_ASSERT(run->plans > 0);
    run->plans--;
    let_go(run);
}

/* ---- reading ------------------------------------------------------------------------------- */

static bool start(struct gb_run *run)
{
    struct goblin_reader *reader = run->reader;
    if (!take_slice(reader, run)) {
        return false;
    }
    const struct gb_operation read = {
        .op = GB_OP_READ,
        .file = run->segment->file,
        .buffer = run->data,
        .len = (uint32_t)(run->to - run->from),
        .offset = run->from,
        .tag = gb_tail_tag(run, GB_TAG_RUN),
    };
    if (reader->queue->io->ops->queue_prepare(reader->queue, &read) < 0) {
        give_slice(reader, run->buffer);
        run->data = NULL;
        return false;
    }
    run->reading = true;
    reader->runs->waiting--;
    reader->runs->reading++;
    gb_tally_add(&reader->tally, GB_COUNT_device_reads, 1);
    gb_tally_add(&reader->tally, GB_COUNT_device_read_bytes, read.len);
    return true;
}

void gb_runs_start(struct goblin_reader *reader)
{
    struct gb_runs *runs = reader->runs;
    /* In the order in which they were planned, which is that in which they will be needed. */
    for (uint32_t i = 1; runs->waiting > 0 && i <= GB_RUNS_MAX; i++) {
        struct gb_run *run = &runs->runs[(runs->last + i) % GB_RUNS_MAX];
        if (run->segment != NULL && run->data == NULL &&
            (runs->reading == GB_RUNS_READING || !start(run))) {
            return;
        }
    }
}

bool gb_run_take(struct gb_run *run, struct gb_piece *piece, uint64_t read_from)
{
    if (run == NULL || run->data == NULL ||
        !covers(run, piece->segment, read_from, read_from + piece->len)) {
        return false;
    }
    run->pieces++;
    piece->run = run;
    piece->buffer = GB_NO_BUFFER;
    piece->data = run->data + (read_from - run->from);
    return true;
}

int32_t gb_run_result(const struct gb_piece *piece)
{
    const struct gb_run *run = piece->run;
    int32_t before = (int32_t)(piece->data - run->data);
    if (run->result < 0) {
        return run->result;
    }
    return run->result > before ? run->result - before : 0;
}

void gb_run_complete(struct gb_run *run, int32_t result)
{
    run->reading = false;
    run->result = result;
    run->reader->runs->reading--;
    let_go(run);
}

void gb_run_release(struct gb_piece *piece)
{
    struct gb_run *run = piece->run;
    GB_ASSERT(run->pieces > 0);
    run->pieces--;
    piece->run = NULL;
    let_go(run);
}
