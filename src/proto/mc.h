/*
 * The memcached protocol, text and meta, as data: what a request is, and its limits.
 *
 * Written after memcached's doc/protocol.txt (1.6) and, where that is silent, after what
 * memcached 1.6.18 answers. What this room makes of bytes is in proto/mc_parse.h, what it makes of
 * answers in proto/mc_write.h. Texts are borrowed from whoever gave the bytes.
 *
 * Units: seconds for the times in a request, as the client gave them (see gb_mc_expiry_ms).
 */
#ifndef GB_PROTO_MC_H
#define GB_PROTO_MC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GB_MC_KEY_MAX = 250,
    GB_MC_OPAQUE_MAX = 32,  /* its letter O included */
    GB_MC_LINE_MAX = 2048,  /* of a command, its end included; get, gets, gat, gats: no limit */
    GB_MC_WORDS_MAX = 23,   /* what follows is not looked at */
    GB_MC_OPTIONS_MAX = 17, /* flags of a meta command */
};

/* The longest value that memcached's numbers can announce. */
#define GB_MC_VALUE_MAX (UINT64_C(2147483647) - 2)

struct gb_mc_text {
    const char *data;
    size_t len;
};

/* A string literal as a text, its length taken by the compiler. */
#define GB_MC_LITERAL(literal) ((struct gb_mc_text){(literal), sizeof(literal) - 1})

/* X(name, word, least, most): how many words a line of it has, itself included; a line with another
 * number is no command. In the order of how often they come. */
#define GB_MC_VERBS(X)                                                                             \
    X(GET, "get", 2, GB_MC_WORDS_MAX)                                                              \
    X(SET, "set", 5, 6)                                                                            \
    X(MG, "mg", 2, GB_MC_WORDS_MAX)                                                                \
    X(MS, "ms", 2, GB_MC_WORDS_MAX)                                                                \
    X(GETS, "gets", 2, GB_MC_WORDS_MAX)                                                            \
    X(GAT, "gat", 2, GB_MC_WORDS_MAX)                                                              \
    X(GATS, "gats", 2, GB_MC_WORDS_MAX)                                                            \
    X(MN, "mn", 1, GB_MC_WORDS_MAX)                                                                \
    X(MD, "md", 2, GB_MC_WORDS_MAX)                                                                \
    X(MA, "ma", 2, GB_MC_WORDS_MAX)                                                                \
    X(ME, "me", 1, GB_MC_WORDS_MAX)                                                                \
    X(ADD, "add", 5, 6)                                                                            \
    X(REPLACE, "replace", 5, 6)                                                                    \
    X(APPEND, "append", 5, 6)                                                                      \
    X(PREPEND, "prepend", 5, 6)                                                                    \
    X(CAS, "cas", 6, 7)                                                                            \
    X(TOUCH, "touch", 3, 4)                                                                        \
    X(DELETE, "delete", 2, 4)                                                                      \
    X(INCR, "incr", 3, 4)                                                                          \
    X(DECR, "decr", 3, 4)                                                                          \
    X(FLUSH_ALL, "flush_all", 1, 3)                                                                \
    X(VERSION, "version", 1, GB_MC_WORDS_MAX)                                                      \
    X(STATS, "stats", 1, GB_MC_WORDS_MAX)                                                          \
    X(VERBOSITY, "verbosity", 2, 3)                                                                \
    X(QUIT, "quit", 1, GB_MC_WORDS_MAX)                                                            \
    X(WATCH, "watch", 1, GB_MC_WORDS_MAX)                                                          \
    X(LRU_CRAWLER, "lru_crawler", 1, GB_MC_WORDS_MAX)                                              \
    X(CACHE_MEMLIMIT, "cache_memlimit", 2, 3)                                                      \
    X(SLABS, "slabs", 1, GB_MC_WORDS_MAX)                                                          \
    X(SHUTDOWN, "shutdown", 1, GB_MC_WORDS_MAX)                                                    \
    X(REFRESH_CERTS, "refresh_certs", 1, GB_MC_WORDS_MAX)                                          \
    X(DEBUGTIME, "debugtime", 2, GB_MC_WORDS_MAX)

enum gb_mc_verb {
#define GB_X(name, word, least, most) GB_MC_##name,
    GB_MC_VERBS(GB_X)
#undef GB_X
};

/* The letter of a meta command's flag as a bit of `given`. */
#define GB_MC_FLAG(letter) (UINT64_C(1) << ((unsigned)(letter)&63))

struct gb_mc_request {
    enum gb_mc_verb verb;
    bool noreply;        /* text: no answer at all; meta (q): none to what went as it should */
    bool key_binary;     /* the key was given in base64 (b) */
    char mode;           /* M of ms: S E A P R; of ma: I D; 0 for other verbs */
    unsigned char words; /* of the line, its verb included */
    unsigned char options;
    char order[GB_MC_OPTIONS_MAX]; /* the letters of a meta command, as they came */
    uint32_t client_flags;         /* text, F */
    uint64_t given;                /* GB_MC_FLAG of each of them */
    struct gb_mc_text key;         /* decoded */
    struct gb_mc_text opaque;      /* of O, with its letter */
    struct gb_mc_text rest;        /* what follows the verb, of verbs without a key */
    int64_t exptime_s;             /* text, T; of flush_all the delay */
    int64_t vivify_s;              /* N */
    int64_t recache_s;             /* R */
    uint64_t size;                 /* of the value that follows */
    uint64_t cas;                  /* cas, C */
    uint64_t new_cas;              /* E */
    uint64_t delta;                /* incr, decr, D */
    uint64_t initial;              /* J */
};

static inline bool gb_mc_has(const struct gb_mc_request *request, char letter)
{
    return (request->given & GB_MC_FLAG(letter)) != 0;
}

/* A value follows the line. */
static inline bool gb_mc_stores(enum gb_mc_verb verb)
{
    return verb == GB_MC_SET || verb == GB_MC_MS || (verb >= GB_MC_ADD && verb <= GB_MC_CAS);
}

static inline bool gb_mc_is(struct gb_mc_text text, const char *word)
{
    size_t len = __builtin_strlen(word);
    return text.len == len && __builtin_memcmp(text.data, word, len) == 0;
}

/* Cuts the next word off *rest; of length 0 after the last. */
struct gb_mc_text gb_mc_next_word(struct gb_mc_text *rest);

/* Decimal numbers, the whole text of them: -EINVAL for anything else, -ERANGE for what does not
 * fit. A sign may stand before a signed one, a plus before any. */
int gb_mc_read_unsigned(struct gb_mc_text text, uint64_t most, uint64_t *out);
int gb_mc_read_signed(struct gb_mc_text text, int64_t *out);

/* When an object expires, in the engine's terms: milliseconds since 1970, 0 for never. Up to 30
 * days a time counts from now, beyond it is a date; a negative one is past. */
int64_t gb_mc_expiry_ms(int64_t exptime_s, int64_t now_ms);

/* Whole seconds left, rounded up, -1 for ever. */
int64_t gb_mc_left_s(int64_t expires_ms, int64_t now_ms);

/* The name of a verb. Static. */
const char *gb_mc_verb_name(enum gb_mc_verb verb);

#endif
