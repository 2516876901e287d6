/* Tapes: summaries where a segment has them, else the scan of every block. */
#include "engine/tape.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <goblin/error.h>

#include "base/assert.h"
#include "base/bits.h"

#define WINDOW        (1 * GB_MIB)
#define WINDOW_NARROW (128 * GB_KIB)
#define WINDOW_SLACK  (64 * GB_KIB + 2 * (uint64_t)GB_BLOCK)

int gb_tape_open(struct gb_tape *tape, const struct gb_segments *segments,
                 const struct gb_segment *segment)
{
    *tape = (struct gb_tape){
        .segment = segment,
        .segment_bytes = segments->segment_bytes,
        .tally = segments->tally,
    };
    void *window = NULL;
    if (posix_memalign(&window, GB_BLOCK, WINDOW + WINDOW_SLACK) != 0) {
        return -ENOMEM;
    }
    tape->window = window;
    tape->window_bytes = WINDOW;
    return 0;
}

void gb_tape_narrow(struct gb_tape *tape)
{
    tape->window_bytes = WINDOW_NARROW;
}

void gb_tape_close(struct gb_tape *tape)
{
    free(tape->window);
    tape->window = NULL;
}

/* Behind them lie the second header, which may be unreadable, and the footer. */
static uint64_t end_of_records(const struct gb_tape *tape)
{
    return tape->segment_bytes - GB_SEGMENT_TRAILER;
}

void gb_tape_forget(struct gb_tape *tape)
{
    tape->window_len = 0;
}

int gb_tape_at(struct gb_tape *tape, uint64_t offset, uint32_t len, const unsigned char **bytes)
{
    GB_ASSERT(len <= 64 * GB_KIB);
    if (offset + len > tape->segment_bytes) {
        return -ENODATA;
    }
    if (offset < tape->window_offset || offset + len > tape->window_offset + tape->window_len) {
        struct gb_file *file = tape->segment->file;
        uint64_t from = gb_align_down(offset, GB_BLOCK);
        uint64_t end = end_of_records(tape);
        end = offset + len <= end ? end : tape->segment_bytes;
        uint64_t want = gb_min(tape->window_bytes + WINDOW_SLACK, end - from);
        tape->window_len = 0;
        int64_t n = file->io->ops->file_read(file, tape->window, want, from);
        if (n < 0) {
            return (int)n;
        }
        /* A file that a crash left short reads as if it had been given its size. */
        memset(tape->window + n, 0, want - (uint64_t)n);
        tape->window_offset = from;
        tape->window_len = want;
        if (tape->tally != NULL) {
            gb_tally_add_shared(tape->tally, GB_COUNT_device_reads, 1);
            gb_tally_add_shared(tape->tally, GB_COUNT_device_read_bytes, (uint64_t)n);
        }
    }
    *bytes = tape->window + (offset - tape->window_offset);
    return 0;
}

int gb_tape_part(struct gb_tape *tape, const struct gb_part *part, unsigned char *out)
{
    /* Sums first, as a window of units follows: they are copied out a window at a time. */
    unsigned char sums[64 * GB_SUM_SIZE];
    uint64_t table = gb_table_offset(part->offset, part->len);
    uint64_t last = gb_units(part->to);
    const unsigned char *bytes = NULL;
    GB_ASSERT(part->from % GB_UNIT == 0 && part->to <= part->len);
    uint64_t have = 0; /* the unit that the first of `sums` belongs to */
    for (uint64_t at = part->from; at < part->to; at += GB_UNIT) {
        uint64_t unit = at / GB_UNIT;
        if (at == part->from || unit - have == 64) {
            uint32_t sums_len = (uint32_t)gb_min(64, last - unit) * GB_SUM_SIZE;
            int rc = gb_tape_at(tape, table + unit * GB_SUM_SIZE, sums_len, &bytes);
            if (rc < 0) {
                return rc;
            }
            memcpy(sums, bytes, sums_len);
            have = unit;
        }
        uint32_t n = (uint32_t)gb_min(GB_UNIT, part->to - at);
        int rc = gb_tape_at(tape, part->offset + at, n, &bytes);
        if (rc < 0) {
            return rc;
        }
        if (gb_unit_sum(bytes, n, tape->segment->salt, part->offset + at) !=
            gb_load_le64(sums + (unit - have) * GB_SUM_SIZE)) {
            return GOBLIN_ECORRUPT;
        }
        if (out != NULL) {
            memcpy(out + (at - part->from), bytes, n);
        }
    }
    return 0;
}

int gb_tape_payload(struct gb_tape *tape, uint64_t offset, uint64_t len, unsigned char *out)
{
    const struct gb_part whole = {.offset = offset, .len = len, .to = len};
    return gb_tape_part(tape, &whole, out);
}

/* ---- by summary ---------------------------------------------------------------------------- */

/* Decodes the next entries from *at on, as many as are told of at once. Returns how many. */
static int decode_some(struct gb_entry *some, const unsigned char *entries, uint64_t len,
                       uint64_t *at)
{
    unsigned count = 0;
    while (*at < len && count < GB_TAPE_HINTS) {
        int n = gb_entry_decode(&some[count], entries + *at, len - *at);
        if (n < 0) {
            return n;
        }
        *at += (uint64_t)n;
        count++;
    }
    return (int)count;
}

static int visit_piece(const struct gb_tape *tape, const unsigned char *entries, uint64_t len,
                       gb_tape_fn visit, void *arg)
{
    struct gb_entry some[GB_TAPE_HINTS];
    uint64_t at = 0;
    while (at < len) {
        int count = decode_some(some, entries, len, &at);
        if (count > 0 && tape->hint != NULL) {
            tape->hint(arg, some, (size_t)count);
        }
        for (int i = 0; i < count; i++) {
            int rc = visit(arg, &some[i]);
            if (rc != 0) {
                return rc;
            }
        }
        if (count < 0) {
            return count;
        }
    }
    return 0;
}

static int load_piece(struct gb_tape *tape, uint64_t offset, unsigned char **entries, uint64_t *len)
{
    const unsigned char *bytes = NULL;
    int rc = gb_tape_at(tape, offset, GB_RECORD_HEADER, &bytes);
    if (rc < 0) {
        return rc;
    }
    struct gb_record record;
    rc = gb_record_decode(&record, tape->segment->salt, offset, bytes, GB_RECORD_HEADER);
    if (rc < 0 || record.type != GB_RECORD_SUMMARY || record.size > tape->segment_bytes) {
        return GOBLIN_ECORRUPT;
    }
    struct gb_layout layout;
    gb_record_layout(&record, offset, &layout);
    *len = layout.payload_len;
    *entries = malloc(layout.payload_len);
    if (*entries == NULL) {
        return -ENOMEM;
    }
    return gb_tape_payload(tape, layout.payload_offset, layout.payload_len, *entries);
}

static int read_footer(struct gb_tape *tape, struct gb_segment_footer *footer)
{
    const unsigned char *bytes = NULL;
    int rc = gb_tape_at(tape, tape->segment_bytes - GB_SEGMENT_FOOTER, GB_SEGMENT_FOOTER, &bytes);
    if (rc == 0) {
        rc = gb_segment_footer_decode(footer, tape->segment->salt, bytes);
    }
    if (rc == 0 && footer->generation != tape->segment->generation) {
        rc = GOBLIN_ECORRUPT;
    }
    return rc;
}

/* Loads all pieces before the first visit, so that a bad one can still send us to the scan. */
static int by_summary(struct gb_tape *tape, const struct gb_segment_footer *footer,
                      gb_tape_fn visit, void *arg)
{
    uint32_t count = footer->piece_count;
    unsigned char **pieces = calloc(count + 1, sizeof(*pieces));
    uint64_t *lens = calloc(count + 1, sizeof(*lens));
    int rc = pieces != NULL && lens != NULL ? 0 : -ENOMEM;
    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        rc = load_piece(tape, (uint64_t)footer->pieces[i] << 3, &pieces[i], &lens[i]);
    }
    bool usable = rc == 0;
    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        rc = visit_piece(tape, pieces[i], lens[i], visit, arg);
    }
    for (uint32_t i = 0; pieces != NULL && i < count; i++) {
        free(pieces[i]);
    }
    free(pieces);
    free(lens);
    return usable || rc == -ENOMEM ? rc : GOBLIN_ECORRUPT;
}

/* ---- by scanning --------------------------------------------------------------------------- */

/* 1: a record lies at `offset`; 0: none does. The entry's key is copied to `key`. */
static int scan_at(struct gb_tape *tape, uint64_t offset, struct gb_entry *entry,
                   struct gb_layout *layout, unsigned char *key)
{
    const unsigned char *bytes = NULL;
    uint32_t len = (uint32_t)gb_min(GB_RECORD_HEADER + 4096, end_of_records(tape) - offset);
    int rc = gb_tape_at(tape, offset, len, &bytes);
    if (rc < 0) {
        return rc == -ENODATA ? 0 : rc;
    }
    if (gb_record_decode(&entry->record, tape->segment->salt, offset, bytes, len) < 0) {
        return 0;
    }
    memcpy(key, bytes + GB_RECORD_HEADER, entry->record.key_len);
    entry->key = key;
    entry->place = offset;
    entry->resident = 0;
    entry->heat = 0;
    gb_record_layout(&entry->record, offset, layout);
    return layout->end <= end_of_records(tape) ? 1 : 0;
}

/* Behind something that does not count: the next place at which a record may begin. A flush begins
 * on a block boundary, but a block that was lost may have held the beginning of a record whose end,
 * and then others, lie in the next. */
static int find_magic(struct gb_tape *tape, uint64_t *offset)
{
    for (uint64_t at = *offset + 8;;) {
        uint64_t end = gb_align_down(at, GB_BLOCK) + GB_BLOCK;
        const unsigned char *bytes = NULL;
        int rc = at + GB_RECORD_HEADER > end_of_records(tape)
                     ? -ENODATA
                     : gb_tape_at(tape, at, (uint32_t)(end - at), &bytes);
        if (rc < 0) {
            *offset = tape->segment_bytes;
            return rc == -ENODATA ? 0 : rc;
        }
        for (; at < end; at += 8, bytes += 8) {
            if (gb_record_has_magic(bytes)) {
                *offset = at;
                return 0;
            }
        }
    }
}

static int by_scan(struct gb_tape *tape, gb_tape_fn visit, void *arg, uint64_t *used_bytes)
{
    unsigned char key[4096];
    uint64_t offset = GB_SEGMENT_HEADER;
    *used_bytes = GB_SEGMENT_HEADER;
    while (offset + GB_RECORD_HEADER <= end_of_records(tape)) {
        struct gb_entry entry;
        struct gb_layout layout;
        int rc = scan_at(tape, offset, &entry, &layout, key);
        if (rc < 0) {
            return rc;
        }
        bool whole = rc == 1;
        if (whole && entry.record.type != GB_RECORD_EXTENT && layout.payload_len > 0) {
            rc = gb_tape_payload(tape, layout.payload_offset, layout.payload_len, NULL);
            if (rc < 0 && rc != GOBLIN_ECORRUPT && rc != -ENODATA) {
                return rc;
            }
            whole = rc == 0;
        }
        if (!whole) {
            rc = find_magic(tape, &offset);
            if (rc < 0) {
                return rc;
            }
            continue;
        }
        rc = entry.record.type == GB_RECORD_SUMMARY ? 0 : visit(arg, &entry);
        if (rc != 0) {
            return rc;
        }
        offset = layout.end;
        *used_bytes = offset;
    }
    return 0;
}

int gb_tape_records(struct gb_tape *tape, gb_tape_fn visit, void *arg, uint64_t *used_bytes,
                    bool *sealed)
{
    struct gb_segment_footer footer;
    if (read_footer(tape, &footer) == 0) {
        *used_bytes = footer.used_bytes;
        *sealed = true;
        int rc = by_summary(tape, &footer, visit, arg);
        if (rc != GOBLIN_ECORRUPT) {
            return rc;
        }
    }
    *sealed = false;
    return by_scan(tape, visit, arg, used_bytes);
}
