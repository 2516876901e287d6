/* The verbs' questions to a server. */
#include "cli/remote.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/client.h"
#include "cli/sink.h"
#include "cli/stream.h"

#define TARGET_BYTES (3u * GOBLIN_KEY_MAX + 2u)
#define FIELDS_BYTES 512u
#define FIELD_BYTES  256u
#define PIECE_BYTES  65536u
#define PAGE_MOST    (16u << 20) /* a page of a list is about a megabyte */

const struct gb_option gb_remote_options[] = {
    {.name = "server",
     .kind = GB_OPTION_TEXT,
     .offset = offsetof(struct gb_remote_settings, server),
     .value = "ADDRESS",
     .help = "ask the server that serves HTTP at HOST:PORT or /SOCKET"},
    {.name = "token-file",
     .kind = GB_OPTION_TEXT,
     .offset = offsetof(struct gb_remote_settings, token_file),
     .value = "FILE",
     .help = "whose first line is the token that the server wants"},
    {0},
};

enum gb_exit gb_remote_refuse(const char *verb, const char *option)
{
    return gb_say(GB_EXIT_USAGE, "%s: --%s is for a store that is opened, not for --server", verb,
                  option);
}

/* ---- one exchange -------------------------------------------------------------------------- */

struct exchange {
    struct gb_client client;
    struct goblin_slice key;
    char target[TARGET_BYTES];
};

/* Writes bytes as they stand in a path or a query, the first `escaped` of them as %HH in any case,
 * and a NUL. Returns the end. */
static char *write_escaped(char *out, struct goblin_slice key, size_t escaped)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_~/";
    static const char digits[] = "0123456789ABCDEF";
    const unsigned char *bytes = key.data;
    for (size_t i = 0; i < key.len; i++) {
        if (i >= escaped && bytes[i] != '\0' && strchr(plain, bytes[i]) != NULL) {
            *out++ = (char)bytes[i];
        } else {
            *out++ = '%';
            *out++ = digits[bytes[i] >> 4];
            *out++ = digits[bytes[i] & 15];
        }
    }
    *out = '\0';
    return out;
}

static enum gb_exit say_fault(const struct goblin_error *error, int fault)
{
    return gb_say(fault == GOBLIN_EOPTION ? GB_EXIT_USAGE : GB_EXIT_FAULT, "%s", error->text);
}

/* NULL when a fault has been said, with its code. */
static struct exchange *open_exchange(const struct gb_remote_settings *remote,
                                      struct goblin_slice key, enum gb_exit *code)
{
    struct goblin_error error;
    struct exchange *exchange = malloc(sizeof(*exchange));
    if (exchange == NULL) {
        *code = gb_say(GB_EXIT_FAULT, "%s", goblin_strerror(-ENOMEM));
        return NULL;
    }
    exchange->key = key;
    exchange->target[0] = '/';
    /* So that it is none of the server's own paths. */
    (void)write_escaped(exchange->target + 1, key, 1);
    int result = gb_client_open(&exchange->client, remote->server, remote->token_file, &error);
    if (result < 0) {
        free(exchange);
        *code = say_fault(&error, result);
        return NULL;
    }
    return exchange;
}

static void close_exchange(struct exchange *exchange)
{
    gb_client_close(&exchange->client);
    free(exchange);
}

static enum gb_exit say_status(const struct exchange *exchange, int status)
{
    char text[GB_TEXT_KEY];
    (void)gb_text_format_key(text, exchange->key, false);
    switch (status) {
    case 404:
        return gb_say(GB_EXIT_MISS, "'%s': no such object", text);
    case 412:
        return gb_say(GB_EXIT_MISS, "'%s': not stored: the condition does not hold", text);
    case 416:
        return gb_say(GB_EXIT_MISS, "'%s': no byte is in the range", text);
    default:
        return gb_say(GB_EXIT_FAULT, "'%s': the server answers %d%s", text, status,
                      status == 401 || status == 403 ? ": give a token that may, with --token-file"
                                                     : "");
    }
}

/* Asks without a body. The status, or -1 when a fault has been said, with its code. */
static int ask(struct exchange *exchange, const char *method, const char *fields,
               enum gb_exit *code)
{
    struct goblin_error error;
    int result = gb_client_ask(&exchange->client, method, exchange->target, fields, &error);
    if (result >= 0) {
        result = gb_client_answer(&exchange->client, &error);
    }
    if (result < 0) {
        *code = say_fault(&error, GOBLIN_OK);
    }
    return result;
}

/* ---- get ----------------------------------------------------------------------------------- */

static void write_range(char out[FIELDS_BYTES], const struct gb_text_range *range)
{
    out[0] = '\0';
    if (range == NULL) {
        return;
    }
    if (range->suffix) {
        (void)snprintf(out, FIELDS_BYTES, "Range: bytes=-%" PRIu64 "\r\n", range->last);
    } else if (range->last == UINT64_MAX) {
        (void)snprintf(out, FIELDS_BYTES, "Range: bytes=%" PRIu64 "-\r\n", range->first);
    } else {
        (void)snprintf(out, FIELDS_BYTES, "Range: bytes=%" PRIu64 "-%" PRIu64 "\r\n", range->first,
                       range->last);
    }
}

static enum gb_exit receive_value(struct exchange *exchange, const char *output)
{
    struct goblin_error error = {{0}};
    struct gb_sink sink;
    unsigned char piece[PIECE_BYTES];
    ssize_t n = 0;
    gb_sink_init(&sink, output);
    int fault = gb_sink_open(&sink);
    while (fault == 0 &&
           (n = gb_client_read(&exchange->client, piece, sizeof(piece), &error)) > 0) {
        fault = gb_sink_write(&sink, piece, (size_t)n);
    }
    int close_fault = gb_sink_close(&sink, fault == 0 && n == 0);
    fault = fault != 0 ? fault : close_fault;
    if (fault == -EPIPE) {
        return GB_EXIT_OK; /* the reader of the pipe has seen enough */
    }
    if (fault != 0) {
        return gb_say(GB_EXIT_FAULT, "%s: %s", gb_sink_name(&sink), strerror(-fault));
    }
    return n < 0 ? say_fault(&error, GOBLIN_OK) : GB_EXIT_OK;
}

enum gb_exit gb_remote_get(const struct gb_remote_settings *remote, struct goblin_slice key,
                           const struct gb_text_range *range, const char *output)
{
    char fields[FIELDS_BYTES];
    enum gb_exit code = GB_EXIT_OK;
    struct exchange *exchange = open_exchange(remote, key, &code);
    if (exchange == NULL) {
        return code;
    }
    write_range(fields, range);
    int status = ask(exchange, "GET", fields, &code);
    if (status == (range == NULL ? 200 : 206)) {
        code = receive_value(exchange, output);
    } else if (status >= 0) {
        code = say_status(exchange, status);
    }
    close_exchange(exchange);
    return code;
}

/* ---- put ----------------------------------------------------------------------------------- */

static void write_put_fields(char out[FIELDS_BYTES], const struct gb_remote_put *put, uint64_t size)
{
    static const char *const durabilities[] = {"", "Goblin-Durability: written\r\n",
                                               "Goblin-Durability: synced\r\n"};
    char ttl[64] = "";
    char length[64] = "Transfer-Encoding: chunked\r\n";
    if (put->ttl_ms != 0) {
        (void)snprintf(ttl, sizeof(ttl), "Goblin-TTL: %" PRId64 "\r\n", (put->ttl_ms + 999) / 1000);
    }
    if (size != GOBLIN_SIZE_UNKNOWN) {
        (void)snprintf(length, sizeof(length), "Content-Length: %" PRIu64 "\r\n", size);
    }
    (void)snprintf(out, FIELDS_BYTES, "%s%s%s%s%s", length, ttl, durabilities[put->durability],
                   put->if_absent ? "If-None-Match: *\r\n" : "",
                   put->if_present ? "If-Match: *\r\n" : "");
}

/* One piece as a chunk of its own, or as it is. */
static int send_piece(struct gb_client *client, const void *piece, size_t len, bool chunked)
{
    char head[32];
    int head_len = snprintf(head, sizeof(head), "%zx\r\n", len);
    int result = chunked ? gb_client_send(client, head, (size_t)head_len) : GOBLIN_OK;
    if (result >= 0) {
        result = gb_client_send(client, piece, len);
    }
    return result >= 0 && chunked ? gb_client_send(client, "\r\n", 2) : result;
}

/* Sends what the source has. Returns 0, or the negative errno of reading in *source_fault. When the
 * server does not take it all, it has answered, or is gone: either way that is seen next. */
static void send_value(struct gb_client *client, const struct gb_remote_put *put, uint64_t size,
                       int *source_fault)
{
    unsigned char piece[PIECE_BYTES];
    const bool chunked = size == GOBLIN_SIZE_UNKNOWN;
    uint64_t left = size;
    int result = GOBLIN_OK;
    while (result >= 0 && left > 0) {
        size_t len = left < sizeof(piece) ? (size_t)left : sizeof(piece);
        size_t got = 0;
        *source_fault = gb_stream_read(put->fd, piece, len, &got);
        if (*source_fault == 0 && got < len && !chunked) {
            *source_fault = GOBLIN_ESIZE; /* it has become shorter */
        }
        if (*source_fault != 0 || got == 0) {
            break;
        }
        result = send_piece(client, piece, got, chunked);
        left -= chunked ? 0 : got;
    }
    if (chunked && result >= 0 && *source_fault == 0) {
        (void)gb_client_send(client, "0\r\n\r\n", 5);
    }
}

enum gb_exit gb_remote_put(const struct gb_remote_settings *remote, struct goblin_slice key,
                           const struct gb_remote_put *put)
{
    char fields[FIELDS_BYTES];
    struct goblin_error error;
    enum gb_exit code = GB_EXIT_OK;
    struct exchange *exchange = open_exchange(remote, key, &code);
    if (exchange == NULL) {
        return code;
    }
    const uint64_t size = gb_stream_size(put->fd);
    int source_fault = 0;
    write_put_fields(fields, put, size);
    int result = gb_client_ask(&exchange->client, "PUT", exchange->target, fields, &error);
    if (result >= 0) {
        send_value(&exchange->client, put, size, &source_fault);
        result = source_fault != 0 ? GOBLIN_OK : gb_client_answer(&exchange->client, &error);
    }
    if (source_fault != 0) {
        code = gb_say(GB_EXIT_FAULT, "%s: %s", put->path, goblin_strerror(source_fault));
    } else if (result < 0) {
        code = say_fault(&error, GOBLIN_OK);
    } else if (result != 201 && result != 204) {
        code = say_status(exchange, result);
    }
    close_exchange(exchange);
    return code;
}

/* ---- rm, stat ------------------------------------------------------------------------------ */

enum gb_exit gb_remote_rm(const struct gb_remote_settings *remote, struct goblin_slice key)
{
    enum gb_exit code = GB_EXIT_OK;
    struct exchange *exchange = open_exchange(remote, key, &code);
    if (exchange == NULL) {
        return code;
    }
    int status = ask(exchange, "DELETE", "", &code);
    if (status >= 0 && status != 204) {
        code = say_status(exchange, status);
    }
    close_exchange(exchange);
    return code;
}

enum gb_exit gb_remote_stat(const struct gb_remote_settings *remote, struct goblin_slice key)
{
    static const struct {
        const char *name;
        const char *label;
        const char *otherwise; /* NULL: the line is left out */
    } fields[] = {
        {"Content-Length", "size", "unknown"}, {"ETag", "tag", NULL},
        {"Last-Modified", "modified", NULL},   {"Expires", "expires", "never"},
        {"Content-Type", "type", NULL},
    };
    char text[GB_TEXT_KEY];
    enum gb_exit code = GB_EXIT_OK;
    struct exchange *exchange = open_exchange(remote, key, &code);
    if (exchange == NULL) {
        return code;
    }
    int status = ask(exchange, "HEAD", "", &code);
    if (status >= 0 && status != 200) {
        code = say_status(exchange, status);
    } else if (status == 200) {
        (void)printf("key       %s\n", gb_text_format_key(text, key, false));
        for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
            char value[FIELD_BYTES];
            bool there = gb_client_field(&exchange->client, fields[i].name, value, sizeof(value));
            if (there || fields[i].otherwise != NULL) {
                (void)printf("%-9s %s\n", fields[i].label, there ? value : fields[i].otherwise);
            }
        }
    }
    close_exchange(exchange);
    return code;
}

/* ---- ls ------------------------------------------------------------------------------------ */

static int nibble(char digit)
{
    return digit >= '0' && digit <= '9'   ? digit - '0'
           : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
           : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                                          : -1;
}

/* The escaped key from behind its opening quote to its closing one. Returns its length; -EPROTO. */
static int read_escaped(const char *text, unsigned char out[GOBLIN_KEY_MAX])
{
    int len = 0;
    while (*text != '"') {
        int high = *text == '%' ? nibble(text[1]) : 0;
        int low = *text == '%' && high >= 0 ? nibble(text[2]) : 0;
        if (*text == '\0' || high < 0 || low < 0 || len == GOBLIN_KEY_MAX) {
            return -EPROTO;
        }
        out[len++] = *text == '%' ? (unsigned char)(high << 4 | low) : (unsigned char)*text;
        text += *text == '%' ? 3 : 1;
    }
    return len;
}

struct list {
    const struct gb_remote_settings *remote;
    struct goblin_slice prefix;
    int (*on_key)(void *arg, struct goblin_slice key);
    void *arg;
    unsigned char after[GOBLIN_KEY_MAX]; /* the key that the next page begins behind */
    size_t after_len;                    /* 0: the first page */
};

/* The keys of a page. In JSON a quote within a text is escaped, so that "path":" is nothing else.
 * Returns 1 if another page follows, 0 at the end or when enough was taken, or -EPROTO. */
static int take_page(struct list *list, const char *page)
{
    static const char path[] = "\"path\":\"";
    static const char next[] = "\"next\":\"";
    unsigned char key[GOBLIN_KEY_MAX];
    int len;
    for (const char *at = page; (at = strstr(at, path)) != NULL;) {
        at += sizeof(path) - 1;
        len = read_escaped(at, key);
        if (len <= 0) {
            return -EPROTO;
        }
        if (list->on_key(list->arg, (struct goblin_slice){key, (size_t)len}) != 0) {
            return 0;
        }
    }
    const char *follows = strstr(page, next);
    if (follows == NULL) {
        return strncmp(page, "{\"objects\":[", 12) == 0 ? 0 : -EPROTO;
    }
    len = read_escaped(follows + sizeof(next) - 1, list->after);
    if (len <= 0) {
        return -EPROTO;
    }
    list->after_len = (size_t)len;
    return 1;
}

static enum gb_exit ask_page(struct list *list, int *more)
{
    struct goblin_error error;
    char target[2 * TARGET_BYTES + 32];
    char *page;
    char *end = write_escaped(stpcpy(target, "/?prefix="), list->prefix, 0);
    if (list->after_len > 0) {
        end = stpcpy(end, "&after=");
        (void)write_escaped(end, (struct goblin_slice){list->after, list->after_len}, 0);
    }
    int result = gb_client_fetch(&page, list->remote->server, list->remote->token_file, target,
                                 PAGE_MOST, &error);
    if (result < 0) {
        return say_fault(&error, GOBLIN_OK);
    }
    *more = take_page(list, page);
    free(page);
    return *more < 0 ? gb_say(GB_EXIT_FAULT, "%s: this is no list of keys", list->remote->server)
                     : GB_EXIT_OK;
}

enum gb_exit gb_remote_ls(const struct gb_remote_settings *remote, struct goblin_slice prefix,
                          int (*on_key)(void *arg, struct goblin_slice key), void *arg)
{
    struct list list = {.remote = remote, .prefix = prefix, .on_key = on_key, .arg = arg};
    enum gb_exit code = GB_EXIT_OK;
    int more = 1;
    while (code == GB_EXIT_OK && more > 0) {
        code = ask_page(&list, &more);
    }
    return code;
}
