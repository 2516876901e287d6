/* Loads RocksDB's C API at run time. */
#include "bench/rocksdb_api.h"
#include "bench/explain.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int api_resolve(void *library, const char *symbol, void *function,
                       struct goblin_error *error)
{
    void *address = dlsym(library, symbol);
    if (!address) {
        gb_explain_set(error, "the RocksDB library lacks %s; 7.8 or newer is needed", symbol);
        return -ENOSYS;
    }
    /* ISO C knows no conversion from an object pointer to a function pointer; POSIX promises that
     * the bytes are the same. */
    memcpy(function, &address, sizeof(address));
    return 0;
}

static void *api_load(const char *path, struct goblin_error *error)
{
    static const char *const names[] = {"librocksdb.so.7.8", "librocksdb.so", NULL};
    const char *const given[] = {path, NULL};
    const char *const *candidates = path ? given : names;
    for (size_t i = 0; candidates[i]; i++) {
        void *library = dlopen(candidates[i], RTLD_NOW | RTLD_LOCAL);
        if (library) {
            return library;
        }
        gb_explain_set(error,
                       "no RocksDB: %s; install librocksdb-dev or name a library with "
                       "--rocksdb-lib PATH",
                       dlerror());
    }
    return NULL;
}

int gb_rocksdb_api_open(struct gb_rocksdb_api *api, const char *path, struct goblin_error *error)
{
    memset(api, 0, sizeof(*api));
    api->library = api_load(path, error);
    if (!api->library) {
        return -ENOENT;
    }
    int rc = 0;
#define GB_X(result, name, ...)                                                                    \
    if (rc == 0) {                                                                                 \
        rc = api_resolve(api->library, "rocksdb_" #name, &api->name, error);                       \
    }
    GB_ROCKSDB_SYMBOLS(GB_X)
#undef GB_X
    if (rc < 0) {
        gb_rocksdb_api_close(api);
    }
    return rc;
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
