/* reads.csv: the input is what follows the header. Rows that are accepted add up. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "bench/reads_csv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char header[] = "engine,slice,index,object,bytes,first_ns,last_ns,source,chunks\n";

static void check(const struct gb_read *read)
{
    uint64_t bytes = 0;
    uint64_t ready_ns = 0;
    for (size_t i = 0; i < read->chunk_count; i++) {
        GB_ASSERT(read->chunks[i].ready_ns >= ready_ns);
        ready_ns = read->chunks[i].ready_ns;
        bytes += read->chunks[i].bytes;
    }
    GB_ASSERT(bytes == read->bytes);
    GB_ASSERT(strlen(read->engine) > 0 && strlen(read->engine) < GB_READ_ENGINE_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("reads.csv", MFD_CLOEXEC);
    GB_ASSERT(fd >= 0);
    GB_ASSERT(write(fd, header, sizeof(header) - 1) == (ssize_t)(sizeof(header) - 1));
    GB_ASSERT(write(fd, data, size) == (ssize_t)size);
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    struct gb_reads_reader *reader;
    struct goblin_error error = {{0}};
    GB_ASSERT(gb_reads_reader_open(path, &reader, &error) == 0);
    struct gb_read read;
    int result;
    while ((result = gb_reads_reader_next(reader, &read, &error)) > 0) {
        check(&read);
    }
    GB_ASSERT(result == 0 || error.text[0] != '\0');
    gb_reads_reader_close(reader);
    (void)close(fd);
    return 0;
}
