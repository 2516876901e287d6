/* What the writers of a report share: files in its directory and figures made of its fields. */
#ifndef GB_BENCH_REPORT_PARTS_H
#define GB_BENCH_REPORT_PARTS_H

#include <stdio.h>

#include "base/json.h"
#include "bench/report.h"

/* Creates <directory>/<name>; NULL with a text if that fails. */
FILE *gb_report_create(const struct gb_report *report, const char *name,
                       struct goblin_error *error);

/* Closes it. Errors: -EIO with a text. */
int gb_report_finish(const struct gb_report *report, FILE *file, const char *name,
                     struct goblin_error *error);

/* The member "machine": kernel, processors, memory, the file system of `directory`. */
void gb_report_machine(struct gb_json *json, const char *directory);

/* The member "versions": the compiler, and pairs name, value, ended by NULL. */
void gb_report_versions(struct gb_json *json, const char *const *versions);

double gb_report_mib_s(uint64_t bytes, double seconds); /* 0 for no time */

/* Latency distributions, first against last bytes, and throughput from reads.csv into
 * latency_cdf.dat, first_last.dat and throughput.dat. Returns the number of engines found. */
int gb_report_reads_data(const struct gb_report *report, struct goblin_error *error);

#endif
