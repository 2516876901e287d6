/* The program as a function: finds the verb, parses, calls, and answers with the exit code. */
#ifndef GB_CLI_COMMAND_H
#define GB_CLI_COMMAND_H

/* Threads: one, once at a time. */
int gb_command_run(int argc, char **argv);

#endif
