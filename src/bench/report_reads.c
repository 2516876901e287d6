/* Plot data out of reads.csv, in one pass and bounded memory: latency distributions, a sample of
 * first against last bytes, and throughput over the time spent. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "bench/explain.h"
#include "bench/reads_csv.h"
#include "bench/report_parts.h"

enum {
    ENGINES_MAX = 16,
    SAMPLES_MAX = 600, /* points of the scatter plot, per engine */
    SPANS_MAX = 512,   /* points of the throughput plot, per engine */
};

#define FIRST_SPAN_NS UINT64_C(1000000)

struct sample {
    uint64_t first_ns;
    uint64_t last_ns;
};

/* One engine's reads, summed up. */
struct digest {
    char name[GB_READ_ENGINE_MAX];
    struct gb_histogram first;
    struct gb_histogram last;
    struct sample samples[SAMPLES_MAX]; /* a reservoir: every row is as likely to be in it */
    uint64_t rows;
    uint64_t elapsed_ns;       /* requests are serial: their times add up */
    uint64_t span_ns;          /* doubles when the spans are used up */
    uint64_t spans[SPANS_MAX]; /* bytes returned in each */
};

struct digests {
    size_t count;
    struct digest *items[ENGINES_MAX];
    struct gb_rng rng;
};

static struct digest *find(struct digests *digests, const char *name)
{
    for (size_t i = 0; i < digests->count; i++) {
        if (strcmp(digests->items[i]->name, name) == 0) {
            return digests->items[i];
        }
    }
    if (digests->count == ENGINES_MAX) {
        return NULL;
    }
    struct digest *digest = calloc(1, sizeof(*digest));
    if (digest != NULL) {
        (void)snprintf(digest->name, sizeof(digest->name), "%s", name);
        gb_histogram_init(&digest->first);
        gb_histogram_init(&digest->last);
        digest->span_ns = FIRST_SPAN_NS;
        digests->items[digests->count++] = digest;
    }
    return digest;
}

static void halve_spans(struct digest *digest)
{
    for (size_t i = 0; i < SPANS_MAX / 2; i++) {
        digest->spans[i] = digest->spans[2 * i] + digest->spans[2 * i + 1];
    }
    memset(digest->spans + SPANS_MAX / 2, 0, SPANS_MAX / 2 * sizeof(digest->spans[0]));
    digest->span_ns *= 2;
}

static void take(struct digests *digests, struct digest *digest, const struct gb_read *read)
{
    uint64_t at =
        digest->rows < SAMPLES_MAX ? digest->rows : gb_rng_below(&digests->rng, digest->rows + 1);
    digest->rows++;
    digest->elapsed_ns += read->last_ns;
    while (digest->elapsed_ns / digest->span_ns >= SPANS_MAX) {
        halve_spans(digest);
    }
    digest->spans[digest->elapsed_ns / digest->span_ns] += read->bytes;
    gb_histogram_add(&digest->first, read->first_ns);
    gb_histogram_add(&digest->last, read->last_ns);
    if (at < SAMPLES_MAX) {
        digest->samples[at] = (struct sample){read->first_ns, read->last_ns};
    }
}

static int digest_reads(struct digests *digests, const char *path, struct goblin_error *error)
{
    struct gb_reads_reader *reader;
    int result = gb_reads_reader_open(path, &reader, error);
    if (result < 0) {
        return result;
    }
    struct gb_read read;
    while ((result = gb_reads_reader_next(reader, &read, error)) > 0) {
        if (read.source == GB_READ_MISS) {
            continue;
        }
        struct digest *digest = find(digests, read.engine);
        if (digest == NULL) {
            result = -ENOMEM;
            gb_explain_set(error, "%s: too many engines, or not enough memory", path);
            break;
        }
        take(digests, digest, &read);
    }
    gb_reads_reader_close(reader);
    return result;
}

static void write_distribution(FILE *file, const char *name, const char *what,
                               const struct gb_histogram *histogram)
{
    uint32_t cursor = 0;
    double value;
    double share = 0;
    (void)fprintf(file, "\"%s %s\"\n", name, what);
    while (gb_histogram_next(histogram, &cursor, &value, &share)) {
        (void)fprintf(file, "%.3f %.6f\n", value / 1e3, share);
    }
    (void)fprintf(file, "\n\n");
}

static void write_distributions(FILE *file, const struct digest *digest)
{
    write_distribution(file, digest->name, "first byte", &digest->first);
    write_distribution(file, digest->name, "last byte", &digest->last);
}

static void write_samples(FILE *file, const struct digest *digest)
{
    (void)fprintf(file, "\"%s\"\n", digest->name);
    for (uint64_t i = 0; i < digest->rows && i < SAMPLES_MAX; i++) {
        (void)fprintf(file, "%.3f %.3f\n", (double)digest->samples[i].first_ns / 1e3,
                      (double)digest->samples[i].last_ns / 1e3);
    }
    (void)fprintf(file, "\n\n");
}

/* The last span is left out: it is not full. If it is the only one, its mean makes a level line,
 * since gnuplot refuses to draw nothing. */
static void write_spans(FILE *file, const struct digest *digest)
{
    (void)fprintf(file, "\"%s\"\n", digest->name);
    uint64_t used = digest->elapsed_ns / digest->span_ns;
    double seconds = (double)digest->span_ns / 1e9;
    for (uint64_t i = 0; i < used; i++) {
        (void)fprintf(file, "%.4f %.2f\n", ((double)i + 0.5) * seconds,
                      gb_report_mib_s(digest->spans[i], seconds));
    }
    if (used == 0) {
        double elapsed = (double)digest->elapsed_ns / 1e9;
        double mib_s = gb_report_mib_s(digest->spans[0], elapsed);
        (void)fprintf(file, "0 %.2f\n%.9f %.2f\n", mib_s, elapsed, mib_s);
    }
    (void)fprintf(file, "\n\n");
}

static int write_data(const struct gb_report *report, const struct digests *digests,
                      struct goblin_error *error)
{
    static const struct {
        const char *name;
        const char *columns;
        void (*write)(FILE *file, const struct digest *digest);
    } files[] = {
        {"latency_cdf.dat", "us, share of requests up to it", write_distributions},
        {"first_last.dat", "first byte us, last byte us (a sample)", write_samples},
        {"throughput.dat", "seconds of storage time, MiB/s", write_spans},
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        FILE *file = gb_report_create(report, files[i].name, error);
        if (file == NULL) {
            return -EIO;
        }
        (void)fprintf(file, "# %s\n", files[i].columns);
        for (size_t e = 0; e < digests->count; e++) {
            files[i].write(file, digests->items[e]);
        }
        int result = gb_report_finish(report, file, files[i].name, error);
        if (result < 0) {
            return result;
        }
    }
    return (int)digests->count;
}

int gb_report_reads_data(const struct gb_report *report, struct goblin_error *error)
{
    struct digests digests = {.count = 0};
    gb_rng_init(&digests.rng, 1);
    int result = digest_reads(&digests, report->reads_path, error);
    if (result == 0) {
        result = write_data(report, &digests, error);
    }
    for (size_t i = 0; i < digests.count; i++) {
        free(digests.items[i]);
    }
    return result;
}
