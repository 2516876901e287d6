/* Records on disk: header and key, where their parts lie, the sums of payload units, extents. */
#include "engine/format.h"

#include <errno.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <goblin/error.h>

#include "base/assert.h"
#include "base/bits.h"
#include "engine/format_seal.h"

#define RECORD_MAGIC    UINT32_C(0x7ec0b106)
#define KEY_MAX         4096u
#define META_MAX        4096u
#define VALUE_BITS      44 /* sizes and expiries are below 2^44 */
#define VALUE_MAX       ((UINT64_C(1) << VALUE_BITS) - 1)
#define MARKS_MAX       ((1u << GB_MARKS_BITS) - 1)
#define EXTENTS_MAX     (UINT32_MAX / GB_EXTENT_SIZE)
#define HEADER_SUM_STEP UINT64_C(0x9e3779b97f4a7c15) /* odd, so offsets give different seeds */
/* docs/format.md draws these. */
enum record_at {
    RECORD_MAGIC_AT = 0,
    RECORD_TYPE = 4,
    RECORD_MARKS = 5,
    RECORD_KEY_LEN = 6,
    RECORD_SEQUENCE = 8,
    RECORD_VERSION = 16,
    RECORD_SIZE = 24,
    RECORD_EXPIRES = 32,
    RECORD_FLAGS = 40,
    RECORD_META_LEN = 44,
    RECORD_RESERVED16 = 46,
    RECORD_EXTENT_COUNT = 48,
    RECORD_RESERVED32 = 52,
    RECORD_LINK = 56,
    RECORD_LINK_GENERATION = 64,
    RECORD_SUM = 72,
};

_Static_assert(RECORD_SUM + 8 == GB_RECORD_HEADER, "the sum ends the header");

/* ---- records ------------------------------------------------------------------------------- */

static bool put_valid(const struct gb_record *record)
{
    if (record->link == 0) {
        return record->link_generation == 0 && record->extent_count <= EXTENTS_MAX;
    }
    return record->extent_count == 0;
}

bool gb_format_record_valid(const struct gb_record *record)
{
    bool keyless = record->type == GB_RECORD_CLEAR || record->type == GB_RECORD_SUMMARY;
    if (keyless ? record->key_len != 0 : record->key_len == 0 || record->key_len > KEY_MAX) {
        return false;
    }
    if (record->size > VALUE_MAX || record->meta_len > META_MAX ||
        record->meta_len > record->size || record->expires_ms < 0 ||
        (uint64_t)record->expires_ms > VALUE_MAX || record->marks > MARKS_MAX) {
        return false;
    }
    if (record->type == GB_RECORD_PUT) {
        return put_valid(record);
    }
    if (record->marks != 0 && record->type != GB_RECORD_META) {
        return false;
    }
    if (record->meta_len != 0 || record->extent_count != 0 || record->link_generation != 0) {
        return false;
    }
    switch (record->type) {
    case GB_RECORD_EXTENT:
        return true;
    case GB_RECORD_SUMMARY:
        return record->link == 0;
    case GB_RECORD_META:
        return record->size == 0;
    case GB_RECORD_DELETE:
    case GB_RECORD_COMMIT:
    case GB_RECORD_BATCH:
    case GB_RECORD_CLEAR:
        return record->size == 0 && record->link == 0;
    default:
        return false;
    }
}

uint64_t gb_record_inline_len(const struct gb_record *record)
{
    switch (record->type) {
    case GB_RECORD_PUT:
        if (record->link != 0) {
            return 0;
        }
        if (record->extent_count > 0) {
            return (uint64_t)record->extent_count * GB_EXTENT_SIZE;
        }
        return record->size;
    case GB_RECORD_EXTENT:
    case GB_RECORD_SUMMARY:
        return record->size;
    case GB_RECORD_DELETE:
    case GB_RECORD_META:
    case GB_RECORD_COMMIT:
    case GB_RECORD_BATCH:
    case GB_RECORD_CLEAR:
        break;
    }
    return 0;
}

void gb_record_layout(const struct gb_record *record, uint64_t offset, struct gb_layout *layout)
{
    uint64_t key_end = offset + GB_RECORD_HEADER + record->key_len;
    uint64_t len = gb_record_inline_len(record);
    layout->payload_len = len;
    layout->payload_offset = gb_align_up(key_end, len > GB_PACKED_MAX ? GB_BLOCK : 8);
    layout->table_offset = gb_table_offset(layout->payload_offset, len);
    layout->end = layout->table_offset + gb_units(len) * GB_SUM_SIZE;
}

/* The key's sum is seeded with the header's: two short one-shot hashes of what need not lie
 * together are several times faster than XXH3's streaming state. */
static uint64_t record_sum(const unsigned char *header, const void *key, size_t key_len,
                           uint64_t salt, uint64_t offset)
{
    uint64_t seed = salt + offset * HEADER_SUM_STEP;
    return XXH3_64bits_withSeed(key, key_len, XXH3_64bits_withSeed(header, RECORD_SUM, seed));
}

bool gb_record_has_magic(const unsigned char *bytes)
{
    return gb_load_le32(bytes) == RECORD_MAGIC;
}

uint16_t gb_record_peek_key_len(const unsigned char *header)
{
    return gb_load_le16(header + RECORD_KEY_LEN);
}

void gb_record_encode(const struct gb_record *record, const void *key, uint64_t salt,
                      uint64_t offset, unsigned char *out)
{
    GB_ASSERT(gb_format_record_valid(record));
    gb_store_le32(out + RECORD_MAGIC_AT, RECORD_MAGIC);
    out[RECORD_TYPE] = (unsigned char)record->type;
    out[RECORD_MARKS] = record->marks;
    gb_store_le16(out + RECORD_KEY_LEN, record->key_len);
    gb_store_le64(out + RECORD_SEQUENCE, record->sequence);
    gb_store_le64(out + RECORD_VERSION, record->version);
    gb_store_le64(out + RECORD_SIZE, record->size);
    gb_store_le64(out + RECORD_EXPIRES, (uint64_t)record->expires_ms);
    gb_store_le32(out + RECORD_FLAGS, record->flags);
    gb_store_le16(out + RECORD_META_LEN, record->meta_len);
    gb_store_le16(out + RECORD_RESERVED16, 0);
    gb_store_le32(out + RECORD_EXTENT_COUNT, record->extent_count);
    gb_store_le32(out + RECORD_RESERVED32, 0);
    gb_store_le64(out + RECORD_LINK, record->link);
    gb_store_le64(out + RECORD_LINK_GENERATION, record->link_generation);
    gb_store_le64(out + RECORD_SUM, record_sum(out, key, record->key_len, salt, offset));
    if (record->key_len > 0) {
        memcpy(out + GB_RECORD_HEADER, key, record->key_len);
    }
}

/* A scanner meets mostly non-records: they must fail here, before any hashing. */
static bool starts_like_a_record(const unsigned char *in, size_t len)
{
    unsigned char magic[4];
    gb_store_le32(magic, RECORD_MAGIC);
    return memcmp(in, magic, len < sizeof(magic) ? len : sizeof(magic)) == 0;
}

static void record_load(struct gb_record *record, const unsigned char *in)
{
    record->type = (enum gb_record_type)in[RECORD_TYPE];
    record->marks = in[RECORD_MARKS];
    record->key_len = gb_load_le16(in + RECORD_KEY_LEN);
    record->sequence = gb_load_le64(in + RECORD_SEQUENCE);
    record->version = gb_load_le64(in + RECORD_VERSION);
    record->size = gb_load_le64(in + RECORD_SIZE);
    record->expires_ms = (int64_t)gb_load_le64(in + RECORD_EXPIRES);
    record->flags = gb_load_le32(in + RECORD_FLAGS);
    record->meta_len = gb_load_le16(in + RECORD_META_LEN);
    record->extent_count = gb_load_le32(in + RECORD_EXTENT_COUNT);
    record->link = gb_load_le64(in + RECORD_LINK);
    record->link_generation = gb_load_le64(in + RECORD_LINK_GENERATION);
}

int gb_record_decode(struct gb_record *record, uint64_t salt, uint64_t offset,
                     const unsigned char *in, size_t len)
{
    if (len > 0 && !starts_like_a_record(in, len)) {
        return GOBLIN_ECORRUPT;
    }
    if (len < GB_RECORD_HEADER) {
        return -ENODATA;
    }
    record_load(record, in);
    if (!gb_format_record_valid(record) || gb_load_le16(in + RECORD_RESERVED16) != 0 ||
        gb_load_le32(in + RECORD_RESERVED32) != 0) {
        return GOBLIN_ECORRUPT;
    }
    if (len < (size_t)GB_RECORD_HEADER + record->key_len) {
        return -ENODATA;
    }
    const unsigned char *key = in + GB_RECORD_HEADER;
    if (gb_load_le64(in + RECORD_SUM) != record_sum(in, key, record->key_len, salt, offset)) {
        return GOBLIN_ECORRUPT;
    }
    return 0;
}

/* ---- extents ------------------------------------------------------------------------------- */

static bool extent_valid(const struct gb_extent *extent)
{
    uint64_t offset = gb_place_offset(extent->place);
    return offset >= GB_SEGMENT_HEADER && extent->len > 0 &&
           extent->len <= GB_PLACE_OFFSET_MASK - offset;
}

void gb_extent_encode(const struct gb_extent *extent, unsigned char *out)
{
    GB_ASSERT(extent_valid(extent));
    gb_store_le64(out, extent->place);
    gb_store_le64(out + 8, extent->len);
    gb_store_le64(out + 16, extent->generation);
}

int gb_extent_decode(struct gb_extent *extent, const unsigned char *in)
{
    extent->place = gb_load_le64(in);
    extent->len = gb_load_le64(in + 8);
    extent->generation = gb_load_le64(in + 16);
    return extent_valid(extent) ? 0 : GOBLIN_ECORRUPT;
}
