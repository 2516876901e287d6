/* The log and the model of what a store was told. */
#include "fault/faultmodel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define EVERY_KEY UINT64_MAX

enum step_kind { STEP_TRY = 1, STEP_ACKNOWLEDGE = 2, STEP_RAISE = 3 };

struct step {
    uint64_t kind;
    uint64_t key;
    uint64_t seed;
    uint64_t size;
    uint64_t level;
};

static void die(const char *what)
{
    perror(what);
    _exit(3);
}

static void note(const struct fault_model *model, struct step step)
{
    if (write(model->fd, &step, sizeof(step)) != (ssize_t)sizeof(step)) {
        die("writing the log");
    }
}

static void raise_key(struct fault_key *key, enum fault_level level)
{
    for (uint32_t i = 0; i < key->count; i++) {
        if (key->states[i].level != FAULT_TRIED && key->states[i].level < level) {
            key->states[i].level = level;
        }
    }
}

static void apply(struct fault_model *model, const struct step *step)
{
    if (step->kind == STEP_RAISE) {
        for (uint32_t i = 0; i < FAULT_KEYS_MAX; i++) {
            raise_key(&model->keys[i], (enum fault_level)step->level);
        }
        return;
    }
    struct fault_key *key = &model->keys[step->key % FAULT_KEYS_MAX];
    if (step->kind == STEP_ACKNOWLEDGE) {
        if (key->count > 0) {
            key->states[key->count - 1].level = (enum fault_level)step->level;
        }
        return;
    }
    struct fault_state *states =
        realloc(key->states, (key->count + (size_t)1) * sizeof(*key->states));
    if (states == NULL) {
        die("the model");
    }
    key->states = states;
    states[key->count++] = (struct fault_state){.seed = step->seed, .size = step->size};
    model->serial++;
}

int fault_model_open(struct fault_model *model, const char *log)
{
    *model = (struct fault_model){.fd = open(log, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600)};
    model->keys = calloc(FAULT_KEYS_MAX, sizeof(*model->keys));
    if (model->fd < 0 || model->keys == NULL) {
        int fault = model->fd < 0 ? -errno : -ENOMEM;
        fault_model_close(model);
        return fault;
    }
    struct step step;
    while (read(model->fd, &step, sizeof(step)) == (ssize_t)sizeof(step)) {
        apply(model, &step);
    }
    return 0;
}

void fault_model_close(struct fault_model *model)
{
    for (uint32_t i = 0; model->keys != NULL && i < FAULT_KEYS_MAX; i++) {
        free(model->keys[i].states);
    }
    free(model->keys);
    if (model->fd >= 0) {
        close(model->fd);
    }
}

uint64_t fault_model_try(struct fault_model *model, uint64_t key, uint64_t size)
{
    struct step step = {.kind = STEP_TRY, .key = key, .size = size};
    if (size != UINT64_MAX) {
        step.seed = (key << 32) + model->serial + 1;
    } else {
        step.size = 0;
    }
    note(model, step);
    apply(model, &step);
    return step.seed;
}

void fault_model_acknowledge(struct fault_model *model, uint64_t key, enum fault_level level)
{
    const struct step step = {.kind = STEP_ACKNOWLEDGE, .key = key, .level = level};
    note(model, step);
    apply(model, &step);
}

void fault_model_raise(struct fault_model *model, enum fault_level level)
{
    const struct step step = {.kind = STEP_RAISE, .key = EVERY_KEY, .level = level};
    note(model, step);
    apply(model, &step);
}

enum fault_verdict fault_model_judge(const struct fault_model *model, uint64_t key, uint64_t seed,
                                     uint64_t size, enum fault_level floor)
{
    if (key >= FAULT_KEYS_MAX) {
        return seed == 0 ? FAULT_RIGHT : FAULT_WRONG;
    }
    const struct fault_key *known = &model->keys[key];
    uint32_t first = known->count;
    while (first > 0 && known->states[first - 1].level < floor) {
        first--;
    }
    /* states[first - 1] is the floor; without one the key may also hold nothing. */
    if (first == 0 && seed == 0) {
        return FAULT_RIGHT;
    }
    for (uint32_t i = 0; i < known->count; i++) {
        const struct fault_state *state = &known->states[i];
        if (i + 1 >= first && state->seed == seed && (seed == 0 || state->size == size)) {
            return FAULT_RIGHT;
        }
    }
    if (seed == 0) {
        return FAULT_MISSING;
    }
    for (uint32_t i = 0; i + 1 < first; i++) {
        if (known->states[i].seed == seed && known->states[i].size == size) {
            return FAULT_STALE;
        }
    }
    return FAULT_WRONG;
}
