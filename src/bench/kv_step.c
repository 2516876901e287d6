/* The table of steps. */
#include "bench/kv_step.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

const struct gb_kv_step gb_kv_steps[] = {
    {.name = "fillseq", .help = "an empty engine, in key order", .kind = GB_KV_FILL},
    {.name = "fillrandom",
     .help = "the same in random order",
     .kind = GB_KV_FILL,
     .scattered = true},
    {.name = "overwritesome", .help = "a tenth as many puts of random keys", .kind = GB_KV_SOME},
    {.name = "revrangeww",
     .help = "ranges backwards beside a writer",
     .kind = GB_KV_RANGE,
     .reverse = true,
     .writer = true},
    {.name = "fwdrangeww",
     .help = "ranges forwards beside a writer",
     .kind = GB_KV_RANGE,
     .writer = true},
    {.name = "readww", .help = "gets beside a writer", .kind = GB_KV_READ, .writer = true},
    {.name = "overwrite", .help = "puts of random keys", .kind = GB_KV_WRITE},
    {.name = "readrandom", .help = "gets alone", .kind = GB_KV_READ},
    {.name = "multiread", .help = "several gets in one call", .kind = GB_KV_MULTI},
    {.name = "revrange", .help = "ranges backwards alone", .kind = GB_KV_RANGE, .reverse = true},
    {.name = "fwdrange", .help = "ranges forwards alone", .kind = GB_KV_RANGE},
    {.name = "ycsba", .help = "half reads, half updates", .kind = GB_KV_MIX, .mix = {.update = 50}},
    {.name = "ycsbb", .help = "95 % reads, 5 % updates", .kind = GB_KV_MIX, .mix = {.update = 5}},
    {.name = "ycsbc", .help = "reads", .kind = GB_KV_MIX},
    {.name = "ycsbd",
     .help = "95 % reads of what is new, 5 % inserts",
     .kind = GB_KV_MIX,
     .mix = {.insert = 5, .latest = true}},
    {.name = "ycsbe",
     .help = "95 % ranges of 1 to 100, 5 % inserts",
     .kind = GB_KV_MIX,
     .mix = {.insert = 5, .scan = 95}},
    {.name = "ycsbf",
     .help = "half reads, half reads with an update",
     .kind = GB_KV_MIX,
     .mix = {.modify = 50}},
    {.name = NULL},
};

const struct gb_kv_step gb_kv_step_check = {.name = "check", .kind = GB_KV_CHECK};

const struct gb_kv_step *gb_kv_step_find(const char *name, size_t len)
{
    for (const struct gb_kv_step *step = gb_kv_steps; step->name; step++) {
        if (strlen(step->name) == len && memcmp(step->name, name, len) == 0) {
            return step;
        }
    }
    return NULL;
}

struct gb_kv_shared *gb_kv_shared_create(uint64_t capacity)
{
    uint64_t bytes =
        sizeof(struct gb_kv_shared) + capacity * sizeof(((struct gb_kv_shared *)0)->versions[0]);
    struct gb_kv_shared *shared =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return NULL;
    }
    shared->mapped_bytes = bytes;
    shared->capacity = capacity;
    return shared;
}

void gb_kv_shared_destroy(struct gb_kv_shared *shared)
{
    if (shared) {
        munmap(shared, shared->mapped_bytes);
    }
}
