/*
 * Certificates, chosen by the name that the client asks for.
 *
 * A set of them is read when the server starts and again at SIGHUP. A connection keeps the set of
 * its handshake until it ends, for GnuTLS only borrows them.
 *
 * Threads: a set belongs to one loop.
 */
#ifndef GB_SERVER_CERTS_H
#define GB_SERVER_CERTS_H

#include <stddef.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>

#include <goblin/error.h>

/* What is spoken, on every port with TLS: 1.2 and 1.3, with keys that are new for each connection
 * and ciphers that authenticate. */
#define GB_CERTS_PRIORITIES                                                                        \
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-CIPHER-ALL:+AES-256-GCM:+AES-128-GCM:"       \
    "+CHACHA20-POLY1305:%SERVER_PRECEDENCE"

/* A certificate chain and its key, both PEM; they may be one file. */
struct gb_certs_files {
    const char *chain;
    const char *key;
};

struct gb_certs;

/* The first of the files is for who names no other.
 * Errors: -ENOENT, -EINVAL, explained; -ENOMEM. */
int gb_certs_load(struct gb_certs **out, const struct gb_certs_files *files, size_t count,
                  struct goblin_error *error);
struct gb_certs *gb_certs_ref(struct gb_certs *certs);
void gb_certs_unref(struct gb_certs *certs); /* NULL is nothing */

/* What a gnutls_certificate_retrieve_function2 answers. */
void gb_certs_choose(struct gb_certs *certs, gnutls_session_t session, gnutls_pcert_st **chain,
                     unsigned *chain_len, gnutls_privkey_t *key);

#endif
