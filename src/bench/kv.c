/* The order of events of `goblin-bench kv`. */
#include "bench/kv.h"

#include "base/bits.h"
#include "bench/cgroup.h"
#include "bench/explain.h"
#include "bench/interrupt.h"
#include "bench/scratch.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    WAIT_NS = 20 * 1000 * 1000,
    CAPACITY_FACTOR = 2, /* numbers that inserts may add up to */
    SPARE_CACHE_BYTES = 64 << 20,
    DISK_FACTOR = 3, /* of an engine's files, at the most, to what it keeps */
};

/* RAM / block cache of the machines in the published scripts: 32 GB / 20 GiB. What is not the
 * engine's there is page cache here. */
static const double page_cache_factor = 1.6;

/* An engine, or one build of it. */
struct column {
    const struct gb_kv_ops *ops;
    const struct gb_kv_library *library; /* NULL: the one found by default */
    struct gb_kv_shared *shared;
    char dir[PATH_MAX];
    char cgroup[PATH_MAX]; /* "" if there is none */
};

struct kv {
    struct gb_kv_options options;
    struct gb_kv_values values;
    struct column columns[GB_KV_COLUMNS_MAX];
    size_t column_count;
    struct gb_kv_row *rows;
    size_t row_count;
    size_t row_capacity;
    char scratch[PATH_MAX];
};

bool gb_kv_row_is_void(const struct gb_kv_row *row)
{
    return row->result.wrong + row->result.stale + row->result.missed > 0;
}

/* ---- preparations -------------------------------------------------------------------------- */

static int add_column(struct kv *kv, const struct gb_kv_ops *ops,
                      const struct gb_kv_library *library, struct goblin_error *error)
{
    if (kv->column_count == GB_KV_COLUMNS_MAX) {
        gb_explain_set(error, "more than %d engines and builds", GB_KV_COLUMNS_MAX);
        return -EINVAL;
    }
    struct column *column = &kv->columns[kv->column_count];
    *column = (struct column){.ops = ops, .library = library};
    if ((size_t)snprintf(column->dir, sizeof(column->dir), "%s/%zu-%s", kv->scratch,
                         kv->column_count, ops->name) >= sizeof(column->dir)) {
        gb_explain_set(error, "--dir: the path is too long");
        return -ENAMETOOLONG;
    }
    column->shared = gb_kv_shared_create(kv->options.keys * CAPACITY_FACTOR);
    if (!column->shared) {
        gb_explain_set(error, "out of memory");
        return -ENOMEM;
    }
    kv->column_count++;
    return 0;
}

static int add_columns(struct kv *kv, struct goblin_error *error)
{
    const struct gb_kv_options *options = &kv->options;
    int rc = 0;
    for (size_t i = 0; i < options->engine_count && rc == 0; i++) {
        const struct gb_kv_ops *ops = options->engines[i];
        const struct gb_kv_library *library = NULL;
        size_t builds = 1;
        if (ops == &gb_kv_leveldb) {
            library = &options->leveldb_lib;
        } else if (ops == &gb_kv_lmdb) {
            library = &options->lmdb_lib;
        } else if (ops == &gb_kv_rocksdb && options->rocksdb_lib_count > 0) {
            library = options->rocksdb_libs;
            builds = options->rocksdb_lib_count;
        }
        for (size_t k = 0; k < builds && rc == 0; k++) {
            rc = add_column(kv, ops, library ? &library[k] : NULL, error);
        }
    }
    return rc;
}

static int prepare(struct kv *kv, struct goblin_error *error)
{
    const struct gb_kv_options *options = &kv->options;
    uint64_t live = options->keys * (options->key_bytes + options->value_bytes);
    int rc = gb_scratch_make(options->dir, error);
    rc = rc < 0 ? rc
                : gb_scratch_check(options->dir, live * DISK_FACTOR * options->engine_count, error);
    if (rc < 0) {
        return rc;
    }
    rc = gb_kv_values_init(&kv->values, options->key_bytes, options->value_bytes,
                           options->compression_ratio, options->seed);
    kv->row_capacity = options->repeat * options->workload_count * options->step_count;
    kv->row_capacity *= GB_KV_COLUMNS_MAX;
    kv->rows = calloc(kv->row_capacity, sizeof(*kv->rows));
    if (rc < 0 || !kv->rows) {
        gb_explain_set(error, "out of memory");
        return -ENOMEM;
    }
    snprintf(kv->scratch, sizeof(kv->scratch), "%s/goblin-kv-%d", options->dir, (int)getpid());
    rc = gb_scratch_make(kv->scratch, error);
    return rc < 0 ? rc : add_columns(kv, error);
}

/* ---- one step of one engine ---------------------------------------------------------------- */

static struct gb_kv_config configure(const struct kv *kv, const struct column *column,
                                     enum gb_kv_workload workload, const struct gb_kv_step *step)
{
    const struct gb_kv_options *options = &kv->options;
    return (struct gb_kv_config){
        .dir = column->dir,
        .library = column->library ? column->library->path : NULL,
        .create = step->kind == GB_KV_FILL,
        .loading = step->kind == GB_KV_FILL && !step->scattered,
        .direct =
            workload == GB_KV_IODIR || (workload == GB_KV_BYRX && column->ops == &gb_kv_goblin),
        .compress = workload != GB_KV_BYRX,
        .memory_bytes = gb_kv_options_memory(options, workload),
        .keys_most = options->keys,
        .key_bytes = options->key_bytes,
        .value_bytes = options->value_bytes,
        .threads = (unsigned)options->threads,
        .size_factor = options->size_factor,
        .block_bytes = options->block_bytes,
        .memtable_bytes = options->memtable_bytes,
        .file_bytes = options->file_bytes,
        .level_bytes = options->level_bytes,
        .background_jobs = options->background_jobs,
        .bloom_bits = options->bloom_bits,
    };
}

static _Noreturn void run_child(const struct gb_kv_task *task, pid_t parent)
{
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent) {
        gb_kv_task_run(task);
    }
    _exit(0);
}

static int wait_child(pid_t pid, struct goblin_error *error)
{
    const struct timespec pause = {.tv_nsec = WAIT_NS};
    int status = 0;
    pid_t ended;
    while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && !gb_interrupt_seen()) {
        nanosleep(&pause, NULL);
    }
    if (ended == 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        gb_explain_set(error, "interrupted");
        return -EINTR;
    }
    if (WIFSIGNALED(status)) {
        gb_explain_set(error, "its process was ended by signal %d%s", WTERMSIG(status),
                       WTERMSIG(status) == SIGKILL ? " (out of memory?)" : "");
        return -ECHILD;
    }
    return 0;
}

/* Forks, so that the engine's memory, caches and library are its own and new. */
static int run_task(const struct column *column, const struct gb_kv_task *task,
                    struct goblin_error *error)
{
    struct gb_kv_result *result = &column->shared->result;
    pid_t parent = getpid();
    result->code = -ECHILD;
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        int rc = -errno;
        gb_explain_set(error, "fork: %s", strerror(errno));
        return rc;
    }
    if (pid == 0) {
        run_child(task, parent);
    }
    int rc = wait_child(pid, error);
    if (rc == 0 && result->code < 0) {
        rc = result->code;
        gb_explain_set(error, "%s",
                       result->error.text[0] ? result->error.text : "its process just ended");
    }
    return rc;
}

static int do_step(struct kv *kv, struct column *column, enum gb_kv_workload workload,
                   const struct gb_kv_step *step, struct goblin_error *error)
{
    const struct gb_kv_options *options = &kv->options;
    const struct gb_kv_task task = {
        .step = step,
        .ops = column->ops,
        .values = &kv->values,
        .shared = column->shared,
        .config = configure(kv, column, workload, step),
        .cgroup = column->cgroup[0] ? column->cgroup : NULL,
        .keys = options->keys,
        .seconds = options->duration_s,
        .warm_s = options->warm_s,
        .fill_cache = workload == GB_KV_BYRX,
        .range = (unsigned)options->range,
        .batch = (unsigned)options->batch,
        .write_rate = options->write_rate,
        .settle_s = options->settle_s,
        .zipf = options->zipf,
        .seed = options->seed + kv->row_count,
    };
    int rc = 0;
    if (step->kind == GB_KV_FILL) {
        rc = gb_scratch_remove(column->dir);
        rc = rc < 0 ? rc : gb_scratch_make(column->dir, error);
    }
    rc = rc < 0 ? rc : run_task(column, &task, error);
    if (rc < 0 && rc != -EINTR) {
        char where[128];
        snprintf(where, sizeof(where), "%s, %s, %s", gb_kv_workload_names[workload],
                 column->ops->name, step->name);
        gb_explain_wrap(error, where);
    }
    return rc;
}

/* ---- rows ---------------------------------------------------------------------------------- */

static void name_step(struct gb_kv_row *row, const struct gb_kv_options *options, size_t index)
{
    int nth = 1;
    for (size_t i = 0; i < index; i++) {
        nth += options->steps[i] == options->steps[index];
    }
    if (nth == 1) {
        snprintf(row->step, sizeof(row->step), "%s", options->steps[index]->name);
    } else {
        snprintf(row->step, sizeof(row->step), "%s#%d", options->steps[index]->name, nth);
    }
}

static void add_row(struct kv *kv, const struct column *column, enum gb_kv_workload workload,
                    size_t step)
{
    const struct gb_kv_result *result = &column->shared->result;
    const char *label = column->library ? column->library->label : "";
    struct gb_kv_row *row = &kv->rows[kv->row_count++];
    *row = (struct gb_kv_row){
        .engine = column->ops->name,
        .workload = workload,
        .put_bytes = result->puts * (kv->options.key_bytes + kv->options.value_bytes),
        .memory_bytes = gb_kv_options_memory(&kv->options, workload),
        .result = *result,
    };
    if (column->cgroup[0]) {
        row->page_cache_bytes = (uint64_t)((double)row->memory_bytes * page_cache_factor);
    }
    snprintf(row->version, sizeof(row->version), "%s%s%s", result->version, label[0] ? " " : "",
             label);
    name_step(row, &kv->options, step);
    fprintf(stderr, "%-6s %-13s %-10s %-16s %12.0f/s  p99 %.1f us\n",
            gb_kv_workload_names[workload], row->step, row->engine, row->version,
            result->seconds > 0 ? (double)result->ops / result->seconds : 0, result->p99_us);
    if (gb_kv_row_is_void(row)) {
        fprintf(stderr, "%s: %llu wrong, %llu stale, %llu missing\n", row->engine,
                (unsigned long long)result->wrong, (unsigned long long)result->stale,
                (unsigned long long)result->missed);
    }
}

/* ---- workloads ----------------------------------------------------------------------------- */

/* Page cache and engine together are held to what the published machines have beside their block
 * cache, where this process may make groups. */
static void limit_page_cache(struct kv *kv, size_t i, enum gb_kv_workload workload)
{
    struct column *column = &kv->columns[i];
    double memory = (double)gb_kv_options_memory(&kv->options, workload);
    uint64_t bytes =
        (uint64_t)(memory * page_cache_factor) + SPARE_CACHE_BYTES + column->shared->mapped_bytes;
    char name[64];
    struct goblin_error error;
    column->cgroup[0] = '\0';
    if (workload != GB_KV_IOBUF) {
        return;
    }
    snprintf(name, sizeof(name), "goblin-kv-%d-%zu", (int)getpid(), i);
    if (gb_cgroup_make(column->cgroup, NULL, name, bytes, &error) < 0) {
        column->cgroup[0] = '\0';
        fprintf(stderr, "the page cache is not limited, so iobuf is not what it should be: %s\n",
                error.text);
    }
}

static bool takes_part(const struct column *column, enum gb_kv_workload workload)
{
    return workload != GB_KV_IODIR || column->ops->direct;
}

/* Every engine does a step before any does the next; another one begins every time. */
static int run_steps(struct kv *kv, enum gb_kv_workload workload, struct goblin_error *error)
{
    const struct gb_kv_options *options = &kv->options;
    int rc = 0;
    for (size_t step = 0; step < options->step_count; step++) {
        for (size_t turn = 0; turn < kv->column_count && rc == 0; turn++) {
            struct column *column = &kv->columns[(turn + step) % kv->column_count];
            if (takes_part(column, workload)) {
                rc = do_step(kv, column, workload, options->steps[step], error);
            }
            if (rc == 0 && takes_part(column, workload)) {
                add_row(kv, column, workload, step);
            }
        }
    }
    for (size_t i = 0; i < kv->column_count && rc == 0; i++) {
        struct column *column = &kv->columns[i];
        if (takes_part(column, workload)) {
            rc = do_step(kv, column, workload, &gb_kv_step_check, error);
        }
        struct gb_kv_row check = {.result = column->shared->result};
        if (rc == 0 && takes_part(column, workload) && gb_kv_row_is_void(&check)) {
            gb_explain_set(error, "%s, %s: in the end %llu entries are wrong, %llu old, %llu gone",
                           gb_kv_workload_names[workload], column->ops->name,
                           (unsigned long long)check.result.wrong,
                           (unsigned long long)check.result.stale,
                           (unsigned long long)check.result.missed);
            rc = -EBADMSG;
        }
    }
    return rc;
}

static int run_workload(struct kv *kv, enum gb_kv_workload workload, struct goblin_error *error)
{
    for (size_t i = 0; i < kv->column_count; i++) {
        if (!takes_part(&kv->columns[i], workload)) {
            fprintf(stderr, "%s: %s does no direct I/O and is left out\n",
                    gb_kv_workload_names[workload], kv->columns[i].ops->name);
        }
        limit_page_cache(kv, i, workload);
    }
    int rc = run_steps(kv, workload, error);
    for (size_t i = 0; i < kv->column_count; i++) {
        if (kv->columns[i].cgroup[0]) {
            gb_cgroup_remove(kv->columns[i].cgroup);
        }
        if (!kv->options.keep) {
            gb_scratch_remove(kv->columns[i].dir);
        }
    }
    return rc;
}

/* ---- all of it ----------------------------------------------------------------------------- */

static int report(const struct kv *kv, struct goblin_error *error)
{
    bool is_void = false;
    gb_kv_report_print(kv->rows, kv->row_count, stdout);
    int rc =
        kv->options.json ? gb_kv_report_json(kv->rows, kv->row_count, kv->options.json, error) : 0;
    for (size_t i = 0; i < kv->row_count; i++) {
        is_void = is_void || gb_kv_row_is_void(&kv->rows[i]);
    }
    if (rc == 0 && is_void) {
        gb_explain_set(error, "an engine lost entries, or returned bytes or versions that it must "
                              "not: this run is void");
        rc = -EBADMSG;
    }
    return rc;
}

static int run(struct kv *kv, struct goblin_error *error)
{
    struct goblin_error second = {{0}};
    int rc = prepare(kv, error);
    for (uint64_t round = 0; round < kv->options.repeat && rc == 0; round++) {
        for (size_t i = 0; i < kv->options.workload_count && rc == 0; i++) {
            rc = run_workload(kv, kv->options.workloads[i], error);
        }
    }
    if (kv->scratch[0] && !kv->options.keep) {
        gb_scratch_remove(kv->scratch);
    }
    if (kv->row_count > 0 && rc != -EINTR) {
        int reported = report(kv, rc < 0 ? &second : error);
        rc = rc < 0 ? rc : reported;
    }
    return rc;
}

int gb_cmd_kv(int argc, char **argv)
{
    struct goblin_error error = {{0}};
    struct kv *kv = calloc(1, sizeof(*kv));
    if (!kv) {
        fprintf(stderr, "goblin-bench kv: out of memory\n");
        return 1;
    }
    int status = 2;
    int rc = gb_kv_options_parse(&kv->options, argc, argv, &error);
    if (rc == 0) {
        gb_interrupt_catch();
        rc = run(kv, &error);
        status = 1;
    }
    if (rc < 0) {
        fprintf(stderr, "goblin-bench kv: %s\n", error.text[0] ? error.text : goblin_strerror(rc));
    }
    for (size_t i = 0; i < kv->column_count; i++) {
        gb_kv_shared_destroy(kv->columns[i].shared);
    }
    gb_kv_values_fini(&kv->values);
    free(kv->rows);
    free(kv);
    return rc < 0 ? status : 0;
}
