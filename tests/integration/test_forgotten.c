/* Objects that a cache let go for lack of RAM, while its log still holds them: a delete that finds
 * nothing deletes them all the same, and they do not come back with a recovery from the log. */
#include <stdio.h>

#include "lib/fixture.h"

#define OBJECTS 150000u

static void drop_checkpoint(const struct gb_fixture *fixture)
{
    char path[400];
    (void)snprintf(path, sizeof(path), "%s/CHECKPOINT", fixture->drive[0]);
    assert_int_equal(remove(path), 0);
}

static void delete__means_what_only_the_log_remembers(void **state)
{
    struct gb_fixture *fixture = *state;
    fixture->options.mode = GOBLIN_MODE_CACHE;
    fixture->options.memory_bytes = 8 * GB_MIB;
    fixture->options.write_block_bytes = 64 * GB_KIB;
    gb_fixture_open(fixture);
    struct gb_key key;
    for (unsigned i = 0; i < OBJECTS; i++) {
        assert_int_equal(goblin_put(fixture->store, gb_key_at(&key, i),
                                    GOBLIN_LITERAL("a value that is not long"), NULL, NULL),
                         GOBLIN_OK);
    }
    struct goblin_stats stats = gb_fixture_stats(fixture);
    assert_true(stats.left_ram > 0);
    assert_int_equal(stats.left_disk, 0);
    unsigned missed = 0;
    for (unsigned i = 0; i < OBJECTS; i++) {
        int rc = goblin_delete(fixture->store, gb_key_at(&key, i), NULL);
        assert_true(rc == GOBLIN_OK || rc == GOBLIN_MISS);
        missed += rc == GOBLIN_MISS;
    }
    assert_true(missed > 0);
    gb_fixture_close(fixture);
    drop_checkpoint(fixture);
    gb_fixture_open(fixture);
    for (unsigned i = 0; i < OBJECTS; i++) {
        struct goblin_info info;
        assert_int_equal(goblin_stat(fixture->store, gb_key_at(&key, i), &info), GOBLIN_MISS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_BOTH_PATHS(delete__means_what_only_the_log_remembers),
    };
    return gb_fixture_run("forgotten", tests);
}
