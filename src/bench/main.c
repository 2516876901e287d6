/* goblin-bench: one program, several measurements; each is a command of its own file. */
#include "bench/churn.h"
#include "bench/kv.h"
#include "bench/micro.h"
#include "bench/net.h"
#include "bench/relative.h"
#include "bench/simulate.h"
#include "bench/study.h"

#include <stdio.h>
#include <string.h>

struct command {
    const char *name;
    const char *help;
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns an exit code */
};

static const struct command commands[] = {
    {"study", "a large object corpus on several engines, replayed in turns", gb_cmd_study},
    {"churn", "a reader beside overwrites of a store that is nearly full", gb_cmd_churn},
    {"kv", "small values and ordered keys, step by step on several engines", gb_cmd_kv},
    {"net", "servers side by side under one load generator", gb_cmd_net},
    {"relative", "throughput of versions as a multiple of a base version's", gb_cmd_relative},
    {"simulate", "recorded requests behind an ideal link of any rate", gb_cmd_simulate},
    {"micro", "what one small call costs, and one object in RAM", gb_cmd_micro},
};

static void print_help(FILE *out)
{
    fprintf(out, "Usage: goblin-bench COMMAND [flags]\n\nCommands:\n");
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
    }
    fprintf(out,
            "\ngoblin-bench COMMAND --help says more. Exit codes: 0 done, 1 failed, 2 usage.\n");
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return 0;
    }
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    fprintf(stderr, "goblin-bench: \"%s\" is no command; see goblin-bench --help\n", argv[1]);
    return 2;
}
