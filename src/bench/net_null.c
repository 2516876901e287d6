/* A server that only knows its RAM: see net_null.h. */
#include "bench/net_null.h"

#include "base/bits.h"
#include "bench/explain.h"
#include "bench/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REQUEST_MAX = 8192, PIECE_BYTES = 256 << 10, BACKLOG = 16 };

/* ---- the header ---------------------------------------------------------------------------- */

static int listen_or_connect(const struct gb_net_server *server, bool listens)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(server->port)};
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    bool good = inet_pton(AF_INET, gb_net_server_host(server), &address.sin_addr) == 1;
    if (listens) {
        good = good && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
               bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
               listen(fd, BACKLOG) == 0;
    } else {
        good = good && connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
    }
    if (!good) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    return fd;
}

static bool send_all(int fd, const void *data, size_t len, int flags)
{
    const char *at = data;
    while (len > 0) {
        ssize_t sent = send(fd, at, len, MSG_NOSIGNAL | flags);
        if (sent < 0 && errno != EINTR) {
            return false;
        }
        at += sent > 0 ? sent : 0;
        len -= sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

/* Reads up to the empty line; `text` is terminated behind it. False: it did not come. */
static bool read_header(int fd, const char *request, char text[GB_NET_NULL_HEADER_MAX])
{
    size_t len = 0;
    if (!send_all(fd, request, strlen(request), 0)) {
        return false;
    }
    while (len < GB_NET_NULL_HEADER_MAX - 1) {
        ssize_t got = recv(fd, text + len, GB_NET_NULL_HEADER_MAX - 1 - len, 0);
        if (got <= 0) {
            return false;
        }
        len += (size_t)got;
        text[len] = '\0';
        char *end = strstr(text, "\r\n\r\n");
        if (end) {
            end[4] = '\0';
            return true;
        }
    }
    return false;
}

/* Cuts the header around the number of its Content-Length. */
static bool take_header(struct gb_net_null *null, char *text)
{
    static const char name[] = "\r\nContent-Length:";
    char *found = strcasestr(text, name);
    if (!found || strncmp(text, "HTTP/1.1 200", 12) != 0) {
        return false;
    }
    char *number = found + sizeof(name) - 1;
    number += strspn(number, " ");
    snprintf(null->before, sizeof(null->before), "%.*s", (int)(number - text), text);
    snprintf(null->after, sizeof(null->after), "%s", number + strspn(number, "0123456789"));
    return true;
}

int gb_net_null_init(struct gb_net_null *null, const struct gb_net_set *set,
                     const struct gb_net_server *server, struct goblin_error *error)
{
    char plain[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    char text[GB_NET_NULL_HEADER_MAX];
    char request[GB_CORPUS_KEY_MAX + 64];
    char key[GB_CORPUS_KEY_MAX];
    null->set = set;
    if (!server) {
        (void)take_header(null, plain);
        return 0;
    }
    int len = (int)gb_corpus_key(&set->corpus, 0, key);
    snprintf(request, sizeof(request), "GET /%.*s HTTP/1.1\r\nHost: %s\r\n\r\n", len, key,
             gb_net_server_host(server));
    int fd = listen_or_connect(server, false);
    if (fd < 0) {
        gb_explain_set(error, "%s: %s", server->name, strerror(-fd));
        return fd;
    }
    bool good = read_header(fd, request, text) && take_header(null, text);
    close(fd);
    if (!good) {
        gb_explain_set(error, "%s: no header to take over", server->name);
    }
    return good ? 0 : -EPROTO;
}

/* ---- serving ------------------------------------------------------------------------------- */

/* The objects in the order of their keys. */
struct table {
    const struct gb_net_null *null;
    struct gb_payload_window window;
    struct entry {
        char key[24];
        uint32_t object;
    } * entries;
};

static int compare_entries(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->key, ((const struct entry *)b)->key);
}

static int make_table(struct table *table, const struct gb_net_null *null)
{
    const struct gb_corpus *corpus = &null->set->corpus;
    table->null = null;
    table->entries = calloc(corpus->count, sizeof(*table->entries));
    if (!table->entries) {
        return -ENOMEM;
    }
    for (uint64_t i = 0; i < corpus->count; i++) {
        char key[GB_CORPUS_KEY_MAX];
        size_t len = gb_corpus_key(corpus, i, key);
        table->entries[i].object = (uint32_t)i;
        snprintf(table->entries[i].key, sizeof(table->entries[i].key), "%.*s", (int)len, key);
    }
    qsort(table->entries, corpus->count, sizeof(*table->entries), compare_entries);
    return gb_payload_window_open(&table->window, &null->set->payload);
}

static bool send_object(struct table *table, int fd, uint64_t object)
{
    const struct gb_net_null *null = table->null;
    uint64_t size = null->set->corpus.sizes[object];
    char header[2 * GB_NET_NULL_HEADER_MAX + 32];
    int len = snprintf(header, sizeof(header), "%s%llu%s", null->before, (unsigned long long)size,
                       null->after);
    bool good = send_all(fd, header, (size_t)len, size > 0 ? MSG_MORE : 0);
    for (uint64_t done = 0; done < size && good; done += gb_min(size - done, PIECE_BYTES)) {
        uint64_t piece = gb_min(size - done, PIECE_BYTES);
        good = send_all(fd, gb_payload_window_prepare(&table->window, object, size, done, piece),
                        (size_t)piece, done + piece < size ? MSG_MORE : 0);
    }
    return good;
}

static bool answer(struct table *table, int fd, const char *request)
{
    static const char missing[] = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    struct entry wanted = {.object = 0};
    if (strncmp(request, "GET /", 5) == 0) {
        size_t len = strcspn(request + 5, " ");
        snprintf(wanted.key, sizeof(wanted.key), "%.*s", (int)len, request + 5);
    }
    const struct entry *found = bsearch(&wanted, table->entries, table->null->set->corpus.count,
                                        sizeof(wanted), compare_entries);
    return found ? send_object(table, fd, found->object)
                 : send_all(fd, missing, sizeof(missing) - 1, 0);
}

/* Until the client has had enough. Requests without bodies, pipelined or not. */
static void serve_connection(struct table *table, int fd)
{
    char text[REQUEST_MAX];
    size_t len = 0;
    bool good = true;
    while (good && len < sizeof(text) - 1) {
        ssize_t got = recv(fd, text + len, sizeof(text) - 1 - len, 0);
        good = got > 0;
        len += got > 0 ? (size_t)got : 0;
        text[len] = '\0';
        for (char *end = strstr(text, "\r\n\r\n"); end && good; end = strstr(text, "\r\n\r\n")) {
            good = answer(table, fd, text);
            len -= (size_t)(end + 4 - text);
            memmove(text, end + 4, len + 1);
        }
    }
}

int gb_net_null_serve(const struct gb_net_server *server, const void *arg)
{
    struct table table;
    const int on = 1;
    int rc = make_table(&table, arg);
    int listener = rc < 0 ? rc : listen_or_connect(server, true);
    if (listener < 0) {
        fprintf(stderr, "%s\n", strerror(-listener));
        return 1;
    }
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd >= 0) {
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
            serve_connection(&table, fd);
            close(fd);
        } else if (errno != EINTR && errno != ECONNABORTED) {
            fprintf(stderr, "accept: %s\n", strerror(errno));
            return 1;
        }
    }
}
