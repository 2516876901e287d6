/* One connection of the load generator: see net_conn.h. */
#include "bench/net_conn.h"

#include "base/assert.h"
#include "base/bits.h"
#include "bench/progress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    SMALL_BYTES = 16 << 10, /* values up to this are copied, so that they can be pipelined */
    BODY_CHUNK_BYTES = 256 << 10,
    TURN_BYTES = 1 << 20, /* of a large value, before other connections have their turn */
    KEY_ROOM = 256,
    HEAD_ROOM = 128, /* of a request beside its keys */
};

/* ---- opening and closing ------------------------------------------------------------------- */

static int connect_to(const char *host, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, host ? host : "127.0.0.1", &address.sin_addr) != 1) {
        return -EINVAL;
    }
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    const int on = 1;
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    return fd;
}

static int watch(struct gb_net_conn *conn, int how, bool wants_out)
{
    struct epoll_event event = {
        .events = EPOLLIN | (wants_out ? (uint32_t)EPOLLOUT : 0),
        .data.ptr = conn,
    };
    conn->wants_out = wants_out;
    return epoll_ctl(conn->thread->epoll, how, conn->fd, &event) < 0 ? -errno : 0;
}

static int attach(struct gb_net_conn *conn)
{
    int fd = connect_to(conn->thread->load->host, conn->thread->load->port);
    if (fd < 0) {
        return fd;
    }
    conn->fd = fd;
    gb_net_reply_init(&conn->reply, conn->thread->load->protocol);
    return watch(conn, EPOLL_CTL_ADD, false);
}

int gb_net_conn_open(struct gb_net_conn *conn, struct gb_net_thread *thread)
{
    *conn = (struct gb_net_conn){.thread = thread, .fd = -1};
    conn->flights = calloc(thread->load->depth, sizeof(*conn->flights));
    if (!conn->flights || gb_samples_init(&conn->samples) < 0) {
        return -ENOMEM;
    }
    return attach(conn);
}

static void detach(struct gb_net_conn *conn)
{
    if (conn->fd >= 0) {
        close(conn->fd); /* leaves the epoll set by itself */
        conn->fd = -1;
    }
}

void gb_net_conn_close(struct gb_net_conn *conn)
{
    detach(conn);
    gb_samples_fini(&conn->samples);
    free(conn->flights);
    free(conn->out);
    conn->flights = NULL;
    conn->out = NULL;
}

int gb_net_conn_renew(struct gb_net_conn *conn)
{
    struct gb_net_thread *thread = conn->thread;
    thread->tally->unanswered += conn->flying;
    thread->flying -= conn->flying;
    conn->head = 0;
    conn->flying = 0;
    conn->out_len = 0;
    conn->out_sent = 0;
    conn->body_bytes = 0;
    conn->tail_left = 0;
    conn->in_value = false;
    detach(conn);
    return attach(conn);
}

/* ---- requests ------------------------------------------------------------------------------ */

bool gb_net_conn_is_free(const struct gb_net_conn *conn)
{
    return conn->flying < conn->thread->load->depth && conn->body_bytes == 0 &&
           conn->tail_left == 0;
}

uint64_t gb_net_thread_object(const struct gb_net_thread *thread, uint64_t at)
{
    const struct gb_net_set *set = thread->load->set;
    if (thread->load->in_turn) {
        return at % set->corpus.count;
    }
    return set->schedule.objects[(thread->load->first + at) % set->schedule.count];
}

static int reserve(struct gb_net_conn *conn, size_t bytes)
{
    if (conn->out_sent == conn->out_len) {
        conn->out_sent = 0;
        conn->out_len = 0;
    }
    if (conn->out_room - conn->out_len >= bytes) {
        return 0;
    }
    size_t room = (conn->out_len + bytes) * 2;
    unsigned char *out = realloc(conn->out, room);
    if (!out) {
        return -ENOMEM;
    }
    conn->out = out;
    conn->out_room = room;
    return 0;
}

static void lay(struct gb_net_conn *conn, const void *data, size_t len)
{
    GB_ASSERT(conn->out_room - conn->out_len >= len);
    memcpy(conn->out + conn->out_len, data, len);
    conn->out_len += len;
}

static void lay_text(struct gb_net_conn *conn, const char *text)
{
    lay(conn, text, strlen(text));
}

static void lay_key(struct gb_net_conn *conn, uint64_t object)
{
    char key[GB_CORPUS_KEY_MAX];
    lay(conn, key, gb_corpus_key(&conn->thread->load->set->corpus, object, key));
}

static int lay_get(struct gb_net_conn *conn, const struct gb_net_flight *flight)
{
    const struct gb_net_thread *thread = conn->thread;
    int rc = reserve(conn, HEAD_ROOM + (size_t)flight->keys * KEY_ROOM);
    if (rc < 0) {
        return rc;
    }
    if (thread->load->protocol == GB_NET_HTTP) {
        lay_text(conn, "GET /");
        lay_key(conn, gb_net_thread_object(thread, flight->at));
        lay_text(conn, " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        return 0;
    }
    lay_text(conn, "get");
    for (uint32_t i = 0; i < flight->keys; i++) {
        lay_text(conn, " ");
        lay_key(conn, gb_net_thread_object(thread, flight->at + i));
    }
    lay_text(conn, "\r\n");
    return 0;
}

static int lay_set(struct gb_net_conn *conn, const struct gb_net_flight *flight)
{
    struct gb_net_thread *thread = conn->thread;
    uint64_t object = gb_net_thread_object(thread, flight->at);
    uint64_t size = thread->load->set->corpus.sizes[object];
    bool is_http = thread->load->protocol == GB_NET_HTTP;
    char numbers[HEAD_ROOM];
    int rc = reserve(conn, 2 * HEAD_ROOM + KEY_ROOM + (size <= SMALL_BYTES ? (size_t)size : 0));
    if (rc < 0) {
        return rc;
    }
    snprintf(numbers, sizeof(numbers),
             is_http ? " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %llu\r\n\r\n"
                     : " 0 0 %llu\r\n",
             (unsigned long long)size);
    lay_text(conn, is_http ? "PUT /" : "set ");
    lay_key(conn, object);
    lay_text(conn, numbers);
    if (size > SMALL_BYTES) {
        conn->body_object = object;
        conn->body_bytes = size;
        conn->body_sent = 0;
        conn->tail_left = is_http ? 0 : 2;
        return 0;
    }
    if (size > 0) {
        lay(conn, gb_payload_window_prepare(&thread->window, object, size, 0, size), (size_t)size);
    }
    if (!is_http) {
        lay_text(conn, "\r\n");
    }
    return 0;
}

/* Draws the next places of the order of requests; 0: the last one is gone. */
static uint32_t draw(struct gb_net_thread *thread, uint32_t keys, uint64_t *at)
{
    uint64_t first = atomic_fetch_add_explicit(thread->next, keys, memory_order_relaxed);
    if (first >= thread->limit) {
        thread->is_exhausted = true;
        return 0;
    }
    *at = first;
    return (uint32_t)gb_min(keys, thread->limit - first);
}

/* What the next request is; its `keys` are 0 if none is left. */
static struct gb_net_flight choose(struct gb_net_thread *thread)
{
    const struct gb_net_load *load = thread->load;
    struct gb_net_flight flight = {.is_set = true};
    if (thread->missed_count > 0) {
        flight.is_refill = true;
        flight.at = thread->missed[--thread->missed_count];
        flight.keys = 1;
        return flight;
    }
    flight.is_set = load->set_share > 0 && gb_rng_unit(&thread->rng) < load->set_share;
    flight.keys = draw(thread, flight.is_set || load->keys == 0 ? 1 : load->keys, &flight.at);
    return flight;
}

int gb_net_conn_ask(struct gb_net_conn *conn, uint64_t due_ns, uint64_t now_ns)
{
    struct gb_net_thread *thread = conn->thread;
    const struct gb_net_load *load = thread->load;
    struct gb_net_flight flight = choose(thread);
    if (flight.keys == 0) {
        return 0;
    }
    flight.due_ns = due_ns ? due_ns : now_ns;
    flight.sent_ns = now_ns;
    bool is_set = flight.is_set;
    int rc = is_set ? lay_set(conn, &flight) : lay_get(conn, &flight);
    if (rc < 0) {
        return rc;
    }
    conn->flights[(conn->head + conn->flying) % load->depth] = flight;
    conn->flying++;
    thread->flying++;
    return 1;
}

/* ---- out ----------------------------------------------------------------------------------- */

/* One send of a part of the large value, or of the line end behind it. */
static ssize_t send_body(struct gb_net_conn *conn)
{
    struct gb_net_thread *thread = conn->thread;
    if (conn->body_bytes == 0) {
        static const char line_end[] = {'\r', '\n'};
        ssize_t sent = send(conn->fd, line_end + sizeof(line_end) - conn->tail_left,
                            conn->tail_left, MSG_NOSIGNAL | MSG_DONTWAIT);
        conn->tail_left -= sent > 0 ? (size_t)sent : 0;
        return sent;
    }
    uint64_t len = gb_min(conn->body_bytes - conn->body_sent, BODY_CHUNK_BYTES);
    const void *data = gb_payload_window_prepare(&thread->window, conn->body_object,
                                                 conn->body_bytes, conn->body_sent, len);
    ssize_t sent = send(conn->fd, data, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT);
    conn->body_sent += sent > 0 ? (uint64_t)sent : 0;
    if (conn->body_sent == conn->body_bytes) {
        conn->body_bytes = 0;
    }
    return sent;
}

int gb_net_conn_flush(struct gb_net_conn *conn)
{
    size_t turn = 0;
    bool full = false;
    while (!full && turn < TURN_BYTES) {
        ssize_t sent;
        if (conn->out_sent < conn->out_len) {
            int more = conn->body_bytes > 0 ? MSG_MORE : 0;
            sent = send(conn->fd, conn->out + conn->out_sent, conn->out_len - conn->out_sent,
                        MSG_NOSIGNAL | MSG_DONTWAIT | more);
            conn->out_sent += sent > 0 ? (size_t)sent : 0;
        } else if (conn->body_bytes > 0 || conn->tail_left > 0) {
            sent = send_body(conn);
        } else {
            break;
        }
        if (sent < 0 && errno != EAGAIN && errno != EINTR) {
            return -errno;
        }
        full = sent < 0 && errno == EAGAIN;
        turn += sent > 0 ? (size_t)sent : 0;
    }
    bool left = conn->out_sent < conn->out_len || conn->body_bytes > 0 || conn->tail_left > 0;
    return left == conn->wants_out ? 0 : watch(conn, EPOLL_CTL_MOD, left);
}

/* ---- in ------------------------------------------------------------------------------------ */

struct value_of {
    const struct gb_net_set *set;
    uint64_t object;
};

static bool is_same(void *arg, uint64_t offset, const void *data, size_t len)
{
    const struct value_of *value = arg;
    return gb_payload_verify(&value->set->payload, value->object,
                             value->set->corpus.sizes[value->object], offset, data, len);
}

/* Which of the request's keys is this the value of? Values come in the order of the keys, those of
 * missing ones left out. False: of none. */
static bool find_value(struct gb_net_conn *conn, const struct gb_net_flight *flight,
                       const struct gb_net_event *event)
{
    const struct gb_net_thread *thread = conn->thread;
    for (uint32_t i = flight->hits > 0 ? conn->value_at + 1 : 0; i < flight->keys; i++) {
        uint64_t object = gb_net_thread_object(thread, flight->at + i);
        char key[GB_CORPUS_KEY_MAX];
        size_t len = gb_corpus_key(&thread->load->set->corpus, object, key);
        if (!event->key || (len == event->key_len && memcmp(key, event->key, len) == 0)) {
            conn->value_object = object;
            conn->value_at = i;
            return true;
        }
    }
    return false;
}

/* The value that was coming in is complete, or should be. */
static void end_value(struct gb_net_conn *conn, struct gb_net_flight *flight)
{
    if (!conn->in_value) {
        return;
    }
    const struct gb_net_load *load = conn->thread->load;
    struct value_of value = {.set = load->set, .object = conn->value_object};
    uint64_t compared = 0;
    conn->in_value = false;
    if (conn->samples.bytes != load->set->corpus.sizes[conn->value_object] ||
        !gb_samples_match(&conn->samples, is_same, &value, &compared)) {
        flight->is_wrong = true;
    }
}

static void on_body(struct gb_net_conn *conn, struct gb_net_flight *flight,
                    const struct gb_net_event *event, uint64_t now_ns)
{
    const struct gb_net_load *load = conn->thread->load;
    struct value_of value = {.set = load->set, .object = conn->value_object};
    if (flight->first_ns == 0) {
        flight->first_ns = now_ns;
    }
    if (load->whole && !flight->is_wrong) {
        flight->is_wrong = !is_same(&value, conn->samples.bytes, event->data, event->len);
    }
    gb_samples_add(&conn->samples, event->data, event->len);
}

static void count_times(struct gb_net_tally *tally, const struct gb_net_flight *flight,
                        uint64_t now_ns)
{
    if (flight->is_set) {
        gb_histogram_add(&tally->set_ns, now_ns - flight->due_ns);
    } else if (flight->hits > 0) {
        uint64_t first_ns = flight->first_ns ? flight->first_ns : now_ns;
        gb_histogram_add(&tally->first_ns, first_ns - flight->due_ns);
        gb_histogram_add(&tally->get_ns, now_ns - flight->due_ns);
    }
    gb_histogram_add(&tally->sent_ns, now_ns - flight->sent_ns);
}

/* Values count by their own sizes: what a server sent beyond them is wrong anyway. */
static uint64_t flight_bytes(const struct gb_net_thread *thread, const struct gb_net_flight *flight)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < flight->keys; i++) {
        bytes += thread->load->set->corpus.sizes[gb_net_thread_object(thread, flight->at + i)];
    }
    return bytes;
}

static void count_flight(struct gb_net_thread *thread, const struct gb_net_flight *flight,
                         enum gb_net_status status)
{
    struct gb_net_tally *tally = thread->tally;
    uint64_t bytes = flight_bytes(thread, flight);
    tally->requests++;
    tally->wrong += flight->is_wrong;
    tally->refused += status == GB_NET_REFUSED;
    tally->errors += status == GB_NET_ERROR;
    if (flight->is_refill) {
        tally->refilled += status == GB_NET_DONE;
        return;
    }
    if (flight->is_set) {
        tally->sets++;
        tally->stored += status == GB_NET_DONE;
        tally->set_bytes += status == GB_NET_DONE ? bytes : 0;
        return;
    }
    tally->asked += flight->keys;
    tally->hits += flight->hits;
    if (status == GB_NET_DONE || status == GB_NET_MISSING) {
        tally->misses += flight->keys - flight->hits;
    }
}

static void on_reply(struct gb_net_conn *conn, struct gb_net_flight *flight,
                     enum gb_net_status status, uint64_t now_ns)
{
    struct gb_net_thread *thread = conn->thread;
    end_value(conn, flight);
    if (now_ns >= thread->counted_ns) {
        count_flight(thread, flight, status);
        if (status == GB_NET_DONE) {
            count_times(thread->tally, flight, now_ns);
        }
        thread->last_ns = now_ns;
    }
    if (thread->load->refills && !flight->is_set && flight->keys == 1 && flight->hits == 0 &&
        thread->missed_count < GB_NET_MISSED_MAX) {
        thread->missed[thread->missed_count++] = flight->at;
    }
    conn->head = (conn->head + 1) % thread->load->depth;
    conn->flying--;
    thread->flying--;
}

static int on_event(struct gb_net_conn *conn, const struct gb_net_event *event, uint64_t now_ns)
{
    struct gb_net_flight *flight = &conn->flights[conn->head];
    if (event->kind == GB_NET_MORE) {
        return 0;
    }
    if (event->kind == GB_NET_BAD || conn->flying == 0) {
        conn->thread->tally->errors++;
        return -EPROTO;
    }
    if (event->kind == GB_NET_REPLY) {
        on_reply(conn, flight, event->status, now_ns);
        return event->closes ? -ECONNRESET : 0;
    }
    if (event->kind == GB_NET_BODY) {
        if (conn->in_value) {
            on_body(conn, flight, event, now_ns);
        }
        return 0;
    }
    end_value(conn, flight);
    gb_samples_clear(&conn->samples);
    if (flight->is_set) { /* the page of a PUT: nobody asked for it */
        return 0;
    }
    if (!find_value(conn, flight, event)) {
        flight->is_wrong = true;
        return 0;
    }
    conn->in_value = true;
    flight->hits++;
    if (now_ns >= conn->thread->counted_ns) {
        conn->thread->tally->got_bytes += conn->thread->load->set->corpus.sizes[conn->value_object];
    }
    return 0;
}

int gb_net_conn_receive(struct gb_net_conn *conn)
{
    struct gb_net_thread *thread = conn->thread;
    ssize_t got = recv(conn->fd, thread->in, GB_NET_IN_BYTES, MSG_DONTWAIT);
    if (got < 0) {
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    }
    if (got == 0) {
        return -ECONNRESET;
    }
    uint64_t now_ns = gb_progress_now_ns();
    const unsigned char *data = thread->in;
    size_t len = (size_t)got;
    struct gb_net_event event;
    int rc;
    thread->moved_ns = now_ns;
    do {
        size_t used = gb_net_reply_next(&conn->reply, data, len, &event);
        data += used;
        len -= used;
        rc = on_event(conn, &event, now_ns);
    } while (rc == 0 && event.kind != GB_NET_MORE);
    return rc < 0 ? rc : 1;
}
