/*
 * TLS between a connection (conn.h) and its socket, by GnuTLS.
 *
 * A context has what sessions begin with: certificates, and the authorities from which clients must
 * have theirs. A session keeps the context of its handshake.
 *
 * A session never waits. What it takes to be sent is encrypted at once; what the socket does not
 * take of that, at most a record, stays with the session until it does, and nothing more is taken
 * meanwhile. So what was taken is never to be given again.
 *
 * Units: bytes. Threads: a context belongs to one loop, and its sessions to the same.
 */
#ifndef GB_SERVER_TLS_H
#define GB_SERVER_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "server/certs.h"

/* What a session costs, GnuTLS's part included; for the network budget. Measured: 11 KiB at rest,
 * some more during the handshake. */
#define GB_TLS_SESSION_BYTES 20480u

enum gb_tls_clients {
    GB_TLS_CLIENTS_ANY,      /* are asked for no certificate */
    GB_TLS_CLIENTS_ASKED,    /* may have none, but no bad one */
    GB_TLS_CLIENTS_REQUIRED, /* must have one */
};

struct gb_tls_options {
    const struct gb_certs_files *certificates; /* the first is for who names no other */
    size_t certificate_count;                  /* 0: there is no TLS */
    enum gb_tls_clients clients;
    const char *ca_file; /* authorities for clients' certificates, PEM */
    bool newest_only;    /* TLS 1.3; else 1.2 too */
};

struct gb_tls;
struct gb_tls_session;

/* ---- contexts ------------------------------------------------------------------------------ */

/* Owns: options are borrowed for the call. Errors: those of the files, explained; -ENOMEM. */
int gb_tls_load(struct gb_tls **out, const struct gb_tls_options *options,
                struct goblin_error *error);
void gb_tls_unref(struct gb_tls *tls); /* NULL is nothing */

/* ---- sessions ------------------------------------------------------------------------------ */

/* Over a connected, non-blocking socket, which must outlive the session. Errors: -ENOMEM. */
int gb_tls_open(struct gb_tls_session **out, struct gb_tls *tls, int fd);
/* Sends nothing. NULL is nothing. */
void gb_tls_close(struct gb_tls_session *session);

/* A step of the handshake. GOBLIN_OK: it is done; -EAGAIN: call again when the socket has more, or
 * takes more if gb_tls_is_unsent; -ECONNRESET: the client has left; -EPROTO: the two do not come
 * together, *why says it (static), and the client was told. */
int gb_tls_shake(struct gb_tls_session *session, const char **why);

/* As recv: how many bytes came; 0: the end; -1 and errno, EAGAIN if none are there. */
ssize_t gb_tls_receive(struct gb_tls_session *session, void *to, size_t room);
/* Whether gb_tls_receive has something to say without the socket. */
bool gb_tls_has_more(const struct gb_tls_session *session);

/* As writev on a socket: how many bytes were taken; -1 and errno, EAGAIN if none were. */
ssize_t gb_tls_send(struct gb_tls_session *session, const struct iovec *iov, size_t count);
/* Whether the socket has not taken all that was: gb_tls_send goes on with it, also with count 0. */
bool gb_tls_is_unsent(const struct gb_tls_session *session);
/* Memory that this takes, besides GB_TLS_SESSION_BYTES. */
size_t gb_tls_unsent_bytes(const struct gb_tls_session *session);

/* Says goodbye, if the socket takes it at once. */
void gb_tls_finish(struct gb_tls_session *session);

#endif
