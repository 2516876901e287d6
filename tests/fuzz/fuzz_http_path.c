/* Fuzz: targets, keys and queries. What decodes comes back from its encoding. */
#include "fuzz/fuzz.h"
#include "proto/http_path.h"

enum { KEY_MAX = 4096 };

static char key[KEY_MAX];
static char path[3 * KEY_MAX];
static char again[KEY_MAX];

static void check_round_trip(struct gb_http_text text)
{
    int64_t len = gb_http_path_decode(text, key, sizeof(key));
    if (len < 0) {
        return;
    }
    int64_t path_len =
        gb_http_path_encode((struct gb_http_text){key, (size_t)len}, path, sizeof(path));
    GB_ASSERT(path_len >= len && path_len <= 3 * len);
    GB_ASSERT(gb_http_path_decode((struct gb_http_text){path, (size_t)path_len}, again,
                                  sizeof(again)) == len);
    GB_ASSERT(memcmp(key, again, (size_t)len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct gb_http_text text = {(const char *)data, size};
    check_round_trip(text);
    struct gb_http_target target;
    if (gb_http_path_split(text, &target) != 0) {
        return 0;
    }
    GB_ASSERT(target.path.len > 0);
    check_round_trip(target.path);
    struct gb_http_text name;
    struct gb_http_text value;
    while (gb_http_path_next_parameter(&target.query, &name, &value)) {
        (void)gb_http_path_decode_query(name, key, sizeof(key));
        (void)gb_http_path_decode_query(value, key, sizeof(key));
    }
    return 0;
}
