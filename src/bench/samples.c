/* The ends of chunks, kept for comparing: see samples.h. */
#include "bench/samples.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t sample_len(size_t chunk_len)
{
    return chunk_len < GB_SAMPLE_BYTES ? chunk_len : GB_SAMPLE_BYTES;
}

int gb_samples_init(struct gb_samples *samples)
{
    *samples = (struct gb_samples){.items = malloc(GB_SAMPLES_MAX * sizeof(*samples->items))};
    return samples->items ? 0 : -ENOMEM;
}

void gb_samples_fini(struct gb_samples *samples)
{
    free(samples->items);
    samples->items = NULL;
}

void gb_samples_clear(struct gb_samples *samples)
{
    samples->bytes = 0;
    samples->count = 0;
}

void gb_samples_add(struct gb_samples *samples, const void *data, size_t len)
{
    const unsigned char *bytes = data;
    if (bytes && len > 0 && samples->count < GB_SAMPLES_MAX) {
        struct gb_sample *sample = &samples->items[samples->count++];
        sample->offset = samples->bytes;
        sample->len = len;
        memcpy(sample->first, bytes, sample_len(len));
        memcpy(sample->last, bytes + len - sample_len(len), sample_len(len));
    }
    samples->bytes += len;
}

bool gb_samples_match(const struct gb_samples *samples, gb_samples_same_fn same, void *arg,
                      uint64_t *compared_bytes)
{
    for (uint32_t i = 0; i < samples->count; i++) {
        const struct gb_sample *sample = &samples->items[i];
        size_t len = sample_len(sample->len);
        if (!same(arg, sample->offset, sample->first, len) ||
            !same(arg, sample->offset + sample->len - len, sample->last, len)) {
            return false;
        }
        *compared_bytes += 2 * len;
    }
    return true;
}
