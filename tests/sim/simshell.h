/* A door to a simulated disk that a store can own and destroy while the disk stays, as a computer's
 * disk outlives its programs. Owns: the result until ops->destroy; borrows the disk for as long. */
#ifndef GB_SIM_SIMSHELL_H
#define GB_SIM_SIMSHELL_H

#include "engine/io.h"

struct gb_io *simshell_create(struct gb_io *disk);

#endif
