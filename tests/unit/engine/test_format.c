/* Identity, segment headers and footers: what comes back, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <goblin/error.h>
#include <goblin/options.h>

#include "base/bits.h"
#include "engine/format_headers.h"
#include "engine/format_seal.h"
#include "lib/reseal.h"

#define SALT UINT64_C(0x0123456789abcdef)

static const struct gb_identity identity = {
    .version = GB_FORMAT_VERSION,
    .store_id = "sixteen bytes id",
    .drive = 1,
    .drive_count = 3,
    .first_slot = 100,
    .slot_count = 200,
    .lanes = 4,
    .mode = GOBLIN_MODE_STORE,
    .segment_bytes = 64 * GB_MIB,
    .size_bytes = 500 * GB_GIB,
    .epoch = 7,
    .created_ms = 1700000000000,
    .strayed = 9,
    .floor = 4711,
    .absent = {1u << 2},
};

static const struct gb_segment_header header = {
    .store_id = "sixteen bytes id",
    .slot = 123,
    .lane = 2,
    .generation = 99,
    .salt = SALT,
    .segment_bytes = 64 * GB_MIB,
};

static struct gb_segment_footer footer_sample(void)
{
    struct gb_segment_footer footer = {
        .generation = 99,
        .used_bytes = 60 * GB_MIB,
        .min_sequence = 100,
        .max_sequence = 5000,
        .record_count = 4901,
        .piece_count = 3,
        .pieces = {8192 >> 3, 1048576 >> 3, (60 * GB_MIB - 4096) >> 3},
    };
    return footer;
}

/* Writes `value` into a good block and seals it again, as a faulty encoder might. */
static void plant(unsigned char *block, uint32_t at, uint32_t value, uint64_t seed)
{
    gb_store_le32(block + at, value);
    reseal_block(block, seed);
}

static void identity__comes_back_as_written(void **state)
{
    (void)state;
    unsigned char block[GB_BLOCK];
    struct gb_identity back;
    memset(&back, 0, sizeof(back));
    gb_identity_encode(&identity, block);
    assert_int_equal(gb_identity_decode(&back, block), 0);
    assert_memory_equal(&back, &identity, sizeof(back));
}

static void identity__without_magic_is_no_store(void **state)
{
    (void)state;
    unsigned char block[GB_BLOCK] = {0};
    struct gb_identity back;
    assert_int_equal(gb_identity_decode(&back, block), GOBLIN_ENOTSTORE);
    gb_identity_encode(&identity, block);
    block[0] ^= 1;
    assert_int_equal(gb_identity_decode(&back, block), GOBLIN_ENOTSTORE);
}

static void identity__of_another_version_is_told_apart_from_damage(void **state)
{
    (void)state;
    unsigned char block[GB_BLOCK];
    struct gb_identity later = identity;
    struct gb_identity back;
    later.version = GB_FORMAT_VERSION + 1;
    gb_identity_encode(&later, block);
    assert_int_equal(gb_identity_decode(&back, block), GOBLIN_EFORMAT);
    block[GB_SEAL_VERSION_AT] ^= 4;
    assert_int_equal(gb_identity_decode(&back, block), GOBLIN_ECORRUPT);
}

static void identity__with_a_value_no_encoder_writes_is_corrupt(void **state)
{
    (void)state;
    static const uint32_t cases[][2] = {
        {12, 3},                 /* drive: not below drive_count */
        {32, 1},                 /* drive_count: not above drive */
        {36, GB_SLOTS_MAX},      /* first_slot */
        {40, 0},                 /* slot_count */
        {40, GB_SLOTS_MAX - 99}, /* first_slot + slot_count */
        {44, 0},                 /* lanes */
        {44, 17},
        {48, 2},                       /* mode */
        {52, 1u << 4},                 /* strayed: no such lane */
        {56, 3u << 20},                /* segment_bytes: no power of two */
        {56, 8192},                    /* too small */
        {96, 1u << 1},                 /* absent: the drive itself */
        {96, 1u << 3},                 /* no such drive */
        {124, 1u << 31},               /* the last bit, of no drive */
        {128, 1},                      /* behind the last field */
        {GB_SEAL_SUM_AT - 4, 1u << 31} /* the last byte before the sum */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned char block[GB_BLOCK];
        struct gb_identity back;
        gb_identity_encode(&identity, block);
        plant(block, cases[i][0], cases[i][1], 0);
        if (gb_identity_decode(&back, block) != GOBLIN_ECORRUPT) {
            fail_msg("%u at %u passed", cases[i][1], cases[i][0]);
        }
    }
}

static void segment_header__comes_back_as_written(void **state)
{
    (void)state;
    unsigned char block[GB_BLOCK];
    struct gb_segment_header back;
    memset(&back, 0, sizeof(back));
    gb_segment_header_encode(&header, block);
    assert_int_equal(gb_segment_header_decode(&back, block), 0);
    assert_memory_equal(&back, &header, sizeof(back));
}

static void segment_header__is_never_an_identity_or_a_footer(void **state)
{
    (void)state;
    unsigned char block[GB_BLOCK];
    struct gb_identity as_identity;
    struct gb_segment_footer as_footer;
    gb_segment_header_encode(&header, block);
    assert_int_equal(gb_identity_decode(&as_identity, block), GOBLIN_ENOTSTORE);
    assert_int_equal(gb_segment_footer_decode(&as_footer, SALT, block), GOBLIN_ENOTSTORE);
}

static void segment_header__with_a_value_no_encoder_writes_is_corrupt(void **state)
{
    (void)state;
    static const uint32_t cases[][2] = {
        {12, GB_SLOTS_MAX}, {36, 1}, {56, 0}, {60, 1u << 4}, {64, 1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned char block[GB_BLOCK];
        struct gb_segment_header back;
        gb_segment_header_encode(&header, block);
        plant(block, cases[i][0], cases[i][1], 0);
        assert_int_equal(gb_segment_header_decode(&back, block), GOBLIN_ECORRUPT);
    }
}

static void segment_header__lies_at_both_ends(void **state)
{
    (void)state;
    assert_int_equal(gb_segment_header_at(1 << 20, 0), 0);
    assert_int_equal(gb_segment_header_at(1 << 20, 1), (1 << 20) - 8192);
}

/* Every mixture of zeros and what was to be written, or of what was there and zeros. */
static void segment_header__torn_by_sectors_is_whole_or_told_from_damage(void **state)
{
    (void)state;
    unsigned char whole[GB_BLOCK];
    gb_segment_header_encode(&header, whole);
    assert_false(gb_segment_header_torn(whole));
    for (unsigned kept = 0; kept < 256; kept++) {
        unsigned char block[GB_BLOCK] = {0};
        struct gb_segment_header back;
        for (unsigned sector = 0; sector < 8; sector++) {
            if ((kept >> sector & 1) != 0) {
                memcpy(block + 512 * sector, whole + 512 * sector, 512);
            }
        }
        bool good = gb_segment_header_decode(&back, block) == 0;
        assert_int_equal(good, (kept & 0x81) == 0x81);
        assert_int_equal(gb_segment_header_torn(block), !good);
    }
    for (uint32_t bit = 0; bit < 8 * GB_BLOCK; bit++) {
        whole[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_false(gb_segment_header_torn(whole));
        whole[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
}

static void segment_footer__comes_back_as_written(void **state)
{
    (void)state;
    unsigned char block[GB_BLOCK];
    struct gb_segment_footer footer = footer_sample();
    struct gb_segment_footer back;
    gb_segment_footer_encode(&footer, SALT, block);
    assert_int_equal(gb_segment_footer_decode(&back, SALT, block), 0);
    assert_memory_equal(&back, &footer, sizeof(back));
}

static void segment_footer__names_up_to_all_its_pieces(void **state)
{
    (void)state;
    unsigned char block[GB_BLOCK];
    struct gb_segment_footer footer = footer_sample();
    struct gb_segment_footer back;
    footer.used_bytes = (UINT64_C(1) << 35) - GB_SEGMENT_TRAILER;
    footer.piece_count = GB_PIECES_MAX;
    for (uint32_t i = 0; i < GB_PIECES_MAX; i++) {
        footer.pieces[i] = (4096 + i * 128) >> 3;
    }
    footer.pieces[GB_PIECES_MAX - 1] = (uint32_t)((footer.used_bytes - GB_RECORD_HEADER) >> 3);
    gb_segment_footer_encode(&footer, SALT, block);
    assert_int_equal(gb_segment_footer_decode(&back, SALT, block), 0);
    assert_memory_equal(&back, &footer, sizeof(back));
}

static void segment_footer__of_an_empty_segment_comes_back(void **state)
{
    (void)state;
    unsigned char block[GB_BLOCK];
    struct gb_segment_footer footer = {.generation = 5, .used_bytes = GB_SEGMENT_HEADER};
    struct gb_segment_footer back;
    gb_segment_footer_encode(&footer, SALT, block);
    assert_int_equal(gb_segment_footer_decode(&back, SALT, block), 0);
    assert_memory_equal(&back, &footer, sizeof(back));
    footer.used_bytes = 0;
    gb_segment_footer_encode(&footer, SALT, block);
    assert_int_equal(gb_segment_footer_decode(&back, SALT, block), 0);
    plant(block, 24, 8192, SALT);
    assert_int_equal(gb_segment_footer_decode(&back, SALT, block), GOBLIN_ECORRUPT);
}

static void segment_footer__of_an_earlier_generation_is_corrupt(void **state)
{
    (void)state;
    unsigned char block[GB_BLOCK];
    struct gb_segment_footer footer = footer_sample();
    struct gb_segment_footer back;
    gb_segment_footer_encode(&footer, SALT - 1, block);
    assert_int_equal(gb_segment_footer_decode(&back, SALT, block), GOBLIN_ECORRUPT);
}

static void segment_footer__with_a_value_no_encoder_writes_is_corrupt(void **state)
{
    (void)state;
    static const uint32_t cases[][2] = {
        {12, 0},                 /* no records, yet sequences */
        {24, 4096 + 4},          /* used_bytes not 8-aligned */
        {24, 0},                 /* before the first record */
        {28, 8},                 /* behind the largest segment */
        {32, 5001},              /* min above max */
        {48, GB_PIECES_MAX + 1}, /* more pieces than fit */
        {48, 0},                 /* records, yet no piece, and pieces behind the count */
        {52, 1},                 /* reserved */
        {56, 511},               /* a piece in the header */
        {60, 1024},              /* a piece twice */
        {64, 60u << 17},         /* a piece at the end */
        {68, 1},                 /* a piece behind the count */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned char block[GB_BLOCK];
        struct gb_segment_footer footer = footer_sample();
        struct gb_segment_footer back;
        gb_segment_footer_encode(&footer, SALT, block);
        plant(block, cases[i][0], cases[i][1], SALT);
        if (gb_segment_footer_decode(&back, SALT, block) != GOBLIN_ECORRUPT) {
            fail_msg("%u at %u passed", cases[i][1], cases[i][0]);
        }
    }
}

/* The format's own fingerprint: if this test fails, GB_FORMAT_VERSION must rise. */
static void blocks__have_the_sums_of_format_1(void **state)
{
    (void)state;
    unsigned char block[GB_BLOCK];
    struct gb_segment_footer footer = footer_sample();
    gb_identity_encode(&identity, block);
    assert_memory_equal(block, "GOBLINID\1\0\0\0\1\0\0\0sixteen bytes id\3\0\0\0", 36);
    assert_int_equal(gb_load_le64(block + GB_SEAL_SUM_AT), UINT64_C(0x8443836c7ae803bc));
    gb_segment_header_encode(&header, block);
    assert_memory_equal(block, "GOBLINSH\1\0\0\0{\0\0\0sixteen bytes id\2\0\0\0", 36);
    assert_int_equal(gb_load_le64(block + GB_SEAL_SUM_AT), UINT64_C(0x33b796ca5258c3e1));
    gb_segment_footer_encode(&footer, SALT, block);
    assert_memory_equal(block, "GOBLINSF\1\0\0\0\x25\x13\0\0c\0\0\0\0\0\0\0", 24);
    assert_int_equal(gb_load_le64(block + GB_SEAL_SUM_AT), UINT64_C(0xae8bbc35f61dc3d));
}

static void blocks__with_any_bit_flipped_never_pass(void **state)
{
    (void)state;
    unsigned char blocks[3][GB_BLOCK];
    struct gb_segment_footer footer = footer_sample();
    gb_identity_encode(&identity, blocks[0]);
    gb_segment_header_encode(&header, blocks[1]);
    gb_segment_footer_encode(&footer, SALT, blocks[2]);
    for (uint32_t bit = 0; bit < 8 * GB_BLOCK; bit++) {
        struct gb_identity an_identity;
        struct gb_segment_header a_header;
        struct gb_segment_footer a_footer;
        int expected = bit < 64 ? GOBLIN_ENOTSTORE : GOBLIN_ECORRUPT;
        for (int i = 0; i < 3; i++) {
            blocks[i][bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
        assert_int_equal(gb_identity_decode(&an_identity, blocks[0]), expected);
        assert_int_equal(gb_segment_header_decode(&a_header, blocks[1]), expected);
        assert_int_equal(gb_segment_footer_decode(&a_footer, SALT, blocks[2]), expected);
        for (int i = 0; i < 3; i++) {
            blocks[i][bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
    }
}

static void place__holds_slot_and_offset(void **state)
{
    (void)state;
    uint64_t place = gb_place(GB_SLOTS_MAX - 1, GB_PLACE_OFFSET_MASK);
    assert_int_equal(place, UINT64_MAX);
    assert_int_equal(gb_place_slot(place), GB_SLOTS_MAX - 1);
    assert_int_equal(gb_place_offset(place), GB_PLACE_OFFSET_MASK);
    place = gb_place(5, 4096);
    assert_int_equal(gb_place_slot(place), 5);
    assert_int_equal(gb_place_offset(place), 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identity__comes_back_as_written),
        cmocka_unit_test(identity__without_magic_is_no_store),
        cmocka_unit_test(identity__of_another_version_is_told_apart_from_damage),
        cmocka_unit_test(identity__with_a_value_no_encoder_writes_is_corrupt),
        cmocka_unit_test(segment_header__comes_back_as_written),
        cmocka_unit_test(segment_header__is_never_an_identity_or_a_footer),
        cmocka_unit_test(segment_header__with_a_value_no_encoder_writes_is_corrupt),
        cmocka_unit_test(segment_header__lies_at_both_ends),
        cmocka_unit_test(segment_header__torn_by_sectors_is_whole_or_told_from_damage),
        cmocka_unit_test(segment_footer__comes_back_as_written),
        cmocka_unit_test(segment_footer__names_up_to_all_its_pieces),
        cmocka_unit_test(segment_footer__of_an_empty_segment_comes_back),
        cmocka_unit_test(segment_footer__of_an_earlier_generation_is_corrupt),
        cmocka_unit_test(segment_footer__with_a_value_no_encoder_writes_is_corrupt),
        cmocka_unit_test(blocks__have_the_sums_of_format_1),
        cmocka_unit_test(blocks__with_any_bit_flipped_never_pass),
        cmocka_unit_test(place__holds_slot_and_offset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
