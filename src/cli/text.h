/*
 * Keys, ranges and times as the command line reads and prints them.
 *
 * A key is any bytes. As text, what is printable UTF-8 stands for itself, and a backslash and all
 * other bytes are written \xNN, so that a line is always one key; --hex reads and prints pure hex,
 * which is the form to feed back.
 */
#ifndef GB_CLI_TEXT_H
#define GB_CLI_TEXT_H

#include <stdbool.h>
#include <stdio.h>

#include <goblin/goblin.h>

#include "base/json.h"

/* Room for a key in any form. */
#define GB_TEXT_KEY  (4u * GOBLIN_KEY_MAX + 1u)
#define GB_TEXT_TIME 32u

/* The key that an argument names. With `hex` the bytes go to `storage`, else they stay in `text`.
 * Returns GOBLIN_OK, or GOBLIN_EOPTION with `error` filled. */
int gb_text_parse_key(const char *text, bool hex, unsigned char storage[GOBLIN_KEY_MAX],
                      struct goblin_slice *key, struct goblin_error *error);

/* Returns `out`. */
const char *gb_text_format_key(char out[GB_TEXT_KEY], struct goblin_slice key, bool hex);

/* The member "key", or "key_hex" for a key that is not UTF-8. */
void gb_text_json_key(struct gb_json *json, struct goblin_slice key);

/* An object: its key and every member of the info. */
void gb_text_json_info(struct gb_json *json, struct goblin_slice key,
                       const struct goblin_info *info);

struct gb_text_range {
    uint64_t first;
    uint64_t last; /* inclusive; UINT64_MAX: to the end */
    bool suffix;   /* the last `last` bytes, `first` unused */
};

/* "A-B" (both inclusive, as in HTTP), "A-", "-N" (the last N bytes); sizes may have units. */
int gb_text_parse_range(const char *text, struct gb_text_range *range, struct goblin_error *error);

/* Milliseconds since 1970 as "2026-01-31T12:00:00.000Z", 0 as "never". Returns `out`. */
const char *gb_text_format_time(char out[GB_TEXT_TIME], int64_t time_ms);

/* Now, in milliseconds since 1970. */
int64_t gb_text_now_ms(void);

#endif
