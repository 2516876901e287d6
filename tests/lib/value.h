/*
 * Values that say whose they are: the bytes of a value, and of its metadata, follow from the number
 * of its key and the number of the write that made it. Tests keep the write's number in the flags,
 * so whoever reads an object can tell every foreign, stale or mixed byte without a table.
 */
#ifndef GB_TEST_VALUE_H
#define GB_TEST_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes [offset, offset + len) of the value. */
void value_fill(void *to, uint64_t offset, size_t len, uint32_t key, uint32_t write);
bool value_holds(const void *bytes, uint64_t offset, size_t len, uint32_t key, uint32_t write);

/* The same for metadata. */
void value_fill_meta(void *to, size_t len, uint32_t key, uint32_t write);
bool value_meta_holds(const void *bytes, size_t len, uint32_t key, uint32_t write);

#endif
