/* Blocks on disk: identity, segment header, segment footer, and the frame they share. */
#include "engine/format.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <goblin/error.h>
#include <goblin/options.h>

#include "base/assert.h"
#include "base/bits.h"
#include "engine/format_headers.h"
#include "engine/format_seal.h"

#define HEADER_MAGIC "GOBLINSH"
#define FOOTER_MAGIC "GOBLINSF"

/* docs/format.md draws these. */
enum identity_at {
    IDENTITY_DRIVE = 12,
    IDENTITY_STORE_ID = 16,
    IDENTITY_DRIVE_COUNT = 32,
    IDENTITY_FIRST_SLOT = 36,
    IDENTITY_SLOT_COUNT = 40,
    IDENTITY_LANES = 44,
    IDENTITY_MODE = 48,
    IDENTITY_STRAYED = 52,
    IDENTITY_SEGMENT_BYTES = 56,
    IDENTITY_SIZE_BYTES = 64,
    IDENTITY_EPOCH = 72,
    IDENTITY_CREATED = 80,
    IDENTITY_FLOOR = 88,
    IDENTITY_ABSENT = 96,
    IDENTITY_END = 128,
};

enum header_at {
    HEADER_SLOT = 12,
    HEADER_STORE_ID = 16,
    HEADER_LANE = 32,
    HEADER_RESERVED = 36,
    HEADER_GENERATION = 40,
    HEADER_SALT = 48,
    HEADER_SEGMENT_BYTES = 56,
    HEADER_END = 64,
};

enum footer_at {
    FOOTER_RECORD_COUNT = 12,
    FOOTER_GENERATION = 16,
    FOOTER_USED_BYTES = 24,
    FOOTER_MIN_SEQUENCE = 32,
    FOOTER_MAX_SEQUENCE = 40,
    FOOTER_PIECE_COUNT = 48,
    FOOTER_RESERVED = 52,
    FOOTER_PIECES = 56,
};

#define SECTOR            512u /* no device tears less */
#define LANES_MAX         16u
#define SEGMENT_BYTES_MIN (UINT64_C(1) << 14)
#define SEGMENT_BYTES_MAX (UINT64_C(1) << 35)

_Static_assert(FOOTER_PIECES + 4 * GB_PIECES_MAX <= GB_SEAL_SUM_AT, "a footer fits its block");
_Static_assert(SEGMENT_BYTES_MAX >> 3 <= UINT64_C(1) << 32, "a piece is named in 32 bits");

/* ---- the frame ----------------------------------------------------------------------------- */

void gb_format_seal_begin(unsigned char *block, const char *magic, uint32_t version)
{
    memset(block, 0, GB_BLOCK);
    memcpy(block, magic, 8);
    gb_store_le32(block + GB_SEAL_VERSION_AT, version);
}

void gb_format_seal_end(unsigned char *block, uint64_t seed)
{
    gb_store_le64(block + GB_SEAL_SUM_AT, gb_format_seal_hash(block, GB_SEAL_SUM_AT, seed));
}

int gb_format_seal_check(const unsigned char *block, const char *magic, uint64_t seed)
{
    if (memcmp(block, magic, 8) != 0) {
        return GOBLIN_ENOTSTORE;
    }
    if (gb_load_le64(block + GB_SEAL_SUM_AT) != gb_format_seal_hash(block, GB_SEAL_SUM_AT, seed)) {
        return GOBLIN_ECORRUPT;
    }
    if (gb_load_le32(block + GB_SEAL_VERSION_AT) != GB_FORMAT_VERSION) {
        return GOBLIN_EFORMAT;
    }
    return 0;
}

bool gb_format_seal_is_zero(const unsigned char *block, uint32_t from)
{
    unsigned char any = 0;
    for (uint32_t i = from; i < GB_SEAL_SUM_AT; i++) {
        any |= block[i];
    }
    return any == 0;
}

uint64_t gb_format_seal_hash(const void *bytes, size_t len, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, len, seed);
}

bool gb_format_segment_bytes_valid(uint64_t segment_bytes)
{
    return gb_is_power_of_two(segment_bytes) && segment_bytes >= SEGMENT_BYTES_MIN &&
           segment_bytes <= SEGMENT_BYTES_MAX;
}

/* ---- identity ------------------------------------------------------------------------------ */

/* Bits of lanes and drives that there are, and not of the drive that says so. */
static bool identity_bits_valid(const struct gb_identity *identity)
{
    for (unsigned i = identity->drive_count; i < 8 * sizeof(identity->absent); i++) {
        if (gb_identity_absent(identity, i)) {
            return false;
        }
    }
    return (identity->strayed >> identity->lanes) == 0 &&
           !gb_identity_absent(identity, identity->drive);
}

static bool identity_valid(const struct gb_identity *identity)
{
    return identity->drive < identity->drive_count && identity->drive_count <= GB_DRIVES_MAX &&
           identity->slot_count > 0 && identity->first_slot < GB_SLOTS_MAX &&
           identity->slot_count <= GB_SLOTS_MAX - identity->first_slot && identity->lanes > 0 &&
           identity->lanes <= LANES_MAX && identity->mode <= GOBLIN_MODE_STORE &&
           gb_format_segment_bytes_valid(identity->segment_bytes) && identity_bits_valid(identity);
}

void gb_identity_encode(const struct gb_identity *identity, unsigned char *block)
{
    GB_ASSERT(identity_valid(identity));
    gb_format_seal_begin(block, GB_IDENTITY_MAGIC, identity->version);
    gb_store_le32(block + IDENTITY_DRIVE, identity->drive);
    memcpy(block + IDENTITY_STORE_ID, identity->store_id, sizeof(identity->store_id));
    gb_store_le32(block + IDENTITY_DRIVE_COUNT, identity->drive_count);
    gb_store_le32(block + IDENTITY_FIRST_SLOT, identity->first_slot);
    gb_store_le32(block + IDENTITY_SLOT_COUNT, identity->slot_count);
    gb_store_le32(block + IDENTITY_LANES, identity->lanes);
    gb_store_le32(block + IDENTITY_MODE, identity->mode);
    gb_store_le64(block + IDENTITY_SEGMENT_BYTES, identity->segment_bytes);
    gb_store_le64(block + IDENTITY_SIZE_BYTES, identity->size_bytes);
    gb_store_le64(block + IDENTITY_EPOCH, identity->epoch);
    gb_store_le64(block + IDENTITY_CREATED, (uint64_t)identity->created_ms);
    gb_store_le32(block + IDENTITY_STRAYED, identity->strayed);
    gb_store_le64(block + IDENTITY_FLOOR, identity->floor);
    memcpy(block + IDENTITY_ABSENT, identity->absent, sizeof(identity->absent));
    gb_format_seal_end(block, 0);
}

int gb_identity_decode(struct gb_identity *identity, const unsigned char *block)
{
    int rc = gb_format_seal_check(block, GB_IDENTITY_MAGIC, 0);
    if (rc != 0) {
        return rc;
    }
    identity->version = gb_load_le32(block + GB_SEAL_VERSION_AT);
    identity->drive = gb_load_le32(block + IDENTITY_DRIVE);
    memcpy(identity->store_id, block + IDENTITY_STORE_ID, sizeof(identity->store_id));
    identity->drive_count = gb_load_le32(block + IDENTITY_DRIVE_COUNT);
    identity->first_slot = gb_load_le32(block + IDENTITY_FIRST_SLOT);
    identity->slot_count = gb_load_le32(block + IDENTITY_SLOT_COUNT);
    identity->lanes = gb_load_le32(block + IDENTITY_LANES);
    identity->mode = gb_load_le32(block + IDENTITY_MODE);
    identity->segment_bytes = gb_load_le64(block + IDENTITY_SEGMENT_BYTES);
    identity->size_bytes = gb_load_le64(block + IDENTITY_SIZE_BYTES);
    identity->epoch = gb_load_le64(block + IDENTITY_EPOCH);
    identity->created_ms = (int64_t)gb_load_le64(block + IDENTITY_CREATED);
    identity->strayed = gb_load_le32(block + IDENTITY_STRAYED);
    identity->floor = gb_load_le64(block + IDENTITY_FLOOR);
    memcpy(identity->absent, block + IDENTITY_ABSENT, sizeof(identity->absent));
    if (!identity_valid(identity) || !gb_format_seal_is_zero(block, IDENTITY_END)) {
        return GOBLIN_ECORRUPT;
    }
    return 0;
}

/* ---- segment header ------------------------------------------------------------------------ */

static bool header_valid(const struct gb_segment_header *header)
{
    return header->slot < GB_SLOTS_MAX && gb_format_segment_bytes_valid(header->segment_bytes);
}

void gb_segment_header_encode(const struct gb_segment_header *header, unsigned char *block)
{
    GB_ASSERT(header_valid(header));
    gb_format_seal_begin(block, HEADER_MAGIC, GB_FORMAT_VERSION);
    gb_store_le32(block + HEADER_SLOT, header->slot);
    memcpy(block + HEADER_STORE_ID, header->store_id, sizeof(header->store_id));
    gb_store_le32(block + HEADER_LANE, header->lane);
    gb_store_le64(block + HEADER_GENERATION, header->generation);
    gb_store_le64(block + HEADER_SALT, header->salt);
    gb_store_le64(block + HEADER_SEGMENT_BYTES, header->segment_bytes);
    gb_format_seal_end(block, 0);
}

int gb_segment_header_decode(struct gb_segment_header *header, const unsigned char *block)
{
    int rc = gb_format_seal_check(block, HEADER_MAGIC, 0);
    if (rc != 0) {
        return rc;
    }
    header->slot = gb_load_le32(block + HEADER_SLOT);
    memcpy(header->store_id, block + HEADER_STORE_ID, sizeof(header->store_id));
    header->lane = gb_load_le32(block + HEADER_LANE);
    header->generation = gb_load_le64(block + HEADER_GENERATION);
    header->salt = gb_load_le64(block + HEADER_SALT);
    header->segment_bytes = gb_load_le64(block + HEADER_SEGMENT_BYTES);
    if (!header_valid(header) || gb_load_le32(block + HEADER_RESERVED) != 0 ||
        !gb_format_seal_is_zero(block, HEADER_END)) {
        return GOBLIN_ECORRUPT;
    }
    return 0;
}

bool gb_segment_header_torn(const unsigned char *block)
{
    static const unsigned char zeros[SECTOR];
    return memcmp(block, zeros, SECTOR) == 0 ||
           memcmp(block + GB_BLOCK - SECTOR, zeros, SECTOR) == 0;
}

/* ---- segment footer ------------------------------------------------------------------------ */

static bool footer_valid(const struct gb_segment_footer *footer)
{
    if (footer->used_bytes > SEGMENT_BYTES_MAX - GB_SEGMENT_TRAILER ||
        footer->used_bytes % 8 != 0 || footer->min_sequence > footer->max_sequence ||
        footer->piece_count > GB_PIECES_MAX) {
        return false;
    }
    if (footer->record_count == 0) {
        return footer->piece_count == 0 && footer->max_sequence == 0 &&
               (footer->used_bytes == 0 || footer->used_bytes == GB_SEGMENT_HEADER);
    }
    if (footer->piece_count == 0 || footer->used_bytes < GB_SEGMENT_HEADER + GB_RECORD_HEADER) {
        return false;
    }
    uint64_t floor = GB_SEGMENT_HEADER;
    for (uint32_t i = 0; i < footer->piece_count; i++) {
        uint64_t offset = (uint64_t)footer->pieces[i] << 3;
        if (offset < floor || offset > footer->used_bytes - GB_RECORD_HEADER) {
            return false;
        }
        floor = offset + GB_RECORD_HEADER;
    }
    return true;
}

void gb_segment_footer_encode(const struct gb_segment_footer *footer, uint64_t salt,
                              unsigned char *block)
{
    GB_ASSERT(footer_valid(footer));
    gb_format_seal_begin(block, FOOTER_MAGIC, GB_FORMAT_VERSION);
    gb_store_le32(block + FOOTER_RECORD_COUNT, footer->record_count);
    gb_store_le64(block + FOOTER_GENERATION, footer->generation);
    gb_store_le64(block + FOOTER_USED_BYTES, footer->used_bytes);
    gb_store_le64(block + FOOTER_MIN_SEQUENCE, footer->min_sequence);
    gb_store_le64(block + FOOTER_MAX_SEQUENCE, footer->max_sequence);
    gb_store_le32(block + FOOTER_PIECE_COUNT, footer->piece_count);
    for (size_t i = 0; i < footer->piece_count; i++) {
        gb_store_le32(block + FOOTER_PIECES + 4 * i, footer->pieces[i]);
    }
    gb_format_seal_end(block, salt);
}

int gb_segment_footer_decode(struct gb_segment_footer *footer, uint64_t salt,
                             const unsigned char *block)
{
    int rc = gb_format_seal_check(block, FOOTER_MAGIC, salt);
    if (rc != 0) {
        return rc;
    }
    footer->record_count = gb_load_le32(block + FOOTER_RECORD_COUNT);
    footer->generation = gb_load_le64(block + FOOTER_GENERATION);
    footer->used_bytes = gb_load_le64(block + FOOTER_USED_BYTES);
    footer->min_sequence = gb_load_le64(block + FOOTER_MIN_SEQUENCE);
    footer->max_sequence = gb_load_le64(block + FOOTER_MAX_SEQUENCE);
    footer->piece_count = gb_load_le32(block + FOOTER_PIECE_COUNT);
    if (footer->piece_count > GB_PIECES_MAX) {
        return GOBLIN_ECORRUPT;
    }
    memset(footer->pieces, 0, sizeof(footer->pieces));
    for (size_t i = 0; i < footer->piece_count; i++) {
        footer->pieces[i] = gb_load_le32(block + FOOTER_PIECES + 4 * i);
    }
    if (!footer_valid(footer) || gb_load_le32(block + FOOTER_RESERVED) != 0 ||
        !gb_format_seal_is_zero(block, FOOTER_PIECES + 4 * footer->piece_count)) {
        return GOBLIN_ECORRUPT;
    }
    return 0;
}
