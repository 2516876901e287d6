/*
 * C libraries loaded at run time into tables of functions, so that the bench links none of what it
 * measures and any build of it can be named.
 */
#ifndef GB_BENCH_DYNLIB_H
#define GB_BENCH_DYNLIB_H

#include <stddef.h>

#include "goblin/error.h"

struct gb_dynlib_symbol {
    const char *name;
    size_t offset; /* of the function pointer in the table */
};

struct gb_dynlib {
    const char *what;         /* "RocksDB" */
    const char *package;      /* that brings it */
    const char *flag;         /* that names another build */
    const char *needs;        /* what to say when a symbol is missing: "7.8 or newer" */
    const char *const *files; /* that the dynamic linker is asked for in turn; ended by NULL */
    const struct gb_dynlib_symbol *symbols; /* ended by a NULL name */
};

/* Loads the library at `path`, or with NULL the first of its files, and fills `table`.
 * Owns: *library is for dlclose. Errors: -ENOENT (no library), -ENOSYS (one that lacks a symbol),
 * explained. */
int gb_dynlib_open(const struct gb_dynlib *dynlib, const char *path, void **library, void *table,
                   struct goblin_error *error);

#endif
