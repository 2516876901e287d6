/* Request logs: every layout, what is guessed, and what is refused by its line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "bench/corpus.h"

static char directory[] = "/tmp/goblin-test-trace-XXXXXX";

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(directory) == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    char command[64];
    (void)snprintf(command, sizeof(command), "rm -r %s", directory);
    return system(command) != 0;
}

static const char *write_bytes(const char *name, const void *bytes, size_t len)
{
    static char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fwrite(bytes, 1, len, file) == len);
    assert_int_equal(fclose(file), 0);
    return path;
}

struct made {
    struct gb_corpus corpus;
    struct gb_schedule schedule;
    struct goblin_error error;
};

static int read_trace(const char *path, const char *format, struct made *made)
{
    struct gb_corpus_options options;
    gb_corpus_defaults(&options);
    options.kind = GB_CORPUS_TRACE;
    options.path = path;
    options.trace_format = format;
    made->error.text[0] = '\0';
    return gb_corpus_make(&options, &made->corpus, &made->schedule, &made->error);
}

static void unmake(struct made *made)
{
    gb_schedule_fini(&made->schedule);
    gb_corpus_fini(&made->corpus);
}

/* Reads text and compares "key:size ..." of the requests in order. */
static void expect(const char *name, const char *format, const char *text, const char *requests)
{
    struct made made;
    int result = read_trace(write_bytes(name, text, strlen(text)), format, &made);
    if (result != 0) {
        fail_msg("%d: %s", result, made.error.text);
    }
    char found[1024] = "";
    size_t used = 0;
    uint64_t total = 0;
    for (uint64_t i = 0; i < made.schedule.count; i++) {
        char key[GB_CORPUS_KEY_MAX];
        uint32_t object = made.schedule.objects[i];
        size_t len = gb_corpus_key(&made.corpus, object, key);
        total += made.corpus.sizes[object];
        used +=
            (size_t)snprintf(found + used, sizeof(found) - used, "%s%.*s:%llu", i == 0 ? "" : " ",
                             (int)len, key, (unsigned long long)made.corpus.sizes[object]);
    }
    assert_string_equal(found, requests);
    assert_true(made.schedule.total_bytes == total);
    unmake(&made);
}

static void put_record(unsigned char *at, uint32_t time, uint64_t id, uint32_t size)
{
    gb_store_le32(at, time);
    gb_store_le64(at + 4, id);
    gb_store_le32(at + 12, size);
    gb_store_le64(at + 16, UINT64_MAX);
}

static void oracle__reads_packed_records(void **state)
{
    (void)state;
    unsigned char bytes[4 * 24];
    put_record(bytes, 10, 0xabcdef0123456789, 100);
    put_record(bytes + 24, 11, 7, 200);
    put_record(bytes + 48, 12, 0xabcdef0123456789, 150);
    put_record(bytes + 72, 12, 7, 0);
    struct made made;
    const char *path = write_bytes("t.oracleGeneral", bytes, sizeof(bytes));
    assert_int_equal(read_trace(path, NULL, &made), 0);
    assert_true(made.corpus.count == 2 && made.schedule.count == 4);
    assert_true(made.corpus.sizes[0] == 150 && made.corpus.sizes[1] == 200);
    assert_true(made.schedule.objects[2] == 0 && made.schedule.objects[3] == 1);
    assert_true(made.schedule.total_bytes == 700);
    unmake(&made);
    path = write_bytes("other", bytes, sizeof(bytes) - 1);
    assert_int_equal(read_trace(path, "oracle", &made), -EINVAL);
    assert_non_null(strstr(made.error.text, "other:4: the last record is cut short"));
}

static void csv__finds_its_columns_by_name(void **state)
{
    (void)state;
    expect("a.csv", NULL, "time,obj_id,obj_size,next\n1,a,10,2\n2,b,20,-\n\n# note\n3,a,10,9\n",
           "a:10 b:20 a:10");
    expect("b.csv", NULL,
           "timestamp,cacheKey,OpType,objectSize,responseSize\n1,k1,GET,100,50\n2,k2,SET,7,7\n"
           "3,k2,get,7,7\n4,k1,DELETE,0,0\n",
           "k1:100 k2:7");
    expect("c.csv", "csv", "size;url;x\r\n5;/x y;1\r\n6;/z;2\r\n", "/x y:5 /z:6");
}

static void csv__without_a_header_is_time_object_size(void **state)
{
    (void)state;
    expect("a.tr", NULL, "1 100 4096\n2 200 512\n3 100 4096\n", "100:4096 200:512 100:4096");
    expect("b.tr", NULL, "1.5, x , 9\n2.5,y,8", "x:9 y:8");
}

static void twitter__is_recognised_and_keeps_commas_in_keys(void **state)
{
    (void)state;
    static const char text[] = "0,nz:u:a,8,120,1,get,0\n0,k,1,0,2,get,0\n1,k,1,77,2,set,3600\n"
                               "2,odd,key,7,5,2,gets,0\n3,k,1,0,2,delete,0\n";
    expect("cluster01", NULL, text, "nz:u:a:120 k:77 odd,key:5");
    expect("cluster02", "twitter", text, "nz:u:a:120 k:77 odd,key:5");
}

static void wiki__with_and_without_header(void **state)
{
    (void)state;
    expect("u.tsv", NULL, "0\t-123\tjpeg\t4000\t0.1\n1\t55\tpng\t30\t0.2\n", "-123:4000 55:30");
    expect("t.tsv", "wiki", "0\t123\t4000\t0.1\n", "123:4000");
    expect("h.tsv", NULL,
           "relative_unix\thashed_host_path_query\tresponse_size\ttime_firstbyte\n"
           "0\t123\t4000\t0.1\n",
           "123:4000");
}

static void size__is_the_largest_the_log_shows(void **state)
{
    (void)state;
    expect("s.csv", NULL, "1,a,10\n2,a,30\n3,a,20\n", "a:30 a:30 a:30");
}

static void mistakes__are_named_by_line(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *format;
        const char *complaint;
    } samples[] = {
        {"time,thing,obj_size\n1,a,2\n", NULL, ":1: no column of the header names an object"},
        {"time,key,weight\n1,a,2\n", NULL, ":1: no column of the header is a size"},
        {"1,2,3,4\n", NULL, ":1: 4 columns and no header"},
        {"1,a,2\n1,b\n", NULL, ":2: 2 columns where 3 are expected"},
        {"1,a,2\n1,b,3,4\n", NULL, ":2: 4 columns where 3 are expected"},
        {"1,a,2\n\n1,b,-3\n", NULL, ":3: the size \"-3\" is not"},
        {"1,a,18446744073709551616\n", NULL, ":1: the size"},
        {"1,a,1099511627777\n", NULL, ":1: an object of more than 1 TiB"},
        {"1,a,\n", NULL, ":1: the size \"\""},
        {"1,,5\n", NULL, ":1: the object's name is empty"},
        {"key,size,op\na,1,get\na,1,steal\n", NULL, ":3: the operation \"steal\" is not known"},
        {"0,k,1,0,2,get\n", "twitter", ":1: 6 columns where 7 are expected"},
        {"0\t1\t2\n", "wiki", ":1: 3 columns where wiki has 4 or 5"},
        {"1,a,2\n", "vscsi", "is not a trace format"},
        {"", NULL, "no requests found"},
        {"key,size,op\na,1,set\n", NULL, "no requests found"},
    };
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        struct made made;
        const char *path = write_bytes("bad.csv", samples[i].text, strlen(samples[i].text));
        assert_int_equal(read_trace(path, samples[i].format, &made), -EINVAL);
        if (strstr(made.error.text, samples[i].complaint) == NULL) {
            fail_msg("\"%s\" was called \"%s\"", samples[i].text, made.error.text);
        }
    }
    struct made made;
    assert_int_equal(read_trace(write_bytes("nul.csv", "1,a\0,2\n", 7), NULL, &made), -EINVAL);
    assert_non_null(strstr(made.error.text, ":1: not a line of text"));
    assert_int_equal(read_trace("/nonexistent/trace", NULL, &made), -ENOENT);
}

static void scale__keeps_a_share_of_the_objects_with_all_their_requests(void **state)
{
    (void)state;
    char *text = malloc(200000);
    assert_non_null(text);
    size_t used = 0;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4000; i++) {
            used += (size_t)snprintf(text + used, 200000 - used, "%d,o%d,%d\n", round, i, i);
        }
    }
    struct gb_corpus_options options;
    struct gb_corpus corpus;
    struct gb_schedule schedule;
    gb_corpus_defaults(&options);
    options.kind = GB_CORPUS_TRACE;
    options.path = write_bytes("long.csv", text, used);
    options.scale = 0.25;
    assert_int_equal(gb_corpus_make(&options, &corpus, &schedule, NULL), 0);
    assert_true(corpus.count > 850 && corpus.count < 1150);
    assert_true(schedule.count == 3 * corpus.count);
    gb_schedule_fini(&schedule);
    gb_corpus_fini(&corpus);
    options.scale = 1;
    options.requests = 5000;
    assert_int_equal(gb_corpus_make(&options, &corpus, &schedule, NULL), 0);
    assert_true(corpus.count == 4000 && schedule.count == 5000);
    gb_schedule_fini(&schedule);
    gb_corpus_fini(&corpus);
    free(text);
}

static void packed_files__are_unpacked(void **state)
{
    (void)state;
    char command[600];
    const char *path = write_bytes("p.csv", "1,a,10\n2,b,20\n", 14);
    (void)snprintf(command, sizeof(command), "gzip -k %s", path);
    if (system(command) != 0) {
        skip();
    }
    char packed[300];
    (void)snprintf(packed, sizeof(packed), "%s.gz", path);
    struct made made;
    assert_int_equal(read_trace(packed, NULL, &made), 0);
    assert_true(made.corpus.count == 2 && made.corpus.total_bytes == 30);
    unmake(&made);
    assert_int_equal(truncate(packed, 25), 0);
    assert_int_equal(read_trace(packed, NULL, &made) < 0, 1);
    path = write_bytes("noise.csv.gz", "not packed at all", 17);
    assert_int_equal(read_trace(path, NULL, &made) < 0, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(oracle__reads_packed_records),
        cmocka_unit_test(csv__finds_its_columns_by_name),
        cmocka_unit_test(csv__without_a_header_is_time_object_size),
        cmocka_unit_test(twitter__is_recognised_and_keeps_commas_in_keys),
        cmocka_unit_test(wiki__with_and_without_header),
        cmocka_unit_test(size__is_the_largest_the_log_shows),
        cmocka_unit_test(mistakes__are_named_by_line),
        cmocka_unit_test(scale__keeps_a_share_of_the_objects_with_all_their_requests),
        cmocka_unit_test(packed_files__are_unpacked),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
