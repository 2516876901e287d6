/* Records: header and key, layout, unit sums and extents. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <goblin/error.h>

#include "base/bits.h"
#include "base/rng.h"
#include "engine/format.h"
#include "lib/reseal.h"

#define SALT   UINT64_C(0xfedcba9876543210)
#define OFFSET UINT64_C(8192)
#define ROOM   (GB_RECORD_HEADER + 4096u)

static const struct gb_record put = {
    .type = GB_RECORD_PUT,
    .key_len = 3,
    .meta_len = 5,
    .flags = 0xf1a65,
    .sequence = 1001,
    .version = 2002,
    .size = 100,
    .expires_ms = 1700000000000,
};

static int decode(struct gb_record *back, uint64_t salt, uint64_t offset, const unsigned char *in,
                  size_t len)
{
    return gb_record_decode(back, salt, offset, in, len);
}

static void check_same(const struct gb_record *a, const struct gb_record *b)
{
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->key_len, b->key_len);
    assert_int_equal(a->meta_len, b->meta_len);
    assert_int_equal(a->marks, b->marks);
    assert_int_equal(a->flags, b->flags);
    assert_int_equal(a->extent_count, b->extent_count);
    assert_int_equal(a->sequence, b->sequence);
    assert_int_equal(a->version, b->version);
    assert_int_equal(a->size, b->size);
    assert_int_equal(a->expires_ms, b->expires_ms);
    assert_int_equal(a->link, b->link);
    assert_int_equal(a->link_generation, b->link_generation);
}

static void record__comes_back_whatever_its_type(void **state)
{
    (void)state;
    static const struct gb_record records[] = {
        {.type = GB_RECORD_PUT, .key_len = 1},
        {.type = GB_RECORD_PUT, .key_len = 1, .marks = 127},
        {.type = GB_RECORD_PUT, .key_len = 4096, .size = (UINT64_C(1) << 44) - 1, .meta_len = 4096},
        {.type = GB_RECORD_PUT, .key_len = 9, .size = 7, .link = 4096, .link_generation = 3},
        {.type = GB_RECORD_PUT, .key_len = 9, .size = 7, .extent_count = UINT32_MAX / 24},
        {.type = GB_RECORD_DELETE, .key_len = 20, .sequence = UINT64_MAX, .version = 1},
        {.type = GB_RECORD_META, .key_len = 20, .link = 77, .expires_ms = (INT64_C(1) << 44) - 1},
        {.type = GB_RECORD_META, .key_len = 1, .version = 5, .flags = 9, .marks = 64},
        {.type = GB_RECORD_COMMIT, .key_len = 1},
        {.type = GB_RECORD_BATCH, .key_len = 1},
        {.type = GB_RECORD_CLEAR, .sequence = 12},
        {.type = GB_RECORD_EXTENT, .key_len = 30, .size = 1 << 20, .link = 8},
        {.type = GB_RECORD_SUMMARY, .size = 65536},
    };
    unsigned char key[4096];
    unsigned char bytes[ROOM];
    memset(key, 'k', sizeof(key));
    for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
        struct gb_record back;
        gb_record_encode(&records[i], key, SALT, OFFSET, bytes);
        assert_int_equal(decode(&back, SALT, OFFSET, bytes, sizeof(bytes)), 0);
        check_same(&back, &records[i]);
        assert_memory_equal(bytes + GB_RECORD_HEADER, key, back.key_len);
    }
}

/* The format's own fingerprint: if this test fails, GB_FORMAT_VERSION must rise. */
static void record__has_the_bytes_of_format_1(void **state)
{
    (void)state;
    static const unsigned char expected[] =
        "\x06\xb1\xc0\x7e\x01\x00\x03\x00\xe9\x03\x00\x00\x00\x00\x00\x00"
        "\xd2\x07\x00\x00\x00\x00\x00\x00\x64\x00\x00\x00\x00\x00\x00\x00"
        "\x00\x68\xe5\xcf\x8b\x01\x00\x00\x65\x1a\x0f\x00\x05\x00\x00\x00"
        "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
        "\x00\x00\x00\x00\x00\x00\x00\x00\xc7\xcf\x24\x54\xfb\x9f\xa6\x52"
        "\x61\x62\x63";
    unsigned char bytes[ROOM];
    gb_record_encode(&put, "abc", SALT, OFFSET, bytes);
    assert_memory_equal(bytes, expected, GB_RECORD_HEADER + 3);
    assert_int_equal(gb_unit_sum("payload", 7, SALT, OFFSET), UINT64_C(0x5e586605bdf710c6));
    static const struct gb_record meta = {
        .type = GB_RECORD_META,
        .key_len = 3,
        .marks = 0x55,
        .flags = 0xf1a65,
        .sequence = 1002,
        .version = 2003,
        .expires_ms = 1700000000000,
        .link = 1001,
    };
    static const unsigned char expected_meta[] =
        "\x06\xb1\xc0\x7e\x03\x55\x03\x00\xea\x03\x00\x00\x00\x00\x00\x00"
        "\xd3\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
        "\x00\x68\xe5\xcf\x8b\x01\x00\x00\x65\x1a\x0f\x00\x00\x00\x00\x00"
        "\x00\x00\x00\x00\x00\x00\x00\x00\xe9\x03\x00\x00\x00\x00\x00\x00"
        "\x00\x00\x00\x00\x00\x00\x00\x00\xb5\x4b\x1c\x35\xe6\x8d\x18\xc8"
        "\x61\x62\x63";
    gb_record_encode(&meta, "abc", SALT, OFFSET, bytes);
    assert_memory_equal(bytes, expected_meta, GB_RECORD_HEADER + 3);
}

static void record__does_not_verify_elsewhere_or_under_another_salt(void **state)
{
    (void)state;
    unsigned char bytes[ROOM];
    struct gb_record back;
    gb_record_encode(&put, "abc", SALT, OFFSET, bytes);
    assert_int_equal(decode(&back, SALT, OFFSET, bytes, sizeof(bytes)), 0);
    assert_int_equal(decode(&back, SALT, OFFSET + 8, bytes, sizeof(bytes)), GOBLIN_ECORRUPT);
    assert_int_equal(decode(&back, SALT, OFFSET + GB_BLOCK, bytes, sizeof(bytes)), GOBLIN_ECORRUPT);
    assert_int_equal(decode(&back, SALT + 1, OFFSET, bytes, sizeof(bytes)), GOBLIN_ECORRUPT);
    assert_int_equal(decode(&back, SALT ^ (UINT64_C(1) << 63), OFFSET, bytes, sizeof(bytes)),
                     GOBLIN_ECORRUPT);
}

static void record__with_any_bit_flipped_never_passes(void **state)
{
    (void)state;
    unsigned char bytes[ROOM] = {0};
    gb_record_encode(&put, "abc", SALT, OFFSET, bytes);
    for (uint32_t bit = 0; bit < 8 * (GB_RECORD_HEADER + 3); bit++) {
        struct gb_record back;
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_int_equal(decode(&back, SALT, OFFSET, bytes, sizeof(bytes)), GOBLIN_ECORRUPT);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
}

static void record__cut_short_says_that_it_needs_more(void **state)
{
    (void)state;
    unsigned char bytes[ROOM];
    gb_record_encode(&put, "abc", SALT, OFFSET, bytes);
    for (size_t len = 0; len < GB_RECORD_HEADER + 3; len++) {
        struct gb_record back;
        unsigned char *exact = malloc(len + 1); /* a sanitizer sees reads behind it */
        assert_non_null(exact);
        memcpy(exact + 1, bytes, len);
        assert_int_equal(decode(&back, SALT, OFFSET, exact + 1, len), -ENODATA);
        free(exact);
    }
    struct gb_record back;
    assert_int_equal(decode(&back, SALT, OFFSET, bytes + 1, 2), GOBLIN_ECORRUPT);
}

struct planted {
    uint32_t at;
    uint32_t len;
    uint64_t value;
};

/* Whether the record is refused once the field is changed, under a good sum. */
static void check_refused(const struct gb_record *record, struct planted field)
{
    unsigned char bytes[2 * ROOM] = {0};
    unsigned char value[8];
    struct gb_record back;
    gb_record_encode(record, "abc", SALT, OFFSET, bytes);
    reseal_record(bytes, record->key_len, SALT, OFFSET);
    assert_int_equal(decode(&back, SALT, OFFSET, bytes, sizeof(bytes)), 0);
    gb_store_le64(value, field.value);
    memcpy(bytes + field.at, value, field.len);
    uint16_t key_len = gb_load_le16(bytes + 6);
    reseal_record(bytes, key_len < ROOM ? key_len : 0, SALT, OFFSET);
    if (decode(&back, SALT, OFFSET, bytes, sizeof(bytes)) != GOBLIN_ECORRUPT) {
        fail_msg("%llu at %u passed", (unsigned long long)field.value, field.at);
    }
}

static void record__with_a_value_no_encoder_writes_is_corrupt(void **state)
{
    (void)state;
    static const struct planted in_any[] = {
        {0, 1, 7}, /* magic */
        {4, 1, 0}, /* type */
        {4, 1, 9},
        {5, 1, 128}, /* marks */
        {6, 2, 0},   /* key_len */
        {6, 2, 4097},
        {24, 8, UINT64_C(1) << 44}, /* size */
        {24, 8, 4},                 /* size below meta_len */
        {32, 8, UINT64_C(1) << 44}, /* expires_ms */
        {32, 8, UINT64_MAX},
        {44, 2, 4097},                /* meta_len */
        {46, 2, 1},                   /* reserved */
        {48, 4, UINT32_MAX / 24 + 1}, /* extent_count */
        {52, 4, 1},                   /* reserved */
        {64, 8, 1},                   /* link_generation without link */
        {4, 1, GB_RECORD_DELETE},     /* with meta and size */
        {4, 1, GB_RECORD_CLEAR},      /* with a key */
        {4, 1, GB_RECORD_SUMMARY},
    };
    static const struct gb_record linked = {
        .type = GB_RECORD_PUT, .key_len = 3, .size = 9, .link = 4096};
    static const struct gb_record tombstone = {.type = GB_RECORD_DELETE, .key_len = 3};
    static const struct gb_record touch = {.type = GB_RECORD_META, .key_len = 3, .link = 1};
    static const struct gb_record clear = {.type = GB_RECORD_CLEAR};
    struct gb_record large = put;
    large.size = 8192;
    for (size_t i = 0; i < sizeof(in_any) / sizeof(in_any[0]); i++) {
        check_refused(in_any[i].at == 44 ? &large : &put, in_any[i]);
    }
    check_refused(&linked, (struct planted){48, 4, 1}); /* link and extents */
    check_refused(&tombstone, (struct planted){5, 1, 1});
    check_refused(&tombstone, (struct planted){24, 8, 1});
    check_refused(&tombstone, (struct planted){56, 8, 1});
    check_refused(&tombstone, (struct planted){48, 4, 1});
    check_refused(&touch, (struct planted){24, 8, 1});
    check_refused(&touch, (struct planted){64, 8, 1});
    check_refused(&clear, (struct planted){6, 2, 1});
    check_refused(&clear, (struct planted){4, 1, GB_RECORD_PUT});
}

static void record__of_zeros_or_ones_is_none(void **state)
{
    (void)state;
    unsigned char bytes[ROOM];
    struct gb_record back;
    memset(bytes, 0, sizeof(bytes));
    assert_int_equal(decode(&back, SALT, OFFSET, bytes, sizeof(bytes)), GOBLIN_ECORRUPT);
    memset(bytes, 0xff, sizeof(bytes));
    assert_int_equal(decode(&back, SALT, OFFSET, bytes, sizeof(bytes)), GOBLIN_ECORRUPT);
}

static void check_layout(struct gb_record record, uint64_t offset, struct gb_layout expected)
{
    struct gb_layout layout;
    gb_record_layout(&record, offset, &layout);
    assert_int_equal(layout.payload_len, expected.payload_len);
    assert_int_equal(layout.payload_offset, expected.payload_offset);
    assert_int_equal(layout.table_offset, expected.table_offset);
    assert_int_equal(layout.end, expected.end);
    assert_int_equal(layout.payload_len, gb_record_inline_len(&record));
}

static void layout__packs_up_to_16_kib_behind_the_key(void **state)
{
    (void)state;
    struct gb_record record = {.type = GB_RECORD_PUT, .key_len = 20, .size = 100};
    check_layout(record, 4096, (struct gb_layout){4200, 100, 4304, 4312});
    record.key_len = 24;
    check_layout(record, 4096, (struct gb_layout){4200, 100, 4304, 4312});
    record.size = GB_PACKED_MAX;
    check_layout(record, 4096, (struct gb_layout){4200, 16384, 20584, 20592});
}

static void layout__aligns_what_is_larger(void **state)
{
    (void)state;
    struct gb_record record = {.type = GB_RECORD_PUT, .key_len = 20, .size = GB_PACKED_MAX + 1};
    check_layout(record, 4096, (struct gb_layout){8192, 16385, 24584, 24600});
    record.key_len = 4096 - 80;
    check_layout(record, 4096, (struct gb_layout){8192, 16385, 24584, 24600});
    record.key_len++;
    check_layout(record, 4096, (struct gb_layout){12288, 16385, 28680, 28696});
    record.type = GB_RECORD_EXTENT;
    record.size = UINT64_C(1) << 30;
    check_layout(
        record, 8192 - 80,
        (struct gb_layout){12288, 1 << 30, 12288 + (1 << 30), 12288 + (1 << 30) + 65536 * 8});
}

static void layout__without_a_payload_has_no_table(void **state)
{
    (void)state;
    struct gb_record record = {.type = GB_RECORD_PUT, .key_len = 3, .size = 0};
    check_layout(record, 4096, (struct gb_layout){4184, 0, 4184, 4184});
    record = (struct gb_record){.type = GB_RECORD_PUT, .key_len = 8, .size = 9, .link = 4096};
    check_layout(record, 4096, (struct gb_layout){4184, 0, 4184, 4184});
    record = (struct gb_record){.type = GB_RECORD_CLEAR};
    check_layout(record, 4096, (struct gb_layout){4176, 0, 4176, 4176});
    record = (struct gb_record){.type = GB_RECORD_DELETE, .key_len = 1};
    check_layout(record, 4096, (struct gb_layout){4184, 0, 4184, 4184});
}

static void layout__of_extents_holds_their_list(void **state)
{
    (void)state;
    struct gb_record record = {
        .type = GB_RECORD_PUT, .key_len = 8, .size = UINT64_C(1) << 40, .extent_count = 2};
    check_layout(record, 4096, (struct gb_layout){4184, 48, 4232, 4240});
    record.extent_count = 683;
    check_layout(record, 4096, (struct gb_layout){8192, 16392, 24584, 24600});
}

static void unit_sum__does_not_verify_elsewhere_or_under_another_salt(void **state)
{
    (void)state;
    static const size_t lens[] = {1, 16, 17, 128, 129, 240, 241, 4096, GB_UNIT};
    unsigned char unit[GB_UNIT];
    memset(unit, 'u', sizeof(unit));
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        uint64_t sum = gb_unit_sum(unit, lens[i], SALT, OFFSET);
        assert_int_equal(sum, gb_unit_sum(unit, lens[i], SALT, OFFSET));
        assert_int_not_equal(sum, gb_unit_sum(unit, lens[i], SALT, OFFSET + 8));
        assert_int_not_equal(sum, gb_unit_sum(unit, lens[i], SALT, OFFSET + GB_UNIT));
        assert_int_not_equal(sum, gb_unit_sum(unit, lens[i], SALT + 1, OFFSET));
        assert_int_not_equal(sum, gb_unit_sum(unit, lens[i] - 1, SALT, OFFSET));
        unit[lens[i] / 2] ^= 1;
        assert_int_not_equal(sum, gb_unit_sum(unit, lens[i], SALT, OFFSET));
        unit[lens[i] / 2] ^= 1;
    }
}

static void unit_sum__of_two_pieces_is_that_of_the_whole(void **state)
{
    (void)state;
    const uint64_t seed = 20240501;
    struct gb_rng rng;
    unsigned char unit[GB_UNIT];
    print_message("seed %llu\n", (unsigned long long)seed);
    gb_rng_init(&rng, seed);
    for (size_t i = 0; i < sizeof(unit); i++) {
        unit[i] = (unsigned char)gb_rng_next(&rng);
    }
    for (int round = 0; round < 3000; round++) {
        size_t len = 1 + gb_rng_below(&rng, round % 2 == 0 ? 300 : GB_UNIT);
        size_t cut = gb_rng_below(&rng, len + 1);
        uint64_t offset = gb_rng_below(&rng, UINT64_C(1) << 40);
        assert_int_equal(gb_unit_sum2(unit, cut, unit + cut, len - cut, SALT, offset),
                         gb_unit_sum(unit, len, SALT, offset));
    }
}

static void table__holds_a_sum_for_each_unit(void **state)
{
    (void)state;
    size_t len = 2 * GB_UNIT + 5;
    unsigned char *payload = malloc(len);
    unsigned char table[3 * GB_SUM_SIZE + 1];
    assert_non_null(payload);
    memset(payload, 'p', len);
    table[sizeof(table) - 1] = 0xaa;
    assert_int_equal(gb_units(len), 3);
    gb_table_encode(payload, len, SALT, OFFSET, table);
    assert_int_equal(gb_load_le64(table), gb_unit_sum(payload, GB_UNIT, SALT, OFFSET));
    assert_int_equal(gb_load_le64(table + 8),
                     gb_unit_sum(payload + GB_UNIT, GB_UNIT, SALT, OFFSET + GB_UNIT));
    assert_int_equal(gb_load_le64(table + 16),
                     gb_unit_sum(payload + 2 * GB_UNIT, 5, SALT, OFFSET + 2 * GB_UNIT));
    assert_int_equal(table[sizeof(table) - 1], 0xaa);
    assert_int_equal(gb_table_offset(OFFSET, len), OFFSET + 2 * GB_UNIT + 8);
    free(payload);
}

static void extent__comes_back_or_is_refused(void **state)
{
    (void)state;
    struct gb_extent extent = {.place = gb_place(7, 8192), .len = 1 << 20, .generation = 9};
    struct gb_extent back;
    unsigned char bytes[GB_EXTENT_SIZE];
    gb_extent_encode(&extent, bytes);
    assert_int_equal(gb_extent_decode(&back, bytes), 0);
    assert_memory_equal(&back, &extent, sizeof(back));

    gb_store_le64(bytes, gb_place(7, 4088)); /* in a segment's header */
    assert_int_equal(gb_extent_decode(&back, bytes), GOBLIN_ECORRUPT);
    gb_store_le64(bytes, 0);
    assert_int_equal(gb_extent_decode(&back, bytes), GOBLIN_ECORRUPT);
    gb_extent_encode(&extent, bytes);
    gb_store_le64(bytes + 8, 0);
    assert_int_equal(gb_extent_decode(&back, bytes), GOBLIN_ECORRUPT);
    gb_store_le64(bytes + 8, UINT64_MAX - 4096);
    assert_int_equal(gb_extent_decode(&back, bytes), GOBLIN_ECORRUPT);
    gb_store_le64(bytes + 8, GB_PLACE_OFFSET_MASK - 8191);
    assert_int_equal(gb_extent_decode(&back, bytes), GOBLIN_ECORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(record__comes_back_whatever_its_type),
        cmocka_unit_test(record__has_the_bytes_of_format_1),
        cmocka_unit_test(record__does_not_verify_elsewhere_or_under_another_salt),
        cmocka_unit_test(record__with_any_bit_flipped_never_passes),
        cmocka_unit_test(record__cut_short_says_that_it_needs_more),
        cmocka_unit_test(record__with_a_value_no_encoder_writes_is_corrupt),
        cmocka_unit_test(record__of_zeros_or_ones_is_none),
        cmocka_unit_test(layout__packs_up_to_16_kib_behind_the_key),
        cmocka_unit_test(layout__aligns_what_is_larger),
        cmocka_unit_test(layout__without_a_payload_has_no_table),
        cmocka_unit_test(layout__of_extents_holds_their_list),
        cmocka_unit_test(unit_sum__does_not_verify_elsewhere_or_under_another_salt),
        cmocka_unit_test(unit_sum__of_two_pieces_is_that_of_the_whole),
        cmocka_unit_test(table__holds_a_sum_for_each_unit),
        cmocka_unit_test(extent__comes_back_or_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
