/* The device by a tool that everybody knows: fio, if it is installed. */
#ifndef GB_BENCH_FIO_H
#define GB_BENCH_FIO_H

#include <stdint.h>

#include "goblin/error.h"

struct gb_fio {
    char version[32];       /* "" when there is no fio: the rest is zero */
    double write_mib_s;     /* direct, sequential, 1 MiB x 8, as many bytes as asked, synced */
    double read_4k_us;      /* direct, random, 4 KiB x 1 */
    double read_256k_mib_s; /* direct, random, 256 KiB x 4 */
};

/* Writes `bytes` to a file in `dir`, reads it for a few seconds, and removes it.
 * Returns 0, also without fio; a fault of fio itself is -EIO and explained. */
int gb_fio_run(struct gb_fio *fio, const char *dir, uint64_t bytes, struct goblin_error *error);

#endif
