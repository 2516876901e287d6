/*
 * Rings that refuse an operation: stands in front of liburing's own io_uring_queue_init_params.
 * FAULT_REFUSE_OPCODE=read|write|fsync names the operation; the kernel then answers it with EACCES
 * in every ring of the process, as a ring handed down by a sandbox would.
 */
#include <dlfcn.h>
#include <errno.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef int (*init_fn)(unsigned entries, struct io_uring *ring, struct io_uring_params *params);

static int restrict_ring(struct io_uring *ring, const char *refused)
{
    static const struct {
        const char *name;
        unsigned char opcode;
    } known[] = {{"read", IORING_OP_READ}, {"write", IORING_OP_WRITE}, {"fsync", IORING_OP_FSYNC}};
    struct io_uring_restriction allowed[4] = {
        {.opcode = IORING_RESTRICTION_REGISTER_OP, .register_op = IORING_REGISTER_EVENTFD},
    };
    unsigned count = 1;
    for (unsigned i = 0; i < 3; i++) {
        if (strcmp(known[i].name, refused) != 0) {
            allowed[count].opcode = IORING_RESTRICTION_SQE_OP;
            allowed[count++].sqe_op = known[i].opcode;
        }
    }
    /* Not through liburing: its shared library of some versions leaves these two out. */
    long rc =
        syscall(SYS_io_uring_register, ring->ring_fd, IORING_REGISTER_RESTRICTIONS, allowed, count);
    if (rc == 0) {
        rc = syscall(SYS_io_uring_register, ring->ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
    }
    return rc < 0 ? -errno : 0;
}

int io_uring_queue_init_params(unsigned entries, struct io_uring *ring,
                               struct io_uring_params *params)
{
    init_fn init = NULL;
    void *symbol = dlsym(RTLD_NEXT, "io_uring_queue_init_params");
    memcpy(&init, &symbol, sizeof(init));
    if (init == NULL) {
        return -ENOSYS;
    }
    const char *refused = getenv("FAULT_REFUSE_OPCODE");
    if (refused == NULL) {
        return init(entries, ring, params);
    }
    params->flags |= IORING_SETUP_R_DISABLED;
    int rc = init(entries, ring, params);
    if (rc < 0) {
        return rc;
    }
    rc = restrict_ring(ring, refused);
    if (rc < 0) {
        (void)fprintf(stderr, "no restricted rings here: %s\n", strerror(-rc));
        io_uring_queue_exit(ring);
    }
    return rc;
}
