/*
 * What a shared cache may do with a response (RFC 9111; stale-while-revalidate and stale-if-error
 * are RFC 5861's; must-understand is RFC 9111's; immutable is RFC 8246's): may it be stored, how
 * long is it fresh, how old is it, may it be used now.
 *
 * Where a field breaks its grammar the cautious reading counts: an age that is no number is 0, a
 * Vary that cannot be read is `*`, an Expires that is no date lies in the past. Of a directive that
 * comes twice the first one counts, and directives that contradict each other all bind.
 *
 * Units: seconds; times since 1970-01-01 UTC. Threads: pure functions, any thread.
 */
#ifndef GB_PROTO_CACHE_CONTROL_H
#define GB_PROTO_CACHE_CONTROL_H

#include "proto/http_text.h"

/* An age or a time that a field does not give. */
#define GB_CACHE_CONTROL_ABSENT INT64_C(-1)

/* The greatest age: 2^31, as section 1.2.2 wants it. */
#define GB_CACHE_CONTROL_AGE_MAX INT64_C(2147483648)

/* How long at most a response is fresh that does not say for how long. */
#define GB_CACHE_CONTROL_HEURISTIC_MAX INT64_C(86400)

/* The directives of a request or a response. */
struct gb_cache_control {
    bool no_store;
    bool no_cache; /* also with names of fields, as section 5.2.2.4 allows */
    bool no_transform;
    bool only_if_cached;
    bool must_revalidate;
    bool must_understand;
    bool proxy_revalidate;
    bool is_private; /* also with names of fields */
    bool is_public;
    bool immutable;
    int64_t max_age_s; /* GB_CACHE_CONTROL_ABSENT if it is not there; so are those below */
    int64_t s_maxage_s;
    int64_t max_stale_s; /* without a number: GB_CACHE_CONTROL_AGE_MAX */
    int64_t min_fresh_s;
    int64_t stale_if_error_s;
    int64_t stale_while_revalidate_s;
};

void gb_cache_control_init(struct gb_cache_control *control);

/* Adds the directives of one Cache-Control line. Unknown ones are passed over. */
void gb_cache_control_add(struct gb_cache_control *control, struct gb_http_text field);

/* What matters of a response that was received. */
struct gb_cache_response {
    struct gb_cache_control control;
    int status;
    bool vary_all;       /* Vary: * */
    bool authorized;     /* its request had an Authorization field */
    int64_t date_s;      /* Date, or ABSENT: then when it was received */
    int64_t expires_s;   /* Expires, or ABSENT; 0 for one that is no date */
    int64_t modified_s;  /* Last-Modified, or ABSENT */
    int64_t age_s;       /* Age, or ABSENT */
    int64_t requested_s; /* when its request was sent, by this cache's clock */
    int64_t received_s;  /* when its header came */
};

/* Age's value; a list, or anything else that is no number, is ABSENT. */
int64_t gb_cache_control_age_field(struct gb_http_text field);

/* Whether a shared cache may store it, as the answer to a GET with these directives (section 3).
 * Partial answers, answers to conditions (206, 304) and `Vary: *` are not stored: allowed, but of
 * no use here. */
bool gb_cache_control_may_store(const struct gb_cache_response *response,
                                const struct gb_cache_control *request);

/* For how long after it was made it is fresh in a shared cache (4.2.1): s-maxage, max-age, Expires,
 * or a tenth of its age since it was modified where that is allowed (4.2.2). Never negative. */
int64_t gb_cache_control_lifetime(const struct gb_cache_response *response);

/* How old it is at `now_s` (4.2.3). Never negative. */
int64_t gb_cache_control_age(const struct gb_cache_response *response, int64_t now_s);

enum gb_cache_use {
    GB_CACHE_FRESH,      /* answer with it */
    GB_CACHE_BEHIND,     /* answer with it, and validate it behind the client's back */
    GB_CACHE_VALIDATE,   /* ask the origin first */
    GB_CACHE_IMPOSSIBLE, /* 504: only-if-cached, and it may not be used as it is */
};

/* What to do with a stored response at `now_s` for a request with these directives (4, 4.2.4). */
enum gb_cache_use gb_cache_control_use(const struct gb_cache_response *response,
                                       const struct gb_cache_control *request, int64_t now_s);

/* Whether it may stand in when the origin cannot be reached or answers 500, 502, 503 or 504: with
 * stale-if-error of either side, as long as nothing forbids stale answers. */
bool gb_cache_control_use_on_error(const struct gb_cache_response *response,
                                   const struct gb_cache_control *request, int64_t now_s);

/* ---- Vary ------------------------------------------------------------------------------------ */

enum { GB_CACHE_VARY_NAMES_MAX = 16 };

/* Line number `number` (from 0) of a request's field of that name, or an absent text behind the
 * last one. */
typedef struct gb_http_text (*gb_cache_field_fn)(void *arg, struct gb_http_text name,
                                                 size_t number);

/* Writes what tells the variants of a response apart, for the fields that its Vary names: for each
 * name, in order of the names,
 *
 *     name in lower case ':' its lines joined by ',' without blanks around commas '\n'
 *
 * and `name` '\n' alone for a field that the request lacks. So equal texts mean that the same
 * variant is chosen (4.1). Returns the number of bytes; -EINVAL for `*`, for what is no list of
 * names and for more than GB_CACHE_VARY_NAMES_MAX: no other request matches such a response;
 * -ENAMETOOLONG if `size` is too small. */
int64_t gb_cache_control_vary_key(struct gb_http_text vary, gb_cache_field_fn field, void *arg,
                                  char *out, size_t size);

#endif
