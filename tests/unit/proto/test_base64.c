/* Base64: the vectors of RFC 4648, what is refused, and that encoding and decoding are inverse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/rng.h"
#include "proto/base64.h"

static void base64__keeps_to_the_vectors(void **state)
{
    (void)state;
    static const char *const vectors[][2] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
    };
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        char text[16];
        size_t len = strlen(vectors[i][0]);
        size_t encoded = gb_base64_encode(text, vectors[i][0], len);
        assert_int_equal(encoded, GB_BASE64_SIZE(len));
        assert_int_equal(encoded, strlen(vectors[i][1]));
        assert_memory_equal(text, vectors[i][1], encoded);
        if (len > 0) {
            assert_int_equal(gb_base64_decode(text, text, encoded), len);
            assert_memory_equal(text, vectors[i][0], len);
        }
    }
}

static void base64__refuses_anything_else(void **state)
{
    (void)state;
    static const char *const bad[] = {"",     "Z",    "Zg",   "Zg=",  "====",     "Z===",  "Zm9=",
                                      "Zh==", "Zm 9", "Zm-_", "=Zg=", "Zg==Zg==", "Zm9v\n"};
    char out[16];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (gb_base64_decode(out, bad[i], strlen(bad[i])) != -EINVAL) {
            fail_msg("\"%s\" was taken for base64", bad[i]);
        }
    }
}

static void base64__gives_back_what_it_was_given(void **state)
{
    (void)state;
    struct gb_rng rng;
    const uint64_t seed = 64;
    print_message("seed %llu\n", (unsigned long long)seed);
    gb_rng_init(&rng, seed);
    for (size_t len = 1; len < 200; len++) {
        unsigned char bytes[200];
        char text[GB_BASE64_SIZE(200)];
        for (size_t i = 0; i < len; i++) {
            bytes[i] = (unsigned char)gb_rng_next(&rng);
        }
        size_t encoded = gb_base64_encode(text, bytes, len);
        assert_int_equal(gb_base64_decode(text, text, encoded), len);
        assert_memory_equal(text, bytes, len);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base64__keeps_to_the_vectors),
        cmocka_unit_test(base64__refuses_anything_else),
        cmocka_unit_test(base64__gives_back_what_it_was_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
