/* Checkpoint files: the head block, chunk headers and sums, and what is said of a segment. */
#include "engine/format.h"

#include <goblin/error.h>

#include "base/assert.h"
#include "base/bits.h"
#include "engine/format_seal.h"

#define HEAD_MAGIC  "GOBLINCP"
#define CHUNK_MAGIC UINT32_C(0x4b4e4800) /* the low byte is the kind */

/* docs/format.md draws these. */
enum head_at {
    HEAD_MARKS = 12,
    HEAD_STORE_ID = 16,
    HEAD_SEQUENCE = 32,
    HEAD_SALT = 40,
    HEAD_EPOCH = 48,
    HEAD_END = 56,
};

#define MARK_CLEAN 1u
#define MARK_HEADS 2u

enum chunk_at {
    CHUNK_KIND = 0,
    CHUNK_LEN = 4,
    CHUNK_COUNT = 8,
    CHUNK_NUMBER = 16,
    CHUNK_SUM = 24,
};

_Static_assert(CHUNK_SUM + 8 == GB_CHUNK_HEADER, "the sum ends the chunk header");

/* ---- the head ------------------------------------------------------------------------------ */

void gb_checkpoint_head_encode(const struct gb_checkpoint_head *head, unsigned char *block)
{
    gb_format_seal_begin(block, HEAD_MAGIC, GB_FORMAT_VERSION);
    gb_store_le32(block + HEAD_MARKS,
                  (head->clean ? MARK_CLEAN : 0) | (head->heads ? MARK_HEADS : 0));
    memcpy(block + HEAD_STORE_ID, head->store_id, sizeof(head->store_id));
    gb_store_le64(block + HEAD_SEQUENCE, head->sequence);
    gb_store_le64(block + HEAD_SALT, head->salt);
    gb_store_le64(block + HEAD_EPOCH, head->epoch);
    gb_format_seal_end(block, 0);
}

int gb_checkpoint_head_decode(struct gb_checkpoint_head *head, const unsigned char *block)
{
    int rc = gb_format_seal_check(block, HEAD_MAGIC, 0);
    if (rc != 0) {
        return rc;
    }
    uint32_t marks = gb_load_le32(block + HEAD_MARKS);
    head->clean = (marks & MARK_CLEAN) != 0;
    head->heads = (marks & MARK_HEADS) != 0;
    memcpy(head->store_id, block + HEAD_STORE_ID, sizeof(head->store_id));
    head->sequence = gb_load_le64(block + HEAD_SEQUENCE);
    head->salt = gb_load_le64(block + HEAD_SALT);
    head->epoch = gb_load_le64(block + HEAD_EPOCH);
    if ((marks & ~(MARK_CLEAN | MARK_HEADS)) != 0 || !gb_format_seal_is_zero(block, HEAD_END)) {
        return GOBLIN_ECORRUPT;
    }
    return 0;
}

/* ---- chunks -------------------------------------------------------------------------------- */

static bool chunk_valid(const struct gb_chunk_header *header)
{
    if (header->len > GB_CHUNK_MAX) {
        return false;
    }
    switch (header->kind) {
    case GB_CHUNK_SEGMENTS:
        return header->len % GB_SEGMENT_STATE_SIZE == 0 &&
               header->count == header->len / GB_SEGMENT_STATE_SIZE;
    case GB_CHUNK_OBJECTS: /* no entry is empty */
        return header->count <= header->len && (header->count > 0) == (header->len > 0);
    case GB_CHUNK_END:
        return header->len == 0 && header->count == header->number;
    }
    return false;
}

static void chunk_store(const struct gb_chunk_header *header, unsigned char *out)
{
    gb_store_le32(out + CHUNK_KIND, CHUNK_MAGIC | (uint32_t)header->kind);
    gb_store_le32(out + CHUNK_LEN, header->len);
    gb_store_le64(out + CHUNK_COUNT, header->count);
    gb_store_le64(out + CHUNK_NUMBER, header->number);
}

/* As with records: the body's sum is seeded with that of the fields. */
static uint64_t chunk_sum(const unsigned char *fields, const unsigned char *body, size_t len,
                          uint64_t salt)
{
    return gb_format_seal_hash(body, len, gb_format_seal_hash(fields, CHUNK_SUM, salt));
}

void gb_chunk_encode(struct gb_chunk_header *header, const unsigned char *body, uint64_t salt,
                     unsigned char *out)
{
    GB_ASSERT(chunk_valid(header));
    chunk_store(header, out);
    header->sum = chunk_sum(out, body, header->len, salt);
    gb_store_le64(out + CHUNK_SUM, header->sum);
}

int gb_chunk_decode(struct gb_chunk_header *header, const unsigned char *in)
{
    uint32_t kind = gb_load_le32(in + CHUNK_KIND) ^ CHUNK_MAGIC;
    header->kind = (enum gb_chunk_kind)kind;
    header->len = gb_load_le32(in + CHUNK_LEN);
    header->count = gb_load_le64(in + CHUNK_COUNT);
    header->number = gb_load_le64(in + CHUNK_NUMBER);
    header->sum = gb_load_le64(in + CHUNK_SUM);
    return chunk_valid(header) ? 0 : GOBLIN_ECORRUPT;
}

bool gb_chunk_verify(const struct gb_chunk_header *header, const unsigned char *body, uint64_t salt)
{
    unsigned char fields[GB_CHUNK_HEADER];
    chunk_store(header, fields);
    return header->sum == chunk_sum(fields, body, header->len, salt);
}

/* ---- segment states ------------------------------------------------------------------------ */

static bool state_valid(const struct gb_segment_state *state)
{
    return state->slot < GB_SLOTS_MAX && state->live_bytes <= GB_PLACE_OFFSET_MASK &&
           state->used_bytes <= GB_PLACE_OFFSET_MASK;
}

void gb_segment_state_encode(const struct gb_segment_state *state, unsigned char *out)
{
    GB_ASSERT(state_valid(state));
    gb_store_le32(out, state->slot);
    gb_store_le32(out + 4, 0);
    gb_store_le64(out + 8, state->generation);
    gb_store_le64(out + 16, state->live_bytes);
    gb_store_le64(out + 24, state->used_bytes);
}

int gb_segment_state_decode(struct gb_segment_state *state, const unsigned char *in)
{
    state->slot = gb_load_le32(in);
    state->generation = gb_load_le64(in + 8);
    state->live_bytes = gb_load_le64(in + 16);
    state->used_bytes = gb_load_le64(in + 24);
    return state_valid(state) && gb_load_le32(in + 4) == 0 ? 0 : GOBLIN_ECORRUPT;
}
