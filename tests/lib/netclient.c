/* Clients of the network fuzzer: see netclient.h. */
#include "lib/netclient.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/serve.h"

enum { CLIENTS_MOST = 32, BYTES_MOST = 1500, PATIENCE_MS = 60000, YIELDS_MOST = 40 };

/* ---- opening --------------------------------------------------------------------------------- */

void gb_netclient_open(struct gb_netclient *client, const struct gb_netstream *stream,
                       const char *address)
{
    *client =
        (struct gb_netclient){.stream = stream, .is_unix = address[0] == '/', .end = stream->len};
    client->fd = gb_client_open_at(address);
    assert_int_equal(fcntl(client->fd, F_SETFL, O_NONBLOCK), 0);
    if (!client->is_unix) {
        assert_int_equal(setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)),
                         0);
    }
}

void gb_netclient_draw(struct gb_netclient *client, struct gb_rng *rng, bool cuts)
{
    client->split = (enum gb_netclient_split)gb_rng_below(rng, GB_SPLITS);
    client->lazy = gb_rng_below(rng, 4) == 0;
    if (cuts) {
        client->cut = (enum gb_netclient_cut)gb_rng_below(rng, GB_CUTS);
        client->end = client->cut == GB_CUT_NOT
                          ? client->stream->len
                          : (size_t)gb_rng_below(rng, client->stream->len + 1);
    }
}

void gb_netclient_fini(struct gb_netclient *client)
{
    if (client->fd >= 0) {
        (void)close(client->fd);
    }
    free(client->answers);
    *client = (struct gb_netclient){.fd = -1};
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static size_t draw_piece(struct gb_netclient *client, struct gb_rng *rng)
{
    const struct gb_netstream *stream = client->stream;
    size_t left = client->end - client->sent;
    size_t any = 1 + (size_t)gb_rng_below(rng, 4096);
    switch (client->split) {
    case GB_SPLIT_BYTES:
        return client->sent < BYTES_MOST ? 1 : any;
    case GB_SPLIT_SMALL:
        return client->sent < BYTES_MOST * 8 ? 1 + (size_t)gb_rng_below(rng, 16) : any;
    case GB_SPLIT_ANY:
        return any;
    case GB_SPLIT_TWO:
        return client->sent == 0 ? 1 + (size_t)gb_rng_below(rng, left) : left;
    case GB_SPLIT_EDGES:
    case GB_SPLIT_BESIDE_EDGES:
        while (client->edge < stream->edge_count) {
            size_t at = stream->edges[client->edge++];
            if (client->split == GB_SPLIT_BESIDE_EDGES) {
                at = gb_rng_below(rng, 2) == 0 && at > 0 ? at - 1 : at + 1;
            }
            if (at > client->sent) {
                return at - client->sent;
            }
        }
        return left;
    default:
        return left;
    }
}

/* Of a unix socket it can be told that the server has taken all; elsewhere it is left to chance. */
static void let_server_read(const struct gb_netclient *client, struct gb_rng *rng)
{
    int unread = 1;
    unsigned yields = client->is_unix ? YIELDS_MOST : (unsigned)gb_rng_below(rng, 4);
    for (unsigned i = 0; i < yields && unread > 0; i++) {
        (void)sched_yield();
        if (client->is_unix && ioctl(client->fd, SIOCOUTQ, &unread) != 0) {
            return;
        }
    }
}

static void end_sending(struct gb_netclient *client)
{
    if (client->half_closed) {
        return;
    }
    client->half_closed = true;
    if (client->cut == GB_CUT_CLOSE || client->cut == GB_CUT_RESET) {
        const struct linger at_once = {.l_onoff = 1};
        if (client->cut == GB_CUT_RESET) {
            (void)setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        }
        (void)close(client->fd);
        client->fd = -1;
        client->over = true;
    } else if (client->cut == GB_CUT_HALF || (client->cut == GB_CUT_NOT && !client->stream->http)) {
        (void)shutdown(client->fd, SHUT_WR); /* may be closed by the server already */
    }
}

/* One piece, or what the socket takes of it. True if something was sent. */
static bool send_piece(struct gb_netclient *client, struct gb_rng *rng)
{
    if (client->over || client->broken || client->sent == client->end) {
        return false;
    }
    if (client->piece_end <= client->sent) {
        client->piece_end = gb_min(client->sent + draw_piece(client, rng), client->end);
    }
    ssize_t n = send(client->fd, client->stream->bytes + client->sent,
                     client->piece_end - client->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            client->broken = true; /* the server has closed; what it said before is still there */
        }
        return false;
    }
    client->sent += (size_t)n;
    if (client->split != GB_SPLIT_WHOLE) {
        let_server_read(client, rng);
    }
    return true;
}

/* ---- answers --------------------------------------------------------------------------------- */

static bool receive(struct gb_netclient *client)
{
    if (client->over || (client->cut == GB_CUT_MUTE && client->sent == client->end)) {
        return false;
    }
    const size_t step = 65536;
    if (client->answers_len + step > client->answers_room) {
        client->answers_room = client->answers_room * 2 + step;
        client->answers = realloc(client->answers, client->answers_room);
        assert_non_null(client->answers);
    }
    ssize_t n = recv(client->fd, client->answers + client->answers_len, step, MSG_DONTWAIT);
    if (n > 0) {
        client->answers_len += (size_t)n;
        return true;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    client->over = true;
    return true;
}

/* ---- all together ---------------------------------------------------------------------------- */

/* A broken half of HTTP's is looked for at leisure: it is not waited for. */
static bool is_waited_for(const struct gb_netclient *client)
{
    return !client->over && client->cut != GB_CUT_MUTE &&
           !(client->stream->http && client->sent == client->end &&
             (client->cut == GB_CUT_HALF || client->stream->mutated));
}

/* Until one of them can go on. False: none did for a long while. */
static bool wait_for_any(struct gb_netclient *clients, size_t count)
{
    struct pollfd fds[CLIENTS_MOST];
    for (size_t i = 0; i < count; i++) {
        const struct gb_netclient *client = &clients[i];
        bool sends = !client->over && !client->broken && client->sent < client->end;
        bool takes = !client->over && (client->cut != GB_CUT_MUTE || sends);
        fds[i] = (struct pollfd){.fd = sends || takes ? client->fd : -1,
                                 .events = (short)((sends ? POLLOUT : 0) | (takes ? POLLIN : 0))};
    }
    long n = TEMP_FAILURE_RETRY(poll(fds, (nfds_t)count, PATIENCE_MS));
    return n > 0;
}

void gb_netclient_run(struct gb_netclient *clients, size_t count, struct gb_rng *rng)
{
    assert_true(count <= CLIENTS_MOST);
    for (;;) {
        bool moved = false;
        size_t left = 0;
        size_t first = (size_t)gb_rng_below(rng, count);
        for (size_t i = 0; i < count; i++) {
            struct gb_netclient *client = &clients[(first + i) % count];
            bool sent = send_piece(client, rng);
            bool received = (!sent || !client->lazy) && receive(client);
            moved = moved || sent || received;
            if (!client->over && (client->sent == client->end || client->broken)) {
                end_sending(client);
            }
            left += is_waited_for(client);
        }
        if (left == 0) {
            return;
        }
        if (!moved && !wait_for_any(clients, count)) {
            for (size_t i = 0; i < count; i++) {
                print_error("client %zu: http %d, split %d, cut %d, sent %zu of %zu, got %zu, "
                            "over %d, broken %d\n",
                            i, clients[i].stream->http, (int)clients[i].split, (int)clients[i].cut,
                            clients[i].sent, clients[i].end, clients[i].answers_len,
                            clients[i].over, clients[i].broken);
            }
            fail_msg("clients wait for answers that do not come");
        }
    }
}
