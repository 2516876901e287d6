/* Fuzz: the heads file's header and records. What decodes must encode to the same bytes. */
#include "engine/heads_codec.h"
#include "fuzz/fuzz.h"

#define SALT UINT64_C(0x0123456789abcdef)

static void check_header(const uint8_t *data)
{
    if (gb_heads_header_decode(data + 8, SALT, data) == 0) {
        unsigned char again[GB_BLOCK];
        gb_heads_header_encode(data + 8, SALT, again);
        GB_ASSERT(memcmp(again, data, 40) == 0);
    }
}

static void check_record(const uint8_t *data, size_t size)
{
    struct gb_head head;
    if (gb_head_decode(&head, data) != 0 ||
        GB_HEAD_SIZE + (uint64_t)head.key_len + head.resident > size) {
        return;
    }
    const uint8_t *key = data + GB_HEAD_SIZE;
    struct gb_head copy = head;
    unsigned char again[GB_HEAD_SIZE];
    gb_head_encode(&copy, key, key + head.key_len, SALT, 4096, again);
    GB_ASSERT(memcmp(again, data, 24) == 0);
    GB_ASSERT((copy.sum == head.sum) == (memcmp(again, data, GB_HEAD_SIZE) == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size >= 40) {
        check_header(data);
    }
    if (size >= GB_HEAD_SIZE) {
        check_record(data, size);
    }
    return 0;
}
