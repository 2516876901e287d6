/* The engine's memory: the system's, but for the call that is to fail. */
#include "lib/memfault.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

static _Thread_local uint64_t calls_left; /* up to the one that fails; 0: none will */
static _Thread_local bool has_failed;

void *gb_memfault_malloc(size_t bytes);
void *gb_memfault_calloc(size_t count, size_t bytes);
void *gb_memfault_realloc(void *memory, size_t bytes);
int gb_memfault_posix_memalign(void **memory, size_t alignment, size_t bytes);
void *gb_memfault_aligned_alloc(size_t alignment, size_t bytes);
char *gb_memfault_strdup(const char *text);
void *gb_memfault_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int gb_memfault_eventfd(unsigned count, int flags);
int gb_memfault_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                               void *(*run)(void *), void *arg);

void gb_memfault_arm(uint64_t nth)
{
    calls_left = nth;
    has_failed = false;
}

bool gb_memfault_disarm(void)
{
    calls_left = 0;
    return has_failed;
}

static bool fails(void)
{
    if (calls_left == 0 || --calls_left > 0) {
        return false;
    }
    has_failed = true;
    errno = ENOMEM;
    return true;
}

void *gb_memfault_malloc(size_t bytes)
{
    return fails() ? NULL : malloc(bytes);
}

void *gb_memfault_calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : calloc(count, bytes);
}

void *gb_memfault_realloc(void *memory, size_t bytes)
{
    return fails() ? NULL : realloc(memory, bytes);
}

int gb_memfault_posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    return fails() ? ENOMEM : posix_memalign(memory, alignment, bytes);
}

void *gb_memfault_aligned_alloc(size_t alignment, size_t bytes)
{
    return fails() ? NULL : aligned_alloc(alignment, bytes);
}

char *gb_memfault_strdup(const char *text)
{
    return fails() ? NULL : strdup(text);
}

void *gb_memfault_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    return fails() ? MAP_FAILED : mmap(at, bytes, protection, flags, fd, offset);
}

int gb_memfault_eventfd(unsigned count, int flags)
{
    return fails() ? -1 : eventfd(count, flags);
}

int gb_memfault_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                               void *(*run)(void *), void *arg)
{
    return fails() ? EAGAIN : pthread_create(thread, attributes, run, arg);
}
