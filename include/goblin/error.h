/*
 * Error codes and answers of libgoblin.
 *
 * Every call that can fail returns an int. Negative is a fault: either a negated errno value
 * (-ENOSPC, -EIO, -ENOMEM, -EINVAL, -EBUSY ...) or one of the GOBLIN_E codes below, which lie
 * outside the errno range. Zero or positive is an answer (enum goblin_answer): a miss or a put
 * whose condition did not hold is an answer, never a fault.
 */
#ifndef GOBLIN_ERROR_H
#define GOBLIN_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, code, sentence) */
#define GOBLIN_ERRORS(X)                                                                           \
    X(GOBLIN_ENOTSTORE, -2001, "not a Goblin store")                                               \
    X(GOBLIN_EFORMAT, -2002, "the store was written by a format version this library cannot read") \
    X(GOBLIN_EIDENTITY, -2003, "the directory belongs to another store or another drive of it")    \
    X(GOBLIN_ECORRUPT, -2004, "stored bytes do not match their checksum")                          \
    X(GOBLIN_EKEY, -2005, "a key is 1 to 4096 bytes")                                              \
    X(GOBLIN_EMETA, -2006, "user metadata is at most 4096 bytes")                                  \
    X(GOBLIN_ETOOBIG, -2007, "the value is larger than this store can hold")                       \
    X(GOBLIN_ESIZE, -2008, "the writer was given another number of bytes than it announced")       \
    X(GOBLIN_EOPTION, -2009, "an option is out of range")                                          \
    X(GOBLIN_ECLOSED, -2010, "the store is closing")                                               \
    X(GOBLIN_ECANCELED, -2011, "the request was cancelled")                                        \
    X(GOBLIN_EDRIVE, -2012, "a drive of the store is missing")                                     \
    X(GOBLIN_EUNORDERED, -2013, "the store was opened without keys in order: `ordered` is off")    \
    X(GOBLIN_ESEGMENT, -2014, "a segment of the store cannot be read")

enum goblin_error_code {
#define GOBLIN_X(name, code, sentence) name = (code),
    GOBLIN_ERRORS(GOBLIN_X)
#undef GOBLIN_X
};

enum goblin_answer {
    GOBLIN_MISS = 0,    /* no such object (never stored, deleted, expired, evicted) */
    GOBLIN_OK = 1,      /* found, stored, deleted, done */
    GOBLIN_EXISTS = 2,  /* GOBLIN_IF_ABSENT, and an object is there */
    GOBLIN_CHANGED = 3, /* GOBLIN_IF_VERSION, and the object's version is another one */
};

/* A sentence for any code that a libgoblin call returns, without a final stop. Never NULL; the
 * text is static for GOBLIN_E codes and answers, and strerror()'s for errno values. Threads:
 * any. */
const char *goblin_strerror(int code);

/* Where set-up calls explain a fault, wrapped outside-in: "open store: /data/0: not a Goblin
 * store". Always terminated; empty after success. May be NULL in every call that takes one. */
struct goblin_error {
    char text[512];
};

#ifdef __cplusplus
}
#endif

#endif
