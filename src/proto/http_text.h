/*
 * The small grammar that all of HTTP's fields share (RFC 9110, 5.5 and 5.6): pieces of text that
 * lie in somebody else's buffer, lists parted by commas, tokens, quoted strings, whole numbers.
 *
 * A text whose `at` is NULL is an absent field; one of length 0 a field without a value.
 * Threads: pure functions, any thread. Nothing is allocated, nothing is kept.
 */
#ifndef GB_PROTO_HTTP_TEXT_H
#define GB_PROTO_HTTP_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct gb_http_text {
    const char *at;
    size_t len;
};

#define GB_HTTP_TEXT(literal) ((struct gb_http_text){(literal), sizeof(literal) - 1})

/* A C string, which may be NULL. */
static inline struct gb_http_text gb_http_text_of(const char *text)
{
    return (struct gb_http_text){text, text == NULL ? 0 : strlen(text)};
}

/* ASCII letters only, whatever the locale. */
static inline char gb_http_text_lower(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return (char)(c - 'A' + 'a');
    }
    return c;
}

/* tchar: what names, methods and tokens are made of. */
bool gb_http_text_is_token(struct gb_http_text text);

/* Byte for byte; ASCII letters in either case. */
bool gb_http_text_equal(struct gb_http_text a, struct gb_http_text b);
bool gb_http_text_same_name(struct gb_http_text a, struct gb_http_text b);

/* Without spaces and tabs at either end. */
struct gb_http_text gb_http_text_trim(struct gb_http_text text);

/* The next element of a list parted by commas: trimmed, never empty (empty elements are passed
 * over, RFC 9110, 5.6.1.2). A comma inside a quoted string parts nothing. `*rest` is moved on.
 * Returns false at the end. */
bool gb_http_text_next(struct gb_http_text *rest, struct gb_http_text *element);

/* Digits only, at least one. Returns 0; -EINVAL for anything else; -ERANGE, with *out UINT64_MAX,
 * for a number that does not fit. */
int gb_http_text_number(struct gb_http_text text, uint64_t *out);

#endif
