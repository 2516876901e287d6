/*
 * Checkpoint files. The first byte chooses: 0, a head block; 1, chunks back to back; 2, segment
 * states back to back.
 */
#include "fuzz/fuzz.h"

#define SALT UINT64_C(0x5a17)

static void check_head(const unsigned char *block)
{
    struct gb_checkpoint_head head;
    if (gb_checkpoint_head_decode(&head, block) == 0) {
        unsigned char again[GB_BLOCK];
        gb_checkpoint_head_encode(&head, again);
        GB_ASSERT(memcmp(again, block, GB_BLOCK) == 0);
    }
}

static void check_chunks(const uint8_t *data, size_t size)
{
    while (size >= GB_CHUNK_HEADER) {
        struct gb_chunk_header header;
        unsigned char again[GB_CHUNK_HEADER];
        if (gb_chunk_decode(&header, data) != 0 || header.len > size - GB_CHUNK_HEADER) {
            return;
        }
        const uint8_t *body = data + GB_CHUNK_HEADER;
        bool good = gb_chunk_verify(&header, body, SALT);
        gb_chunk_encode(&header, body, SALT, again);
        GB_ASSERT(memcmp(again, data, GB_CHUNK_HEADER - 8) == 0);
        GB_ASSERT(good == (memcmp(again, data, GB_CHUNK_HEADER) == 0));
        GB_ASSERT(gb_chunk_verify(&header, body, SALT));
        data += GB_CHUNK_HEADER + header.len;
        size -= GB_CHUNK_HEADER + header.len;
    }
}

static void check_states(const uint8_t *data, size_t size)
{
    for (; size >= GB_SEGMENT_STATE_SIZE; size -= GB_SEGMENT_STATE_SIZE) {
        struct gb_segment_state state;
        if (gb_segment_state_decode(&state, data) == 0) {
            unsigned char again[GB_SEGMENT_STATE_SIZE];
            gb_segment_state_encode(&state, again);
            GB_ASSERT(memcmp(again, data, GB_SEGMENT_STATE_SIZE) == 0);
        }
        data += GB_SEGMENT_STATE_SIZE;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    unsigned char block[GB_BLOCK];
    switch (data[0]) {
    case 0:
        fuzz_block(block, data + 1, size - 1);
        check_head(block);
        reseal_block(block, 0);
        check_head(block);
        break;
    case 1:
        check_chunks(data + 1, size - 1);
        break;
    case 2:
        check_states(data + 1, size - 1);
        break;
    default:
        break;
    }
    return 0;
}
