/* Values of every size at which the engine turns from one way of doing things to another: stored at
 * once and streamed, read whole, in ranges and from RAM alone, before and after a reopen. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/lane.h"
#include "lib/fixture.h"
#include "lib/pattern.h"

#define HEAD      (8 * GB_KIB)
#define SIZES_MAX 64u

struct sizes {
    size_t size[SIZES_MAX];
    unsigned count;
};

static void add(struct sizes *sizes, uint64_t size)
{
    assert_true(sizes->count < SIZES_MAX);
    sizes->size[sizes->count++] = size;
}

static void add_around(struct sizes *sizes, uint64_t size)
{
    add(sizes, size - 1);
    add(sizes, size);
    add(sizes, size + 1);
}

/* All the turning points of an open store. */
static void list_sizes(const struct gb_fixture *fixture, struct sizes *sizes)
{
    const struct goblin_options *options = &fixture->options;
    const uint64_t block = gb_max(64 * GB_KIB, options->write_block_bytes);
    *sizes = (struct sizes){0};
    add(sizes, 0);
    add(sizes, 1);
    add(sizes, 511);
    add(sizes, 512);
    add_around(sizes, 4096);
    add_around(sizes, HEAD);
    add_around(sizes, 16 * GB_KIB); /* the packed ones, and the checksum unit */
    add_around(sizes, 64 * GB_KIB);
    add_around(sizes, HEAD + 64 * GB_KIB);
    add_around(sizes, 256 * GB_KIB);
    add_around(sizes, block);
    add_around(sizes, gb_lane_inline_max(fixture->store));
    add_around(sizes, options->segment_bytes);
    add(sizes, 3 * options->segment_bytes + 12345);
}

static void open_with_block(struct gb_fixture *fixture, uint32_t write_block_bytes)
{
    fixture->options.write_block_bytes = write_block_bytes;
    fixture->options.head_bytes = HEAD;
    fixture->options.size_bytes = 96 * GB_MIB;
    gb_fixture_open(fixture);
}

static void expect_all(struct gb_fixture *fixture, const struct sizes *sizes)
{
    for (unsigned i = 0; i < sizes->count; i++) {
        gb_fixture_expect(fixture, i, sizes->size[i], 1000 + i);
    }
}

/* ---- whole values -------------------------------------------------------------------------- */

static void put__gives_back_every_size(void **state)
{
    struct gb_fixture *fixture = *state;
    struct sizes sizes;
    open_with_block(fixture, 128 * GB_KIB);
    list_sizes(fixture, &sizes);
    for (unsigned i = 0; i < sizes.count; i++) {
        assert_int_equal(gb_fixture_put(fixture, i, sizes.size[i], 1000 + i), GOBLIN_OK);
        gb_fixture_expect(fixture, i, sizes.size[i], 1000 + i);
    }
    expect_all(fixture, &sizes);
    assert_int_equal(goblin_sync(fixture->store), GOBLIN_OK);
    expect_all(fixture, &sizes);
    gb_fixture_reopen(fixture);
    expect_all(fixture, &sizes);
    gb_fixture_await_warm(fixture);
    expect_all(fixture, &sizes);
    assert_int_equal(gb_fixture_stats(fixture).objects, sizes.count);
}

static void put__gives_back_every_size_with_large_blocks(void **state)
{
    struct gb_fixture *fixture = *state;
    struct sizes sizes;
    open_with_block(fixture, 512 * GB_KIB);
    list_sizes(fixture, &sizes);
    for (unsigned i = 0; i < sizes.count; i++) {
        assert_int_equal(gb_fixture_put(fixture, i, sizes.size[i], 1000 + i), GOBLIN_OK);
    }
    expect_all(fixture, &sizes);
}

static void stream_all(struct gb_fixture *fixture, const struct sizes *sizes, bool announced)
{
    static const size_t steps[] = {1777, 4096, 65537, 300001};
    for (unsigned i = 0; i < sizes->count; i++) {
        struct gb_key key;
        unsigned char piece[300001];
        struct goblin_writer *writer = NULL;
        size_t size = sizes->size[i];
        size_t step = steps[i % 4];
        assert_int_equal(goblin_writer_begin(&writer, fixture->store, gb_key_at(&key, i),
                                             announced ? size : GOBLIN_SIZE_UNKNOWN, NULL),
                         GOBLIN_OK);
        for (size_t at = 0; at < size;) {
            size_t n = gb_min(step, size - at);
            gb_pattern_fill(piece, n, 1000 + i, at);
            assert_int_equal(goblin_writer_write(writer, piece, n), GOBLIN_OK);
            at += n;
        }
        uint64_t version = 0;
        assert_int_equal(goblin_writer_commit(writer, &version), GOBLIN_OK);
        assert_true(version > 0);
        gb_fixture_expect(fixture, i, size, 1000 + i);
    }
}

static void stream__gives_back_every_announced_size(void **state)
{
    struct gb_fixture *fixture = *state;
    struct sizes sizes;
    open_with_block(fixture, 64 * GB_KIB);
    list_sizes(fixture, &sizes);
    stream_all(fixture, &sizes, true);
    expect_all(fixture, &sizes);
    gb_fixture_reopen(fixture);
    expect_all(fixture, &sizes);
}

static void stream__gives_back_every_unknown_size(void **state)
{
    struct gb_fixture *fixture = *state;
    struct sizes sizes;
    open_with_block(fixture, 128 * GB_KIB);
    list_sizes(fixture, &sizes);
    stream_all(fixture, &sizes, false);
    expect_all(fixture, &sizes);
    gb_fixture_reopen(fixture);
    expect_all(fixture, &sizes);
}

static void load__materialises_every_size(void **state)
{
    struct gb_fixture *fixture = *state;
    struct sizes sizes;
    struct goblin_buffer buffer = {0};
    open_with_block(fixture, 128 * GB_KIB);
    list_sizes(fixture, &sizes);
    for (unsigned i = 0; i < sizes.count; i++) {
        assert_int_equal(gb_fixture_put(fixture, i, sizes.size[i], 1000 + i), GOBLIN_OK);
    }
    for (unsigned i = 0; i < 2 * sizes.count; i++) {
        /* Forwards and backwards, so that the buffer both grows and is too large. */
        unsigned number = i < sizes.count ? i : 2 * sizes.count - 1 - i;
        struct gb_key key;
        struct goblin_info info;
        assert_int_equal(
            goblin_load(fixture->reader, gb_key_at(&key, number), &buffer, &info, NULL), GOBLIN_OK);
        assert_int_equal(info.size, sizes.size[number]);
        assert_int_equal(buffer.len, sizes.size[number]);
        assert_true(gb_pattern_holds(buffer.data, buffer.len, 1000 + number, 0));
    }
    struct gb_key key;
    assert_int_equal(goblin_load(fixture->reader, gb_key_at(&key, 9999), &buffer, NULL, NULL),
                     GOBLIN_MISS);
    goblin_buffer_free(&buffer);
}

/* What is small and resident goes into buffers that are there already: each must end with its own
 * length and bytes, whatever was in it before. */
static void load__leaves_nothing_of_the_one_before(void **state)
{
    struct gb_fixture *fixture = *state;
    struct goblin_buffer value = {0};
    struct goblin_buffer meta = {0};
    static const struct {
        const char *meta;
        const char *value;
    } objects[] = {
        {"first", "a longer value"}, {"", "short"}, {"longest metadata", ""}, {"x", "y"}};
    open_with_block(fixture, 64 * GB_KIB);
    for (unsigned i = 0; i < 40; i++) {
        unsigned number = i < 4 ? i : (i * 7 + i / 4) % 4;
        struct gb_key key;
        struct goblin_info info;
        const struct goblin_slice name = gb_key_at(&key, number);
        const struct goblin_slice bytes = {objects[number].value, strlen(objects[number].value)};
        const struct goblin_put_options options = {
            .meta = {objects[number].meta, strlen(objects[number].meta)}, .flags = number};
        assert_int_equal(goblin_put(fixture->store, name, bytes, &options, NULL), GOBLIN_OK);
        assert_int_equal(goblin_load(fixture->reader, name, &value, &info, &meta), GOBLIN_OK);
        assert_int_equal(info.size, bytes.len);
        assert_int_equal(info.flags, number);
        assert_int_equal(value.len, bytes.len);
        assert_memory_equal(value.data, bytes.data, bytes.len);
        assert_int_equal(meta.len, options.meta.len);
        assert_memory_equal(meta.data, options.meta.data, options.meta.len);
    }
    struct goblin_stats stats = gb_fixture_stats(fixture);
    assert_int_equal(stats.gets, 40);
    assert_int_equal(stats.hits_resident, 40);
    goblin_buffer_free(&value);
    goblin_buffer_free(&meta);
}

/* ---- ranges -------------------------------------------------------------------------------- */

static void expect_range(struct gb_fixture *fixture, unsigned number, size_t size, uint64_t offset,
                         uint64_t length)
{
    const struct goblin_request range = {.offset = offset, .length = length};
    uint64_t left = offset < size ? size - offset : 0;
    uint64_t expected = length == 0 ? left : gb_min(length, left);
    uint64_t total = 0;
    int rc = gb_fixture_read(fixture, number, 1000 + number, &range, &total);
    if (rc != GOBLIN_OK || total != expected) {
        fail_msg("%zu bytes, range %llu+%llu: answer %d, %llu bytes for %llu", size,
                 (unsigned long long)offset, (unsigned long long)length, rc,
                 (unsigned long long)total, (unsigned long long)expected);
    }
}

static void expect_ranges(struct gb_fixture *fixture, const struct sizes *sizes)
{
    static const uint64_t edges[] = {0,     1,     4095,  4096,  8191,   8192,   8193,   16383,
                                     16384, 16385, 32768, 65536, 131071, 262144, 2097152};
    for (unsigned i = 0; i < sizes->count; i++) {
        size_t size = sizes->size[i];
        for (unsigned e = 0; e < sizeof(edges) / sizeof(edges[0]); e++) {
            uint64_t edge = edges[e];
            if (edge > size + 1) {
                break;
            }
            expect_range(fixture, i, size, edge, 1);
            expect_range(fixture, i, size, edge, 16384);
            expect_range(fixture, i, size, edge > 100 ? edge - 100 : 0, 200);
        }
        expect_range(fixture, i, size, size / 2, 0);
        expect_range(fixture, i, size, size / 3, size / 3);
        expect_range(fixture, i, size, size > 0 ? size - 1 : 0, 0);
        expect_range(fixture, i, size, size, 10);
        expect_range(fixture, i, size, size + 1, 0);
        expect_range(fixture, i, size, UINT64_MAX, 1);
        expect_range(fixture, i, size, 0, UINT64_MAX);
        expect_range(fixture, i, size, 1, UINT64_MAX);
    }
}

static void range__gives_any_stretch_of_every_size(void **state)
{
    struct gb_fixture *fixture = *state;
    struct sizes sizes;
    open_with_block(fixture, 64 * GB_KIB);
    list_sizes(fixture, &sizes);
    for (unsigned i = 0; i < sizes.count; i++) {
        int rc = i % 2 == 0 ? gb_fixture_put(fixture, i, sizes.size[i], 1000 + i)
                            : gb_fixture_stream(fixture, i, sizes.size[i], 1000 + i, 50021);
        assert_int_equal(rc, GOBLIN_OK);
    }
    expect_ranges(fixture, &sizes);
    gb_fixture_reopen(fixture);
    expect_ranges(fixture, &sizes);
}

static void range__reads_only_the_units_it_touches(void **state)
{
    struct gb_fixture *fixture = *state;
    open_with_block(fixture, 64 * GB_KIB);
    assert_int_equal(gb_fixture_put(fixture, 0, 4 * GB_MIB, 1000), GOBLIN_OK);
    assert_int_equal(goblin_sync(fixture->store), GOBLIN_OK);
    uint64_t before = gb_fixture_stats(fixture).device_read_bytes;
    expect_range(fixture, 0, 4 * GB_MIB, 1000000, 100);
    uint64_t read = gb_fixture_stats(fixture).device_read_bytes - before;
    assert_in_range(read, 16 * GB_KIB, 16 * GB_KIB + 3 * 8 * GB_KIB);
}

/* ---- metadata ------------------------------------------------------------------------------ */

struct told {
    struct goblin_slice meta;
    unsigned char bytes[GOBLIN_META_MAX];
    unsigned chunks;
    uint64_t total;
    uint64_t seed;
    bool wrong;
};

static int note_meta(void *arg, const struct goblin_chunk *chunk)
{
    struct told *told = arg;
    if (told->chunks++ == 0) {
        told->meta.len = chunk->meta.len;
        if (chunk->meta.len > 0) {
            memcpy(told->bytes, chunk->meta.data, chunk->meta.len);
        }
    } else {
        told->wrong = told->wrong || chunk->meta.len != 0;
    }
    told->wrong =
        told->wrong || !gb_pattern_holds(chunk->data, chunk->len, told->seed, chunk->offset);
    told->total += chunk->len;
    return GOBLIN_CHUNK_DONE;
}

static void expect_meta(struct gb_fixture *fixture, unsigned number, size_t size, size_t meta_len,
                        uint64_t offset, uint64_t length)
{
    struct gb_key key;
    struct told told = {.seed = 1000 + number};
    struct goblin_request request = {
        .key = gb_key_at(&key, number),
        .offset = offset,
        .length = length,
        .flags = GOBLIN_GET_META,
        .on_chunk = note_meta,
        .arg = &told,
    };
    uint64_t left = offset < size ? size - offset : 0;
    assert_int_equal(goblin_get(fixture->reader, &request), GOBLIN_OK);
    assert_false(told.wrong);
    assert_int_equal(told.total, length == 0 ? left : gb_min(length, left));
    assert_int_equal(told.meta.len, meta_len);
    assert_true(gb_pattern_holds(told.bytes, meta_len, 5000 + number, 0));
}

static const size_t meta_lengths[] = {0, 1, 4096};
static const size_t meta_sizes[] = {0, 1, 4095, 12288, 16385, 100000, 300000, 5000000};

static void put_with_meta(struct gb_fixture *fixture, unsigned number, size_t size, size_t meta_len)
{
    struct gb_key key;
    unsigned char meta[GOBLIN_META_MAX];
    unsigned char *value = malloc(size + 1);
    assert_non_null(value);
    gb_pattern_fill(value, size, 1000 + number, 0);
    gb_pattern_fill(meta, meta_len, 5000 + number, 0);
    const struct goblin_put_options options = {.meta = {meta, meta_len}};
    assert_int_equal(goblin_put(fixture->store, gb_key_at(&key, number),
                                (struct goblin_slice){value, size}, &options, NULL),
                     GOBLIN_OK);
    free(value);
}

static void expect_all_meta(struct gb_fixture *fixture)
{
    struct goblin_buffer buffer = {0};
    struct goblin_buffer meta = {0};
    for (unsigned i = 0; i < 24; i++) {
        size_t size = meta_sizes[i / 3];
        size_t meta_len = meta_lengths[i % 3];
        struct gb_key key;
        struct goblin_info info;
        gb_fixture_expect(fixture, i, size, 1000 + i);
        expect_meta(fixture, i, size, meta_len, 0, 0);
        expect_meta(fixture, i, size, meta_len, 0, 1);
        expect_meta(fixture, i, size, meta_len, size / 2, 100);
        expect_meta(fixture, i, size, meta_len, size > 0 ? size - 1 : 0, 0);
        expect_meta(fixture, i, size, meta_len, size + 5, 0);
        expect_range(fixture, i, size, 12280, 20);
        assert_int_equal(goblin_load(fixture->reader, gb_key_at(&key, i), &buffer, &info, &meta),
                         GOBLIN_OK);
        assert_int_equal(info.meta_len, meta_len);
        assert_int_equal(info.size, size);
        assert_int_equal(meta.len, meta_len);
        assert_true(gb_pattern_holds(meta.data, meta_len, 5000 + i, 0));
        assert_true(gb_pattern_holds(buffer.data, size, 1000 + i, 0));
    }
    goblin_buffer_free(&buffer);
    goblin_buffer_free(&meta);
}

static void meta__comes_with_the_first_chunk(void **state)
{
    struct gb_fixture *fixture = *state;
    open_with_block(fixture, 64 * GB_KIB);
    for (unsigned i = 0; i < 24; i++) {
        put_with_meta(fixture, i, meta_sizes[i / 3], meta_lengths[i % 3]);
    }
    expect_all_meta(fixture);
    gb_fixture_reopen(fixture);
    expect_all_meta(fixture);
    struct gb_key key;
    static const unsigned char much[GOBLIN_META_MAX + 1];
    const struct goblin_put_options options = {.meta = {much, sizeof(much)}};
    assert_int_equal(
        goblin_put(fixture->store, gb_key_at(&key, 0), GOBLIN_LITERAL("x"), &options, NULL),
        GOBLIN_EMETA);
}

/* ---- keys ---------------------------------------------------------------------------------- */

static void key__may_be_one_to_4096_bytes(void **state)
{
    struct gb_fixture *fixture = *state;
    static unsigned char name[GOBLIN_KEY_MAX + 1];
    struct goblin_buffer buffer = {0};
    open_with_block(fixture, 64 * GB_KIB);
    const size_t lengths[] = {1, 2, 255, 256, 4095, 4096};
    for (unsigned i = 0; i < 6; i++) {
        gb_pattern_fill(name, lengths[i], 7, 0);
        const struct goblin_slice key = {name, lengths[i]};
        const struct goblin_slice value = {&lengths[i], sizeof(lengths[i])};
        assert_int_equal(goblin_put(fixture->store, key, value, NULL, NULL), GOBLIN_OK);
    }
    gb_fixture_reopen(fixture);
    gb_pattern_fill(name, sizeof(name), 7, 0);
    for (unsigned i = 0; i < 6; i++) {
        const struct goblin_slice key = {name, lengths[i]};
        assert_int_equal(goblin_load(fixture->reader, key, &buffer, NULL, NULL), GOBLIN_OK);
        assert_int_equal(buffer.len, sizeof(lengths[i]));
        assert_memory_equal(buffer.data, &lengths[i], sizeof(lengths[i]));
    }
    const struct goblin_slice value = GOBLIN_LITERAL("x");
    const struct goblin_slice none = {name, 0};
    const struct goblin_slice long_one = {name, sizeof(name)};
    assert_int_equal(goblin_put(fixture->store, none, value, NULL, NULL), GOBLIN_EKEY);
    assert_int_equal(goblin_put(fixture->store, long_one, value, NULL, NULL), GOBLIN_EKEY);
    assert_int_equal(goblin_load(fixture->reader, none, &buffer, NULL, NULL), GOBLIN_EKEY);
    assert_int_equal(goblin_delete(fixture->store, long_one, NULL), GOBLIN_EKEY);
    goblin_buffer_free(&buffer);
}

/* ---- RAM alone, and little of it ----------------------------------------------------------- */

static void resident__never_touches_the_device(void **state)
{
    struct gb_fixture *fixture = *state;
    struct sizes sizes;
    open_with_block(fixture, 64 * GB_KIB);
    list_sizes(fixture, &sizes);
    for (unsigned i = 0; i < sizes.count; i++) {
        assert_int_equal(gb_fixture_put(fixture, i, sizes.size[i], 1000 + i), GOBLIN_OK);
    }
    assert_int_equal(goblin_sync(fixture->store), GOBLIN_OK);
    uint64_t before = gb_fixture_stats(fixture).device_reads;
    for (unsigned i = 0; i < sizes.count; i++) {
        struct gb_key key;
        struct goblin_info info;
        const struct goblin_request head = {.flags = GOBLIN_GET_RESIDENT | GOBLIN_GET_QUIET};
        uint64_t total = 0;
        assert_int_equal(goblin_stat(fixture->store, gb_key_at(&key, i), &info), GOBLIN_OK);
        assert_int_equal(gb_fixture_read(fixture, i, 1000 + i, &head, &total), GOBLIN_OK);
        assert_int_equal(total, info.resident);
        assert_true(info.resident >= gb_min(HEAD, sizes.size[i]));
    }
    assert_int_equal(gb_fixture_stats(fixture).device_reads, before);
}

static void heads__may_leave_ram_without_loss(void **state)
{
    struct gb_fixture *fixture = *state;
    fixture->options.memory_bytes = 8 * GB_MIB;
    fixture->options.size_bytes = 96 * GB_MIB;
    fixture->options.write_block_bytes = 64 * GB_KIB;
    gb_fixture_open(fixture);
    /* Far more head bytes than RAM. */
    const unsigned count = 3000;
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(gb_fixture_put(fixture, i, 12000 + i, 1000 + i), GOBLIN_OK);
    }
    for (unsigned round = 0; round < 2; round++) {
        unsigned whole = 0;
        for (unsigned i = 0; i < count; i++) {
            struct gb_key key;
            struct goblin_info info;
            assert_int_equal(goblin_stat(fixture->store, gb_key_at(&key, i), &info), GOBLIN_OK);
            whole += info.resident >= HEAD;
            gb_fixture_expect(fixture, i, 12000 + i, 1000 + i);
            expect_range(fixture, i, 12000 + i, 11990, 20);
        }
        assert_true(whole < count);
        struct goblin_stats stats = gb_fixture_stats(fixture);
        assert_true(stats.memory_used_bytes <= stats.memory_budget_bytes);
        gb_fixture_reopen(fixture);
        gb_fixture_await_warm(fixture);
    }
}

static int hold_nothing(void *arg, const struct goblin_chunk *chunk)
{
    (void)arg;
    (void)chunk;
    return GOBLIN_CHUNK_STOP;
}

static void get__may_be_stopped_by_its_callback(void **state)
{
    struct gb_fixture *fixture = *state;
    open_with_block(fixture, 64 * GB_KIB);
    const size_t sizes[] = {0, 100, 20000, 3000000};
    for (unsigned i = 0; i < 4; i++) {
        struct gb_key key;
        assert_int_equal(gb_fixture_put(fixture, i, sizes[i], 1000 + i), GOBLIN_OK);
        struct goblin_request request = {.key = gb_key_at(&key, i), .on_chunk = hold_nothing};
        assert_int_equal(goblin_get(fixture->reader, &request), GOBLIN_ECANCELED);
        gb_fixture_expect(fixture, i, sizes[i], 1000 + i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_BOTH_PATHS(put__gives_back_every_size),
        GB_ON_BOTH_PATHS(put__gives_back_every_size_with_large_blocks),
        GB_ON_BOTH_PATHS(stream__gives_back_every_announced_size),
        GB_ON_BOTH_PATHS(stream__gives_back_every_unknown_size),
        GB_ON_BOTH_PATHS(load__materialises_every_size),
        GB_ON_BOTH_PATHS(load__leaves_nothing_of_the_one_before),
        GB_ON_BOTH_PATHS(range__gives_any_stretch_of_every_size),
        GB_ON_BOTH_PATHS(range__reads_only_the_units_it_touches),
        GB_ON_BOTH_PATHS(meta__comes_with_the_first_chunk),
        GB_ON_BOTH_PATHS(key__may_be_one_to_4096_bytes),
        GB_ON_BOTH_PATHS(resident__never_touches_the_device),
        GB_ON_BOTH_PATHS(heads__may_leave_ram_without_loss),
        GB_ON_BOTH_PATHS(get__may_be_stopped_by_its_callback),
    };
    return gb_fixture_run("sizes", tests);
}
