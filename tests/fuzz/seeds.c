/* Writes the seed corpora of the format's fuzz targets: goblin_fuzz_seeds tests/fuzz/corpus. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <goblin/options.h>

#include "engine/heads_codec.h"
#include "fuzz/fuzz.h"

#define SALT UINT64_C(0x5a17)

static const char *root;

static void save(const char *target, const char *name, const void *bytes, size_t len)
{
    char path[1024];
    (void)snprintf(path, sizeof(path), "%s/%s", root, target);
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    (void)snprintf(path, sizeof(path), "%s/%s/%s", root, target, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes, 1, len, file) != len || fclose(file) != 0) {
        perror(path);
        exit(EXIT_FAILURE);
    }
}

static void make_identities(void)
{
    unsigned char block[GB_BLOCK];
    struct gb_identity identity = {
        .version = GB_FORMAT_VERSION,
        .store_id = "sixteen bytes id",
        .drive_count = 1,
        .slot_count = 64,
        .lanes = 4,
        .segment_bytes = 1 << 20,
        .size_bytes = 64 << 20,
        .epoch = 1,
        .created_ms = 1700000000000,
    };
    gb_identity_encode(&identity, block);
    save("identity", "whole", block, sizeof(block));
    save("identity", "unsealed", block, 88);
    save("identity", "magic", block, 8);
    identity.drive_count = 3;
    identity.drive = 2;
    identity.mode = GOBLIN_MODE_STORE;
    identity.segment_bytes = 1 << 30;
    gb_identity_encode(&identity, block);
    save("identity", "third_drive", block, 88);
    identity.version++;
    gb_identity_encode(&identity, block);
    save("identity", "later_version", block, sizeof(block));
    save("identity", "empty", "", 0);
}

static void make_segments(void)
{
    unsigned char block[GB_BLOCK];
    const struct gb_segment_header header = {.store_id = "sixteen bytes id",
                                             .slot = 7,
                                             .lane = 1,
                                             .generation = 40,
                                             .salt = SALT,
                                             .segment_bytes = 1 << 20};
    gb_segment_header_encode(&header, block);
    save("segment", "header", block, sizeof(block));
    save("segment", "header_unsealed", block, 64);
    struct gb_segment_footer footer = {.generation = 40, .used_bytes = 4096};
    gb_segment_footer_encode(&footer, SALT, block);
    save("segment", "footer_empty", block, 56);
    footer = (struct gb_segment_footer){.generation = 40,
                                        .used_bytes = 1 << 19,
                                        .min_sequence = 41,
                                        .max_sequence = 99,
                                        .record_count = 50,
                                        .piece_count = 2,
                                        .pieces = {1 << 14, 1 << 15}};
    gb_segment_footer_encode(&footer, SALT, block);
    save("segment", "footer", block, sizeof(block));
    save("segment", "footer_unsealed", block, 64);
    footer.piece_count = GB_PIECES_MAX;
    for (uint32_t i = 0; i < GB_PIECES_MAX; i++) {
        footer.pieces[i] = 512 + 16 * i;
    }
    gb_segment_footer_encode(&footer, SALT, block);
    save("segment", "footer_full", block, sizeof(block));
}

static const struct {
    const char *name;
    struct gb_record record;
} samples[] = {
    {"put", {.type = GB_RECORD_PUT, .key_len = 3, .size = 100, .sequence = 9, .version = 9}},
    {"put_large", {.type = GB_RECORD_PUT, .key_len = 20, .size = 1 << 20, .meta_len = 4096}},
    {"put_all",
     {.type = GB_RECORD_PUT,
      .key_len = 9,
      .meta_len = 4,
      .flags = 77,
      .sequence = 1 << 20,
      .version = 1000,
      .size = 500,
      .expires_ms = 1700000000000,
      .link = UINT64_C(5) << 40 | 8192,
      .link_generation = 40}},
    {"put_extents", {.type = GB_RECORD_PUT, .key_len = 5, .size = 1 << 30, .extent_count = 9}},
    {"put_long_key", {.type = GB_RECORD_PUT, .key_len = 300, .size = 1}},
    {"delete", {.type = GB_RECORD_DELETE, .key_len = 3, .sequence = 10, .version = 10}},
    {"meta", {.type = GB_RECORD_META, .key_len = 3, .link = 9, .expires_ms = 1700000000000}},
    {"commit", {.type = GB_RECORD_COMMIT, .key_len = 1}},
    {"batch", {.type = GB_RECORD_BATCH, .key_len = 1}},
    {"clear", {.type = GB_RECORD_CLEAR, .sequence = 11, .version = 11}},
    {"extent", {.type = GB_RECORD_EXTENT, .key_len = 3, .size = 1 << 19, .link = 1}},
    {"summary", {.type = GB_RECORD_SUMMARY, .size = 20000}},
    {"put_marked", {.type = GB_RECORD_PUT, .key_len = 3, .size = 1, .sequence = 12, .marks = 127}},
    {"meta_whole",
     {.type = GB_RECORD_META,
      .key_len = 3,
      .marks = 1,
      .flags = 77,
      .sequence = 13,
      .version = 1000,
      .expires_ms = 1700000000000,
      .link = 12}},
};

static void make_records_and_entries(void)
{
    static const unsigned char key[4096] = "a key";
    unsigned char run[4096];
    size_t run_len = 0;
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        const struct gb_record *record = &samples[i].record;
        unsigned char bytes[8 + GB_RECORD_HEADER + 4096];
        gb_store_le64(bytes, 4096 + 8 * i);
        gb_record_encode(record, key, SALT, 4096 + 8 * i, bytes + 8);
        save("record", samples[i].name, bytes, 8 + GB_RECORD_HEADER + record->key_len);

        struct gb_entry entry = {.record = *record, .key = key, .place = 4096 + 8 * i};
        if (record->type == GB_RECORD_PUT && i % 2 == 0) {
            entry.place = gb_place(77, 1 << 16);
            entry.resident = (uint32_t)record->size;
            entry.heat = 15;
        }
        size_t len = gb_entry_encode(&entry, bytes);
        save("entry", samples[i].name, bytes, len);
        memcpy(run + run_len, bytes, len);
        run_len += len;
    }
    save("entry", "run", run, run_len);
}

static void make_checkpoints(void)
{
    unsigned char bytes[1 + GB_BLOCK] = {0};
    const struct gb_checkpoint_head head = {.store_id = "sixteen bytes id",
                                            .sequence = 100,
                                            .salt = SALT,
                                            .epoch = 3,
                                            .clean = true,
                                            .heads = true};
    gb_checkpoint_head_encode(&head, bytes + 1);
    save("checkpoint", "head", bytes, sizeof(bytes));
    save("checkpoint", "head_unsealed", bytes, 1 + 56);

    const struct gb_segment_state state = {
        .slot = 7, .generation = 40, .live_bytes = 1000, .used_bytes = 1 << 19};
    bytes[0] = 2;
    gb_segment_state_encode(&state, bytes + 1);
    gb_segment_state_encode(&state, bytes + 1 + GB_SEGMENT_STATE_SIZE);
    save("checkpoint", "states", bytes, 1 + 2 * GB_SEGMENT_STATE_SIZE);

    unsigned char *at = bytes + 1;
    struct gb_chunk_header chunk = {
        .kind = GB_CHUNK_SEGMENTS, .len = GB_SEGMENT_STATE_SIZE, .count = 1};
    bytes[0] = 1;
    gb_segment_state_encode(&state, at + GB_CHUNK_HEADER);
    gb_chunk_encode(&chunk, at + GB_CHUNK_HEADER, SALT, at);
    at += GB_CHUNK_HEADER + chunk.len;
    const struct gb_entry entry = {.record = samples[0].record,
                                   .key = (const unsigned char *)"abc",
                                   .place = gb_place(7, 8192),
                                   .resident = 100,
                                   .heat = 1};
    size_t len = gb_entry_encode(&entry, at + GB_CHUNK_HEADER);
    chunk = (struct gb_chunk_header){
        .kind = GB_CHUNK_OBJECTS, .len = (uint32_t)len, .count = 1, .number = 1};
    gb_chunk_encode(&chunk, at + GB_CHUNK_HEADER, SALT, at);
    at += GB_CHUNK_HEADER + chunk.len;
    chunk = (struct gb_chunk_header){.kind = GB_CHUNK_END, .count = 2, .number = 2};
    gb_chunk_encode(&chunk, at + GB_CHUNK_HEADER, SALT, at);
    at += GB_CHUNK_HEADER;
    save("checkpoint", "chunks", bytes, (size_t)(at - bytes));
    save("checkpoint", "chunks_cut", bytes, (size_t)(at - bytes) - 5);
}

static void make_extents(void)
{
    unsigned char bytes[3 * GB_EXTENT_SIZE + 1];
    for (uint32_t i = 0; i < 3; i++) {
        const struct gb_extent extent = {
            .place = gb_place(i, 4096 + 4096 * i), .len = 1 << (10 * i), .generation = 40 + i};
        gb_extent_encode(&extent, bytes + i * GB_EXTENT_SIZE);
    }
    bytes[sizeof(bytes) - 1] = 1;
    save("extent", "one", bytes, GB_EXTENT_SIZE);
    save("extent", "three", bytes, 3 * GB_EXTENT_SIZE);
    save("extent", "three_and_a_byte", bytes, sizeof(bytes));
    memset(bytes, 0xff, sizeof(bytes));
    save("extent", "ones", bytes, sizeof(bytes));
}

static void make_heads(void)
{
    unsigned char block[GB_BLOCK];
    gb_heads_header_encode((const unsigned char *)"sixteen bytes id", SALT, block);
    save("heads", "header", block, 64);
    static const unsigned char key[] = "a key";
    unsigned char record[GB_HEAD_SIZE + sizeof(key) + 100] = {0};
    struct gb_head head = {.key_len = sizeof(key), .resident = 100, .sequence = 77};
    gb_head_encode(&head, key, record + GB_HEAD_SIZE + sizeof(key), SALT, GB_BLOCK, record);
    memcpy(record + GB_HEAD_SIZE, key, sizeof(key));
    save("heads", "record", record, sizeof(record));
    save("heads", "cut", record, GB_HEAD_SIZE + 2);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        (void)fprintf(stderr, "usage: goblin_fuzz_seeds DIRECTORY\n");
        return 2;
    }
    root = argv[1];
    make_heads();
    make_identities();
    make_segments();
    make_records_and_entries();
    make_checkpoints();
    make_extents();
    return EXIT_SUCCESS;
}
