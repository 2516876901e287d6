/* Entries: what comes back, how small they are, and which bytes are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <goblin/error.h>

#include "base/rng.h"
#include "engine/format.h"

static const unsigned char longest_key[4096] = "a key of 4096 bytes, nearly all of them zero";

/* The largest value every field takes, all at once where the fields allow it. */
static const struct gb_entry largest = {
    .record = {.type = GB_RECORD_PUT,
               .key_len = 4096,
               .meta_len = 4096,
               .marks = 127,
               .flags = UINT32_MAX,
               .sequence = UINT64_MAX,
               .version = UINT64_MAX - 1,
               .size = (UINT64_C(1) << 44) - 1,
               .expires_ms = (INT64_C(1) << 44) - 1,
               .link = UINT64_MAX,
               .link_generation = UINT64_MAX},
    .key = longest_key,
    .place = UINT64_MAX,
    .resident = UINT32_MAX,
    .heat = UINT8_MAX,
};

static void check_same(const struct gb_entry *a, const struct gb_entry *b)
{
    assert_int_equal(a->record.type, b->record.type);
    assert_int_equal(a->record.key_len, b->record.key_len);
    assert_int_equal(a->record.meta_len, b->record.meta_len);
    assert_int_equal(a->record.marks, b->record.marks);
    assert_int_equal(a->record.flags, b->record.flags);
    assert_int_equal(a->record.extent_count, b->record.extent_count);
    assert_int_equal(a->record.sequence, b->record.sequence);
    assert_int_equal(a->record.version, b->record.version);
    assert_int_equal(a->record.size, b->record.size);
    assert_int_equal(a->record.expires_ms, b->record.expires_ms);
    assert_int_equal(a->record.link, b->record.link);
    assert_int_equal(a->record.link_generation, b->record.link_generation);
    assert_int_equal(a->place, b->place);
    assert_int_equal(a->resident, b->resident);
    assert_int_equal(a->heat, b->heat);
    assert_memory_equal(a->key, b->key, a->record.key_len);
}

/* Encodes, decodes, compares; every shorter piece must be refused without a look behind it. */
static size_t check_round_trip(const struct gb_entry *entry)
{
    unsigned char bytes[GB_ENTRY_MAX];
    struct gb_entry back;
    size_t len = gb_entry_encode(entry, bytes);
    assert_true(len <= GB_ENTRY_MAX);
    assert_int_equal(gb_entry_decode(&back, bytes, sizeof(bytes)), len);
    check_same(&back, entry);
    size_t step = len > 256 ? 61 : 1;
    for (size_t cut = 0; cut < len; cut += step) {
        unsigned char *exact = malloc(cut + 1);
        assert_non_null(exact);
        memcpy(exact + 1, bytes, cut);
        assert_int_equal(gb_entry_decode(&back, exact + 1, cut), GOBLIN_ECORRUPT);
        free(exact);
    }
    return len;
}

static void entry__of_the_largest_values_comes_back(void **state)
{
    (void)state;
    struct gb_entry extents = largest;
    extents.record.link = 0;
    extents.record.link_generation = 0;
    extents.record.extent_count = UINT32_MAX / GB_EXTENT_SIZE;
    assert_in_range(check_round_trip(&largest), 4096 + 64, GB_ENTRY_MAX);
    (void)check_round_trip(&extents);
}

static void entry__of_a_small_object_is_small(void **state)
{
    (void)state;
    struct gb_entry entry = {
        .record = {.type = GB_RECORD_PUT,
                   .key_len = 20,
                   .sequence = 1000000,
                   .version = 1000000,
                   .size = 400},
        .key = longest_key,
        .place = 30 << 20,
    };
    assert_int_equal(check_round_trip(&entry), 1 + 1 + 3 + 2 + 4 + 20);
    entry.place = gb_place(50, 30 << 20); /* in a checkpoint */
    entry.resident = 400;
    entry.heat = 3;
    assert_int_equal(check_round_trip(&entry), 2 + 1 + 3 + 2 + 4 + 1 + 2 + 1 + 20);
}

static void entry__comes_back_whatever_its_type(void **state)
{
    (void)state;
    static const struct gb_record records[] = {
        {.type = GB_RECORD_DELETE, .key_len = 2, .sequence = 9, .version = 8},
        {.type = GB_RECORD_META, .key_len = 2, .link = 77, .expires_ms = 1},
        {.type = GB_RECORD_META, .key_len = 2, .link = 77, .version = 3, .flags = 1, .marks = 1},
        {.type = GB_RECORD_COMMIT, .key_len = 1},
        {.type = GB_RECORD_BATCH, .key_len = 1},
        {.type = GB_RECORD_CLEAR, .sequence = 12},
        {.type = GB_RECORD_EXTENT, .key_len = 30, .size = 1 << 20, .link = 8},
        {.type = GB_RECORD_SUMMARY, .size = 65536, .version = 4},
    };
    for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
        struct gb_entry entry = {.record = records[i], .key = longest_key, .place = 8192};
        (void)check_round_trip(&entry);
    }
}

static uint64_t any_width(struct gb_rng *rng, unsigned bits)
{
    return gb_rng_next(rng) >> (64 - bits) >> gb_rng_below(rng, bits);
}

static void entry__of_random_values_comes_back(void **state)
{
    (void)state;
    const uint64_t seed = 20240502;
    struct gb_rng rng;
    print_message("seed %llu\n", (unsigned long long)seed);
    gb_rng_init(&rng, seed);
    for (int round = 0; round < 20000; round++) {
        struct gb_entry entry = {.key = longest_key, .place = any_width(&rng, 64)};
        struct gb_record *record = &entry.record;
        record->type = GB_RECORD_PUT;
        record->key_len = (uint16_t)(1 + any_width(&rng, 6));
        record->size = any_width(&rng, 44);
        record->meta_len = record->size > 4096 ? (uint16_t)any_width(&rng, 12) : 0;
        record->flags = (uint32_t)any_width(&rng, 32);
        record->marks = (uint8_t)any_width(&rng, 7);
        record->sequence = any_width(&rng, 64);
        record->version = gb_rng_below(&rng, 2) ? record->sequence : any_width(&rng, 64);
        record->expires_ms = (int64_t)any_width(&rng, 44);
        if (gb_rng_below(&rng, 2) == 0) {
            record->extent_count = (uint32_t)any_width(&rng, 27);
        } else {
            record->link = 1 + any_width(&rng, 63);
            record->link_generation = any_width(&rng, 64);
        }
        entry.resident = record->size > UINT32_MAX ? (uint32_t)any_width(&rng, 32) : 0;
        entry.heat = (uint8_t)any_width(&rng, 8);
        (void)check_round_trip(&entry);
    }
}

struct bad {
    const char *why;
    const char *bytes;
    size_t len;
};

#define BAD(why, bytes)                                                                            \
    {                                                                                              \
        why, bytes, sizeof(bytes) - 1                                                              \
    }

static void entry__that_no_encoder_writes_is_corrupt(void **state)
{
    (void)state;
    static const unsigned char good[] = "\x01\x01\x05\x07\x20k";
    static const struct bad cases[] = {
        BAD("no type", "\x00\x01\x05\x07\x20k"),
        BAD("an unknown type", "\x09\x01\x05\x07\x20k"),
        BAD("a second byte of zero", "\x81\x00\x01\x05\x07\x20k"),
        BAD("marks of 0", "\x81\x80\x01\x05\x07\x20\x00k"),
        BAD("marks of 128", "\x81\x80\x01\x05\x07\x20\x80\x01k"),
        BAD("marks of a DELETE", "\x82\x80\x01\x05\x00\x20\x01k"),
        BAD("an overlong integer", "\x01\x81\x00\x05\x07\x20k"),
        BAD("an integer of 65 bits", "\x01\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02\x07\x20k"),
        BAD("an integer of 11 bytes",
            "\x01\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81\x01\x07\x20k"),
        BAD("no key", "\x01\x00\x05\x07\x20"),
        BAD("a key of 4097 bytes", "\x01\x81\x20\x05\x07\x20k"),
        BAD("a key of 2^16 + 1 bytes", "\x01\x81\x80\x04\x05\x07\x20k"),
        BAD("a key in a CLEAR", "\x06\x01\x05\x00\x20k"),
        BAD("a size of 2^44", "\x01\x01\x05\x80\x80\x80\x80\x80\x80\x04\x20k"),
        BAD("an offset of 2^40", "\x01\x01\x05\x07\x80\x80\x80\x80\x80\x20k"),
        BAD("a version that is the sequence", "\x11\x01\x05\x07\x20\x05k"),
        BAD("an expiry of 0", "\x21\x01\x05\x07\x20\x00k"),
        BAD("an expiry of 2^44", "\x21\x01\x05\x07\x20\x80\x80\x80\x80\x80\x80\x04k"),
        BAD("flags of 2^32", "\x41\x01\x05\x07\x20\x80\x80\x80\x80\x10k"),
        BAD("more metadata than payload", "\x81\x01\x01\x05\x07\x20\x08k"),
        BAD("link and extents", "\x81\x06\x01\x05\x07\x20\x01\x01k"),
        BAD("a generation without link", "\x81\x08\x01\x05\x07\x20\x01k"),
        BAD("a slot of 2^24", "\x81\x10\x01\x05\x07\x20\x80\x80\x80\x08k"),
        BAD("more resident than there is", "\x81\x20\x01\x05\x07\x20\x08k"),
        BAD("a heat of 256", "\x81\x40\x01\x05\x07\x20\x80\x02k"),
        BAD("nothing", ""),
    };
    struct gb_entry entry;
    assert_int_equal(gb_entry_decode(&entry, good, sizeof(good) - 1), 6);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const unsigned char *bytes = (const unsigned char *)cases[i].bytes;
        if (gb_entry_decode(&entry, bytes, cases[i].len) != GOBLIN_ECORRUPT) {
            fail_msg("%s passed", cases[i].why);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entry__of_the_largest_values_comes_back),
        cmocka_unit_test(entry__of_a_small_object_is_small),
        cmocka_unit_test(entry__comes_back_whatever_its_type),
        cmocka_unit_test(entry__of_random_values_comes_back),
        cmocka_unit_test(entry__that_no_encoder_writes_is_corrupt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
