/* Checkpoint files: head, chunks and segment states. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <goblin/error.h>

#include "engine/format.h"
#include "lib/reseal.h"

#define SALT UINT64_C(0xabcdef0123456789)

static const struct gb_checkpoint_head head = {
    .store_id = "sixteen bytes id",
    .sequence = 12345,
    .salt = SALT,
    .epoch = 6,
    .clean = true,
};

static void head__comes_back_as_written(void **state)
{
    (void)state;
    for (int marks = 0; marks < 4; marks++) {
        unsigned char block[GB_BLOCK];
        struct gb_checkpoint_head written = head;
        struct gb_checkpoint_head back;
        written.clean = (marks & 1) != 0;
        written.heads = (marks & 2) != 0;
        gb_checkpoint_head_encode(&written, block);
        assert_int_equal(gb_checkpoint_head_decode(&back, block), 0);
        assert_memory_equal(back.store_id, written.store_id, 16);
        assert_int_equal(back.sequence, written.sequence);
        assert_int_equal(back.salt, written.salt);
        assert_int_equal(back.epoch, written.epoch);
        assert_int_equal(back.clean, written.clean);
        assert_int_equal(back.heads, written.heads);
    }
}

static void head__damaged_or_of_another_version_is_refused(void **state)
{
    (void)state;
    unsigned char block[GB_BLOCK] = {0};
    struct gb_checkpoint_head back;
    assert_int_equal(gb_checkpoint_head_decode(&back, block), GOBLIN_ENOTSTORE);
    gb_checkpoint_head_encode(&head, block);
    block[32] ^= 1;
    assert_int_equal(gb_checkpoint_head_decode(&back, block), GOBLIN_ECORRUPT);
    gb_checkpoint_head_encode(&head, block);
    gb_store_le32(block + 8, 2);
    reseal_block(block, 0);
    assert_int_equal(gb_checkpoint_head_decode(&back, block), GOBLIN_EFORMAT);
    gb_checkpoint_head_encode(&head, block);
    gb_store_le32(block + 12, 4);
    reseal_block(block, 0);
    assert_int_equal(gb_checkpoint_head_decode(&back, block), GOBLIN_ECORRUPT);
    gb_checkpoint_head_encode(&head, block);
    block[56] = 1;
    reseal_block(block, 0);
    assert_int_equal(gb_checkpoint_head_decode(&back, block), GOBLIN_ECORRUPT);
}

static void chunk__comes_back_and_verifies(void **state)
{
    (void)state;
    static const unsigned char body[64] = "two segment states, as far as a chunk can tell";
    struct gb_chunk_header written[] = {
        {.kind = GB_CHUNK_SEGMENTS, .len = 64, .count = 2, .number = 0},
        {.kind = GB_CHUNK_OBJECTS, .len = 50, .count = 3, .number = 1},
        {.kind = GB_CHUNK_SEGMENTS, .len = 0, .count = 0, .number = 2},
        {.kind = GB_CHUNK_OBJECTS, .len = 0, .count = 0, .number = 3},
        {.kind = GB_CHUNK_END, .len = 0, .count = 4, .number = 4},
    };
    for (size_t i = 0; i < sizeof(written) / sizeof(written[0]); i++) {
        unsigned char bytes[GB_CHUNK_HEADER];
        struct gb_chunk_header back;
        gb_chunk_encode(&written[i], body, SALT, bytes);
        assert_int_equal(gb_chunk_decode(&back, bytes), 0);
        assert_int_equal(back.kind, written[i].kind);
        assert_int_equal(back.len, written[i].len);
        assert_int_equal(back.count, written[i].count);
        assert_int_equal(back.number, written[i].number);
        assert_int_equal(back.sum, written[i].sum);
        assert_true(gb_chunk_verify(&back, body, SALT));
        assert_false(gb_chunk_verify(&back, body, SALT + 1));
    }
}

/* The format's own fingerprint: if this test fails, GB_FORMAT_VERSION must rise. */
static void chunk__has_the_bytes_of_format_1(void **state)
{
    (void)state;
    static const unsigned char expected[GB_CHUNK_HEADER + 1] =
        "\x02\x48\x4e\x4b\x06\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00"
        "\x09\x00\x00\x00\x00\x00\x00\x00\xa7\x35\x52\x83\xb3\x52\x0e\x73";
    unsigned char bytes[GB_CHUNK_HEADER];
    struct gb_chunk_header header = {.kind = GB_CHUNK_OBJECTS, .len = 6, .count = 1, .number = 9};
    gb_chunk_encode(&header, (const unsigned char *)"\x01\x01\x05\x07\x20k", SALT, bytes);
    assert_memory_equal(bytes, expected, sizeof(bytes));
}

static void chunk__with_any_bit_flipped_never_passes(void **state)
{
    (void)state;
    unsigned char bytes[GB_CHUNK_HEADER + 64] = {0};
    struct gb_chunk_header header = {.kind = GB_CHUNK_OBJECTS, .len = 40, .count = 3, .number = 1};
    gb_chunk_encode(&header, bytes + GB_CHUNK_HEADER, SALT, bytes);
    for (uint32_t bit = 0; bit < 8 * (GB_CHUNK_HEADER + 40); bit++) {
        struct gb_chunk_header back;
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_false(gb_chunk_decode(&back, bytes) == 0 && back.len <= 64 &&
                     gb_chunk_verify(&back, bytes + GB_CHUNK_HEADER, SALT));
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
}

static void chunk__that_no_encoder_writes_is_corrupt(void **state)
{
    (void)state;
    static const struct gb_chunk_header cases[] = {
        {.kind = 0},
        {.kind = 4},
        {.kind = GB_CHUNK_OBJECTS, .len = GB_CHUNK_MAX + 1, .count = 1},
        {.kind = GB_CHUNK_OBJECTS, .len = 5, .count = 6},
        {.kind = GB_CHUNK_OBJECTS, .len = 5, .count = 0},
        {.kind = GB_CHUNK_OBJECTS, .len = 0, .count = 1},
        {.kind = GB_CHUNK_SEGMENTS, .len = 63, .count = 1},
        {.kind = GB_CHUNK_SEGMENTS, .len = 64, .count = 1},
        {.kind = GB_CHUNK_END, .len = 1, .count = 0},
        {.kind = GB_CHUNK_END, .len = 0, .count = 1, .number = 2},
    };
    unsigned char bytes[GB_CHUNK_HEADER] = {0};
    struct gb_chunk_header header = {.kind = GB_CHUNK_END};
    gb_chunk_encode(&header, bytes, SALT, bytes);
    uint32_t magic = gb_load_le32(bytes) ^ GB_CHUNK_END;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        gb_store_le32(bytes, magic | (uint32_t)cases[i].kind);
        gb_store_le32(bytes + 4, cases[i].len);
        gb_store_le64(bytes + 8, cases[i].count);
        gb_store_le64(bytes + 16, cases[i].number);
        assert_int_equal(gb_chunk_decode(&header, bytes), GOBLIN_ECORRUPT);
    }
}

static void segment_state__comes_back_or_is_refused(void **state)
{
    (void)state;
    struct gb_segment_state written = {
        .slot = GB_SLOTS_MAX - 1, .generation = 5, .live_bytes = 1000, .used_bytes = 2000};
    struct gb_segment_state back = {0};
    unsigned char bytes[GB_SEGMENT_STATE_SIZE];
    gb_segment_state_encode(&written, bytes);
    assert_int_equal(gb_segment_state_decode(&back, bytes), 0);
    assert_int_equal(back.slot, written.slot);
    assert_int_equal(back.generation, written.generation);
    assert_int_equal(back.live_bytes, written.live_bytes);
    assert_int_equal(back.used_bytes, written.used_bytes);

    static const uint32_t highest[] = {3, 7, 22, 30}; /* slot, reserved, live, used */
    for (size_t i = 0; i < sizeof(highest) / sizeof(highest[0]); i++) {
        gb_segment_state_encode(&written, bytes);
        bytes[highest[i]] = 1;
        assert_int_equal(gb_segment_state_decode(&back, bytes), GOBLIN_ECORRUPT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head__comes_back_as_written),
        cmocka_unit_test(head__damaged_or_of_another_version_is_refused),
        cmocka_unit_test(chunk__comes_back_and_verifies),
        cmocka_unit_test(chunk__has_the_bytes_of_format_1),
        cmocka_unit_test(chunk__with_any_bit_flipped_never_passes),
        cmocka_unit_test(chunk__that_no_encoder_writes_is_corrupt),
        cmocka_unit_test(segment_state__comes_back_or_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
