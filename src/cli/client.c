/* The client: one request, one answer. */
#include "cli/client.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bits.h"
#include "cli/say.h"

#define SILENCE_S 30

static int explain(struct goblin_error *error, int fault, const char *what)
{
    (void)gb_say_explain(error, "%s: %s", what,
                         fault == -EAGAIN ? "the server is silent" : goblin_strerror(fault));
    return fault;
}

/* ---- connecting ---------------------------------------------------------------------------- */

static int connect_to(int family, const struct sockaddr *to, socklen_t len)
{
    const struct timeval silence = {.tv_sec = SILENCE_S};
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof(silence)) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &silence, sizeof(silence)) != 0 ||
        connect(fd, to, len) != 0) {
        int fault = -errno;
        (void)close(fd);
        return fault;
    }
    return fd;
}

static int connect_unix(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(to.sun_path)) {
        return -ENAMETOOLONG;
    }
    memcpy(to.sun_path, path, strlen(path) + 1);
    return connect_to(AF_UNIX, (const struct sockaddr *)&to, sizeof(to));
}

static int connect_tcp(const char *place, struct goblin_error *error)
{
    char host[GB_CLIENT_HOST];
    const char *colon = strrchr(place, ':');
    size_t len = colon == NULL ? 0 : (size_t)(colon - place);
    if (len == 0 || colon[1] == '\0' || len >= sizeof(host)) {
        return gb_say_explain(error, "'%.200s': give HOST:PORT, or the path of a socket", place);
    }
    bool bracketed = place[0] == '[' && colon[-1] == ']';
    len -= bracketed ? 2 : 0;
    memcpy(host, place + (bracketed ? 1 : 0), len);
    host[len] = '\0';
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int result = getaddrinfo(host, colon + 1, &hints, &found);
    if (result != 0) {
        return gb_say_explain(error, "%.200s: %s", place, gai_strerror(result));
    }
    int fd = -ENOENT;
    for (const struct addrinfo *at = found; fd < 0 && at != NULL; at = at->ai_next) {
        fd = connect_to(at->ai_family, at->ai_addr, at->ai_addrlen);
    }
    freeaddrinfo(found);
    return fd < 0 ? explain(error, fd, place) : fd;
}

static int read_token(struct gb_client *client, const char *name, struct goblin_error *error)
{
    FILE *file = fopen(name, "re");
    if (file == NULL || fgets(client->token, sizeof(client->token), file) == NULL) {
        int fault = file == NULL || ferror(file) ? -errno : -ENODATA;
        if (file != NULL) {
            (void)fclose(file);
        }
        return explain(error, fault, name);
    }
    (void)fclose(file);
    client->token[strcspn(client->token, "\r\n")] = '\0';
    return GOBLIN_OK;
}

int gb_client_open(struct gb_client *client, const char *address, const char *token_file,
                   struct goblin_error *error)
{
    client->token[0] = '\0';
    client->begin = client->end = 0;
    int result = token_file == NULL ? GOBLIN_OK : read_token(client, token_file, error);
    if (result < 0) {
        return result;
    }
    if (strncmp(address, "https:", 6) == 0) {
        return gb_say_explain(error, "%.200s: TLS is not spoken here", address);
    }
    address += strncmp(address, "http://", 7) == 0 ? 7 : 0;
    const char *path = strncmp(address, "unix:", 5) == 0 ? address + 5 : address;
    bool is_unix = path != address || address[0] == '/';
    (void)snprintf(client->host, sizeof(client->host), "%.*s",
                   is_unix ? 9 : (int)strcspn(address, "/"), is_unix ? "localhost" : address);
    client->fd = is_unix ? connect_unix(path) : connect_tcp(client->host, error);
    if (client->fd < 0) {
        return is_unix ? explain(error, client->fd, path) : client->fd;
    }
    return GOBLIN_OK;
}

void gb_client_close(struct gb_client *client)
{
    (void)close(client->fd);
    client->fd = -1;
}

/* ---- asking -------------------------------------------------------------------------------- */

static int send_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        bytes += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return GOBLIN_OK;
}

int gb_client_send(struct gb_client *client, const void *bytes, size_t len)
{
    return send_all(client->fd, bytes, len);
}

int gb_client_ask(struct gb_client *client, const char *method, const char *target,
                  const char *fields, struct goblin_error *error)
{
    bool has_token = client->token[0] != '\0';
    client->is_head = strcmp(method, "HEAD") == 0;
    int len = snprintf(client->buffer, sizeof(client->buffer),
                       "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s%s%s%s\r\n", method,
                       target, client->host, has_token ? "Authorization: Bearer " : "",
                       client->token, has_token ? "\r\n" : "", fields);
    int result = len < (int)sizeof(client->buffer)
                     ? send_all(client->fd, client->buffer, (size_t)len)
                     : -EMSGSIZE;
    return result < 0 ? explain(error, result, client->host) : result;
}

/* ---- the answer ---------------------------------------------------------------------------- */

/* More bytes behind those that are there: how many, 0 at the end, or a fault. */
static ssize_t receive(struct gb_client *client)
{
    if (client->begin == client->end) {
        client->begin = client->end = 0;
    }
    if (client->end == sizeof(client->buffer)) {
        return -EMSGSIZE;
    }
    ssize_t n;
    do {
        n = recv(client->fd, client->buffer + client->end, sizeof(client->buffer) - client->end, 0);
    } while (n < 0 && errno == EINTR);
    client->end += n > 0 ? (size_t)n : 0;
    return n < 0 ? -errno : n;
}

/* Length of what ends with `mark`, mark included, from `begin` on; or a fault. */
static ssize_t receive_to(struct gb_client *client, const char *mark)
{
    for (;;) {
        const char *from = client->buffer + client->begin;
        const char *found = memmem(from, client->end - client->begin, mark, strlen(mark));
        if (found != NULL) {
            return found - from + (ssize_t)strlen(mark);
        }
        ssize_t n = receive(client);
        if (n <= 0) {
            return n < 0 ? n : -EPROTO;
        }
    }
}

/* The value of a field of the head, without its line's end; NULL: it has none. */
static const char *find_field(const char *head, const char *name)
{
    const size_t len = strlen(name);
    for (const char *line = strstr(head, "\r\n"); line != NULL; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, len) == 0 && line[len] == ':') {
            line += len + 1;
            return line + strspn(line, " \t");
        }
    }
    return NULL;
}

/* How the body will come, from the head that lies in front of `begin`. */
static void expect_body(struct gb_client *client, const char *head, int status)
{
    const char *length = find_field(head, "Content-Length");
    const char *coding = find_field(head, "Transfer-Encoding");
    bool none = client->is_head || status == 204 || status == 304;
    client->chunked = !none && coding != NULL && strncasecmp(coding, "chunked", 7) == 0;
    client->to_the_end = !none && !client->chunked && length == NULL;
    client->left = none || client->chunked || length == NULL ? 0 : strtoull(length, NULL, 10);
    client->over = none || (!client->chunked && !client->to_the_end && client->left == 0);
    client->chunk_open = false;
}

int gb_client_answer(struct gb_client *client, struct goblin_error *error)
{
    int status;
    client->begin = client->end = 0;
    do {
        ssize_t len = receive_to(client, "\r\n");
        if (len >= 0 && strncmp(client->buffer + client->begin, "HTTP/1.", 7) != 0) {
            return gb_say_explain(error, "%s: this is no HTTP server", client->host);
        }
        len = len < 0 ? len : receive_to(client, "\r\n\r\n");
        if (len < 0) {
            return explain(error, (int)len, client->host);
        }
        char *head = client->buffer + client->begin;
        head[len - 2] = '\0'; /* behind the last line's end */
        client->begin += (size_t)len;
        status = strlen(head) < 12 ? 0 : (int)strtol(head + 9, NULL, 10); /* behind "HTTP/1.1 " */
        if (status < 100 || status > 999) {
            return gb_say_explain(error, "%s: this is no HTTP server", client->host);
        }
        client->head = head;
        expect_body(client, head, status);
    } while (status < 200);
    return status;
}

bool gb_client_field(const struct gb_client *client, const char *name, char *out, size_t size)
{
    const char *value = find_field(client->head, name);
    if (value == NULL) {
        return false;
    }
    size_t len = strcspn(value, "\r\n");
    if (len >= size) {
        return false;
    }
    memcpy(out, value, len);
    out[len] = '\0';
    return true;
}

/* The next chunk's size into `left`; at the last one the body is over. */
static int begin_chunk(struct gb_client *client)
{
    for (int lines = client->chunk_open ? 2 : 1; lines > 0; lines--) {
        ssize_t len = receive_to(client, "\r\n");
        if (len < 0) {
            return (int)len;
        }
        const char *line = client->buffer + client->begin;
        char *end;
        client->left = lines == 1 ? strtoull(line, &end, 16) : 0;
        if (lines == 1 ? end == line : len != 2) {
            return -EPROTO;
        }
        client->begin += (size_t)len;
    }
    client->chunk_open = true;
    client->over = client->left == 0;
    return GOBLIN_OK;
}

ssize_t gb_client_read(struct gb_client *client, void *bytes, size_t size,
                       struct goblin_error *error)
{
    if (!client->over && client->chunked && client->left == 0) {
        int result = begin_chunk(client);
        if (result < 0) {
            return explain(error, result, client->host);
        }
    }
    if (client->over) {
        return 0;
    }
    if (client->begin == client->end) {
        ssize_t n = receive(client);
        if (n == 0 && client->to_the_end) {
            client->over = true;
            return 0;
        }
        if (n <= 0) {
            return explain(error, n == 0 ? -EPROTO : (int)n, client->host);
        }
    }
    size_t len = gb_min(size, client->end - client->begin);
    len = client->to_the_end ? len : gb_min(len, client->left);
    memcpy(bytes, client->buffer + client->begin, len);
    client->begin += len;
    client->left -= client->to_the_end ? 0 : len;
    client->over = !client->to_the_end && !client->chunked && client->left == 0;
    return (ssize_t)len;
}

/* ---- all of it ----------------------------------------------------------------------------- */

static int read_all(struct gb_client *client, char *text, size_t most, struct goblin_error *error)
{
    size_t len = 0;
    ssize_t n;
    while ((n = gb_client_read(client, text + len, most - len, error)) > 0) {
        len += (size_t)n;
        if (len == most) {
            return gb_say_explain(error, "%s: the answer is too long", client->host);
        }
    }
    text[len] = '\0';
    return n < 0 ? (int)n : GOBLIN_OK;
}

int gb_client_fetch(char **text, const char *address, const char *token_file, const char *target,
                    size_t most, struct goblin_error *error)
{
    struct gb_client *client = malloc(sizeof(*client));
    *text = malloc(most + 1);
    int result = client == NULL || *text == NULL
                     ? explain(error, -ENOMEM, address)
                     : gb_client_open(client, address, token_file, error);
    if (result < 0) {
        goto free_both;
    }
    result = gb_client_ask(client, "GET", target, "", error);
    if (result >= 0) {
        result = gb_client_answer(client, error);
    }
    if (result == 200) {
        result = read_all(client, *text, most, error);
    } else if (result > 0) {
        int status = result;
        result =
            gb_say_explain(error, "%s: %s: the server answers %d", client->host, target, status);
    }
    gb_client_close(client);
free_both:
    free(client);
    if (result < 0) {
        free(*text);
        *text = NULL;
    }
    return result;
}
