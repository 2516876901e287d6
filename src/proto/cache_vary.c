/* What tells the variants of a response apart: see cache_control.h. */
#include <errno.h>

#include "base/bits.h"
#include "proto/cache_control.h"

/* Where the key is written; `full` once something did not fit. */
struct writer {
    char *out;
    size_t size;
    size_t len;
    bool full;
};

static void put(struct writer *writer, char c)
{
    if (writer->len == writer->size) {
        writer->full = true;
        return;
    }
    writer->out[writer->len++] = c;
}

static int compare_names(struct gb_http_text a, struct gb_http_text b)
{
    size_t common = gb_min(a.len, b.len);
    for (size_t i = 0; i < common; i++) {
        int difference = gb_http_text_lower(a.at[i]) - gb_http_text_lower(b.at[i]);
        if (difference != 0) {
            return difference;
        }
    }
    return a.len < b.len ? -1 : a.len > b.len;
}

/* Puts the names of the list in order, each once. Returns their number or -EINVAL. */
static int collect_names(struct gb_http_text vary, struct gb_http_text *names)
{
    int count = 0;
    struct gb_http_text name;
    while (gb_http_text_next(&vary, &name)) {
        if (!gb_http_text_is_token(name) || gb_http_text_equal(name, GB_HTTP_TEXT("*"))) {
            return -EINVAL;
        }
        int place = count;
        int order = 1;
        while (place > 0 && (order = compare_names(names[place - 1], name)) > 0) {
            place--;
        }
        if (order == 0) {
            continue;
        }
        if (count == GB_CACHE_VARY_NAMES_MAX) {
            return -EINVAL;
        }
        memmove(&names[place + 1], &names[place], (size_t)(count - place) * sizeof(name));
        names[place] = name;
        count++;
    }
    return count;
}

/* One field of the request. Its lines are one list (RFC 9110, 5.3), and blanks around commas mean
 * nothing in any list. */
static void put_field(struct writer *writer, struct gb_http_text name, gb_cache_field_fn field,
                      void *arg)
{
    for (size_t i = 0; i < name.len; i++) {
        put(writer, gb_http_text_lower(name.at[i]));
    }
    size_t elements = 0;
    size_t number = 0;
    for (struct gb_http_text line = field(arg, name, 0); line.at != NULL;
         line = field(arg, name, ++number)) {
        struct gb_http_text element;
        while (gb_http_text_next(&line, &element)) {
            put(writer, elements++ == 0 ? ':' : ',');
            for (size_t i = 0; i < element.len; i++) {
                put(writer, element.at[i]);
            }
        }
    }
    if (number > 0 && elements == 0) {
        put(writer, ':'); /* there, and empty, is not the same as not there */
    }
    put(writer, '\n');
}

int64_t gb_cache_control_vary_key(struct gb_http_text vary, gb_cache_field_fn field, void *arg,
                                  char *out, size_t size)
{
    struct gb_http_text names[GB_CACHE_VARY_NAMES_MAX + 1];
    struct writer writer = {.size = size};
    writer.out = out;
    int count = collect_names(vary, names);
    for (int i = 0; i < count; i++) {
        put_field(&writer, names[i], field, arg);
    }
    return count < 0 ? count : writer.full ? -ENAMETOOLONG : (int64_t)writer.len;
}
