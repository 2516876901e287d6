/*
 * What HTTP keeps beside a value: the metadata of an object that was PUT.
 *
 * It describes itself, so that other protocols may keep something else there and each passes over
 * what it does not know:
 *
 *     0       1         2
 *     0xB7    version   entries …
 *
 *     entry:  kind (1)   length (2, little-endian)   bytes
 *
 * Version is 1. Kinds are enum gb_http_meta_kind; a field of another name is its name's length (1),
 * its name and its value. Unknown kinds are passed over. Metadata that does not follow this is
 * somebody else's, and as good as none.
 *
 * Threads: pure functions, any thread. Nothing is allocated.
 */
#ifndef GB_PROTO_HTTP_META_H
#define GB_PROTO_HTTP_META_H

#include "proto/http_text.h"

enum { GB_HTTP_META_MAGIC = 0xB7, GB_HTTP_META_VERSION = 1 };

enum gb_http_meta_kind {
    GB_HTTP_META_MODIFIED = 1, /* milliseconds since 1970, 8 bytes, little-endian */
    GB_HTTP_META_CONTENT_TYPE = 2,
    GB_HTTP_META_CONTENT_ENCODING = 3,
    GB_HTTP_META_CONTENT_LANGUAGE = 4,
    GB_HTTP_META_CONTENT_DISPOSITION = 5,
    GB_HTTP_META_CACHE_CONTROL = 6,
    GB_HTTP_META_VARY = 7,
    /* Of what came from an origin (origin_head.h); these have no names. */
    GB_HTTP_META_ETAG = 8,
    GB_HTTP_META_ORIGIN = 9,
    GB_HTTP_META_VARIANT = 10,
    GB_HTTP_META_NAMED = 64,
};

/* ---- writing --------------------------------------------------------------------------------- */

struct gb_http_meta_writer {
    unsigned char *out;
    size_t size;
    size_t len;
    bool full; /* something did not fit: what was written is of no use */
};

void gb_http_meta_begin(struct gb_http_meta_writer *writer, unsigned char *out, size_t size);
void gb_http_meta_modified(struct gb_http_meta_writer *writer, int64_t modified_ms);

/* Keeps an entry as it stands. */
void gb_http_meta_entry(struct gb_http_meta_writer *writer, enum gb_http_meta_kind kind,
                        struct gb_http_text value);

/* Keeps a field of a message if it is one of those that are kept: what describes the body,
 * Cache-Control, and every name that begins with "x-meta-". Others are passed over. Returns whether
 * it was kept, or would have been but for its length. */
bool gb_http_meta_field(struct gb_http_meta_writer *writer, struct gb_http_text name,
                        struct gb_http_text value);

/* ---- reading --------------------------------------------------------------------------------- */

struct gb_http_meta_entry {
    struct gb_http_text name; /* as it stands in an answer; empty for what is no field */
    struct gb_http_text value;
    enum gb_http_meta_kind kind;
};

/* The entries' bytes of metadata, or an absent text if it is not HTTP's. */
struct gb_http_text gb_http_meta_entries(const void *meta, size_t len);

/* The next entry of a known kind; `rest` begins as gb_http_meta_entries gave it. */
bool gb_http_meta_next(struct gb_http_text *rest, struct gb_http_meta_entry *entry);

/* When it was stored, or -1 if it does not say. */
int64_t gb_http_meta_modified_ms(const void *meta, size_t len);

#endif
