/* Walking a directory, and files that appear whole or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/sink.h"
#include "cli/walk.h"

static char root[64];

static int enter_scratch(void **state)
{
    (void)state;
    (void)strcpy(root, "/tmp/goblin-walk.XXXXXX");
    return mkdtemp(root) != NULL && chdir(root) == 0 ? 0 : -1;
}

static int leave_scratch(void **state)
{
    (void)state;
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return chdir("/") == 0 ? system(command) : -1;
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void read_file(const char *path, char *text, size_t text_bytes)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t got = fread(text, 1, text_bytes - 1, file);
    text[got] = '\0';
    assert_int_equal(fclose(file), 0);
}

struct seen {
    char names[256];
    uint64_t bytes;
    int stop_with;
};

static int note(void *arg, const struct gb_walk_file *file)
{
    struct seen *seen = arg;
    assert_int_equal(file->fault, 0);
    assert_int_equal(access(file->path, R_OK), 0);
    (void)strcat(seen->names, file->relative);
    (void)strcat(seen->names, " ");
    seen->bytes += file->size;
    return seen->stop_with;
}

static void make_tree(void)
{
    assert_int_equal(mkdir("src", 0777), 0);
    assert_int_equal(mkdir("src/b", 0777), 0);
    assert_int_equal(mkdir("src/store", 0777), 0);
    write_file("src/z", "12345");
    write_file("src/a", "");
    write_file("src/b/x", "1");
    write_file("src/store/inside", "no");
    assert_int_equal(symlink("a", "src/link"), 0);
    assert_int_equal(mkfifo("src/pipe", 0600), 0);
}

static void walk__visits_regular_files_in_order_of_name(void **state)
{
    (void)state;
    make_tree();
    const char *const avoid[] = {"src/store"};
    uint64_t skipped = 0;
    struct seen seen = {.stop_with = 0};
    assert_int_equal(gb_walk_run("src", avoid, 1, note, &seen, &skipped), 0);
    assert_string_equal(seen.names, "a b/x z ");
    assert_int_equal(seen.bytes, 6);
    assert_int_equal(skipped, 2);
    seen = (struct seen){.stop_with = 0};
    assert_int_equal(gb_walk_run("src///", avoid, 1, note, &seen, &skipped), 0);
    assert_string_equal(seen.names, "a b/x z ");
}

static void walk__ends_when_the_visitor_says_so(void **state)
{
    (void)state;
    make_tree();
    uint64_t skipped = 0;
    struct seen seen = {.stop_with = 7};
    assert_int_equal(gb_walk_run("src", NULL, 0, note, &seen, &skipped), 7);
    assert_string_equal(seen.names, "a ");
}

static void walk__refuses_what_is_no_directory(void **state)
{
    (void)state;
    uint64_t skipped = 0;
    struct seen seen = {.stop_with = 0};
    write_file("plain", "x");
    assert_int_equal(gb_walk_run("plain", NULL, 0, note, &seen, &skipped), -ENOTDIR);
    assert_int_equal(gb_walk_run("absent", NULL, 0, note, &seen, &skipped), -ENOENT);
}

static void sink__gives_a_file_its_name_at_the_end(void **state)
{
    (void)state;
    char text[16];
    struct stat st;
    struct gb_sink sink;
    mode_t mask = umask(027);
    write_file("out", "old");
    gb_sink_init(&sink, "out");
    assert_int_equal(gb_sink_open(&sink), 0);
    assert_int_equal(gb_sink_write(&sink, "new one", 7), 0);
    read_file("out", text, sizeof(text));
    assert_string_equal(text, "old");
    assert_int_equal(gb_sink_close(&sink, true), 0);
    read_file("out", text, sizeof(text));
    assert_string_equal(text, "new one");
    assert_int_equal(stat("out", &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    (void)umask(mask);
}

static void sink__leaves_nothing_of_what_is_not_kept(void **state)
{
    (void)state;
    uint64_t skipped = 0;
    struct seen seen = {.stop_with = 0};
    struct gb_sink sink;
    gb_sink_init(&sink, "out");
    assert_int_equal(gb_sink_open(&sink), 0);
    assert_int_equal(gb_sink_write(&sink, "half", 4), 0);
    assert_int_equal(gb_sink_close(&sink, false), 0);
    assert_int_equal(gb_walk_run(".", NULL, 0, note, &seen, &skipped), 0);
    assert_string_equal(seen.names, "");
}

static void sink__reports_what_it_cannot_open(void **state)
{
    (void)state;
    struct gb_sink sink;
    gb_sink_init(&sink, "absent/out");
    assert_int_equal(gb_sink_open(&sink), -ENOENT);
    assert_int_equal(gb_sink_close(&sink, false), 0);
}

static void sink__writes_devices_in_place(void **state)
{
    (void)state;
    struct gb_sink sink;
    gb_sink_init(&sink, "/dev/full");
    assert_int_equal(gb_sink_open(&sink), 0);
    assert_int_equal(gb_sink_write(&sink, "x", 1), -ENOSPC);
    assert_int_equal(gb_sink_close(&sink, true), 0);
    assert_int_equal(access("/dev/full", F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(walk__visits_regular_files_in_order_of_name, enter_scratch,
                                        leave_scratch),
        cmocka_unit_test_setup_teardown(walk__ends_when_the_visitor_says_so, enter_scratch,
                                        leave_scratch),
        cmocka_unit_test_setup_teardown(walk__refuses_what_is_no_directory, enter_scratch,
                                        leave_scratch),
        cmocka_unit_test_setup_teardown(sink__gives_a_file_its_name_at_the_end, enter_scratch,
                                        leave_scratch),
        cmocka_unit_test_setup_teardown(sink__leaves_nothing_of_what_is_not_kept, enter_scratch,
                                        leave_scratch),
        cmocka_unit_test_setup_teardown(sink__reports_what_it_cannot_open, enter_scratch,
                                        leave_scratch),
        cmocka_unit_test_setup_teardown(sink__writes_devices_in_place, enter_scratch,
                                        leave_scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
