/* C libraries loaded at run time: see dynlib.h. */
#include "bench/dynlib.h"
#include "bench/explain.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static void *dynlib_load(const struct gb_dynlib *dynlib, const char *path,
                         struct goblin_error *error)
{
    const char *const given[] = {path, NULL};
    const char *const *candidates = path ? given : dynlib->files;
    for (size_t i = 0; candidates[i]; i++) {
        void *library = dlopen(candidates[i], RTLD_NOW | RTLD_LOCAL);
        if (library) {
            return library;
        }
        gb_explain_set(error, "no %s: %s; install %s or name a library with %s PATH", dynlib->what,
                       dlerror(), dynlib->package, dynlib->flag);
    }
    return NULL;
}

int gb_dynlib_open(const struct gb_dynlib *dynlib, const char *path, void **library, void *table,
                   struct goblin_error *error)
{
    *library = dynlib_load(dynlib, path, error);
    if (!*library) {
        return -ENOENT;
    }
    for (const struct gb_dynlib_symbol *symbol = dynlib->symbols; symbol->name; symbol++) {
        void *address = dlsym(*library, symbol->name);
        if (!address) {
            gb_explain_set(error, "the %s library lacks %s; %s is needed", dynlib->what,
                           symbol->name, dynlib->needs);
            dlclose(*library);
            *library = NULL;
            return -ENOSYS;
        }
        /* ISO C knows no conversion from an object pointer to a function pointer; POSIX promises
         * that the bytes are the same. */
        memcpy((char *)table + symbol->offset, &address, sizeof(address));
    }
    return 0;
}
