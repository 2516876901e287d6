/* Fault loops: worlds, faults, and what must hold after each. */
#include "lib/faultloop.h"

#include <goblin/scan.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/store.h"
#include "lib/memfault.h"
#include "lib/pattern.h"
#include "lib/sanitized.h"
#include "sim/simshell.h"

#define LOOP_MOST   5000u /* rounds; more would be a loop without end */
#define PAGE        4096u
#define OVERWRITTEN 0u
#define DELETED     2u
#define LATER_PUT   (GB_WORLD_OBJECTS - 1)
#define LATER_WRITE (GB_WORLD_OBJECTS - 2)

enum fault { MEMORY_SIMULATED, MEMORY_SYNC, MEMORY_URING, DISK, SPACE, FAULTS };

struct loop_case {
    const struct gb_loop *loop;
    enum fault fault;
    char name[160];
    struct gb_world world;

    /* Where it is. */
    bool running;
    enum simdisk_kind kind; /* DISK: of the operations that fail */
    bool stays;             /* DISK: from the Nth on all of them */
    uint64_t nth;
    uint64_t failed_before;
};

/* ---- objects ------------------------------------------------------------------------------- */

void gb_world_answered(struct gb_world *world, uint64_t number, const struct gb_world_state *state,
                       enum goblin_durability durability, int answer)
{
    struct gb_world_object *object = &world->objects[number];
    if (answer < 0) {
        object->before = object->now;
        object->next = *state;
        object->doubtful = true;
    } else if (answer == GOBLIN_OK) {
        object->now = *state;
        if (durability >= GOBLIN_DURABILITY_WRITTEN) {
            object->safe = *state;
        }
    }
}

static struct gb_world_state new_state(struct gb_world *world, size_t size)
{
    return (struct gb_world_state){.present = true, .size = size, .seed = ++world->seed};
}

int gb_world_put(struct gb_world *world, uint64_t number, size_t size,
                 enum goblin_durability durability)
{
    struct gb_key key;
    const struct gb_world_state state = new_state(world, size);
    const struct goblin_put_options options = {.durability = durability};
    unsigned char *value = malloc(size + 1);
    assert_non_null(value);
    gb_pattern_fill(value, size, state.seed, 0);
    int rc = goblin_put(world->fixture->store, gb_key_at(&key, number),
                        (struct goblin_slice){value, size}, &options, NULL);
    free(value);
    gb_world_answered(world, number, &state, durability, rc);
    return rc;
}

int gb_world_stream(struct gb_world *world, uint64_t number, size_t size, uint64_t announced,
                    enum goblin_durability durability)
{
    struct gb_key key;
    const struct gb_world_state state = new_state(world, size);
    const struct goblin_put_options options = {.durability = durability};
    struct goblin_writer *writer = NULL;
    unsigned char piece[10000];
    int rc = goblin_writer_begin(&writer, world->fixture->store, gb_key_at(&key, number), announced,
                                 &options);
    if (rc < 0) {
        return rc;
    }
    for (size_t at = 0; rc == GOBLIN_OK && at < size;) {
        size_t n = gb_min(sizeof(piece), size - at);
        gb_pattern_fill(piece, n, state.seed, at);
        rc = goblin_writer_write(writer, piece, n);
        at += n;
    }
    if (rc < 0) {
        goblin_writer_abort(writer);
        return rc;
    }
    rc = goblin_writer_commit(writer, NULL);
    gb_world_answered(world, number, &state, durability, rc);
    return rc;
}

int gb_world_delete(struct gb_world *world, uint64_t number, enum goblin_durability durability)
{
    struct gb_key key;
    const struct gb_world_state state = {.present = false};
    const struct goblin_put_options options = {.durability = durability};
    int rc = goblin_delete(world->fixture->store, gb_key_at(&key, number), &options);
    /* That nothing is there holds as a delete does. */
    gb_world_answered(world, number, &state, durability, rc == GOBLIN_MISS ? GOBLIN_OK : rc);
    return rc;
}

void gb_world_sync(struct gb_world *world)
{
    assert_int_equal(goblin_sync(world->fixture->store), GOBLIN_OK);
    for (unsigned i = 0; i < GB_WORLD_OBJECTS; i++) {
        world->objects[i].safe = world->objects[i].now;
        world->objects[i].before = world->objects[i].now;
    }
}

static bool holds(const struct gb_world_state *state, int answer,
                  const struct goblin_buffer *buffer)
{
    if (!state->present) {
        return answer == GOBLIN_MISS;
    }
    return answer == GOBLIN_OK && buffer->len == state->size &&
           gb_pattern_holds(buffer->data, buffer->len, state->seed, 0);
}

static bool is_safe(const struct gb_world_object *object)
{
    return object->now.present == object->safe.present && object->now.seed == object->safe.seed;
}

static void look(struct gb_world *world, uint64_t number, struct goblin_buffer *buffer)
{
    struct gb_world_object *object = &world->objects[number];
    struct gb_key key;
    int rc = goblin_load(world->fixture->reader, gb_key_at(&key, number), buffer, NULL, NULL);
    if (holds(&object->now, rc, buffer)) {
        object->doubtful = false;
    } else if (object->doubtful && holds(&object->next, rc, buffer)) {
        object->now = object->next;
        object->doubtful = false;
    } else if (world->forgets && holds(&object->safe, rc, buffer)) {
        object->now = object->safe;
    } else if (world->forgets && holds(&object->before, rc, buffer)) {
        object->now = object->before;
    } else if (world->dying && rc <= GOBLIN_MISS && !is_safe(object)) {
        object->before = object->now; /* it may be found again at the next opening */
        object->now = (struct gb_world_state){.present = false};
    } else if (rc != GOBLIN_MISS || !world->misses) {
        fail_msg("object %" PRIu64 " of %zu bytes: answer %d (%s), %zu bytes of seed %" PRIu64
                 ", not %" PRIu64,
                 number, object->now.size, rc, goblin_strerror(rc), buffer->len,
                 buffer->len >= 8 ? gb_pattern_seed(buffer->data) : 0, object->now.seed);
    }
}

static void look_at_all(struct gb_world *world)
{
    struct goblin_buffer buffer = {0};
    for (uint64_t number = 0; number < GB_WORLD_OBJECTS; number++) {
        look(world, number, &buffer);
    }
    goblin_buffer_free(&buffer);
}

/* ---- life ---------------------------------------------------------------------------------- */

int gb_world_open(struct gb_world *world)
{
    struct gb_fixture *fixture = world->fixture;
    world->error.text[0] = '\0';
    int rc = world->disk != NULL ? gb_store_open(&fixture->store, &fixture->options,
                                                 simshell_create(world->disk), &world->error)
                                 : goblin_open(&fixture->store, &fixture->options, &world->error);
    if (rc < 0) {
        fixture->store = NULL;
    }
    return rc;
}

int gb_world_make_reader(struct gb_world *world)
{
    int rc = goblin_reader_create(&world->fixture->reader, world->fixture->store, NULL);
    if (rc < 0) {
        world->fixture->reader = NULL;
    }
    return rc;
}

void gb_world_drop_reader(struct gb_world *world)
{
    goblin_reader_destroy(world->fixture->reader);
    world->fixture->reader = NULL;
}

int gb_world_close(struct gb_world *world)
{
    gb_world_drop_reader(world);
    int rc = goblin_close(world->fixture->store);
    world->fixture->store = NULL;
    bool kept = rc == GOBLIN_OK && !world->fixture->options.read_only;
    for (unsigned i = 0; kept && i < GB_WORLD_OBJECTS; i++) {
        world->objects[i].safe = world->objects[i].now;
    }
    world->forgets |= rc < 0;
    return rc;
}

void gb_world_abandon(struct gb_world *world)
{
    gb_world_drop_reader(world);
    gb_store_abandon(world->fixture->store);
    world->fixture->store = NULL;
}

void gb_world_remove(struct gb_world *world, const char *name)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s", world->fixture->options.dirs[0], name);
    int rc = world->disk != NULL ? world->disk->ops->unlink(world->disk, path) : remove(path);
    assert_int_equal(rc, 0);
}

void gb_world_use_heads(struct gb_world *world)
{
    const char *root = world->disk != NULL ? "" : world->fixture->root;
    (void)snprintf(world->heads, sizeof(world->heads), "%s/heads", root);
    int rc = world->disk != NULL ? world->disk->ops->make_dir(world->disk, world->heads)
                                 : mkdir(world->heads, 0700);
    assert_int_equal(rc, 0);
    world->fixture->options.heads_dir = world->heads;
}

static void open_again(struct gb_world *world)
{
    int rc = gb_world_open(world);
    if (rc < 0) {
        fail_msg("opening again: %d, %s", rc, world->error.text);
    }
    world->fixture->options.create = false;
    assert_int_equal(gb_world_make_reader(world), GOBLIN_OK);
}

/* One object of each kind, all of them safe. */
static void fill(struct gb_world *world)
{
    const enum goblin_durability none = GOBLIN_DURABILITY_NONE;
    static const size_t sizes[] = {100, 3000, 20000, 40000, 0, 4096};
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(gb_world_put(world, i, sizes[i], none), GOBLIN_OK);
    }
    assert_int_equal(gb_world_stream(world, 6, 300000, 300000, none), GOBLIN_OK);
    assert_int_equal(gb_world_stream(world, 7, 700000, GOBLIN_SIZE_UNKNOWN, none), GOBLIN_OK);
    assert_int_equal(gb_world_put(world, 8, 500, none), GOBLIN_OK);
    assert_int_equal(gb_world_delete(world, 8, none), GOBLIN_OK);
    assert_int_equal(gb_world_put(world, 9, 700, none), GOBLIN_OK);
    assert_int_equal(gb_world_put(world, 9, 900, none), GOBLIN_OK);
    struct gb_key key;
    assert_int_equal(goblin_touch(world->fixture->store, gb_key_at(&key, 9),
                                  atomic_load(&world->fixture->now_ms) + 1000000, none),
                     GOBLIN_OK);
    gb_world_sync(world);
}

static void begin_world(struct loop_case *at)
{
    struct gb_world *world = &at->world;
    *world = (struct gb_world){.seed = at->nth << 32};
    void *state = NULL;
    int rc =
        at->fault == MEMORY_URING ? gb_fixture_setup_uring(&state) : gb_fixture_setup_sync(&state);
    assert_int_equal(rc, 0);
    world->fixture = state;
    struct goblin_options *options = &world->fixture->options;
    options->size_bytes = 16 * GB_MIB;
    options->segment_bytes = GB_MIB;
    options->memory_bytes = 8 * GB_MIB;
    options->write_block_bytes = 64 * GB_KIB;
    options->head_bytes = 4096;
    options->flush_ms = UINT32_MAX;
    if (at->fault != MEMORY_SYNC && at->fault != MEMORY_URING) {
        world->disk = simdisk_create(at->nth);
        world->fixture->dirs[0] = "/one";
        world->fixture->dirs[1] = "/two";
    }
    if (at->loop->adjust != NULL) {
        at->loop->adjust(world);
    }
    open_again(world);
    fill(world);
    options->create = false;
    if (at->loop->prepare != NULL) {
        at->loop->prepare(world);
    }
}

static void end_world(struct gb_world *world)
{
    void *state = world->fixture;
    assert_int_equal(gb_world_close(world), GOBLIN_OK);
    assert_int_equal(gb_fixture_teardown(&state), 0);
    if (world->disk != NULL) {
        world->disk->ops->destroy(world->disk);
    }
}

/* ---- check --------------------------------------------------------------------------------- */

struct inspection {
    struct gb_world *world;
    uint64_t bytes; /* of the object being read */
};

static int count_bytes(void *arg, const struct goblin_chunk *chunk)
{
    ((struct inspection *)arg)->bytes += chunk->len;
    return GOBLIN_CHUNK_DONE;
}

static int inspect(void *arg, struct goblin_slice key, const struct goblin_info *info)
{
    struct inspection *inspection = arg;
    struct goblin_request request = {
        .key = key,
        .flags = GOBLIN_GET_META | GOBLIN_GET_QUIET,
        .on_chunk = count_bytes,
        .arg = inspection,
    };
    inspection->bytes = 0;
    int rc = goblin_get(inspection->world->fixture->reader, &request);
    if (rc != GOBLIN_OK || inspection->bytes != info->size) {
        fail_msg("check: %.*s: %s, %" PRIu64 " of %" PRIu64 " bytes", (int)key.len,
                 (const char *)key.data, goblin_strerror(rc), inspection->bytes, info->size);
    }
    return 0;
}

/* What `goblin check` does. */
static void check(struct gb_world *world)
{
    struct inspection inspection = {.world = world};
    uint64_t cursor = 0;
    world->fixture->options.read_only = true;
    open_again(world);
    assert_int_equal(goblin_iterate(world->fixture->store, &cursor, 0, inspect, &inspection),
                     GOBLIN_OK);
    struct goblin_stats stats = gb_fixture_stats(world->fixture);
    assert_int_equal(stats.checksum_errors, 0);
    assert_int_equal(stats.read_errors, 0);
    assert_int_equal(gb_world_close(world), GOBLIN_OK);
    world->fixture->options.read_only = false;
}

/* ---- faults -------------------------------------------------------------------------------- */

static void arm(struct loop_case *at)
{
    struct simdisk_counts counts;
    uint64_t free_bytes = 0;
    struct gb_io *disk = at->world.disk;
    switch (at->fault) {
    case DISK:
        simdisk_counts(disk, &counts);
        at->failed_before = counts.failed;
        (at->stays ? simdisk_fail_from_nth : simdisk_fail_nth)(disk, at->kind, at->nth);
        break;
    case SPACE:
        simdisk_counts(disk, &counts);
        at->failed_before = counts.no_space;
        assert_int_equal(disk->ops->free_space(disk, "/", &free_bytes), 0);
        /* By pages at first, then in longer and longer steps. */
        simdisk_set_capacity(disk,
                             SIMDISK_CAPACITY - free_bytes + PAGE * (at->nth * (at->nth - 1) / 2));
        break;
    case MEMORY_SIMULATED:
    case MEMORY_SYNC:
    case MEMORY_URING:
    case FAULTS:
    default:
        gb_memfault_arm(at->nth);
        break;
    }
}

/* Whether something has failed. */
static bool disarm(struct loop_case *at)
{
    struct simdisk_counts counts;
    switch (at->fault) {
    case DISK:
        simdisk_fail_nth(at->world.disk, at->kind, 0);
        simdisk_counts(at->world.disk, &counts);
        return counts.failed != at->failed_before;
    case SPACE:
        simdisk_set_capacity(at->world.disk, SIMDISK_CAPACITY);
        simdisk_counts(at->world.disk, &counts);
        return counts.no_space != at->failed_before;
    case MEMORY_SIMULATED:
    case MEMORY_SYNC:
    case MEMORY_URING:
    case FAULTS:
    default:
        return gb_memfault_disarm();
    }
}

static bool of_memory(const struct loop_case *at)
{
    return at->fault != DISK && at->fault != SPACE;
}

/* The call has answered. */
static void judge(struct loop_case *at, int answer, bool hit)
{
    if (answer >= 0) {
        at->world.fixture->options.create = false;
    }
    if (!hit && answer < 0) {
        fail_msg("nothing has failed, and the answer is %d (%s)", answer, goblin_strerror(answer));
    }
    if (of_memory(at) && answer < 0 && answer != -ENOMEM && answer != -EAGAIN) {
        fail_msg("memory ran out, and the answer is %d (%s)", answer, goblin_strerror(answer));
    }
    if ((at->loop->flags & GB_LOOP_OPENS) != 0 && answer < 0) {
        const char *text = at->world.error.text;
        size_t len = strlen(text);
        if (strncmp(text, "open store: ", 12) != 0 || len <= 12 || text[len - 1] == ' ') {
            fail_msg("not opened, and all that is said is: '%s'", text);
        }
    }
}

/* ---- the loop ------------------------------------------------------------------------------ */

/* Nothing that the call took is still held: room for streams, segments, memory. */
static void settle_accounts(struct gb_world *world)
{
    struct goblin *store = world->fixture->store;
    gb_world_drop_reader(world);
    if (world->disk == NULL) {
        gb_fixture_await_warm(world->fixture); /* whose thread reads, too */
    }
    for (uint32_t i = 0; i < store->segments.count; i++) {
        const struct gb_segment *segment = &store->segments.table[i];
        if (atomic_load(&segment->pending) != 0 || atomic_load(&segment->readers) != 0) {
            fail_msg("segment %" PRIu32 " is still held", i);
        }
    }
    assert_int_equal(atomic_load(&store->streaming_bytes), 0);
    assert_int_equal(atomic_load(&store->budget.promised), 0);
    assert_int_equal(atomic_load(&store->budget.read), 0);
    assert_int_equal(gb_world_make_reader(world), GOBLIN_OK);
}

static int count_visit(void *arg, struct goblin_slice key, const struct goblin_info *info)
{
    (void)key;
    (void)info;
    ++*(uint64_t *)arg;
    return 0;
}

/* What is listed in order is what is listed without. */
static void compare_listings(struct gb_world *world)
{
    struct goblin *store = world->fixture->store;
    uint64_t cursor = 0;
    uint64_t visits = 0;
    uint64_t visits_in_order = 0;
    assert_int_equal(goblin_iterate(store, &cursor, 0, count_visit, &visits), GOBLIN_OK);
    assert_int_equal(goblin_scan(store, NULL, count_visit, &visits_in_order), GOBLIN_OK);
    assert_int_equal(visits, visits_in_order);
}

/* The store does what it is asked to; `crippled`: unless too much of it could not be read at
 * opening, or its drive was given up. */
static void go_on(struct gb_world *world, bool crippled)
{
    const enum goblin_durability none = GOBLIN_DURABILITY_NONE;
    bool may_miss = world->misses || !world->objects[DELETED].now.present;
    const int answers[] = {
        gb_world_put(world, LATER_PUT, 1000, none),
        gb_world_stream(world, LATER_WRITE, 100000, 100000, none),
        gb_world_put(world, OVERWRITTEN, 200, none),
        gb_world_delete(world, DELETED, none),
    };
    for (unsigned i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        bool missing = i == 3 && may_miss && answers[i] == GOBLIN_MISS;
        if (answers[i] != GOBLIN_OK && !missing && !(crippled && answers[i] < 0)) {
            fail_msg("change number %u afterwards: %s", i, goblin_strerror(answers[i]));
        }
    }
    look_at_all(world);
    compare_listings(world);
}

static bool run_once(struct loop_case *at)
{
    struct gb_world *world = &at->world;
    begin_world(at);
    arm(at);
    int answer = at->loop->call(world);
    bool hit = disarm(at);
    judge(at, answer, hit);
    bool opens = (at->loop->flags & GB_LOOP_OPENS) != 0;
    bool unread = hit && at->fault == DISK && at->kind == SIMDISK_READ && !opens;
    bool blind = hit && at->fault == DISK && opens && answer >= 0;
    world->misses |= unread || blind;
    world->dying = hit && at->fault == DISK && at->stays && at->kind != SIMDISK_READ;
    if (world->fixture->store == NULL) {
        open_again(world);
    } else if (world->fixture->reader == NULL) {
        assert_int_equal(gb_world_make_reader(world), GOBLIN_OK);
    }
    look_at_all(world);
    settle_accounts(world);
    go_on(world, blind || world->dying);
    int closed = gb_world_close(world);
    if (of_memory(at) || !hit) {
        assert_int_equal(closed, GOBLIN_OK);
    }
    check(world);
    open_again(world);
    look_at_all(world);
    end_world(world);
    return hit;
}

/* Every how many-th fault is tried, and which is the first. */
static struct {
    uint64_t step;
    uint64_t first;
} tried = {1, 1};

static void choose_tried(void)
{
    const char *step = getenv("GOBLIN_FAULT_STEP");
    const char *first = getenv("GOBLIN_FAULT_FIRST");
    tried.step = step != NULL ? strtoull(step, NULL, 10) : GB_SANITIZED ? 3 : 1;
    tried.step = gb_max(tried.step, 1);
    uint64_t fresh = 1 + (uint64_t)time(NULL) % tried.step;
    tried.first = first != NULL ? gb_max(strtoull(first, NULL, 10), 1) : fresh;
    if (tried.step > 1) {
        print_message("faults from number %" PRIu64 " (GOBLIN_FAULT_FIRST) in steps of %" PRIu64
                      " (GOBLIN_FAULT_STEP)\n",
                      tried.first, tried.step);
    }
}

static void run_all(struct loop_case *at)
{
    at->nth = tried.first;
    while (run_once(at)) {
        at->nth += tried.step;
        assert_true(at->nth < LOOP_MOST);
    }
}

static void run_case(void **state)
{
    struct loop_case *at = *state;
    at->running = true;
    if (at->fault == DISK) {
        for (unsigned i = 0; i < 2 * SIMDISK_ANY; i++) {
            at->kind = (enum simdisk_kind)(i / 2);
            at->stays = i % 2 == 1;
            run_all(at);
        }
    } else {
        run_all(at);
    }
    at->running = false;
}

static int tell_where(void **state)
{
    static const char *const kinds[] = {"read", "write", "sync", "name"};
    const struct loop_case *at = *state;
    if (at->running) {
        print_message("%s: that was number %" PRIu64 "%s%s%s\n", at->name, at->nth,
                      at->fault == DISK ? " of kind " : "",
                      at->fault == DISK ? kinds[at->kind] : "",
                      at->stays ? ", and all after it" : "");
    }
    return 0;
}

static const char *const fault_names[FAULTS] = {
    [MEMORY_SIMULATED] = "survives a lack of memory (simulated disk)",
    [MEMORY_SYNC] = "survives a lack of memory (sync)",
    [MEMORY_URING] = "survives a lack of memory (io_uring)",
    [DISK] = "survives a disk that fails",
    [SPACE] = "survives a full disk",
};

int gb_loops_run(const char *group, const struct gb_loop *loops, size_t count)
{
    struct loop_case *cases = calloc(count * FAULTS, sizeof(*cases));
    struct CMUnitTest *tests = calloc(count * FAULTS, sizeof(*tests));
    size_t made = 0;
    if (cases == NULL || tests == NULL) {
        free(cases);
        free(tests);
        return -1;
    }
    for (size_t i = 0; i < count * FAULTS; i++) {
        struct loop_case *at = &cases[made];
        *at = (struct loop_case){.loop = &loops[i / FAULTS], .fault = (enum fault)(i % FAULTS)};
        bool real = at->fault == MEMORY_SYNC || at->fault == MEMORY_URING;
        if (real && (at->loop->flags & GB_LOOP_REAL) == 0) {
            continue;
        }
        (void)snprintf(at->name, sizeof(at->name), "%s__%s", at->loop->name,
                       fault_names[at->fault]);
        tests[made++] = (struct CMUnitTest){at->name, run_case, NULL, tell_where, at};
    }
    if (access("/dev/shm", W_OK) == 0) {
        (void)setenv("TMPDIR", "/dev/shm", 0); /* memory is what runs out: no disk need wait */
    }
    choose_tried();
    gb_fixture_begin();
    int rc = _cmocka_run_group_tests(group, tests, made, NULL, NULL);
    free(cases);
    free(tests);
    return rc;
}
