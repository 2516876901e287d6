/* How libmicrohttpd's sessions come by a certificate. */
#include <string.h>

#include "server/certs.h"
#include "server/http_internal.h"

/* NOLINTNEXTLINE(readability-function-size): the signature is GnuTLS's */
static int retrieve(gnutls_session_t session, const gnutls_datum_t *authorities,
                    int authority_count, const gnutls_pk_algorithm_t *algorithms,
                    int algorithm_count, gnutls_pcert_st **chain, unsigned *chain_len,
                    gnutls_privkey_t *key)
{
    (void)authorities;
    (void)authority_count;
    (void)algorithms;
    (void)algorithm_count;
    /* libmicrohttpd leaves its connection with the session. */
    struct MHD_Connection *mhd = gnutls_session_get_ptr(session);
    struct gb_http_conn *conn =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    if (conn == NULL) {
        return -1;
    }
    if (conn->certs == NULL) {
        conn->certs = gb_certs_ref(conn->http->certs);
    }
    gb_certs_choose(conn->certs, session, chain, chain_len, key);
    return 0;
}

void *gb_http_tls_callback(void)
{
    gnutls_certificate_retrieve_function2 *function = retrieve;
    void *pointer = NULL;
    _Static_assert(sizeof(pointer) == sizeof(function), "as POSIX has it for dlsym");
    memcpy(&pointer, &function, sizeof(pointer));
    return pointer;
}
