/* Parsing and printing of sizes, rates, durations and counts; tables of units over one number
 * reader. */
#include "base/units.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bits.h"

#define MEGA UINT64_C(1000000)
#define GIGA UINT64_C(1000000000)

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit size_units[] = {
    {"", 1},
    {"b", 1},
    {"k", GB_KIB},
    {"kb", GB_KIB},
    {"kib", GB_KIB},
    {"m", GB_MIB},
    {"mb", GB_MIB},
    {"mib", GB_MIB},
    {"g", GB_GIB},
    {"gb", GB_GIB},
    {"gib", GB_GIB},
    {"t", 1024 * GB_GIB},
    {"tb", 1024 * GB_GIB},
    {"tib", 1024 * GB_GIB},
    {"p", GB_GIB * 1024 * 1024},
    {"pb", GB_GIB * 1024 * 1024},
    {"pib", GB_GIB * 1024 * 1024},
    {NULL, 0},
};

static const struct unit rate_units[] = {
    {"", 1},   {"bit", 1}, {"kbit", 1000}, {"mbit", MEGA}, {"gbit", GIGA}, {"tbit", 1000 * GIGA},
    {NULL, 0},
};

static const struct unit duration_units[] = {
    {"ns", 1},           {"us", 1000},
    {"ms", MEGA},        {"s", GIGA},
    {"sec", GIGA},       {"m", 60 * GIGA},
    {"min", 60 * GIGA},  {"h", 3600 * GIGA},
    {"d", 86400 * GIGA}, {"w", GIGA * 7 * 86400},
    {NULL, 0},
};

static const struct unit count_units[] = {
    {"", 1}, {"k", 1000}, {"m", MEGA}, {"g", GIGA}, {NULL, 0},
};

/* A decimal number in two parts, so that 0.1 loses nothing on its way to an integer. */
struct decimal {
    uint64_t whole;
    uint64_t fraction; /* over `scale` */
    uint64_t scale;    /* a power of ten */
};

enum { FRACTION_DIGITS = 9 };

__extension__ typedef unsigned __int128 wide;

/* Reads digits[.digits]. Returns where it stopped, or NULL with errno in *fault. */
static const char *parse_decimal(const char *text, struct decimal *out, int *fault)
{
    *out = (struct decimal){.scale = 1};
    *fault = -EINVAL;
    if (!isdigit((unsigned char)*text)) {
        return NULL;
    }
    for (; isdigit((unsigned char)*text); text++) {
        uint64_t digit = (uint64_t)(*text - '0');
        if (__builtin_mul_overflow(out->whole, 10, &out->whole) ||
            __builtin_add_overflow(out->whole, digit, &out->whole)) {
            *fault = -ERANGE;
            return NULL;
        }
    }
    if (*text != '.') {
        return text;
    }
    text++;
    if (!isdigit((unsigned char)*text)) {
        return NULL;
    }
    int digits = 0;
    for (; isdigit((unsigned char)*text); text++) {
        if (*text == '0' && strspn(text, "0") == strspn(text, "0123456789")) {
            text += strspn(text, "0");
            break;
        }
        if (++digits > FRACTION_DIGITS) {
            return NULL;
        }
        out->fraction = out->fraction * 10 + (uint64_t)(*text - '0');
        out->scale *= 10;
    }
    return text;
}

static const struct unit *find_unit(const struct unit *units, const char *name, size_t len)
{
    for (; units->name != NULL; units++) {
        if (strlen(units->name) == len && strncasecmp(units->name, name, len) == 0) {
            return units;
        }
    }
    return NULL;
}

static int multiply(const struct decimal *number, uint64_t factor, uint64_t *out)
{
    uint64_t whole;
    if (__builtin_mul_overflow(number->whole, factor, &whole)) {
        return -ERANGE;
    }
    wide product = (wide)number->fraction * factor;
    if (product % number->scale != 0) {
        return -EINVAL;
    }
    if (__builtin_add_overflow(whole, (uint64_t)(product / number->scale), &whole)) {
        return -ERANGE;
    }
    *out = whole;
    return 0;
}

static int parse(const char *text, const struct unit *units, const char *suffix, uint64_t *out)
{
    struct decimal number;
    int fault;
    const char *rest = parse_decimal(text, &number, &fault);
    if (rest == NULL) {
        return fault;
    }
    if (*rest == ' ' && rest[1] != '\0') {
        rest++;
    }
    size_t len = strlen(rest);
    size_t suffix_len = strlen(suffix);
    if (suffix_len != 0 && len > suffix_len && strcasecmp(rest + len - suffix_len, suffix) == 0) {
        len -= suffix_len;
    }
    const struct unit *unit = find_unit(units, rest, len);
    if (unit == NULL) {
        return -EINVAL;
    }
    return multiply(&number, unit->factor, out);
}

int gb_units_parse_size(const char *text, uint64_t *out_bytes)
{
    return parse(text, size_units, "", out_bytes);
}

int gb_units_parse_rate(const char *text, uint64_t *out_bits_per_second)
{
    return parse(text, rate_units, "/s", out_bits_per_second);
}

int gb_units_parse_duration(const char *text, uint64_t *out_ns)
{
    if (strcmp(text, "0") == 0) {
        *out_ns = 0;
        return 0;
    }
    return parse(text, duration_units, "", out_ns);
}

int gb_units_parse_count(const char *text, uint64_t *out)
{
    return parse(text, count_units, "", out);
}

int gb_units_parse_real(const char *text, double least, double most, double *out)
{
    if (*text == '\0' || isspace((unsigned char)*text)) {
        return -EINVAL;
    }
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (*end != '\0' || isnan(value)) {
        return -EINVAL;
    }
    if (errno == ERANGE || value < least || value > most) {
        return -ERANGE;
    }
    *out = value;
    return 0;
}

/* Three significant figures, but never fewer than the whole part. */
static void print_scaled(char *text, size_t text_bytes, double value, const char *unit)
{
    int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    char number[GB_UNITS_TEXT];
    (void)snprintf(number, sizeof(number), "%.*f", digits, value);
    if (digits > 0) {
        size_t len = strlen(number);
        while (number[len - 1] == '0') {
            number[--len] = '\0';
        }
        if (number[len - 1] == '.') {
            number[len - 1] = '\0';
        }
    }
    (void)snprintf(text, text_bytes, "%s %s", number, unit);
}

const char *gb_units_format_size(char *text, size_t text_bytes, uint64_t size_bytes)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t step = 0;
    double value = (double)size_bytes;
    while (value >= 1023.5 && step + 1 < sizeof(names) / sizeof(names[0])) {
        value /= 1024;
        step++;
    }
    print_scaled(text, text_bytes, value, names[step]);
    return text;
}

const char *gb_units_format_size_exact(char *text, size_t text_bytes, uint64_t size_bytes)
{
    static const char *const names[] = {"", "K", "M", "G", "T", "P"};
    size_t step = 0;
    while (size_bytes != 0 && size_bytes % 1024 == 0 &&
           step + 1 < sizeof(names) / sizeof(names[0])) {
        size_bytes /= 1024;
        step++;
    }
    (void)snprintf(text, text_bytes, "%llu%s", (unsigned long long)size_bytes, names[step]);
    return text;
}

const char *gb_units_format_rate(char *text, size_t text_bytes, uint64_t bits_per_second)
{
    static const char *const names[] = {"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"};
    size_t step = 0;
    double value = (double)bits_per_second;
    while (value >= 999.5 && step + 1 < sizeof(names) / sizeof(names[0])) {
        value /= 1000;
        step++;
    }
    print_scaled(text, text_bytes, value, names[step]);
    return text;
}

const char *gb_units_format_duration(char *text, size_t text_bytes, uint64_t duration_ns)
{
    uint64_t seconds = duration_ns / 1000000000;
    if (duration_ns < 1000) {
        print_scaled(text, text_bytes, (double)duration_ns, "ns");
    } else if (duration_ns < 999500) {
        print_scaled(text, text_bytes, (double)duration_ns / 1e3, "us");
    } else if (duration_ns < 999500000) {
        print_scaled(text, text_bytes, (double)duration_ns / 1e6, "ms");
    } else if (seconds < 60) {
        print_scaled(text, text_bytes, (double)duration_ns / 1e9, "s");
    } else if (seconds < 3600) {
        (void)snprintf(text, text_bytes, "%um %02us", (unsigned)(seconds / 60),
                       (unsigned)(seconds % 60));
    } else if (seconds < 86400) {
        (void)snprintf(text, text_bytes, "%uh %02um", (unsigned)(seconds / 3600),
                       (unsigned)(seconds / 60 % 60));
    } else {
        (void)snprintf(text, text_bytes, "%llud %02uh", (unsigned long long)(seconds / 86400),
                       (unsigned)(seconds / 3600 % 24));
    }
    return text;
}

const char *gb_units_format_count(char *text, size_t text_bytes, uint64_t count)
{
    char digits[GB_UNITS_TEXT];
    int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count);
    size_t used = 0;
    for (int i = 0; i < len && used + 1 < text_bytes; i++) {
        if (i > 0 && (len - i) % 3 == 0 && used + 2 < text_bytes) {
            text[used++] = ',';
        }
        text[used++] = digits[i];
    }
    if (text_bytes > 0) {
        text[used] = '\0';
    }
    return text;
}
