/*
 * A JSON writer to a FILE: commas, indentation and escaping are its business, nesting is checked.
 *
 * Inside an object every value call takes the member's name; inside an array and at the top the
 * name is NULL. Calls in a wrong order are programmer errors (GB_ASSERT). Write errors are kept by
 * the FILE and reported by gb_json_finish. A gb_json belongs to one thread.
 *
 *     struct gb_json json;
 *     gb_json_init(&json, stdout);
 *     gb_json_object(&json, NULL);
 *     gb_json_string(&json, "name", "goblin");
 *     gb_json_array(&json, "sizes");
 *     gb_json_unsigned(&json, NULL, 4096);
 *     gb_json_end(&json);
 *     gb_json_end(&json);
 *     int result = gb_json_finish(&json);
 */
#ifndef GB_BASE_JSON_H
#define GB_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { GB_JSON_DEPTH_MAX = 16 };

struct gb_json {
    FILE *file;   /* borrowed */
    bool compact; /* set after init for one line without spaces */
    bool done;    /* the top-level value is complete */
    int depth;
    struct {
        bool is_array;
        bool has_members;
    } levels[GB_JSON_DEPTH_MAX];
};

void gb_json_init(struct gb_json *json, FILE *file);

void gb_json_object(struct gb_json *json, const char *name); /* until the matching gb_json_end */
void gb_json_array(struct gb_json *json, const char *name);
void gb_json_end(struct gb_json *json);

/* Text that is not UTF-8 is written with U+FFFD for each byte that does not belong. */
void gb_json_string(struct gb_json *json, const char *name, const char *text);
void gb_json_string_len(struct gb_json *json, const char *name, const char *text, size_t len);
void gb_json_unsigned(struct gb_json *json, const char *name, uint64_t value);
void gb_json_signed(struct gb_json *json, const char *name, int64_t value);
/* Shortest of up to 17 digits that reads back equal; not-a-number and infinities become null. */
void gb_json_real(struct gb_json *json, const char *name, double value);
/* At most `digits` after the point, for figures whose further digits are noise. */
void gb_json_rounded(struct gb_json *json, const char *name, double value, int digits);
void gb_json_bool(struct gb_json *json, const char *name, bool value);
void gb_json_null(struct gb_json *json, const char *name);

/* Ends the document with a newline and flushes. Errors: -EIO if anything was not written. */
int gb_json_finish(struct gb_json *json);

#endif
