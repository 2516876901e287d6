/* Request logs: the first byte chooses a layout, the rest is the file. */
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "bench/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct gb_corpus *corpus, const struct gb_schedule *schedule)
{
    GB_ASSERT(corpus->count > 0 && schedule->count > 0);
    for (uint64_t i = 0; i < schedule->count; i++) {
        GB_ASSERT(schedule->objects[i] < corpus->count);
    }
    for (uint64_t i = 0; i < corpus->count; i++) {
        char key[GB_CORPUS_KEY_MAX];
        size_t len = gb_corpus_key(corpus, i, key);
        GB_ASSERT(len > 0 && len <= GB_CORPUS_KEY_MAX);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const formats[] = {NULL, "oracle", "csv", "twitter", "wiki"};
    if (size < 2) {
        return 0;
    }
    struct gb_corpus_options options;
    gb_corpus_defaults(&options);
    options.kind = GB_CORPUS_TRACE;
    options.trace_format = formats[data[0] % (sizeof(formats) / sizeof(formats[0]))];
    FILE *file = fmemopen((void *)(uintptr_t)(data + 1), size - 1, "r");
    GB_ASSERT(file != NULL);
    struct gb_corpus_build build;
    struct gb_schedule schedule;
    struct goblin_error error = {{0}};
    gb_corpus_build_init(&build);
    int result = gb_trace_read_stream(&build, &options, file, "input", &schedule, &error);
    GB_ASSERT(result >= 0 || error.text[0] != '\0');
    if (result >= 0) {
        check(&build.corpus, &schedule);
    }
    gb_schedule_fini(&schedule);
    gb_corpus_build_fini(&build);
    (void)fclose(file);
    return 0;
}
