/* Loads RocksDB's C API at run time. */
#include "bench/rocksdb_api.h"
#include "bench/dynlib.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int gb_rocksdb_api_open(struct gb_rocksdb_api *api, const char *path, struct goblin_error *error)
{
    static const char *const files[] = {"librocksdb.so.7.8", "librocksdb.so", NULL};
    static const struct gb_dynlib_symbol symbols[] = {
#define GB_X(result, name, ...) {"rocksdb_" #name, offsetof(struct gb_rocksdb_api, name)},
        GB_ROCKSDB_SYMBOLS(GB_X)
#undef GB_X
            {NULL, 0},
    };
    static const struct gb_dynlib dynlib = {
        .what = "RocksDB",
        .package = "librocksdb-dev",
        .flag = "--rocksdb-lib",
        .needs = "7.8 or newer",
        .files = files,
        .symbols = symbols,
    };
    memset(api, 0, sizeof(*api));
    return gb_dynlib_open(&dynlib, path, &api->library, api, error);
}

void gb_rocksdb_api_close(struct gb_rocksdb_api *api)
{
    if (api->library) {
        dlclose(api->library);
        api->library = NULL;
    }
}

void gb_rocksdb_api_file(const struct gb_rocksdb_api *api, char *path, size_t path_len)
{
    Dl_info info;
    void *address = NULL;
    memcpy(&address, &api->open, sizeof(address));
    path[0] = '\0';
    if (address && dladdr(address, &info) && info.dli_fname) {
        char *resolved = realpath(info.dli_fname, NULL);
        snprintf(path, path_len, "%s", resolved ? resolved : info.dli_fname);
        free(resolved);
    }
}
