/* The mark that SIGINT and SIGTERM leave: see interrupt.h. */
#include "bench/interrupt.h"

#include <signal.h>

/* Set by the handler alone. */
static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

void gb_interrupt_catch(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool gb_interrupt_seen(void)
{
    return interrupted != 0;
}
