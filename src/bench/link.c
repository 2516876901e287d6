/* The idealised link: see link.h. */
#include "bench/link.h"

#include "base/assert.h"
#include "base/bits.h"

__extension__ typedef unsigned __int128 wide;

void gb_link_init(struct gb_link *link, uint64_t rate_bps)
{
    GB_ASSERT(rate_bps != 0);
    *link = (struct gb_link){.rate_bps = rate_bps};
}

/* Whole nanoseconds on the wire, rounded up; 64 GiB in bits times 1e9 does not fit 64 bits. */
static uint64_t wire_ns(uint64_t bytes, uint64_t rate_bps)
{
    if (bytes <= UINT64_MAX / UINT64_C(8000000000)) {
        uint64_t scaled = bytes * UINT64_C(8000000000);
        return scaled / rate_bps + (scaled % rate_bps != 0);
    }
    wide scaled = (wide)bytes * 8 * 1000000000;
    return (uint64_t)((scaled + rate_bps - 1) / rate_bps);
}

void gb_link_add(struct gb_link *link, const struct gb_chunk *chunks, size_t count,
                 uint64_t storage_ns)
{
    uint64_t end = count == 0 ? storage_ns : 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t duration = wire_ns(chunks[i].bytes, link->rate_bps);
        end = gb_max(chunks[i].ready_ns, end) + duration;
        link->wire_ns += duration;
        link->bytes += chunks[i].bytes;
    }
    link->requests++;
    link->storage_ns += storage_ns;
    link->total_ns += end;
}

int64_t gb_link_overlap_ns(const struct gb_link *link)
{
    return (int64_t)(link->storage_ns + link->wire_ns - link->total_ns);
}

static double mib_s(uint64_t bytes, uint64_t ns)
{
    return ns == 0 ? 0 : (double)bytes / (double)GB_MIB / ((double)ns / 1e9);
}

double gb_link_mib_s(const struct gb_link *link)
{
    return mib_s(link->bytes, link->total_ns);
}

double gb_link_wire_mib_s(const struct gb_link *link)
{
    return (double)link->rate_bps / 8 / (double)GB_MIB;
}
