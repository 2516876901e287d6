/* The floor that the loss of a drive leaves: a checkpoint of before counts for nothing. A crash may
 * leave one, and that is no damage. */
#include <string.h>

#include "lib/simstore.h"

#define OBJECTS          40u
#define SIZE             3000u
#define CHECKPOINT       "/one/CHECKPOINT"
#define CHECKPOINT_BYTES 65536u

struct said {
    bool unusable;
    bool dropped;
};

static void listen(void *arg, enum goblin_log_level level, const char *line)
{
    (void)level;
    struct said *said = arg;
    said->unusable |= strstr(line, "not usable") != NULL || strstr(line, "damaged") != NULL;
    said->dropped |= strstr(line, "without a checkpoint") != NULL;
}

static size_t read_checkpoint(struct gb_simstore *sim, unsigned char *bytes)
{
    struct gb_file *file = NULL;
    const struct gb_io_ops *ops = sim->disk->ops;
    assert_int_equal(ops->file_open(sim->disk, CHECKPOINT, GB_OPEN_READ_ONLY, &file), 0);
    int64_t len = ops->file_read(file, bytes, CHECKPOINT_BYTES, 0);
    assert_in_range(len, GB_BLOCK, CHECKPOINT_BYTES - 1);
    ops->file_close(file);
    return (size_t)len;
}

static void write_checkpoint(struct gb_simstore *sim, const unsigned char *bytes, size_t len)
{
    struct gb_file *file = NULL;
    const struct gb_io_ops *ops = sim->disk->ops;
    assert_int_equal(ops->file_open(sim->disk, CHECKPOINT, 0, &file), 0);
    assert_int_equal(ops->file_truncate(file, len), 0);
    assert_int_equal(ops->file_write(file, bytes, len, 0), len);
    ops->file_close(file);
}

static unsigned count_objects(struct gb_simstore *sim)
{
    unsigned count = 0;
    for (uint64_t i = 0; i < OBJECTS; i++) {
        count += gb_simstore_has(sim, i);
    }
    return count;
}

static void checkpoint__of_before_a_loss_is_passed_over_in_silence(void **state)
{
    struct gb_simstore *sim = *state;
    struct said said = {.unusable = false};
    static unsigned char bytes[CHECKPOINT_BYTES];
    gb_simstore_open(sim);
    for (uint64_t i = 0; i < OBJECTS; i++) {
        gb_simstore_put(sim, i, SIZE);
    }
    gb_simstore_close(sim);
    size_t len = read_checkpoint(sim, bytes);
    sim->dirs[1] = "/nowhere";
    sim->options.create = false;
    gb_simstore_open(sim);
    assert_in_range(count_objects(sim), 1, OBJECTS - 1);
    gb_simstore_close(sim);
    sim->options.log = listen;
    sim->options.log_arg = &said;
    gb_simstore_open(sim);
    assert_in_range(count_objects(sim), 1, OBJECTS - 1);
    assert_false(said.dropped);
    gb_simstore_close(sim);
    write_checkpoint(sim, bytes, len);
    gb_simstore_open(sim);
    assert_int_equal(count_objects(sim), 0);
    assert_false(said.unusable);
    assert_true(said.dropped);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GB_ON_A_SIMULATED_DISK(checkpoint__of_before_a_loss_is_passed_over_in_silence),
    };
    return cmocka_run_group_tests_name("floor", tests, NULL, NULL);
}
