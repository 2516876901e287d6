/* Addresses and listening sockets: see listen.h. */
#include "server/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/assert.h"

#define PORT_TEXT 8

struct parsed {
    bool is_unix;
    char host[GB_LOOP_ADDRESS_TEXT]; /* or the path; empty: all addresses */
    char port[PORT_TEXT];
};

static int explain(struct goblin_error *error, int code, const char *address, const char *why)
{
    if (error != NULL) {
        (void)snprintf(error->text, sizeof(error->text), "listen at %s: %s", address, why);
    }
    return code;
}

/* ---- addresses ----------------------------------------------------------------------------- */

static int parse_port(struct parsed *out, const char *text)
{
    char *end = NULL;
    errno = 0;
    unsigned long port = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || port > 65535) {
        return -EINVAL;
    }
    (void)snprintf(out->port, sizeof(out->port), "%lu", port);
    return 0;
}

static int parse(struct parsed *out, const char *address, struct goblin_error *error)
{
    *out = (struct parsed){0};
    const char *path = strncmp(address, "unix:", 5) == 0 ? address + 5 : address;
    if (path != address || path[0] == '/') {
        out->is_unix = true;
        if (path[0] == '\0' || strlen(path) >= sizeof(((struct sockaddr_un *)0)->sun_path)) {
            return explain(error, GOBLIN_EOPTION, address,
                           "a socket's path is 1 to 107 bytes long");
        }
        (void)snprintf(out->host, sizeof(out->host), "%s", path);
        return GOBLIN_OK;
    }
    const char *colon = strrchr(address, ':');
    if (colon == NULL || parse_port(out, colon + 1) != 0) {
        return explain(error, GOBLIN_EOPTION, address,
                       "give HOST:PORT, [IPV6]:PORT, :PORT or /PATH");
    }
    size_t len = (size_t)(colon - address);
    bool bracketed = len >= 2 && address[0] == '[' && address[len - 1] == ']';
    if (!bracketed && memchr(address, ':', len) != NULL) {
        return explain(error, GOBLIN_EOPTION, address, "put an IPv6 address in [brackets]");
    }
    if (len >= sizeof(out->host)) {
        return explain(error, GOBLIN_EOPTION, address, "too long");
    }
    (void)snprintf(out->host, sizeof(out->host), "%.*s", (int)(bracketed ? len - 2 : len),
                   bracketed ? address + 1 : address);
    return GOBLIN_OK;
}

int gb_listen_check(const char *address, struct goblin_error *error)
{
    struct parsed parsed;
    return parse(&parsed, address, error);
}

static void format_address(char *text, const struct sockaddr_storage *from)
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (from->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)from;
        (void)inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
        (void)snprintf(text, GB_LOOP_ADDRESS_TEXT, "[%s]:%u", host, ntohs(in6->sin6_port));
    } else {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)from;
        (void)inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
        (void)snprintf(text, GB_LOOP_ADDRESS_TEXT, "%s:%u", host, ntohs(in->sin_port));
    }
}

/* ---- TCP ----------------------------------------------------------------------------------- */

static int set_flag(int fd, int level, int name)
{
    return setsockopt(fd, level, name, &(int){1}, sizeof(int)) == 0 ? 0 : -errno;
}

static int bind_socket(const struct sockaddr_storage *address, socklen_t len, bool share, int *out)
{
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    int rc = set_flag(fd, SOL_SOCKET, SO_REUSEADDR);
    if (rc == 0 && share) {
        rc = set_flag(fd, SOL_SOCKET, SO_REUSEPORT);
    }
    if (rc == 0 && address->ss_family == AF_INET6) {
        rc = set_flag(fd, IPPROTO_IPV6, IPV6_V6ONLY);
    }
    if (rc == 0 && bind(fd, (const struct sockaddr *)address, len) != 0) {
        rc = -errno;
    }
    if (rc < 0) {
        (void)close(fd);
        return rc;
    }
    *out = fd;
    return 0;
}

/* Accepted sockets inherit what is set here. */
static int listen_at(int fd, int backlog)
{
    int rc = set_flag(fd, IPPROTO_TCP, TCP_NODELAY);
    if (rc == 0) {
        rc = set_flag(fd, SOL_SOCKET, SO_KEEPALIVE);
    }
    if (rc == 0 && listen(fd, backlog) != 0) {
        rc = -errno;
    }
    return rc;
}

static uint16_t port_of(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6
               ? ((const struct sockaddr_in6 *)(const void *)address)->sin6_port
               : ((const struct sockaddr_in *)(const void *)address)->sin_port;
}

static int open_tcp_place(struct gb_listen_place *place, const struct addrinfo *info,
                          const struct gb_listen_options *options)
{
    struct sockaddr_storage address = {0};
    socklen_t len = info->ai_addrlen;
    memcpy(&address, info->ai_addr, len);
    int rc = 0;
    int probe = -1;
    if (port_of(&address) != 0) {
        rc = bind_socket(&address, len, false, &probe);
        if (rc < 0) {
            return rc;
        }
        (void)close(probe);
    }
    place->fds = calloc(options->sockets, sizeof(place->fds[0]));
    if (place->fds == NULL) {
        return -ENOMEM;
    }
    while (rc == 0 && place->fd_count < options->sockets) {
        int fd = -1;
        rc = bind_socket(&address, len, true, &fd);
        if (rc < 0) {
            break;
        }
        place->fds[place->fd_count++] = fd;
        /* The first one may have been given a port; the others take the same. */
        if (getsockname(fd, (struct sockaddr *)&address, &(socklen_t){sizeof(address)}) != 0) {
            rc = -errno;
        }
        rc = rc == 0 ? listen_at(fd, options->backlog) : rc;
    }
    if (rc < 0) {
        gb_listen_close(place);
        return rc;
    }
    format_address(place->address, &address);
    return 0;
}

/* That one of several families is switched off on this host is no fault. */
static bool is_absent(int rc)
{
    return rc == -EAFNOSUPPORT || rc == -EADDRNOTAVAIL;
}

static int open_tcp(struct gb_listen_place *places, const char *address,
                    const struct parsed *parsed, const struct gb_listen_options *options,
                    struct goblin_error *error)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC,
        .ai_socktype = SOCK_STREAM,
        .ai_flags = AI_PASSIVE | AI_NUMERICSERV,
    };
    struct addrinfo *list = NULL;
    int rc =
        getaddrinfo(parsed->host[0] == '\0' ? NULL : parsed->host, parsed->port, &hints, &list);
    if (rc != 0) {
        return explain(error, GOBLIN_EOPTION, address, gai_strerror(rc));
    }
    int count = 0;
    int absent = 0;
    rc = 0;
    for (const struct addrinfo *at = list; at != NULL && count < (int)GB_LISTEN_PLACES_MAX;
         at = at->ai_next) {
        places[count] = (struct gb_listen_place){0};
        rc = open_tcp_place(&places[count], at, options);
        if (rc == 0) {
            count++;
        } else if (is_absent(rc)) {
            absent = rc;
        } else {
            break;
        }
    }
    freeaddrinfo(list);
    rc = is_absent(rc) ? 0 : rc;
    if (rc == 0 && count == 0) {
        rc = absent;
    }
    if (rc < 0) {
        while (count > 0) {
            gb_listen_close(&places[--count]);
        }
        return explain(error, rc, address, goblin_strerror(rc));
    }
    return count;
}

/* ---- unix ---------------------------------------------------------------------------------- */

/* Whether the path is a socket at which nobody listens. */
static bool is_left_over(const struct sockaddr_un *address)
{
    struct stat status;
    if (stat(address->sun_path, &status) != 0 || !S_ISSOCK(status.st_mode)) {
        return false;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return false;
    }
    int rc = connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ? 0 : errno;
    (void)close(fd);
    return rc == ECONNREFUSED;
}

static int bind_unix(int fd, const struct sockaddr_un *address, unsigned mode)
{
    /* Nobody may connect before the mode is set. */
    mode_t before = umask(0777);
    int rc = bind(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ? 0 : -errno;
    (void)umask(before);
    if (rc == 0 && chmod(address->sun_path, mode) != 0) {
        rc = -errno;
        (void)unlink(address->sun_path);
    }
    return rc;
}

static int open_unix(struct gb_listen_place *place, const char *path,
                     const struct gb_listen_options *options)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path)); /* parse saw to it that it fits */
    *place = (struct gb_listen_place){.is_unix = true};
    place->fds = calloc(1, sizeof(place->fds[0]));
    if (place->fds == NULL) {
        return -ENOMEM;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int rc = fd < 0 ? -errno : bind_unix(fd, &address, options->unix_mode);
    if (rc == -EADDRINUSE && is_left_over(&address) && unlink(path) == 0) {
        rc = bind_unix(fd, &address, options->unix_mode);
    }
    if (rc == 0 && listen(fd, options->backlog) != 0) {
        rc = -errno;
        (void)unlink(path);
    }
    if (rc < 0) {
        if (fd >= 0) {
            (void)close(fd);
        }
        gb_listen_close(place);
        return rc;
    }
    place->fds[0] = fd;
    place->fd_count = 1;
    (void)snprintf(place->address, sizeof(place->address), "%s", path);
    return 0;
}

/* ---- both ---------------------------------------------------------------------------------- */

int gb_listen_open(struct gb_listen_place places[GB_LISTEN_PLACES_MAX], const char *address,
                   const struct gb_listen_options *options, struct goblin_error *error)
{
    struct parsed parsed;
    int rc = parse(&parsed, address, error);
    if (rc != GOBLIN_OK) {
        return rc;
    }
    if (!parsed.is_unix) {
        return open_tcp(places, address, &parsed, options, error);
    }
    rc = open_unix(&places[0], parsed.host, options);
    return rc < 0 ? explain(error, rc, address, goblin_strerror(rc)) : 1;
}

void gb_listen_close(struct gb_listen_place *place)
{
    for (unsigned i = 0; i < place->fd_count; i++) {
        if (place->fds[i] >= 0) {
            (void)close(place->fds[i]);
        }
    }
    free(place->fds);
    *place = (struct gb_listen_place){0};
}

void gb_listen_remove(const char *address)
{
    (void)unlink(address);
}
