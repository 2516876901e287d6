/*
 * Sizes, rates, durations and counts as people write them.
 *
 * Parsing is strict: the whole text must be one number and one known unit, with nothing around or
 * between them but at most one space; a value that does not fit is -ERANGE, anything else wrong is
 * -EINVAL, and *out is then untouched. Decimal fractions are exact: 1.5K is 1536, and a fraction of
 * the smallest unit (1.5B, 0.3ns) is -EINVAL rather than rounded. Letters may be in either case.
 * Formatting always terminates, and returns its buffer so that it can stand inside a printf.
 */
#ifndef GB_BASE_UNITS_H
#define GB_BASE_UNITS_H

#include <stddef.h>
#include <stdint.h>

/* Room enough for every format below. */
enum { GB_UNITS_TEXT = 32 };

/* "0", "512", "512B", "64K", "64KB", "64KiB", "1.5M", "4GiB", "2T", "1P": binary multiples all.
 * Units: bytes. */
int gb_units_parse_size(const char *text, uint64_t *out_bytes);

/* "937mbit", "10gbit", "100kbit", "1.5gbit/s", "1tbit", "9600bit", a bare number too: decimal
 * multiples, as network people count. Units: bits per second. */
int gb_units_parse_rate(const char *text, uint64_t *out_bits_per_second);

/* "250ns", "40us", "5ms", "30s", "10m" (or "10min"), "2h", "1d", "1w"; "0" alone needs no unit, any
 * other number does. Units: nanoseconds. */
int gb_units_parse_duration(const char *text, uint64_t *out_ns);

/* A plain decimal count, with an optional decimal multiple: "250", "10k", "2M", "1.5G". */
int gb_units_parse_count(const char *text, uint64_t *out);

/* A finite number such as a scale or an exponent ("0.125"), within [least, most]. */
int gb_units_parse_real(const char *text, double least, double most, double *out);

/* "512 B", "26.3 KiB", "62.1 GiB": three significant figures or the whole part. */
const char *gb_units_format_size(char *text, size_t text_bytes, uint64_t size_bytes);

/* As short as it can be and still parse to the same number of bytes: "4G", "1536K", "1000". */
const char *gb_units_format_size_exact(char *text, size_t text_bytes, uint64_t size_bytes);

/* "937 Mbit/s". */
const char *gb_units_format_rate(char *text, size_t text_bytes, uint64_t bits_per_second);

/* "12.9 us", "5 ms", "2.5 s", "1m 05s", "2h 03m", "3d 04h". */
const char *gb_units_format_duration(char *text, size_t text_bytes, uint64_t duration_ns);

/* "6,141,630". */
const char *gb_units_format_count(char *text, size_t text_bytes, uint64_t count);

#endif
