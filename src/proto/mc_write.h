/*
 * Answers of the memcached protocol, into a caller's buffer.
 *
 * Every writer writes from `to` on and returns the end; the caller has room for the constant that
 * stands with it, behind texts of his own for their length too. Nothing is terminated by a NUL.
 */
#ifndef GB_PROTO_MC_WRITE_H
#define GB_PROTO_MC_WRITE_H

#include "proto/mc.h"

enum {
    GB_MC_NUMBER_MAX = 20,
    GB_MC_VALUE_HEAD_MAX = 6 + GB_MC_KEY_MAX + 3 * (1 + GB_MC_NUMBER_MAX) + 2,
    GB_MC_META_HEAD_MAX = 2 + (1 + GB_MC_NUMBER_MAX) + 6 * (2 + GB_MC_NUMBER_MAX) +
                          (1 + GB_MC_OPAQUE_MAX) + (2 + GB_MC_KEY_MAX + 4 + 2) + 6 + 2,
    GB_MC_DEBUG_MAX = 3 + GB_MC_KEY_MAX + 4 + 128,
    GB_MC_DUMP_MAX = 4 + 3 * GB_MC_KEY_MAX + 128,
};

char *gb_mc_write_text(char *to, struct gb_mc_text text);
char *gb_mc_write_unsigned(char *to, uint64_t value);
char *gb_mc_write_signed(char *to, int64_t value);

/* A text and \r\n. */
char *gb_mc_write_line(char *to, struct gb_mc_text text);

/* "VALUE key flags size[ cas]\r\n"; the value and \r\n follow. */
char *gb_mc_write_value_head(char *to, struct gb_mc_text key, uint32_t flags, uint64_t size,
                             const uint64_t *cas);

/* "STAT name value\r\n" */
char *gb_mc_write_stat(char *to, struct gb_mc_text name, struct gb_mc_text value);
char *gb_mc_write_stat_unsigned(char *to, struct gb_mc_text name, uint64_t value);

/* What a meta answer may tell of an object. */
struct gb_mc_object {
    uint64_t size;
    uint64_t cas;
    int64_t left_s;        /* until it expires, -1: never */
    int64_t left_before_s; /* the same before T or N changed it: told to a t in front of them */
    uint64_t idle_s;
    uint32_t client_flags;
    bool fetched; /* before this request */
    bool won;     /* W: this client is to make the value anew */
    bool stale;   /* X */
    bool sent;    /* Z: another client is at it */
};

/* The first line of the answer to mg, ms, md, ma: `code` ("HD", "VA", "EN", "NF", "NS", "EX"), with
 * VA the size, then what the request's flags ask for, in their order. `object` NULL: there is none,
 * only O and k are answered. After VA the value and \r\n follow. */
char *gb_mc_write_meta(char *to, const struct gb_mc_request *request, const char code[2],
                       const struct gb_mc_object *object);

/* The answer to me. */
char *gb_mc_write_debug(char *to, const struct gb_mc_request *request,
                        const struct gb_mc_object *object);

/* A line of lru_crawler metadump; the key is percent-encoded where it must be. */
char *gb_mc_write_dump(char *to, struct gb_mc_text key, const struct gb_mc_object *object,
                       int64_t expires_s);

/* A key with what is not plain in it percent-encoded: at most three times its length. */
char *gb_mc_write_key_encoded(char *to, struct gb_mc_text key);

/* A line of lru_crawler mgdump, which a meta get could be; a key that is no text in base64. */
char *gb_mc_write_mgdump(char *to, struct gb_mc_text key);

#endif
