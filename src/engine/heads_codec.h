/* Bytes of the heads file (heads.c draws it). Decoders survive any bytes. */
#ifndef GB_ENGINE_HEADS_CODEC_H
#define GB_ENGINE_HEADS_CODEC_H

#include <stdint.h>

#include "engine/format.h"

#define GB_HEAD_SIZE 32u

struct gb_head {
    uint32_t key_len;
    uint32_t resident;
    uint64_t sequence;
    uint64_t sum;
};

void gb_heads_header_encode(const unsigned char *store_id, uint64_t salt, unsigned char *block);
/* 0 if the block is the header of this store's heads with this salt, else GOBLIN_ECORRUPT. */
int gb_heads_header_decode(const unsigned char *store_id, uint64_t salt,
                           const unsigned char *block);

uint64_t gb_head_sum(const struct gb_head *head, const unsigned char *key,
                     const unsigned char *bytes, uint64_t salt, uint64_t offset);
/* Also fills head->sum. */
void gb_head_encode(struct gb_head *head, const unsigned char *key, const unsigned char *bytes,
                    uint64_t salt, uint64_t offset, unsigned char *out);
int gb_head_decode(struct gb_head *head, const unsigned char *in);

#endif
