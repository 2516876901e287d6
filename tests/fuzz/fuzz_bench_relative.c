/* Results of kv and db_bench: either reader takes any bytes, and what it accepts makes a table. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "bench/relative.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct gb_relative_table table;

static void check(const struct gb_relative_rows *rows)
{
    static const char *const sources[] = {"fuzz"};
    struct goblin_error error;
    for (size_t i = 0; i < rows->count; i++) {
        const struct gb_relative_row *row = &rows->items[i];
        GB_ASSERT(isfinite(row->qps) && row->qps >= 0);
        GB_ASSERT(memchr(row->engine, '\0', sizeof(row->engine)) != NULL);
        GB_ASSERT(memchr(row->version, '\0', sizeof(row->version)) != NULL);
        GB_ASSERT(memchr(row->step, '\0', sizeof(row->step)) != NULL && row->step[0] != '\0');
    }
    if (rows->count > 0 && gb_relative_table(&table, rows, NULL, NULL, sources, &error) == 0) {
        GB_ASSERT(gb_relative_ratio(&table, 0, table.base).known ||
                  table.cells[0][table.base].count == 0 || table.cells[0][table.base].median <= 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct goblin_error error;
    struct gb_relative_rows rows = {0};
    (void)gb_relative_json((const char *)data, size, 0, &rows, &error);
    check(&rows);
    gb_relative_rows_fini(&rows);
    (void)gb_relative_dbbench((const char *)data, size, "fuzz", 0, &rows, &error);
    check(&rows);
    gb_relative_rows_fini(&rows);
    return 0;
}
