/*
 * The head of an origin's answer, and what of it is kept with the object.
 *
 * A head is a block of field lines, each ended by a line feed, as an origin sent them but for the
 * bytes that no line may have (gb_origin_head_add). What a cache must know of it is worked out once
 * (gb_origin_head_read); what is kept of it becomes metadata (gb_origin_head_keep, http_meta.h),
 * from which gb_origin_head_kept tells later how old the object is and how long it was good for.
 *
 * An object's age needs no clock of its own: it is kept for so many seconds from its birth, so its
 * birth is its expiry less those seconds. An origin that says that nothing has changed (304) makes
 * it as young again as that answer by a new expiry alone.
 *
 * Units: seconds since 1970-01-01 UTC where a name ends in _s.
 * Threads: pure functions, any thread. Nothing is allocated; texts lie in the block, or in the
 * metadata.
 */
#ifndef GB_PROTO_ORIGIN_HEAD_H
#define GB_PROTO_ORIGIN_HEAD_H

#include "proto/cache_control.h"
#include "proto/http_meta.h"

enum {
    /* Longer entity tags are as good as none. */
    GB_ORIGIN_HEAD_ETAG_MAX = 200,
    /* Of what tells variants apart; longer means that the answer is not kept. */
    GB_ORIGIN_HEAD_VARIANT_MAX = 1024,
    /* How long a stale object is kept that could be validated. */
    GB_ORIGIN_HEAD_KEEP_S = 604800,
};

#define GB_ORIGIN_HEAD_LENGTH_UNKNOWN UINT64_MAX

struct gb_origin_head {
    struct gb_http_text lines; /* as given */
    struct gb_cache_response cache;
    uint64_t length; /* of the body */
    struct gb_http_text etag;
    struct gb_http_text vary; /* the first of its lines; vary_lines more may follow */
    unsigned vary_lines;
    bool has_cache_control;
    bool sets_cookie;
    bool has_range; /* Content-Range */
    bool bad;       /* a length that is none, or two that differ */
};

/* Appends a line, with its end, to a block: what is to stand at `out`. Control characters become
 * blanks (RFC 9110, 5.5), or metadata would not give back what was read of the line. */
void gb_origin_head_add(char *out, const char *line, size_t len);

/* The next line of a block. Lines without a colon, and folded ones, are passed over. */
bool gb_origin_head_next(struct gb_http_text *lines, struct gb_http_text *name,
                         struct gb_http_text *value);

/* What `lines`, the answer to a request sent at `requested_s`, say. */
void gb_origin_head_read(struct gb_origin_head *head, int status, struct gb_http_text lines,
                         int64_t requested_s, int64_t received_s);

/* Whether the answer to a request with these directives, of which no field told who asked unless
 * `authorized` says so, may be kept: RFC 9111's rules, and of what they allow only whole answers
 * with status 200 that set no cookie. */
bool gb_origin_head_may_keep(const struct gb_origin_head *head,
                             const struct gb_cache_control *request);

/* Whether it may also be given to others who asked for the same at the same time: what may be kept,
 * and answers of other statuses that do not say that they are for one alone. */
bool gb_origin_head_may_share(const struct gb_origin_head *head,
                              const struct gb_cache_control *request);

/* Whether a field of an answer is passed on: not what is about one connection (RFC 9110, 7.6.1),
 * with `lines` for what Connection names, nor what this server says itself. */
bool gb_origin_head_passes(struct gb_http_text lines, struct gb_http_text name);

/* ---- what is kept ---------------------------------------------------------------------------- */

/* The birth of the answer: `now` less its age then. */
int64_t gb_origin_head_birth_s(const struct gb_origin_head *head);

/* How long from its birth on it is of use: fresh, stale within what the origin grants, and with a
 * validator a while longer. */
int64_t gb_origin_head_kept_s(const struct gb_origin_head *head);

/* Writes the metadata: what is kept of the answer, and the variant that it is (absent: it has
 * none). False: it does not fit. */
bool gb_origin_head_keep(const struct gb_origin_head *head, struct gb_http_text variant,
                         struct gb_http_meta_writer *writer);

/* Writes the metadata of what stands at a key whose object depends on these fields. */
bool gb_origin_head_keep_vary(struct gb_http_text vary, struct gb_http_meta_writer *writer);

/* What was kept. */
struct gb_origin_kept {
    bool is_object; /* it came from an origin */
    bool is_vary;   /* which object is meant depends on `vary` */
    bool has_expires;
    int64_t birth_s;
    int64_t kept_s;
    int64_t lifetime_s;
    int64_t modified_ms;
    struct gb_http_text etag;
    struct gb_http_text vary;
    struct gb_http_text variant;
    struct gb_http_text cache_control;
    struct gb_cache_response cache; /* for gb_cache_control_use */
};

/* Reads metadata. `expires_ms` is the object's; one that never expires has been meddled with, and
 * counts as stale. Somebody else's metadata is neither object nor vary. */
void gb_origin_head_kept(struct gb_origin_kept *kept, const void *meta, size_t len,
                         int64_t expires_ms);

/* An origin has answered 304 about what was kept. Whether a new expiry says all that this changes:
 * true, with the expiry; false: what was kept says something else than `head` now, and is to be
 * written anew with gb_origin_head_renew. */
bool gb_origin_head_same(const struct gb_origin_head *head, const struct gb_origin_kept *kept,
                         int64_t *expires_ms);

/* Writes the metadata of what was kept as `head`, a 304, changes it. `meta` is what was kept.
 * False: it does not fit. */
bool gb_origin_head_renew(const struct gb_origin_head *head, struct gb_http_text meta,
                          const struct gb_origin_kept *kept, struct gb_http_meta_writer *writer,
                          int64_t *expires_ms);

/* ---- what is asked --------------------------------------------------------------------------- */

/* Whether a field of a request is sent to the origin: those by which it may choose a variant. */
bool gb_origin_head_asks(struct gb_http_text name);

/* Whether a Via field names this server. */
bool gb_origin_head_names(struct gb_http_text via, struct gb_http_text name);

/* What tells variants apart (cache_control.h), with the fields of `lines`. Returns its length, or a
 * fault: no variant can be told. */
int64_t gb_origin_head_variant(struct gb_http_text vary, struct gb_http_text lines, char *out,
                               size_t size);

#endif
