/*
 * Memory that runs out when a test says so. The fault loops link a copy of the engine in which
 * every call that takes memory, or a thread, of the system (memfault.syms) goes through here;
 * nothing else in the program does, the simulated disk included.
 *
 * Threads: what is armed and counted is the calling thread's, so background threads of a store
 * neither disturb the count nor meet the fault.
 */
#ifndef GB_TESTS_MEMFAULT_H
#define GB_TESTS_MEMFAULT_H

#include <stdbool.h>
#include <stdint.h>

/* The nth call from now (1: the next) fails, once. */
void gb_memfault_arm(uint64_t nth);

/* No longer. Whether it has failed. */
bool gb_memfault_disarm(void);

#endif
