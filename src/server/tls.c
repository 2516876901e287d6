/* TLS of connections: see tls.h. */
#include "server/tls.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/bits.h"

#define RECORD_BYTES 16384u /* of plain text, at most: RFC 8446, 5.1 */
#define RECORDS_MOST 16u    /* received in one go */

struct gb_tls {
    unsigned refs;
    enum gb_tls_clients clients;
    struct gb_certs *certs;
    gnutls_certificate_credentials_t credentials;
    gnutls_priority_t priorities;
};

struct gb_tls_session {
    struct gb_tls *tls;
    gnutls_session_t gnutls;
    int fd;
    bool over; /* the end, or a fault, stood behind what was received last */
    size_t unsent_at;
    size_t unsent_len;
    unsigned char *unsent; /* NULL while the socket takes everything */
};

/* ---- contexts ------------------------------------------------------------------------------ */

static int explain(struct goblin_error *error, const char *what, int rc)
{
    if (error != NULL) {
        (void)snprintf(error->text, sizeof(error->text), "%s: %s", what, gnutls_strerror(rc));
    }
    return rc == GNUTLS_E_MEMORY_ERROR ? -ENOMEM : -EINVAL;
}

/* NOLINTNEXTLINE(readability-function-size): the signature is GnuTLS's */
static int retrieve(gnutls_session_t gnutls, const gnutls_datum_t *authorities, int authority_count,
                    const gnutls_pk_algorithm_t *algorithms, int algorithm_count,
                    gnutls_pcert_st **chain, unsigned *chain_len, gnutls_privkey_t *key)
{
    (void)authorities;
    (void)authority_count;
    (void)algorithms;
    (void)algorithm_count;
    const struct gb_tls_session *session = gnutls_session_get_ptr(gnutls);
    gb_certs_choose(session->tls->certs, gnutls, chain, chain_len, key);
    return 0;
}

/* Of a client's certificate: that it comes from one of our authorities, is valid now, and is for
 * clients. */
static int verify(gnutls_session_t gnutls)
{
    const struct gb_tls_session *session = gnutls_session_get_ptr(gnutls);
    gnutls_typed_vdata_st purpose = {
        .type = GNUTLS_DT_KEY_PURPOSE_OID,
        .data = (unsigned char *)(uintptr_t)GNUTLS_KP_TLS_WWW_CLIENT,
        .size = 0,
    };
    unsigned count = 0;
    unsigned status = 0;
    if (gnutls_certificate_get_peers(gnutls, &count) == NULL || count == 0) {
        return session->tls->clients == GB_TLS_CLIENTS_REQUIRED ? -1 : 0;
    }
    int rc = gnutls_certificate_verify_peers(gnutls, &purpose, 1, &status);
    return rc < 0 || status != 0 ? -1 : 0;
}

static int load_authorities(struct gb_tls *tls, const struct gb_tls_options *options,
                            struct goblin_error *error)
{
    if (options->clients == GB_TLS_CLIENTS_ANY) {
        return GOBLIN_OK;
    }
    int rc = gnutls_certificate_set_x509_trust_file(tls->credentials, options->ca_file,
                                                    GNUTLS_X509_FMT_PEM);
    return rc > 0 ? GOBLIN_OK
                  : explain(error, options->ca_file, rc == 0 ? GNUTLS_E_NO_CERTIFICATE_FOUND : rc);
}

int gb_tls_load(struct gb_tls **out, const struct gb_tls_options *options,
                struct goblin_error *error)
{
    struct gb_tls *tls = calloc(1, sizeof(*tls));
    if (tls == NULL) {
        return explain(error, "TLS", GNUTLS_E_MEMORY_ERROR);
    }
    tls->refs = 1;
    tls->clients = options->clients;
    int rc = gnutls_certificate_allocate_credentials(&tls->credentials);
    if (rc >= 0) {
        rc = gnutls_priority_init(
            &tls->priorities,
            options->newest_only ? GB_CERTS_PRIORITIES ":-VERS-TLS1.2" : GB_CERTS_PRIORITIES, NULL);
    }
    if (rc < 0) {
        rc = explain(error, "TLS", rc);
    } else {
        gnutls_certificate_set_retrieve_function2(tls->credentials, retrieve);
        rc = gb_certs_load(&tls->certs, options->certificates, options->certificate_count, error);
    }
    if (rc >= 0) {
        rc = load_authorities(tls, options, error);
    }
    if (rc < 0) {
        gb_tls_unref(tls);
        return rc;
    }
    *out = tls;
    return GOBLIN_OK;
}

void gb_tls_unref(struct gb_tls *tls)
{
    if (tls == NULL || --tls->refs > 0) {
        return;
    }
    gb_certs_unref(tls->certs);
    if (tls->priorities != NULL) {
        gnutls_priority_deinit(tls->priorities);
    }
    if (tls->credentials != NULL) {
        gnutls_certificate_free_credentials(tls->credentials);
    }
    free(tls);
}

/* ---- the socket ---------------------------------------------------------------------------- */

/* False: the socket does not take all of it, or is broken (errno). */
static bool send_unsent(struct gb_tls_session *session)
{
    errno = EAGAIN;
    while (session->unsent_len > 0) {
        ssize_t n = send(session->fd, session->unsent + session->unsent_at, session->unsent_len,
                         MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return false;
        }
        session->unsent_at += (size_t)n;
        session->unsent_len -= (size_t)n;
    }
    free(session->unsent);
    session->unsent = NULL;
    session->unsent_at = 0;
    return true;
}

/* Keeps what lies behind the first `sent` bytes. */
static int keep(struct gb_tls_session *session, const giovec_t *iov, int count, size_t sent)
{
    size_t more = 0;
    for (int i = 0; i < count; i++) {
        more += iov[i].iov_len;
    }
    more -= sent;
    if (more == 0) {
        return 0;
    }
    size_t end = session->unsent_at + session->unsent_len;
    unsigned char *unsent = realloc(session->unsent, end + more);
    if (unsent == NULL) {
        return -ENOMEM;
    }
    session->unsent = unsent;
    session->unsent_len += more;
    for (int i = 0; i < count; i++) {
        size_t skip = (size_t)gb_min(sent, iov[i].iov_len);
        sent -= skip;
        memcpy(unsent + end, (const unsigned char *)iov[i].iov_base + skip, iov[i].iov_len - skip);
        end += iov[i].iov_len - skip;
    }
    return 0;
}

/* GnuTLS's way to the socket: takes everything. */
static ssize_t push(gnutls_transport_ptr_t arg, const giovec_t *iov, int count)
{
    struct gb_tls_session *session = arg;
    size_t total = 0;
    for (int i = 0; i < count; i++) {
        total += iov[i].iov_len;
    }
    ssize_t n = 0;
    if (session->unsent_len == 0) {
        const struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)iov,
                                       .msg_iovlen = (size_t)count};
        n = sendmsg(session->fd, &message, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
            gnutls_transport_set_errno(session->gnutls, errno);
            return -1;
        }
    }
    if (keep(session, iov, count, n < 0 ? 0 : (size_t)n) < 0) {
        gnutls_transport_set_errno(session->gnutls, ENOMEM);
        return -1;
    }
    return (ssize_t)total;
}

static ssize_t pull(gnutls_transport_ptr_t arg, void *to, size_t room)
{
    struct gb_tls_session *session = arg;
    ssize_t n = recv(session->fd, to, room, 0);
    if (n < 0) {
        gnutls_transport_set_errno(session->gnutls, errno);
    }
    return n;
}

/* ---- sessions ------------------------------------------------------------------------------ */

int gb_tls_open(struct gb_tls_session **out, struct gb_tls *tls, int fd)
{
    struct gb_tls_session *session = calloc(1, sizeof(*session));
    if (session == NULL) {
        return -ENOMEM;
    }
    session->fd = fd;
    session->tls = tls;
    tls->refs++;
    int rc = gnutls_init(&session->gnutls, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
    if (rc >= 0) {
        rc = gnutls_priority_set(session->gnutls, tls->priorities);
    }
    if (rc >= 0) {
        rc = gnutls_credentials_set(session->gnutls, GNUTLS_CRD_CERTIFICATE, tls->credentials);
    }
    if (rc < 0) {
        gb_tls_close(session);
        return -ENOMEM;
    }
    gnutls_session_set_ptr(session->gnutls, session);
    gnutls_transport_set_ptr(session->gnutls, session);
    gnutls_transport_set_vec_push_function(session->gnutls, push);
    gnutls_transport_set_pull_function(session->gnutls, pull);
    gnutls_handshake_set_timeout(session->gnutls, 0); /* the connection has deadlines */
    if (tls->clients != GB_TLS_CLIENTS_ANY) {
        bool required = tls->clients == GB_TLS_CLIENTS_REQUIRED;
        gnutls_certificate_server_set_request(session->gnutls,
                                              required ? GNUTLS_CERT_REQUIRE : GNUTLS_CERT_REQUEST);
        gnutls_session_set_verify_function(session->gnutls, verify);
    }
    *out = session;
    return GOBLIN_OK;
}

void gb_tls_close(struct gb_tls_session *session)
{
    if (session == NULL) {
        return;
    }
    if (session->gnutls != NULL) {
        gnutls_deinit(session->gnutls);
    }
    free(session->unsent);
    gb_tls_unref(session->tls);
    free(session);
}

int gb_tls_shake(struct gb_tls_session *session, const char **why)
{
    if (!send_unsent(session)) {
        return errno == EAGAIN ? -EAGAIN : -ECONNRESET;
    }
    int rc = gnutls_handshake(session->gnutls);
    if (rc >= 0) {
        return GOBLIN_OK;
    }
    if (gnutls_error_is_fatal(rc) == 0) {
        return -EAGAIN;
    }
    if (rc == GNUTLS_E_PREMATURE_TERMINATION || rc == GNUTLS_E_PULL_ERROR ||
        rc == GNUTLS_E_PUSH_ERROR) {
        return -ECONNRESET;
    }
    (void)gnutls_alert_send_appropriate(session->gnutls, rc);
    *why = gnutls_strerror(rc);
    return -EPROTO;
}

/* One record, or what is left of one. */
static ssize_t receive_some(struct gb_tls_session *session, unsigned char *to, size_t room)
{
    ssize_t n = gnutls_record_recv(session->gnutls, to, room);
    if (n >= 0) {
        return n;
    }
    if (n == GNUTLS_E_PREMATURE_TERMINATION) {
        return 0; /* many clients just leave; half a command counts for nothing, nor half a value */
    }
    /* Who wants to shake hands again is not listened to. */
    bool again = n != GNUTLS_E_REHANDSHAKE && gnutls_error_is_fatal((int)n) == 0;
    errno = again ? EAGAIN : EPROTO;
    return -1;
}

ssize_t gb_tls_receive(struct gb_tls_session *session, void *to, size_t room)
{
    size_t got = 0;
    ssize_t n = 0;
    for (unsigned i = 0; i < RECORDS_MOST && got < room && !session->over; i++) {
        n = receive_some(session, (unsigned char *)to + got, room - got);
        if (n <= 0) {
            break;
        }
        got += (size_t)n;
        /* Behind a full record there is mostly another; else the socket will tell. */
        if (n < RECORD_BYTES && gnutls_record_check_pending(session->gnutls) == 0) {
            break;
        }
    }
    if (got > 0) {
        session->over = n == 0 || (n < 0 && errno != EAGAIN);
        return (ssize_t)got;
    }
    return n;
}

bool gb_tls_has_more(const struct gb_tls_session *session)
{
    return session->over || gnutls_record_check_pending(session->gnutls) > 0;
}

/* Where gb_tls_send is in what it was given. */
struct place {
    const struct iovec *iov;
    size_t left; /* of the iov */
    size_t offset;
};

/* The next record's text: in place if one piece has all of it, else gathered. */
static size_t gather(struct place *at, unsigned char room[RECORD_BYTES], const void **text)
{
    size_t len = 0;
    while (at->left > 0 && len < RECORD_BYTES) {
        const unsigned char *from = (const unsigned char *)at->iov->iov_base + at->offset;
        size_t n = (size_t)gb_min(at->iov->iov_len - at->offset, RECORD_BYTES - len);
        at->offset += n;
        if (at->offset == at->iov->iov_len) {
            at->iov++;
            at->left--;
            at->offset = 0;
        }
        if (len == 0 && (n == RECORD_BYTES || at->left == 0)) {
            *text = from;
            return n;
        }
        memcpy(room + len, from, n);
        len += n;
    }
    *text = room;
    return len;
}

ssize_t gb_tls_send(struct gb_tls_session *session, const struct iovec *iov, size_t count)
{
    unsigned char room[RECORD_BYTES];
    struct place at = {.iov = iov, .left = count};
    size_t taken = 0;
    while (send_unsent(session)) {
        const void *text = NULL;
        size_t len = gather(&at, room, &text);
        if (len == 0) {
            return (ssize_t)taken;
        }
        ssize_t n = gnutls_record_send(session->gnutls, text, len);
        if (n < 0) {
            errno = EPIPE;
            return -1;
        }
        taken += (size_t)n;
        if ((size_t)n < len) {
            return (ssize_t)taken; /* a client that takes shorter records only */
        }
    }
    return taken > 0 ? (ssize_t)taken : -1;
}

bool gb_tls_is_unsent(const struct gb_tls_session *session)
{
    return session->unsent_len > 0;
}

size_t gb_tls_unsent_bytes(const struct gb_tls_session *session)
{
    return session->unsent_at + session->unsent_len;
}

void gb_tls_finish(struct gb_tls_session *session)
{
    if (session->unsent_len == 0) {
        (void)gnutls_bye(session->gnutls, GNUTLS_SHUT_WR);
    }
}
