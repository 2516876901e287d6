/* Direct I/O and the page cache: what a store is opened with is how its segments are opened, and
 * one that was filled through either is read through the other. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/fixture.h"

#define OBJECTS 24u

static size_t size_at(unsigned number)
{
    static const size_t sizes[] = {0, 700, 20000, 900000};
    return sizes[number % 4] + number;
}

/* Open files of the store's segments, by whether they bypass the page cache. */
static void count_segments(const struct gb_fixture *fixture, unsigned *direct, unsigned *buffered)
{
    *direct = 0;
    *buffered = 0;
    DIR *fds = opendir("/proc/self/fd");
    assert_non_null(fds);
    for (const struct dirent *entry = readdir(fds); entry != NULL; entry = readdir(fds)) {
        char target[512] = "";
        ssize_t len = readlinkat(dirfd(fds), entry->d_name, target, sizeof(target) - 1);
        if (len < 4 || strstr(target, fixture->root) == NULL ||
            strcmp(target + len - 4, ".seg") != 0) {
            continue;
        }
        int flags = fcntl(atoi(entry->d_name), F_GETFL);
        assert_true(flags >= 0);
        *((flags & O_DIRECT) != 0 ? direct : buffered) += 1;
    }
    (void)closedir(fds);
}

static void caching__is_what_was_asked_for(void **state)
{
    struct gb_fixture *fixture = *state;
    static const enum goblin_caching asked[] = {GOBLIN_CACHING_BUFFERED, GOBLIN_CACHING_DIRECT,
                                                GOBLIN_CACHING_BUFFERED, GOBLIN_CACHING_DIRECT};
    for (unsigned round = 0; round < 4; round++) {
        unsigned direct = 0;
        unsigned buffered = 0;
        fixture->options.caching = asked[round];
        gb_fixture_open(fixture);
        for (unsigned i = 0; i < OBJECTS; i++) {
            if (round > 0 && i % 3 != round % 3) {
                gb_fixture_expect(fixture, i, size_at(i), i);
            }
            assert_int_equal(gb_fixture_put(fixture, i, size_at(i), i), GOBLIN_OK);
        }
        assert_int_equal(goblin_sync(fixture->store), GOBLIN_OK);
        count_segments(fixture, &direct, &buffered);
        assert_true(direct + buffered > 0);
        bool refused = gb_fixture_logged(fixture, "refuses direct I/O");
        assert_int_equal(asked[round] == GOBLIN_CACHING_BUFFERED ? direct : buffered,
                         refused && asked[round] == GOBLIN_CACHING_DIRECT ? buffered : 0);
        if (round == 0) {
            assert_false(refused); /* nobody is warned of what he asked for */
        }
        gb_fixture_close(fixture);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_BOTH_PATHS(caching__is_what_was_asked_for),
    };
    return gb_fixture_run("caching", tests);
}
