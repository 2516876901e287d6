/*
 * The bytes on disk: encoding, decoding and where things lie. docs/format.md is normative; this
 * module is its only reader and writer. It knows no files and allocates nothing: bytes in, structs
 * out, and every decoder survives any bytes.
 *
 * All integers are little-endian. A segment is
 *
 *   0        4096                                        size - 8192   size - 4096      size
 *   +--------+-------------------------------------------+-------------+----------------+
 *   | header | records, 8-aligned, flushed by 4096       | header copy | footer (sealed) |
 *   +--------+-------------------------------------------+-------------+----------------+
 *
 * and a record, at `offset` in its segment, is
 *
 *   offset           +80         payload_offset                 table_offset            end
 *   +----------------+-----+-----+------------------------------+-----+-----------------+
 *   | record header  | key | pad | payload                      | pad | a sum per unit  |
 *   +----------------+-----+-----+------------------------------+-----+-----------------+
 *
 * where the payload of more than GB_PACKED_MAX bytes starts on a 4096 boundary, so that direct
 * reads land at their final offsets, and the table is 8-aligned behind it, so that a tail and its
 * sums usually come in one read. Sums are XXH3 seeded with the segment's salt and the unit's own
 * offset: stale, planted and misdirected bytes never match.
 */
#ifndef GB_ENGINE_FORMAT_H
#define GB_ENGINE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GB_FORMAT_VERSION  1u
#define GB_BLOCK           4096u  /* identity, headers, footers, flush padding, write alignment */
#define GB_UNIT            16384u /* payload bytes per checksum */
#define GB_PACKED_MAX      16384u
#define GB_SUM_SIZE        8u
#define GB_RECORD_HEADER   80u
#define GB_SEGMENT_HEADER  GB_BLOCK
#define GB_SEGMENT_FOOTER  GB_BLOCK
#define GB_SEGMENT_TRAILER (GB_SEGMENT_HEADER + GB_SEGMENT_FOOTER) /* behind the records */
#define GB_PIECES_MAX      960u /* summary pieces a footer can name */
#define GB_MARKS_BITS      7u

/* ---- places -------------------------------------------------------------------------------- */

/* Where something lies in the store: segment slot (24 bits) and byte offset in it (40 bits).
 * 0 is no place: slot 0's header lies there. */
#define GB_PLACE_OFFSET_BITS 40
#define GB_PLACE_OFFSET_MASK ((UINT64_C(1) << GB_PLACE_OFFSET_BITS) - 1)
#define GB_SLOTS_MAX         (1u << 24)

static inline uint64_t gb_place(uint32_t slot, uint64_t offset)
{
    return (uint64_t)slot << GB_PLACE_OFFSET_BITS | offset;
}

static inline uint32_t gb_place_slot(uint64_t place)
{
    return (uint32_t)(place >> GB_PLACE_OFFSET_BITS);
}

static inline uint64_t gb_place_offset(uint64_t place)
{
    return place & GB_PLACE_OFFSET_MASK;
}

/* ---- identity: the file GOBLIN in each drive's directory, two blocks in turn --------------- */

#define GB_IDENTITY_MAGIC "GOBLINID"
#define GB_DRIVES_MAX     255u

struct gb_identity {
    uint32_t version;
    unsigned char store_id[16];
    uint32_t drive; /* this directory's place among the drives */
    uint32_t drive_count;
    uint32_t first_slot; /* slots of this drive: [first_slot, first_slot + slot_count) */
    uint32_t slot_count;
    uint32_t lanes;
    uint32_t mode; /* enum goblin_mode */
    uint64_t segment_bytes;
    uint64_t size_bytes; /* of the whole store */
    uint64_t epoch;      /* rises at every open that may write; drives must agree */
    int64_t created_ms;
    uint32_t strayed; /* a bit per lane: may have segments on other drives than its own */
    uint64_t floor; /* segments of a smaller generation count only through a checkpoint of at least
                         this sequence; 0: all count */
    unsigned char absent[GB_DRIVES_MAX / 8 + 1]; /* a bit per drive: missing when the epoch began */
};

static inline bool gb_identity_absent(const struct gb_identity *identity, unsigned drive)
{
    return (identity->absent[drive / 8] >> drive % 8 & 1) != 0;
}

/* Decoders: 0, GOBLIN_ENOTSTORE (no magic), GOBLIN_EFORMAT (another version), GOBLIN_ECORRUPT
 * (bad sum, or values that no encoder writes). `block` is GB_BLOCK bytes everywhere. */
void gb_identity_encode(const struct gb_identity *identity, unsigned char *block);
int gb_identity_decode(struct gb_identity *identity, const unsigned char *block);

/* ---- segment header and footer ------------------------------------------------------------- */

struct gb_segment_header {
    unsigned char store_id[16];
    uint32_t slot;
    uint32_t lane;
    uint64_t generation; /* the sequence number drawn when it was opened: unique, rising */
    uint64_t salt;       /* random */
    uint64_t segment_bytes;
};

void gb_segment_header_encode(const struct gb_segment_header *header, unsigned char *block);
int gb_segment_header_decode(struct gb_segment_header *header, const unsigned char *block);

struct gb_segment_footer {
    uint64_t generation;
    uint64_t used_bytes;   /* end of the last record */
    uint64_t min_sequence; /* of its records; both 0 when it has none */
    uint64_t max_sequence;
    uint32_t record_count; /* entries in all pieces */
    uint32_t piece_count;
    uint32_t pieces[GB_PIECES_MAX]; /* offset >> 3 of each SUMMARY record, ascending */
};

/* The sum is seeded with the salt of the segment's header. */
void gb_segment_footer_encode(const struct gb_segment_footer *footer, uint64_t salt,
                              unsigned char *block);
int gb_segment_footer_decode(struct gb_segment_footer *footer, uint64_t salt,
                             const unsigned char *block);

/* ---- records ------------------------------------------------------------------------------- */

enum gb_record_type {
    GB_RECORD_PUT = 1,     /* an object; payload inline, or at `link`, or as a list of extents */
    GB_RECORD_DELETE = 2,  /* a tombstone; no payload */
    GB_RECORD_META = 3,    /* version, expiry, flags and marks from now on of the PUT whose
                              sequence is `link`; no payload */
    GB_RECORD_COMMIT = 4,  /* reserved: closes a BATCH */
    GB_RECORD_BATCH = 5,   /* reserved: opens a BATCH */
    GB_RECORD_CLEAR = 6,   /* everything of a smaller sequence is gone; no key, no payload */
    GB_RECORD_EXTENT = 7,  /* room for a piece of a streamed payload; counts only through a PUT */
    GB_RECORD_SUMMARY = 8, /* entries of the records before it; no key */
};

struct gb_record {
    enum gb_record_type type;
    uint16_t key_len;      /* 1..4096; 0 for CLEAR and SUMMARY */
    uint16_t meta_len;     /* the first bytes of the payload are user metadata */
    uint8_t marks;         /* PUT, META: the user's, GB_MARKS_BITS of them */
    uint32_t flags;        /* the user's */
    uint32_t extent_count; /* PUT: the inline payload is a list of this many struct gb_extent */
    uint64_t sequence;
    uint64_t version;
    uint64_t size; /* PUT: the object's payload; EXTENT: room; SUMMARY: bytes of entries */
    int64_t expires_ms;
    uint64_t link;            /* PUT: place of the payload when it lies elsewhere in one piece, else
                                 0; META: the sequence amended; EXTENT: the stream's number */
    uint64_t link_generation; /* PUT with link: generation of that segment */
};

struct gb_layout {
    uint64_t payload_offset;
    uint64_t payload_len; /* bytes that lie in this record */
    uint64_t table_offset;
    uint64_t end; /* of the record, 8-aligned */
};

/* Whether a record may begin here: its sum tells. */
bool gb_record_has_magic(const unsigned char *bytes);

/* What a header says of the key behind it; to be believed once all of it is decoded. */
uint16_t gb_record_peek_key_len(const unsigned char *header);

/* Bytes of payload that lie in the record itself. */
uint64_t gb_record_inline_len(const struct gb_record *record);

/* Where the parts lie of a record at `offset`. */
void gb_record_layout(const struct gb_record *record, uint64_t offset, struct gb_layout *layout);

/* The number of units, and so sums, of a payload. */
static inline uint64_t gb_units(uint64_t payload_len)
{
    return (payload_len + GB_UNIT - 1) / GB_UNIT;
}

/* Where a payload's table lies; payload offset and length as in its record or extent. */
static inline uint64_t gb_table_offset(uint64_t payload_offset, uint64_t payload_len)
{
    return (payload_offset + payload_len + 7) & ~UINT64_C(7);
}

/* Writes header and key (80 + key_len bytes). `offset`: of the record in its segment. */
void gb_record_encode(const struct gb_record *record, const void *key, uint64_t salt,
                      uint64_t offset, unsigned char *out);

/* Decodes the header at `in`, `len` bytes being there; the key is at in + GB_RECORD_HEADER. 0;
 * GOBLIN_ECORRUPT: not a record (of this generation, at this offset); -ENODATA: the first bytes are
 * a record's, but header and key need more. */
int gb_record_decode(struct gb_record *record, uint64_t salt, uint64_t offset,
                     const unsigned char *in, size_t len);

/* ---- sums ---------------------------------------------------------------------------------- */

/* Sum of one unit whose first byte lies at `offset` in its segment. */
uint64_t gb_unit_sum(const void *unit, size_t len, uint64_t salt, uint64_t offset);

/* The same over two pieces, as when a unit's first bytes are in RAM and the rest came from disk. */
uint64_t gb_unit_sum2(const void *first, size_t first_len, const void *rest, size_t rest_len,
                      uint64_t salt, uint64_t offset);

/* Fills the table of a payload that starts at `payload_offset`: 8 bytes per unit. */
void gb_table_encode(const void *payload, size_t len, uint64_t salt, uint64_t payload_offset,
                     unsigned char *table);

/* ---- extents: the inline payload of a PUT with extent_count > 0 ---------------------------- */

#define GB_EXTENT_SIZE 24u

struct gb_extent {
    uint64_t place;      /* of its payload */
    uint64_t len;        /* its table follows the payload as in a record */
    uint64_t generation; /* of its segment when it was written */
};

void gb_extent_encode(const struct gb_extent *extent, unsigned char *out);
int gb_extent_decode(struct gb_extent *extent, const unsigned char *in);

/* ---- entries: how summaries and checkpoints list records ----------------------------------- */

/* A record without its payload. In a summary `place` is the record's own offset (slot 0); in a
 * checkpoint it is the payload's place, and resident and heat are the item's. */
struct gb_entry {
    struct gb_record record;
    const unsigned char *key;
    uint64_t place;
    uint32_t resident;
    uint8_t heat;
};

#define GB_ENTRY_MAX (4096u + 128u) /* no entry is longer */

/* Compact (variable-length integers); returns the bytes written, at most GB_ENTRY_MAX. */
size_t gb_entry_encode(const struct gb_entry *entry, unsigned char *out);
/* Returns the bytes taken, or GOBLIN_ECORRUPT. entry->key points into `in`. */
int gb_entry_decode(struct gb_entry *entry, const unsigned char *in, size_t len);

/* ---- checkpoints --------------------------------------------------------------------------- */

/* A checkpoint file is a head block, then chunks, then nothing. The segments it covers come first,
 * then the objects. It counts only if the last chunk is the end chunk and every sum holds. */
struct gb_checkpoint_head {
    unsigned char store_id[16];
    uint64_t sequence; /* every record up to it is covered by entries or lies in a segment that
                             the checkpoint does not name */
    uint64_t salt;     /* seeds the chunks' sums */
    uint64_t epoch;
    bool clean; /* written by close: nothing came after it */
    bool heads; /* a file of resident bytes goes with it */
};

void gb_checkpoint_head_encode(const struct gb_checkpoint_head *head, unsigned char *block);
int gb_checkpoint_head_decode(struct gb_checkpoint_head *head, const unsigned char *block);

enum gb_chunk_kind { GB_CHUNK_SEGMENTS = 1, GB_CHUNK_OBJECTS = 2, GB_CHUNK_END = 3 };

#define GB_CHUNK_HEADER 32u

struct gb_chunk_header {
    enum gb_chunk_kind kind;
    uint32_t len;    /* bytes that follow this header; at most GB_CHUNK_MAX */
    uint64_t count;  /* elements in it; END: chunks before it */
    uint64_t number; /* 0, 1, 2 ... */
    uint64_t sum;    /* of the bytes that follow */
};

#define GB_CHUNK_MAX 1048576u

/* The sum also covers kind, len, count and number. */
void gb_chunk_encode(struct gb_chunk_header *header, const unsigned char *body, uint64_t salt,
                     unsigned char *out);
/* Decodes the 32 bytes alone. */
int gb_chunk_decode(struct gb_chunk_header *header, const unsigned char *in);
/* Whether `body` (header->len bytes) is what was written. */
bool gb_chunk_verify(const struct gb_chunk_header *header, const unsigned char *body,
                     uint64_t salt);

#define GB_SEGMENT_STATE_SIZE 32u

/* What a checkpoint says of a sealed segment. */
struct gb_segment_state {
    uint32_t slot;
    uint64_t generation;
    uint64_t live_bytes;
    uint64_t used_bytes;
};

void gb_segment_state_encode(const struct gb_segment_state *state, unsigned char *out);
int gb_segment_state_decode(struct gb_segment_state *state, const unsigned char *in);

#endif
