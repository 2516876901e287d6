/* Replies of servers: the first byte chooses the protocol and the length of pieces, the rest is
 * what came. Whatever the pieces, the same must be understood. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bits.h"
#include "base/rng.h"
#include "bench/net_reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was understood, in one number; bytes of values count one by one. */
struct sense {
    uint64_t sum;
    uint64_t body_bytes;
    bool bad;
};

static void add(struct sense *sense, uint64_t value)
{
    sense->sum = gb_rng_mix(sense->sum + value + 1);
}

static void understand(struct sense *sense, const struct gb_net_event *event, const uint8_t *piece,
                       size_t len)
{
    switch (event->kind) {
    case GB_NET_MORE:
        return;
    case GB_NET_BAD:
        sense->bad = true;
        return;
    case GB_NET_VALUE:
        add(sense, event->bytes);
        add(sense, event->key_len);
        for (size_t i = 0; i < event->key_len; i++) {
            add(sense, (unsigned char)event->key[i]);
        }
        return;
    case GB_NET_BODY:
        GB_ASSERT(event->len > 0 && event->data >= piece && event->len <= len);
        GB_ASSERT(event->data + event->len <= piece + len);
        sense->body_bytes += event->len;
        for (size_t i = 0; i < event->len; i++) {
            add(sense, event->data[i]);
        }
        return;
    case GB_NET_REPLY:
        GB_ASSERT(event->status <= GB_NET_ERROR);
        add(sense, (uint64_t)event->status * 2 + event->closes);
        return;
    }
}

/* In memory that ends with the piece. */
static void take_piece(struct gb_net_reply *reply, struct sense *sense, const uint8_t *data,
                       size_t len)
{
    uint8_t *piece = malloc(len + 1);
    struct gb_net_event event = {.kind = GB_NET_MORE};
    size_t at = 0;
    GB_ASSERT(piece != NULL);
    memcpy(piece, data, len);
    do {
        size_t used = gb_net_reply_next(reply, piece + at, len - at, &event);
        GB_ASSERT(used <= len - at);
        at += used;
        understand(sense, &event, piece, len);
    } while (event.kind != GB_NET_MORE && event.kind != GB_NET_BAD);
    GB_ASSERT(event.kind == GB_NET_BAD || at == len);
    free(piece);
}

static struct sense take_all(enum gb_net_protocol protocol, const uint8_t *data, size_t size,
                             size_t step)
{
    static struct gb_net_reply reply;
    struct sense sense = {.sum = 0};
    gb_net_reply_init(&reply, protocol);
    for (size_t at = 0; at < size && !sense.bad; at += gb_min(step, size - at)) {
        take_piece(&reply, &sense, data + at, (size_t)gb_min(step, size - at));
    }
    return sense;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    enum gb_net_protocol protocol = data[0] % 2 == 0 ? GB_NET_MEMCACHE : GB_NET_HTTP;
    struct sense whole = take_all(protocol, data + 1, size - 1, size);
    struct sense pieces = take_all(protocol, data + 1, size - 1, (size_t)data[0] / 2 + 1);
    GB_ASSERT(whole.sum == pieces.sum && whole.bad == pieces.bad);
    GB_ASSERT(whole.body_bytes == pieces.body_bytes && whole.body_bytes < size);
    return 0;
}
