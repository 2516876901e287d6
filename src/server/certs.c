/* Certificates: see certs.h. */
#include "server/certs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gnutls/x509.h>

#define CHAIN_MOST 16u
#define FILE_MOST  (1u << 20)

struct certificate {
    gnutls_pcert_st chain[CHAIN_MOST];
    unsigned chain_len;
    gnutls_x509_crt_t leaf; /* for matching names */
    gnutls_privkey_t key;
};

struct gb_certs {
    unsigned refs; /* the loop's thread only */
    size_t count;
    struct certificate list[];
};

/* ---- reading ------------------------------------------------------------------------------- */

static int explain(struct goblin_error *error, const char *file, const char *why)
{
    if (error != NULL) {
        (void)snprintf(error->text, sizeof(error->text), "%s: %s", file, why);
    }
    return -EINVAL;
}

/* Owns: out->data is the caller's. */
static int read_file(const char *file, gnutls_datum_t *out, struct goblin_error *error)
{
    int rc = gnutls_load_file(file, out);
    if (rc < 0) {
        (void)explain(error, file, gnutls_strerror(rc));
        return errno == ENOENT ? -ENOENT : -EINVAL;
    }
    if (out->size > FILE_MOST) {
        gnutls_free(out->data);
        return explain(error, file, "too large for a certificate");
    }
    return 0;
}

static int read_chain(struct certificate *certificate, const char *file, struct goblin_error *error)
{
    gnutls_datum_t text = {NULL, 0};
    gnutls_x509_crt_t chain[CHAIN_MOST];
    unsigned count = CHAIN_MOST;
    int rc = read_file(file, &text, error);
    if (rc < 0) {
        return rc;
    }
    rc = gnutls_x509_crt_list_import(chain, &count, &text, GNUTLS_X509_FMT_PEM,
                                     GNUTLS_X509_CRT_LIST_IMPORT_FAIL_IF_EXCEED);
    gnutls_free(text.data);
    if (rc < 0) {
        return explain(error, file, gnutls_strerror(rc));
    }
    rc = gnutls_pcert_import_x509_list(certificate->chain, chain, &count, 0);
    if (rc >= 0) {
        certificate->chain_len = count;
        certificate->leaf = chain[0];
    }
    for (unsigned i = rc >= 0 ? 1 : 0; i < count; i++) {
        gnutls_x509_crt_deinit(chain[i]);
    }
    return rc < 0 ? explain(error, file, gnutls_strerror(rc)) : 0;
}

static int read_key(struct certificate *certificate, const char *file, struct goblin_error *error)
{
    gnutls_datum_t text = {NULL, 0};
    int rc = read_file(file, &text, error);
    if (rc < 0) {
        return rc;
    }
    rc = gnutls_privkey_init(&certificate->key);
    if (rc >= 0) {
        rc = gnutls_privkey_import_x509_raw(certificate->key, &text, GNUTLS_X509_FMT_PEM, NULL, 0);
    }
    explicit_bzero(text.data, text.size);
    gnutls_free(text.data);
    return rc < 0 ? explain(error, file, gnutls_strerror(rc)) : 0;
}

/* A key that belongs to another certificate would be noticed by clients only. */
static int check_pair(struct certificate *certificate, const char *file, struct goblin_error *error)
{
    unsigned char of_chain[64];
    unsigned char of_key[64];
    size_t chain_len = sizeof(of_chain);
    size_t key_len = sizeof(of_key);
    gnutls_pubkey_t key = NULL;
    int rc = gnutls_pubkey_init(&key);
    if (rc >= 0) {
        rc = gnutls_pubkey_import_privkey(key, certificate->key, 0, 0);
    }
    if (rc >= 0) {
        rc = gnutls_pubkey_get_key_id(key, GNUTLS_KEYID_USE_SHA256, of_key, &key_len);
    }
    if (key != NULL) {
        gnutls_pubkey_deinit(key);
    }
    if (rc >= 0) {
        rc = gnutls_x509_crt_get_key_id(certificate->leaf, GNUTLS_KEYID_USE_SHA256, of_chain,
                                        &chain_len);
    }
    if (rc < 0) {
        return explain(error, file, gnutls_strerror(rc));
    }
    if (chain_len != key_len || memcmp(of_chain, of_key, key_len) != 0) {
        return explain(error, file, "not the key of its certificate");
    }
    return 0;
}

int gb_certs_load(struct gb_certs **out, const struct gb_certs_files *files, size_t count,
                  struct goblin_error *error)
{
    struct gb_certs *certs = calloc(1, sizeof(*certs) + count * sizeof(certs->list[0]));
    if (certs == NULL) {
        return -ENOMEM;
    }
    certs->refs = 1;
    certs->count = count;
    int rc = 0;
    for (size_t i = 0; i < count && rc >= 0; i++) {
        rc = read_chain(&certs->list[i], files[i].chain, error);
        if (rc >= 0) {
            rc = read_key(&certs->list[i], files[i].key, error);
        }
        if (rc >= 0) {
            rc = check_pair(&certs->list[i], files[i].key, error);
        }
    }
    if (rc < 0) {
        gb_certs_unref(certs);
        return rc;
    }
    *out = certs;
    return GOBLIN_OK;
}

/* ---- life ---------------------------------------------------------------------------------- */

struct gb_certs *gb_certs_ref(struct gb_certs *certs)
{
    certs->refs++;
    return certs;
}

void gb_certs_unref(struct gb_certs *certs)
{
    if (certs == NULL || --certs->refs > 0) {
        return;
    }
    for (size_t i = 0; i < certs->count; i++) {
        struct certificate *certificate = &certs->list[i];
        for (unsigned j = 0; j < certificate->chain_len; j++) {
            gnutls_pcert_deinit(&certificate->chain[j]);
        }
        if (certificate->leaf != NULL) {
            gnutls_x509_crt_deinit(certificate->leaf);
        }
        if (certificate->key != NULL) {
            gnutls_privkey_deinit(certificate->key);
        }
    }
    free(certs);
}

/* ---- handshakes ---------------------------------------------------------------------------- */

static struct certificate *choose(struct gb_certs *certs, gnutls_session_t session)
{
    char name[256];
    size_t len = sizeof(name) - 1;
    unsigned type = 0;
    if (gnutls_server_name_get(session, name, &len, &type, 0) < 0 || type != GNUTLS_NAME_DNS) {
        return &certs->list[0];
    }
    name[len] = '\0';
    for (size_t i = 0; i < certs->count; i++) {
        if (gnutls_x509_crt_check_hostname(certs->list[i].leaf, name) != 0) {
            return &certs->list[i];
        }
    }
    return &certs->list[0];
}

void gb_certs_choose(struct gb_certs *certs, gnutls_session_t session, gnutls_pcert_st **chain,
                     unsigned *chain_len, gnutls_privkey_t *key)
{
    struct certificate *certificate = choose(certs, session);
    *chain = certificate->chain;
    *chain_len = certificate->chain_len;
    *key = certificate->key;
}
