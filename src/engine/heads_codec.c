/* Encoding and decoding of the heads file. */
#include "engine/heads_codec.h"

#include <string.h>

#include <goblin/goblin.h>

#include "base/bits.h"
#include "engine/item.h"

#define FILE_MAGIC UINT64_C(0x31534441454847) /* "GHEADS1" */
#define HEAD_MAGIC UINT32_C(0x44414547)       /* "GEAD" */

/* Header: magic 8, store id 16, salt 8, sum of these 32 bytes 8, zeros. */
void gb_heads_header_encode(const unsigned char *store_id, uint64_t salt, unsigned char *block)
{
    memset(block, 0, GB_BLOCK);
    gb_store_le64(block, FILE_MAGIC);
    memcpy(block + 8, store_id, 16);
    gb_store_le64(block + 24, salt);
    gb_store_le64(block + 32, gb_unit_sum(block, 32, salt, 0));
}

int gb_heads_header_decode(const unsigned char *store_id, uint64_t salt, const unsigned char *block)
{
    bool mine = gb_load_le64(block) == FILE_MAGIC && memcmp(block + 8, store_id, 16) == 0 &&
                gb_load_le64(block + 24) == salt &&
                gb_load_le64(block + 32) == gb_unit_sum(block, 32, salt, 0);
    return mine ? 0 : GOBLIN_ECORRUPT;
}

static void encode_fields(const struct gb_head *head, unsigned char *out)
{
    gb_store_le32(out, HEAD_MAGIC);
    gb_store_le32(out + 4, head->key_len);
    gb_store_le32(out + 8, head->resident);
    gb_store_le32(out + 12, 0);
    gb_store_le64(out + 16, head->sequence);
}

uint64_t gb_head_sum(const struct gb_head *head, const unsigned char *key,
                     const unsigned char *bytes, uint64_t salt, uint64_t offset)
{
    unsigned char first[24 + GOBLIN_KEY_MAX];
    encode_fields(head, first);
    memcpy(first + 24, key, head->key_len);
    return gb_unit_sum2(first, 24 + head->key_len, bytes, head->resident, salt, offset);
}

void gb_head_encode(struct gb_head *head, const unsigned char *key, const unsigned char *bytes,
                    uint64_t salt, uint64_t offset, unsigned char *out)
{
    head->sum = gb_head_sum(head, key, bytes, salt, offset);
    encode_fields(head, out);
    gb_store_le64(out + 24, head->sum);
}

int gb_head_decode(struct gb_head *head, const unsigned char *in)
{
    *head = (struct gb_head){
        .key_len = gb_load_le32(in + 4),
        .resident = gb_load_le32(in + 8),
        .sequence = gb_load_le64(in + 16),
        .sum = gb_load_le64(in + 24),
    };
    bool valid = gb_load_le32(in) == HEAD_MAGIC && gb_load_le32(in + 12) == 0 &&
                 head->key_len >= 1 && head->key_len <= GOBLIN_KEY_MAX && head->resident > 0 &&
                 head->resident <= GB_RESIDENT_MAX;
    return valid ? 0 : GOBLIN_ECORRUPT;
}
