/* goblin: main(). */
#include <signal.h>

#include "cli/command.h"

int main(int argc, char **argv)
{
    /* A closed pipe is an answer of write(), so that the store is closed properly. */
    (void)signal(SIGPIPE, SIG_IGN);
    return gb_command_run(argc, argv);
}
