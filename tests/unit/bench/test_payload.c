/* Stamped windows: whole, in pieces, restored, told apart, and caught when a byte is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/rng.h"
#include "bench/payload.h"

#define POOL_BYTES (16 * GB_PAYLOAD_STRIDE_BYTES)

struct fixture {
    struct gb_payload payload;
    struct gb_payload_window window;
};

static struct fixture fixture;

static int set_up(void **state)
{
    (void)state;
    return gb_payload_init(&fixture.payload, 99, POOL_BYTES) < 0 ||
           gb_payload_window_open(&fixture.window, &fixture.payload) < 0;
}

static int tear_down(void **state)
{
    (void)state;
    gb_payload_window_close(&fixture.window);
    gb_payload_fini(&fixture.payload);
    return 0;
}

static const uint64_t sizes[] = {0,     1,     31,    32,    33,     4095,      4096,
                                 65535, 65536, 65537, 65568, 200000, POOL_BYTES};

static void value__verifies_whole(void **state)
{
    (void)state;
    for (uint64_t object = 0; object < 40; object++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            const void *value =
                gb_payload_window_prepare(&fixture.window, object, sizes[i], 0, sizes[i]);
            assert_true(gb_payload_verify(&fixture.payload, object, sizes[i], 0, value, sizes[i]));
        }
    }
}

static void value__verifies_at_any_offset(void **state)
{
    (void)state;
    uint64_t seed = 31337;
    print_message("seed %llu\n", (unsigned long long)seed);
    struct gb_rng rng;
    gb_rng_init(&rng, seed);
    uint64_t size = 5 * GB_PAYLOAD_STRIDE_BYTES + 777;
    const uint8_t *value = gb_payload_window_prepare(&fixture.window, 7, size, 0, size);
    for (int i = 0; i < 2000; i++) {
        uint64_t offset = gb_rng_below(&rng, size);
        uint64_t len = gb_rng_below(&rng, size - offset + 1) >> gb_rng_below(&rng, 18);
        assert_true(gb_payload_verify(&fixture.payload, 7, size, offset, value + offset, len));
    }
}

static void pieces__are_the_same_as_the_whole(void **state)
{
    (void)state;
    uint64_t seed = 271828;
    print_message("seed %llu\n", (unsigned long long)seed);
    struct gb_rng rng;
    gb_rng_init(&rng, seed);
    uint64_t size = 3 * GB_PAYLOAD_STRIDE_BYTES + 50;
    uint8_t *copy = malloc(size);
    assert_non_null(copy);
    memcpy(copy, gb_payload_window_prepare(&fixture.window, 3, size, 0, size), size);
    for (int i = 0; i < 2000; i++) {
        uint64_t offset = gb_rng_below(&rng, size);
        uint64_t len = gb_rng_below(&rng, size - offset + 1) >> gb_rng_below(&rng, 18);
        const void *piece = gb_payload_window_prepare(&fixture.window, 3, size, offset, len);
        assert_memory_equal(piece, copy + offset, len);
    }
    free(copy);
}

static void larger_than_the_pool__goes_piece_by_piece(void **state)
{
    (void)state;
    uint64_t size = 3 * POOL_BYTES + 12345;
    for (uint64_t offset = 0; offset < size;) {
        uint64_t len = gb_min(size - offset, 1 << 20);
        const void *piece = gb_payload_window_prepare(&fixture.window, 11, size, offset, len);
        assert_true(((uintptr_t)piece & (GB_PAYLOAD_STRIDE_BYTES - 1)) % 4096 == 0);
        assert_true(gb_payload_verify(&fixture.payload, 11, size, offset, piece, len));
        /* The same place one pool further on holds another stamp. */
        if (offset + POOL_BYTES + len <= size) {
            assert_false(
                gb_payload_verify(&fixture.payload, 11, size, offset + POOL_BYTES, piece, len));
        }
        offset += len;
    }
}

static void window__is_restored_by_the_next_call(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 500; i++) {
        uint64_t size = gb_rng_mix(i) % (POOL_BYTES + 1);
        (void)gb_payload_window_prepare(&fixture.window, i, size, 0, size);
    }
    (void)gb_payload_window_prepare(&fixture.window, 0, 0, 0, 0);
    assert_memory_equal(fixture.window.mapping, fixture.payload.pool, POOL_BYTES);
    assert_memory_equal(fixture.window.mapping + POOL_BYTES, fixture.payload.pool, POOL_BYTES);
}

static void verify__catches_every_kind_of_wrong_byte(void **state)
{
    (void)state;
    uint64_t size = 2 * GB_PAYLOAD_STRIDE_BYTES + 100;
    uint8_t *copy = malloc(size);
    assert_non_null(copy);
    memcpy(copy, gb_payload_window_prepare(&fixture.window, 5, size, 0, size), size);
    for (uint64_t at = 0; at < size; at += 97) {
        copy[at] ^= 1;
        assert_false(gb_payload_verify(&fixture.payload, 5, size, 0, copy, size));
        copy[at] ^= 1;
    }
    assert_true(gb_payload_verify(&fixture.payload, 5, size, 0, copy, size));
    assert_false(gb_payload_verify(&fixture.payload, 5, size - 1, 0, copy, size - 1));
    assert_false(gb_payload_verify(&fixture.payload, 5, size, 1, copy, 1000));
    assert_false(gb_payload_verify(&fixture.payload, 5, size, 1, copy, size));
    for (uint64_t other = 6; other < 200; other++) {
        assert_false(gb_payload_verify(&fixture.payload, other, size, 0, copy, size));
        assert_false(gb_payload_verify(&fixture.payload, other, size, 0, copy, 16));
    }
    free(copy);
}

static void windows__share_nothing_writable(void **state)
{
    (void)state;
    struct gb_payload_window other;
    assert_int_equal(gb_payload_window_open(&other, &fixture.payload), 0);
    const void *first = gb_payload_window_prepare(&fixture.window, 1, 100000, 0, 100000);
    const void *second = gb_payload_window_prepare(&other, 2, 100000, 0, 100000);
    assert_true(gb_payload_verify(&fixture.payload, 1, 100000, 0, first, 100000));
    assert_true(gb_payload_verify(&fixture.payload, 2, 100000, 0, second, 100000));
    gb_payload_window_close(&other);
}

static void init__refuses_a_pool_of_odd_size(void **state)
{
    (void)state;
    struct gb_payload payload;
    assert_int_equal(gb_payload_init(&payload, 1, 0), -EINVAL);
    assert_int_equal(gb_payload_init(&payload, 1, 65537), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(value__verifies_whole),
        cmocka_unit_test(value__verifies_at_any_offset),
        cmocka_unit_test(pieces__are_the_same_as_the_whole),
        cmocka_unit_test(larger_than_the_pool__goes_piece_by_piece),
        cmocka_unit_test(window__is_restored_by_the_next_call),
        cmocka_unit_test(verify__catches_every_kind_of_wrong_byte),
        cmocka_unit_test(windows__share_nothing_writable),
        cmocka_unit_test(init__refuses_a_pool_of_odd_size),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
