/* reads.csv: what is written is read back, and what is wrong is named by its line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "bench/reads_csv.h"

#define HEADER "engine,slice,index,object,bytes,first_ns,last_ns,source,chunks\n"

static char path[] = "/tmp/goblin-test-reads-XXXXXX";

static int set_up(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 || close(fd) != 0;
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

static void write_text(const char *text, size_t len)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fwrite(text, 1, len, file) == len);
    assert_int_equal(fclose(file), 0);
}

static void rows__are_written_as_documented(void **state)
{
    (void)state;
    struct gb_reads_writer *writer;
    assert_int_equal(gb_reads_writer_open(path, 0, &writer), 0);
    const struct gb_chunk chunks[] = {{16384, 1480}, {53616, 61200}};
    const struct gb_read disk = {.engine = "goblin",
                                 .slice = 0,
                                 .index = 17,
                                 .object = 40223,
                                 .bytes = 70000,
                                 .first_ns = 1480,
                                 .last_ns = 61200,
                                 .source = GB_READ_DISK,
                                 .chunks = chunks,
                                 .chunk_count = 2};
    const struct gb_read miss = {
        .engine = "rocksdb-blob", .index = UINT64_MAX, .source = GB_READ_MISS};
    assert_int_equal(gb_reads_writer_add(writer, &disk), 0);
    assert_int_equal(gb_reads_writer_add(writer, &miss), 0);
    assert_int_equal(gb_reads_writer_close(writer), 0);
    char text[1024] = "";
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    (void)fread(text, 1, sizeof(text) - 1, file);
    (void)fclose(file);
    assert_string_equal(text,
                        HEADER "goblin,0,17,40223,70000,1480,61200,disk,16384:1480 53616:61200\n"
                               "rocksdb-blob,0,18446744073709551615,0,0,0,0,miss,\n");
}

/* Row i of a pseudo-random sequence; its chunks go into `chunks`. */
static void make_row(uint64_t i, struct gb_chunk *chunks, struct gb_read *read)
{
    static const char *const engines[] = {"goblin-fixed", "goblin", "rocksdb"};
    struct gb_rng rng;
    gb_rng_init(&rng, i);
    *read = (struct gb_read){.engine = engines[i % 3],
                             .slice = i / 100,
                             .index = i,
                             .object = gb_rng_next(&rng) >> 32,
                             .source = (enum gb_read_source)(i % 3),
                             .chunks = chunks,
                             .chunk_count = gb_rng_below(&rng, 40)};
    uint64_t ready = gb_rng_below(&rng, 5000);
    read->first_ns = ready;
    for (size_t c = 0; c < read->chunk_count; c++) {
        chunks[c] = (struct gb_chunk){gb_rng_next(&rng) >> (24 + gb_rng_below(&rng, 40)), ready};
        read->bytes += chunks[c].bytes;
        ready += gb_rng_below(&rng, 100000);
        read->last_ns = chunks[c].ready_ns;
    }
}

static void rows__survive_the_round_trip(void **state)
{
    (void)state;
    enum { ROWS = 20000 };
    struct gb_reads_writer *writer;
    struct gb_chunk chunks[40];
    struct gb_read wanted;
    assert_int_equal(gb_reads_writer_open(path, 0, &writer), 0);
    for (uint64_t i = 0; i < ROWS; i++) {
        make_row(i, chunks, &wanted);
        assert_int_equal(gb_reads_writer_add(writer, &wanted), 0);
        if (i == ROWS / 2) {
            assert_int_equal(gb_reads_writer_close(writer), 0);
            assert_int_equal(gb_reads_writer_open(path, 1, &writer), 0);
        }
    }
    assert_int_equal(gb_reads_writer_close(writer), 0);
    struct gb_reads_reader *reader;
    struct goblin_error error = {{0}};
    struct gb_read read;
    assert_int_equal(gb_reads_reader_open(path, &reader, &error), 0);
    for (uint64_t i = 0; i < ROWS; i++) {
        make_row(i, chunks, &wanted);
        assert_int_equal(gb_reads_reader_next(reader, &read, &error), 1);
        assert_string_equal(read.engine, wanted.engine);
        assert_true(read.slice == wanted.slice && read.index == wanted.index &&
                    read.object == wanted.object && read.bytes == wanted.bytes &&
                    read.first_ns == wanted.first_ns && read.last_ns == wanted.last_ns &&
                    read.source == wanted.source && read.chunk_count == wanted.chunk_count);
        assert_memory_equal(read.chunks, chunks, wanted.chunk_count * sizeof(chunks[0]));
    }
    assert_int_equal(gb_reads_reader_next(reader, &read, &error), 0);
    gb_reads_reader_close(reader);
}

static void bad_rows__are_named_by_line(void **state)
{
    (void)state;
    static const char good[] = "goblin,0,1,2,10,5,6,ram,4:5 6:6\n";
    static const struct {
        const char *row;
        const char *complaint;
    } samples[] = {
        {"goblin\n", "columns"},
        {"\n", "columns"},
        {"gob lin,0,1,2,10,5,6,ram,10:6\n", "name of an engine"},
        {",0,1,2,10,5,6,ram,10:6\n", "name of an engine"},
        {"goblin,x,1,2,10,5,6,ram,10:6\n", "slice"},
        {"goblin,0,1,2,10,5,18446744073709551616,ram,10:6\n", "last_ns"},
        {"goblin,0,1,2,10,5\n", "first_ns"},
        {"goblin,0,1,2,10,5,6,tape,10:6\n", "source"},
        {"goblin,0,1,2,10,5,6,ram\n", "source"},
        {"goblin,0,1,2,10,5,6,ram,10\n", "chunk 1"},
        {"goblin,0,1,2,10,5,6,ram,4:5  6:6\n", "chunk 2"},
        {"goblin,0,1,2,10,5,6,ram,10:6 \n", "chunk 1"},
        {"goblin,0,1,2,10,5,6,ram,4:7 6:6\n", "chunk 2 is out of order"},
        {"goblin,0,1,2,11,5,6,ram,4:5 6:6\n", "10 bytes together"},
        {"goblin,0,1,2,10,5,6,ram,10:6", "cut short"},
    };
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        char text[512];
        int len = snprintf(text, sizeof(text), HEADER "%s%s", good, samples[i].row);
        write_text(text, (size_t)len);
        struct gb_reads_reader *reader;
        struct goblin_error error = {{0}};
        struct gb_read read;
        assert_int_equal(gb_reads_reader_open(path, &reader, &error), 0);
        assert_int_equal(gb_reads_reader_next(reader, &read, &error), 1);
        assert_int_equal(gb_reads_reader_next(reader, &read, &error), -EINVAL);
        if (strstr(error.text, samples[i].complaint) == NULL ||
            strstr(error.text, ":3: ") == NULL) {
            fail_msg("\"%s\" was called \"%s\"", samples[i].row, error.text);
        }
        gb_reads_reader_close(reader);
    }
}

static void nul_byte__is_no_text(void **state)
{
    (void)state;
    static const char text[] = HEADER "goblin,0,1,2,0,5,6,ram,\0\n";
    write_text(text, sizeof(text) - 1);
    struct gb_reads_reader *reader;
    struct gb_read read;
    assert_int_equal(gb_reads_reader_open(path, &reader, NULL), 0);
    assert_int_equal(gb_reads_reader_next(reader, &read, NULL), -EINVAL);
    gb_reads_reader_close(reader);
}

static void header__is_required(void **state)
{
    (void)state;
    struct gb_reads_reader *reader;
    struct goblin_error error = {{0}};
    write_text("engine,slice\n", 13);
    assert_int_equal(gb_reads_reader_open(path, &reader, &error), -EINVAL);
    assert_non_null(strstr(error.text, ":1: expected the header"));
    write_text("", 0);
    assert_int_equal(gb_reads_reader_open(path, &reader, &error), -EINVAL);
    assert_int_equal(gb_reads_reader_open("/nonexistent/reads.csv", &reader, &error), -ENOENT);
    assert_non_null(strstr(error.text, "/nonexistent/reads.csv"));
}

static void writer__keeps_the_first_fault(void **state)
{
    (void)state;
    struct gb_reads_writer *writer;
    if (access("/dev/full", W_OK) != 0) {
        skip();
    }
    assert_int_equal(gb_reads_writer_open("/dev/full", 0, &writer), 0);
    const struct gb_read read = {.engine = "goblin"};
    assert_int_equal(gb_reads_writer_add(writer, &read), 0);
    assert_int_equal(gb_reads_writer_flush(writer), -ENOSPC);
    assert_int_equal(gb_reads_writer_add(writer, &read), -ENOSPC);
    assert_int_equal(gb_reads_writer_close(writer), -ENOSPC);
    assert_int_equal(gb_reads_writer_open("/nonexistent/reads.csv", 0, &writer), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows__are_written_as_documented),
        cmocka_unit_test(rows__survive_the_round_trip),
        cmocka_unit_test(bad_rows__are_named_by_line),
        cmocka_unit_test(nul_byte__is_no_text),
        cmocka_unit_test(header__is_required),
        cmocka_unit_test(writer__keeps_the_first_fault),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
