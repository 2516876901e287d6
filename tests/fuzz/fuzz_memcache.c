/* The memcached parser: the same bytes, whole and in pieces whose lengths the first byte seeds,
 * must give the same events; and every request that is read can be answered within its room. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/rng.h"
#include "lib/mcevents.h"
#include "proto/mc_write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct gb_mcevents whole;
static struct gb_mcevents pieces;

static void peek(const struct gb_mc_parser *parser, const char *data, size_t size)
{
    enum { MOST = 8 };
    struct gb_mc_text keys[MOST];
    size_t covered = 0;
    size_t count = gb_mc_parser_peek(parser, data, size, keys, MOST, &covered);
    GB_ASSERT(count <= MOST && covered >= 1 && (covered <= size || covered == 1));
    for (size_t i = 0; i < count; i++) {
        GB_ASSERT(keys[i].len > 0 && keys[i].data >= data);
        GB_ASSERT(keys[i].data + keys[i].len <= data + size);
    }
}

static void answer(const char *data, size_t size)
{
    static const struct gb_mc_object object = {.size = 1, .cas = 2, .stale = true};
    struct gb_mc_parser parser;
    struct gb_mc_event event;
    gb_mc_parser_init(&parser, 0);
    size_t used = 0;
    do {
        peek(&parser, data + used, size - used);
        used += gb_mc_parse(&parser, data + used, size - used, &event);
        if (event.kind == GB_MC_REQUEST) {
            char out[GB_MC_META_HEAD_MAX];
            GB_ASSERT(event.request.key.len <= GB_MC_KEY_MAX);
            char *end = gb_mc_write_meta(out, &event.request, "VA", &object);
            GB_ASSERT(end <= out + sizeof(out));
        }
    } while (event.kind != GB_MC_MORE && event.kind != GB_MC_CLOSE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    const char *text = (const char *)data + 1;
    size--;
    gb_mcevents_init(&whole);
    gb_mcevents_feed(&whole, text, size);
    struct gb_rng rng;
    gb_rng_init(&rng, data[0]);
    gb_mcevents_init(&pieces);
    for (size_t at = 0; at < size;) {
        size_t piece = 1 + (size_t)gb_rng_below(&rng, 40);
        piece = piece < size - at ? piece : size - at;
        gb_mcevents_feed(&pieces, text + at, piece);
        at += piece;
    }
    GB_ASSERT(strcmp(whole.text, pieces.text) == 0);
    answer(text, size);
    return 0;
}
