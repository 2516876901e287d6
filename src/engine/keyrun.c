/* Runs of front-coded keys. */
#include "engine/keyrun.h"

#include <string.h>

#include "base/assert.h"
#include "base/bits.h"

static uint32_t number_size(uint32_t value)
{
    return value < 0x80 ? 1 : 2;
}

static uint32_t header_size(uint32_t shared, uint32_t rest)
{
    return number_size(shared) + number_size(rest);
}

static unsigned char *put_number(unsigned char *to, uint32_t value)
{
    if (value < 0x80) {
        *to = (unsigned char)value;
        return to + 1;
    }
    to[0] = (unsigned char)(value | 0x80);
    to[1] = (unsigned char)(value >> 7);
    return to + 2;
}

static unsigned char *put_header(unsigned char *to, uint32_t shared, uint32_t rest)
{
    return put_number(put_number(to, shared), rest);
}

static inline uint32_t common(const unsigned char *a, uint32_t a_len, const unsigned char *b,
                              uint32_t b_len)
{
    uint32_t n = a_len < b_len ? a_len : b_len;
    uint32_t i = 0;
    while (i < n && a[i] == b[i]) {
        i++;
    }
    return i;
}

struct gb_keyrun_spot gb_keyrun_seek(const struct gb_keyrun *run, struct goblin_slice key)
{
    const unsigned char *bytes = key.data;
    uint32_t len = (uint32_t)key.len;
    struct gb_keyrun_spot spot = {.before = GB_KEYRUN_NONE};
    while (spot.at < run->used) {
        struct gb_keyrun_entry entry = gb_keyrun_entry(run, spot.at);
        if (entry.shared < spot.shared) {
            spot.next_shared = entry.shared; /* it leaves the key's side where the key does not */
            return spot;
        }
        if (entry.shared == spot.shared) {
            const unsigned char *rest = run->bytes + entry.key;
            uint32_t n = common(rest, entry.rest, bytes + spot.shared, len - spot.shared);
            uint32_t whole = spot.shared + n;
            if (n < entry.rest && (whole == len || rest[n] > bytes[whole])) {
                spot.next_shared = whole;
                return spot;
            }
            if (n == entry.rest && whole == len) {
                spot.next_shared = len;
                spot.found = true;
                return spot;
            }
            spot.shared = whole;
        }
        spot.before = spot.at;
        spot.at = entry.next;
    }
    return spot;
}

uint32_t gb_keyrun_child(const struct gb_keyrun *run, uint32_t at)
{
    struct gb_keyrun_entry entry = gb_keyrun_entry(run, at);
    return gb_load_le32(run->bytes + entry.key + entry.rest);
}

void gb_keyrun_set_child(struct gb_keyrun *run, uint32_t at, uint32_t child)
{
    struct gb_keyrun_entry entry = gb_keyrun_entry(run, at);
    gb_store_le32(run->bytes + entry.key + entry.rest, child);
}

/* What inserting does to the entry that then follows: its header and the bytes it now shares go,
 * a new header comes. */
struct follower {
    uint32_t gone;
    uint32_t shared;
    uint32_t rest;
    uint32_t header;
};

static struct follower follow(const struct gb_keyrun *run, const struct gb_keyrun_spot *spot)
{
    if (spot->at == run->used) {
        return (struct follower){0};
    }
    struct gb_keyrun_entry next = gb_keyrun_entry(run, spot->at);
    uint32_t dropped = spot->next_shared - next.shared;
    uint32_t rest = next.rest - dropped;
    return (struct follower){
        .gone = next.key - spot->at + dropped,
        .shared = spot->next_shared,
        .rest = rest,
        .header = header_size(spot->next_shared, rest),
    };
}

static uint32_t entry_size(const struct gb_keyrun *run, uint32_t shared, uint32_t key_len)
{
    uint32_t rest = key_len - shared;
    return header_size(shared, rest) + rest + run->payload;
}

uint32_t gb_keyrun_growth(const struct gb_keyrun *run, const struct gb_keyrun_spot *spot,
                          uint32_t key_len)
{
    struct follower next = follow(run, spot);
    return entry_size(run, spot->shared, key_len) + next.header - next.gone;
}

void gb_keyrun_insert(struct gb_keyrun *run, const struct gb_keyrun_spot *spot,
                      struct goblin_slice key, uint32_t child)
{
    GB_ASSERT(!spot->found);
    struct follower next = follow(run, spot);
    uint32_t size = entry_size(run, spot->shared, (uint32_t)key.len);
    unsigned char *to = run->bytes + spot->at;
    memmove(to + size + next.header, to + next.gone, run->used - spot->at - next.gone);
    if (next.header > 0) {
        (void)put_header(to + size, next.shared, next.rest);
    }
    uint32_t rest = (uint32_t)key.len - spot->shared;
    to = put_header(to, spot->shared, rest);
    memcpy(to, (const unsigned char *)key.data + spot->shared, rest);
    if (run->payload > 0) {
        gb_store_le32(to + rest, child);
    }
    run->used += size + next.header - next.gone;
}

void gb_keyrun_remove(struct gb_keyrun *run, uint32_t at)
{
    struct gb_keyrun_entry entry = gb_keyrun_entry(run, at);
    if (entry.next == run->used) {
        run->used = at;
        return;
    }
    struct gb_keyrun_entry next = gb_keyrun_entry(run, entry.next);
    unsigned char *to = run->bytes + at;
    uint32_t from = entry.next;
    if (next.shared > entry.shared) {
        /* It keeps what only the entry between had in common with it. */
        uint32_t kept = next.shared - entry.shared;
        uint32_t header = header_size(entry.shared, kept + next.rest);
        memmove(to + header, run->bytes + entry.key, kept);
        to = put_header(to, entry.shared, kept + next.rest) + kept;
        from = next.key;
    }
    memmove(to, run->bytes + from, run->used - from);
    run->used -= from - (uint32_t)(to - run->bytes);
}

uint32_t gb_keyrun_key(const struct gb_keyrun *run, uint32_t at, unsigned char *key)
{
    for (uint32_t here = 0;;) {
        struct gb_keyrun_entry entry = gb_keyrun_entry(run, here);
        memcpy(key + entry.shared, run->bytes + entry.key, entry.rest);
        if (here == at) {
            return entry.shared + entry.rest;
        }
        here = entry.next;
    }
}

uint32_t gb_keyrun_previous(const struct gb_keyrun *run, uint32_t at)
{
    GB_ASSERT(at > 0);
    uint32_t here = 0;
    for (uint32_t next = 0; next != at;) {
        here = next;
        next = gb_keyrun_entry(run, here).next;
    }
    return here;
}

uint32_t gb_keyrun_middle(const struct gb_keyrun *run, uint32_t count, uint32_t least)
{
    GB_ASSERT(count >= 2 * least);
    uint32_t at = 0;
    for (uint32_t i = 0; i < count - least; i++) {
        if (i >= least && at >= run->used / 2) {
            break;
        }
        at = gb_keyrun_entry(run, at).next;
    }
    return at;
}

void gb_keyrun_append(struct gb_keyrun *to, const struct gb_keyrun *from, uint32_t at)
{
    unsigned char last[GOBLIN_KEY_MAX];
    unsigned char first[GOBLIN_KEY_MAX];
    uint32_t last_len = 0;
    for (uint32_t here = 0; here < to->used;) {
        struct gb_keyrun_entry entry = gb_keyrun_entry(to, here);
        memcpy(last + entry.shared, to->bytes + entry.key, entry.rest);
        last_len = entry.shared + entry.rest;
        here = entry.next;
    }
    if (at == from->used) {
        return;
    }
    uint32_t len = gb_keyrun_key(from, at, first);
    uint32_t shared = common(last, last_len, first, len);
    struct gb_keyrun_entry entry = gb_keyrun_entry(from, at);
    unsigned char *out = put_header(to->bytes + to->used, shared, len - shared);
    memcpy(out, first + shared, len - shared);
    out += len - shared;
    uint32_t rest = entry.key + entry.rest; /* its payload, and all that follows */
    memcpy(out, from->bytes + rest, from->used - rest);
    to->used = (uint32_t)(out - to->bytes) + from->used - rest;
}
