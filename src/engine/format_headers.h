/* The two headers of a segment: where they lie, and what an empty one looks like. */
#ifndef GB_ENGINE_FORMAT_HEADERS_H
#define GB_ENGINE_FORMAT_HEADERS_H

#include "engine/format.h"

#define GB_HEADER_COPIES 2u

static inline uint64_t gb_segment_header_at(uint64_t segment_bytes, unsigned copy)
{
    return copy == 0 ? 0 : segment_bytes - GB_SEGMENT_TRAILER;
}

/* Whether the block may be what a crash leaves of a header that was being written over zeros, or
 * wiped: its first or its last 512 bytes are zero. In a whole one neither are. */
bool gb_segment_header_torn(const unsigned char *block);

#endif
