/* goblin-bench net: cases one after the other, then the reports. */
#include "bench/net.h"

#include "bench/explain.h"
#include "bench/interrupt.h"
#include "bench/scratch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the largest case may have on the drive at scale 1; one case is there at a time. */
static const uint64_t disk_bytes = UINT64_C(10) << 30;

static void print_list(void)
{
    size_t count;
    const struct gb_net_case *all = gb_net_cases(&count);
    for (size_t i = 0; i < count; i++) {
        printf("%-10s %s\n", all[i].name, all[i].help);
    }
}

/* The goblin that was built or installed with this program, else any. */
static void find_goblin(struct gb_net *net, char path[PATH_MAX])
{
    static const char name[] = "goblin";
    if (net->options.programs[GB_NET_PROGRAM_goblin]) {
        return;
    }
    ssize_t len = readlink("/proc/self/exe", path, PATH_MAX - sizeof(name) - 1);
    net->options.programs[GB_NET_PROGRAM_goblin] = name;
    if (len > 0) {
        path[len] = '\0';
        char *slash = strrchr(path, '/');
        memcpy(slash + 1, name, sizeof(name));
        if (access(path, X_OK) == 0) {
            net->options.programs[GB_NET_PROGRAM_goblin] = path;
        }
    }
}

static int make_scratch(struct gb_net *net, struct goblin_error *error)
{
    char dir[PATH_MAX];
    double needed = net->options.scale * (double)disk_bytes;
    int rc = gb_scratch_make(net->options.dir, error);
    rc = rc < 0 ? rc : gb_scratch_check(net->options.dir, (uint64_t)needed, error);
    if (rc == 0 && !realpath(net->options.dir, dir)) { /* servers change directory */
        rc = -errno;
        gb_explain_set(error, "--dir %s: %s", net->options.dir, strerror(-rc));
    }
    if (rc == 0) {
        snprintf(net->scratch, sizeof(net->scratch), "%.*s/goblin-net-%d", PATH_MAX - 128, dir,
                 (int)getpid());
        rc = gb_scratch_make(net->scratch, error);
    }
    if (rc == 0 && net->options.out) {
        rc = gb_scratch_make(net->options.out, error);
    }
    return rc;
}

/* A case that fails does not keep the others from being measured; the first fault is returned. */
static int run_cases(struct gb_net *net, struct goblin_error *error)
{
    int rc = 0;
    for (size_t i = 0; i < net->options.case_count && !gb_interrupt_seen(); i++) {
        struct goblin_error own = {{0}};
        int result = net->options.cases[i]->run(net, &own);
        if (result < 0 && rc == 0) {
            rc = result;
            *error = own;
        } else if (result < 0) {
            fprintf(stderr, "goblin-bench net: %s\n", own.text);
        }
    }
    if (gb_interrupt_seen()) {
        gb_explain_set(error, "interrupted");
        rc = -EINTR;
    }
    return rc;
}

/* Of whatever was measured, a case that failed included. */
static int report(const struct gb_net *net, struct goblin_error *error)
{
    gb_net_report_print(net, stdout);
    int rc = net->options.json ? gb_net_report_json(net, net->options.json, error) : 0;
    if (rc == 0 && net->options.out) {
        rc = gb_net_plots(net, error);
        rc = rc < 0 ? rc : gb_net_report_markdown(net, error);
    }
    if (rc == 0 && gb_net_is_void(net)) {
        gb_explain_set(error, "values were wrong, replies made no sense, or goblin lost objects: "
                              "this run is void");
        rc = -EBADMSG;
    }
    return rc;
}

static int run(struct gb_net *net, struct goblin_error *error)
{
    char goblin[PATH_MAX];
    struct goblin_error second = {{0}};
    find_goblin(net, goblin);
    int rc = make_scratch(net, error);
    rc = rc < 0 ? rc : run_cases(net, error);
    if (net->scratch[0] && !net->options.keep) {
        gb_scratch_remove(net->scratch);
    }
    if (net->row_count > 0 && rc != -EINTR) {
        int reported = report(net, rc < 0 ? &second : error);
        rc = rc < 0 ? rc : reported;
    }
    return rc;
}

int gb_cmd_net(int argc, char **argv)
{
    struct goblin_error error = {{0}};
    struct gb_net *net = calloc(1, sizeof(*net));
    if (!net) {
        fprintf(stderr, "goblin-bench net: out of memory\n");
        return 1;
    }
    int status = 2;
    int rc = gb_net_options_parse(&net->options, argc, argv, &error);
    if (rc == 0 && net->options.list) {
        print_list();
    } else if (rc == 0) {
        gb_interrupt_catch();
        rc = run(net, &error);
        status = 1;
    }
    if (rc < 0) {
        fprintf(stderr, "goblin-bench net: %s\n", error.text[0] ? error.text : goblin_strerror(rc));
    }
    for (size_t i = 0; i < net->row_count; i++) {
        free(net->rows[i]);
    }
    free(net);
    return rc < 0 ? status : 0;
}
