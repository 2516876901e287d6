/*
 * LMDB for small values: a B+tree in a memory map, one transaction for each put, nothing synced
 * (MDB_NOSYNC), which loses with the machine what RocksDB's log without sync loses. Its cache is
 * the page cache and nothing else, so in byrx nothing bounds its memory, and direct I/O it has
 * none.
 */
#include "bench/dynlib.h"
#include "bench/explain.h"
#include "bench/kv_engine.h"

#include "base/bits.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* struct MDB_val of lmdb.h. */
struct lmdb_value {
    size_t len;
    void *data;
};

/* X(result, name without mdb_, parameters...) */
#define LMDB_CALLS(X)                                                                              \
    X(char *, strerror, int code)                                                                  \
    X(char *, version, int *major, int *minor, int *patch)                                         \
    X(int, env_create, void **env)                                                                 \
    X(int, env_set_mapsize, void *env, size_t bytes)                                               \
    X(int, env_set_maxreaders, void *env, unsigned count)                                          \
    X(int, env_open, void *env, const char *path, unsigned flags, unsigned mode)                   \
    X(int, env_sync, void *env, int force)                                                         \
    X(void, env_close, void *env)                                                                  \
    X(int, txn_begin, void *env, void *parent, unsigned flags, void **txn)                         \
    X(int, txn_commit, void *txn)                                                                  \
    X(void, txn_abort, void *txn)                                                                  \
    X(void, txn_reset, void *txn)                                                                  \
    X(int, txn_renew, void *txn)                                                                   \
    X(int, dbi_open, void *txn, const char *name, unsigned flags, unsigned *dbi)                   \
    X(int, put, void *txn, unsigned dbi, struct lmdb_value *key, struct lmdb_value *value,         \
      unsigned flags)                                                                              \
    X(int, get, void *txn, unsigned dbi, struct lmdb_value *key, struct lmdb_value *value)         \
    X(int, cursor_open, void *txn, unsigned dbi, void **cursor)                                    \
    X(int, cursor_renew, void *txn, void *cursor)                                                  \
    X(int, cursor_get, void *cursor, struct lmdb_value *key, struct lmdb_value *value,             \
      unsigned operation)                                                                          \
    X(void, cursor_close, void *cursor)

/* Of lmdb.h. */
enum {
    ENV_NOSYNC = 0x10000,
    ENV_NOTLS = 0x200000,
    ENV_NORDAHEAD = 0x800000,
    TXN_RDONLY = 0x20000,
    CURSOR_LAST = 6,
    CURSOR_NEXT = 8,
    CURSOR_PREV = 12,
    CURSOR_SET_RANGE = 17,
    NOT_FOUND = -30798,
};

enum {
    MAP_FACTOR = 8, /* pages of puts that have no reader are used again; the rest is room */
    MAP_SPARE_BYTES = 256 << 20,
    READERS_SPARE = 8,
    FILE_MODE = 0644,
};

struct lmdb_calls {
#define GB_X(result, name, ...) result (*(name))(__VA_ARGS__);
    LMDB_CALLS(GB_X)
#undef GB_X
};

struct lmdb_kv {
    struct lmdb_calls calls;
    void *library;
    void *env;
    unsigned dbi;
};

/* A read transaction, renewed for every call. Belongs to one thread. */
struct session {
    struct lmdb_kv *lmdb;
    void *txn;
    void *cursor;
};

static int lmdb_load(struct lmdb_kv *lmdb, const char *path, struct goblin_error *error)
{
    static const char *const files[] = {"liblmdb.so.0", "liblmdb.so", NULL};
    static const struct gb_dynlib_symbol symbols[] = {
#define GB_X(result, name, ...) {"mdb_" #name, offsetof(struct lmdb_calls, name)},
        LMDB_CALLS(GB_X)
#undef GB_X
            {NULL, 0},
    };
    static const struct gb_dynlib dynlib = {
        .what = "LMDB",
        .package = "liblmdb0",
        .flag = "--lmdb-lib",
        .needs = "version 0.9",
        .files = files,
        .symbols = symbols,
    };
    return gb_dynlib_open(&dynlib, path, &lmdb->library, &lmdb->calls, error);
}

static int kv_close(void *engine)
{
    struct lmdb_kv *lmdb = engine;
    if (lmdb->env) {
        lmdb->calls.env_close(lmdb->env);
    }
    if (lmdb->library) {
        dlclose(lmdb->library);
    }
    free(lmdb);
    return 0;
}

static int complain(const struct lmdb_kv *lmdb, const char *what, int code)
{
    fprintf(stderr, "lmdb: %s: %s\n", what, lmdb->calls.strerror(code));
    return -EIO;
}

static int open_table(struct lmdb_kv *lmdb)
{
    void *txn = NULL;
    int code = lmdb->calls.txn_begin(lmdb->env, NULL, 0, &txn);
    if (code != 0) {
        return code;
    }
    code = lmdb->calls.dbi_open(txn, NULL, 0, &lmdb->dbi);
    if (code != 0) {
        lmdb->calls.txn_abort(txn);
        return code;
    }
    return lmdb->calls.txn_commit(txn);
}

static int open_env(struct lmdb_kv *lmdb, const struct gb_kv_config *config)
{
    const struct lmdb_calls *calls = &lmdb->calls;
    uint64_t map = config->keys_most * (config->key_bytes + config->value_bytes) * MAP_FACTOR;
    int code = calls->env_create(&lmdb->env);
    if (code == 0) {
        code = calls->env_set_mapsize(lmdb->env, gb_align_up(map + MAP_SPARE_BYTES, GB_MIB));
    }
    if (code == 0) {
        code = calls->env_set_maxreaders(lmdb->env, config->threads + READERS_SPARE);
    }
    if (code == 0) {
        code = calls->env_open(lmdb->env, config->dir, ENV_NOSYNC | ENV_NOTLS | ENV_NORDAHEAD,
                               FILE_MODE);
    }
    return code != 0 ? code : open_table(lmdb);
}

static int kv_open(void **engine, const struct gb_kv_config *config, struct goblin_error *error)
{
    struct lmdb_kv *lmdb = calloc(1, sizeof(*lmdb));
    if (!lmdb) {
        gb_explain_set(error, "out of memory");
        return -ENOMEM;
    }
    int rc = lmdb_load(lmdb, config->library, error);
    int code = rc < 0 ? 0 : open_env(lmdb, config);
    if (code != 0) {
        gb_explain_set(error, "%s", lmdb->calls.strerror(code));
        rc = -EIO;
    }
    if (rc < 0) {
        kv_close(lmdb);
        return rc;
    }
    *engine = lmdb;
    return 0;
}

static void kv_detach(void *arg)
{
    struct session *session = arg;
    const struct lmdb_calls *calls = &session->lmdb->calls;
    if (session->cursor) {
        calls->cursor_close(session->cursor);
    }
    if (session->txn) {
        calls->txn_abort(session->txn);
    }
    free(session);
}

static int kv_attach(void *engine, void **out)
{
    struct lmdb_kv *lmdb = engine;
    struct session *session = calloc(1, sizeof(*session));
    if (!session) {
        return -ENOMEM;
    }
    session->lmdb = lmdb;
    int code = lmdb->calls.txn_begin(lmdb->env, NULL, TXN_RDONLY, &session->txn);
    if (code == 0) {
        code = lmdb->calls.cursor_open(session->txn, lmdb->dbi, &session->cursor);
    }
    if (code != 0) {
        kv_detach(session);
        return complain(lmdb, "session", code);
    }
    lmdb->calls.txn_reset(session->txn);
    *out = session;
    return 0;
}

static struct lmdb_value value_of(struct gb_kv_bytes bytes)
{
    return (struct lmdb_value){bytes.len, (void *)(uintptr_t)bytes.data};
}

static int kv_put(void *engine, struct gb_kv_bytes key, struct gb_kv_bytes value)
{
    struct lmdb_kv *lmdb = engine;
    struct lmdb_value name = value_of(key);
    struct lmdb_value bytes = value_of(value);
    void *txn = NULL;
    int code = lmdb->calls.txn_begin(lmdb->env, NULL, 0, &txn);
    if (code != 0) {
        return complain(lmdb, "put", code);
    }
    code = lmdb->calls.put(txn, lmdb->dbi, &name, &bytes, 0);
    if (code != 0) {
        lmdb->calls.txn_abort(txn);
        return complain(lmdb, "put", code);
    }
    code = lmdb->calls.txn_commit(txn);
    return code != 0 ? complain(lmdb, "put", code) : 0;
}

static int kv_get(void *arg, struct gb_kv_bytes key, gb_kv_entry_fn entry, void *entry_arg)
{
    struct session *session = arg;
    const struct lmdb_calls *calls = &session->lmdb->calls;
    struct lmdb_value name = value_of(key);
    struct lmdb_value value;
    int code = calls->txn_renew(session->txn);
    if (code != 0) {
        return complain(session->lmdb, "get", code);
    }
    code = calls->get(session->txn, session->lmdb->dbi, &name, &value);
    if (code == 0) {
        entry(entry_arg, key, (struct gb_kv_bytes){value.data, value.len});
    }
    calls->txn_reset(session->txn);
    if (code != 0 && code != NOT_FOUND) {
        return complain(session->lmdb, "get", code);
    }
    return code == 0;
}

/* To the first entry of the range; NOT_FOUND if there is none. */
static int seek(const struct session *session, const struct gb_kv_range *range,
                struct lmdb_value *key, struct lmdb_value *value)
{
    const struct lmdb_calls *calls = &session->lmdb->calls;
    *key = value_of(range->from);
    int code = calls->cursor_get(session->cursor, key, value, CURSOR_SET_RANGE);
    if (!range->reverse) {
        return code;
    }
    if (code == NOT_FOUND) {
        return calls->cursor_get(session->cursor, key, value, CURSOR_LAST);
    }
    if (code == 0 &&
        (key->len != range->from.len || memcmp(key->data, range->from.data, key->len) != 0)) {
        return calls->cursor_get(session->cursor, key, value, CURSOR_PREV);
    }
    return code;
}

static int kv_scan(void *arg, const struct gb_kv_range *range, gb_kv_entry_fn entry,
                   void *entry_arg)
{
    struct session *session = arg;
    const struct lmdb_calls *calls = &session->lmdb->calls;
    struct lmdb_value key;
    struct lmdb_value value;
    int found = 0;
    int code = calls->txn_renew(session->txn);
    if (code == 0) {
        code = calls->cursor_renew(session->txn, session->cursor);
    }
    if (code != 0) {
        return complain(session->lmdb, "range", code);
    }
    code = seek(session, range, &key, &value);
    while (code == 0) {
        entry(entry_arg, (struct gb_kv_bytes){key.data, key.len},
              (struct gb_kv_bytes){value.data, value.len});
        if (++found == (int)range->count) {
            break;
        }
        code = calls->cursor_get(session->cursor, &key, &value,
                                 range->reverse ? CURSOR_PREV : CURSOR_NEXT);
    }
    calls->txn_reset(session->txn);
    return code == 0 || code == NOT_FOUND ? found : complain(session->lmdb, "range", code);
}

static int kv_settle(void *engine, uint64_t until_ns, struct goblin_error *error)
{
    struct lmdb_kv *lmdb = engine;
    (void)until_ns;
    int code = lmdb->calls.env_sync(lmdb->env, 1);
    if (code != 0) {
        gb_explain_set(error, "sync: %s", lmdb->calls.strerror(code));
        return -EIO;
    }
    return 0;
}

static void kv_version(void *engine, char *text, size_t text_len)
{
    const struct lmdb_kv *lmdb = engine;
    int parts[3] = {0};
    (void)lmdb->calls.version(&parts[0], &parts[1], &parts[2]);
    snprintf(text, text_len, "%d.%d.%d", parts[0], parts[1], parts[2]);
}

const struct gb_kv_ops gb_kv_lmdb = {
    .name = "lmdb",
    .describe = "LMDB without sync: a tree in the page cache; no direct I/O",
    .open = kv_open,
    .close = kv_close,
    .attach = kv_attach,
    .detach = kv_detach,
    .put = kv_put,
    .get = kv_get,
    .scan = kv_scan,
    .settle = kv_settle,
    .version = kv_version,
};
