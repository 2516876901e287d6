/* Entries of summaries and checkpoints: records without payload, in as few bytes as it takes. */
#include "engine/format.h"

#include <goblin/error.h>

#include "base/assert.h"
#include "base/bits.h"
#include "engine/format_seal.h"

/* The first byte: the type, and which of the rarer fields follow; MORE announces a second one. */
#define TYPE_MASK 0x0fu
enum presence {
    HAS_VERSION = 1u << 4, /* absent: the version is the sequence */
    HAS_EXPIRY = 1u << 5,
    HAS_FLAGS = 1u << 6,
    HAS_MORE = 1u << 7,
    HAS_META = 1u << 8, /* from here on in the second byte */
    HAS_EXTENTS = 1u << 9,
    HAS_LINK = 1u << 10,
    HAS_GENERATION = 1u << 11,
    HAS_SLOT = 1u << 12,
    HAS_RESIDENT = 1u << 13,
    HAS_HEAT = 1u << 14,
    HAS_MARKS = 1u << 15,
    HAS_ALL = 0xfff0,
};

/* ---- variable-length integers: 7 bits a byte, least significant first ---------------------- */

static unsigned char *varint_put(unsigned char *out, uint64_t value)
{
    while (value >= 0x80) {
        *out++ = (unsigned char)(value | 0x80);
        value >>= 7;
    }
    *out++ = (unsigned char)value;
    return out;
}

/* Bytes being read; after the first fault `bad` stays set and every read gives 0. */
struct cursor {
    const unsigned char *at;
    const unsigned char *end;
    bool bad;
};

static uint64_t varint_get(struct cursor *cursor, uint64_t max)
{
    uint64_t value = 0;
    for (unsigned shift = 0; cursor->at < cursor->end && shift < 64; shift += 7) {
        unsigned char byte = *cursor->at++;
        if (shift == 63 && byte > 1) {
            break; /* more than 64 bits */
        }
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte >= 0x80) {
            continue;
        }
        if ((byte == 0 && shift > 0) || value > max) {
            break; /* longer than it need be, or too large */
        }
        return value;
    }
    cursor->bad = true;
    return 0;
}

/* A field that is there only when it is not 0. */
static uint64_t optional_get(struct cursor *cursor, unsigned present, enum presence bit,
                             uint64_t max)
{
    if ((present & bit) == 0) {
        return 0;
    }
    uint64_t value = varint_get(cursor, max);
    if (value == 0) {
        cursor->bad = true;
    }
    return value;
}

static unsigned char *optional_put(unsigned char *out, unsigned present, enum presence bit,
                                   uint64_t value)
{
    return (present & bit) != 0 ? varint_put(out, value) : out;
}

/* ---- entries ------------------------------------------------------------------------------- */

static bool entry_valid(const struct gb_entry *entry)
{
    return gb_format_record_valid(&entry->record) && entry->resident <= entry->record.size;
}

static unsigned present_of(const struct gb_entry *entry)
{
    const struct gb_record *record = &entry->record;
    unsigned present = 0;
    present |= record->version != record->sequence ? HAS_VERSION : 0u;
    present |= record->expires_ms != 0 ? HAS_EXPIRY : 0u;
    present |= record->flags != 0 ? HAS_FLAGS : 0u;
    present |= record->meta_len != 0 ? HAS_META : 0u;
    present |= record->extent_count != 0 ? HAS_EXTENTS : 0u;
    present |= record->link != 0 ? HAS_LINK : 0u;
    present |= record->link_generation != 0 ? HAS_GENERATION : 0u;
    present |= gb_place_slot(entry->place) != 0 ? HAS_SLOT : 0u;
    present |= entry->resident != 0 ? HAS_RESIDENT : 0u;
    present |= entry->heat != 0 ? HAS_HEAT : 0u;
    present |= record->marks != 0 ? HAS_MARKS : 0u;
    return present > 0xff ? present | HAS_MORE : present;
}

/* The fields that a plain put of a cache has none of. */
static unsigned char *rare_put(unsigned char *at, unsigned present, const struct gb_entry *entry)
{
    const struct gb_record *record = &entry->record;
    at = optional_put(at, present, HAS_VERSION, record->version);
    at = optional_put(at, present, HAS_EXPIRY, (uint64_t)record->expires_ms);
    at = optional_put(at, present, HAS_FLAGS, record->flags);
    at = optional_put(at, present, HAS_META, record->meta_len);
    at = optional_put(at, present, HAS_EXTENTS, record->extent_count);
    at = optional_put(at, present, HAS_LINK, record->link);
    at = optional_put(at, present, HAS_GENERATION, record->link_generation);
    at = optional_put(at, present, HAS_SLOT, gb_place_slot(entry->place));
    at = optional_put(at, present, HAS_RESIDENT, entry->resident);
    at = optional_put(at, present, HAS_HEAT, entry->heat);
    at = optional_put(at, present, HAS_MARKS, record->marks);
    return at;
}

size_t gb_entry_encode(const struct gb_entry *entry, unsigned char *out)
{
    GB_ASSERT(entry_valid(entry));
    const struct gb_record *record = &entry->record;
    unsigned present = present_of(entry);
    unsigned char *at = out;
    *at++ = (unsigned char)((unsigned)record->type | (present & 0xf0));
    if ((present & HAS_MORE) != 0) {
        *at++ = (unsigned char)(present >> 8);
    }
    at = varint_put(at, record->key_len);
    at = varint_put(at, record->sequence);
    at = varint_put(at, record->size);
    at = varint_put(at, gb_place_offset(entry->place));
    if (present != 0) {
        at = rare_put(at, present, entry);
    }
    if (record->key_len > 0) {
        memcpy(at, entry->key, record->key_len);
    }
    size_t len = (size_t)(at - out) + record->key_len;
    GB_ASSERT(len <= GB_ENTRY_MAX);
    return len;
}

static unsigned present_get(struct cursor *cursor, struct gb_record *record)
{
    if (cursor->at == cursor->end) {
        cursor->bad = true;
        return 0;
    }
    unsigned first = *cursor->at++;
    record->type = (enum gb_record_type)(first & TYPE_MASK);
    if ((first & HAS_MORE) == 0) {
        return first & HAS_ALL;
    }
    unsigned second = cursor->at < cursor->end ? *cursor->at++ : 0u;
    cursor->bad |= second == 0;
    return (first & 0xf0) | second << 8;
}

static void record_get(struct cursor *cursor, unsigned present, struct gb_entry *entry)
{
    struct gb_record *record = &entry->record;
    record->key_len = (uint16_t)varint_get(cursor, UINT16_MAX);
    record->sequence = varint_get(cursor, UINT64_MAX);
    record->size = varint_get(cursor, UINT64_MAX);
    entry->place = varint_get(cursor, GB_PLACE_OFFSET_MASK);
    record->version = record->sequence;
    if ((present & HAS_VERSION) != 0) {
        record->version = varint_get(cursor, UINT64_MAX);
        cursor->bad |= record->version == record->sequence;
    }
    record->expires_ms = (int64_t)optional_get(cursor, present, HAS_EXPIRY, INT64_MAX);
    record->flags = (uint32_t)optional_get(cursor, present, HAS_FLAGS, UINT32_MAX);
    record->meta_len = (uint16_t)optional_get(cursor, present, HAS_META, UINT16_MAX);
    record->extent_count = (uint32_t)optional_get(cursor, present, HAS_EXTENTS, UINT32_MAX);
    record->link = optional_get(cursor, present, HAS_LINK, UINT64_MAX);
    record->link_generation = optional_get(cursor, present, HAS_GENERATION, UINT64_MAX);
    uint64_t slot = optional_get(cursor, present, HAS_SLOT, GB_SLOTS_MAX - 1);
    entry->place |= slot << GB_PLACE_OFFSET_BITS;
    entry->resident = (uint32_t)optional_get(cursor, present, HAS_RESIDENT, UINT32_MAX);
    entry->heat = (uint8_t)optional_get(cursor, present, HAS_HEAT, UINT8_MAX);
    record->marks = (uint8_t)optional_get(cursor, present, HAS_MARKS, UINT8_MAX);
}

int gb_entry_decode(struct gb_entry *entry, const unsigned char *in, size_t len)
{
    struct cursor cursor = {.at = in, .end = in + len};
    unsigned present = present_get(&cursor, &entry->record);
    record_get(&cursor, present, entry);
    if (cursor.bad || !entry_valid(entry) ||
        (size_t)(cursor.end - cursor.at) < entry->record.key_len) {
        return GOBLIN_ECORRUPT;
    }
    entry->key = cursor.at;
    return (int)(cursor.at - in) + entry->record.key_len;
}
