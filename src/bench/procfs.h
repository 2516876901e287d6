/* What the kernel says about processes and the machine. Every call returns 0 or a negative errno.
 */
#ifndef GB_BENCH_PROCFS_H
#define GB_BENCH_PROCFS_H

#include <stdint.h>
#include <sys/types.h>

struct gb_procfs_io {
    uint64_t reads; /* system calls */
    uint64_t writes;
    uint64_t read_bytes; /* from devices */
    uint64_t write_bytes;
};

/* Of this process, its ended threads included. */
int gb_procfs_io(struct gb_procfs_io *io);

/* Resident bytes of a process, now and at the most since it started or its peak was reset. */
int gb_procfs_rss(pid_t pid, uint64_t *rss_bytes, uint64_t *peak_bytes);

/* Lets this process's peak begin anew at what is resident now. */
int gb_procfs_reset_peak(void);

/* What a new program can use without swapping. */
int gb_procfs_available(uint64_t *bytes);

struct gb_procfs_cost {
    double cpu_s; /* all its threads, ended ones too; in ticks of the kernel, mostly 10 ms */
    uint64_t private_bytes; /* resident and its own */
    uint64_t shared_bytes;  /* resident and of files or shared memory */
};
int gb_procfs_cost(pid_t pid, struct gb_procfs_cost *cost);

/* A process and its descendants; returns how many, at most `room`. -ESRCH: there is none. */
int gb_procfs_tree(pid_t root, pid_t *pids, int room);

/* What everybody has written to the block device below `path` since it appeared, by
 * the device's stat file in /sys. Errors: -ENODEV: it lies on no block device. */
int gb_procfs_device(const char *path, uint64_t *write_bytes);

#endif
