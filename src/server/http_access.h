/* Who may do what (http_tokens.c), and how connections come by a certificate (http_tls.c). */
#ifndef GB_SERVER_HTTP_ACCESS_H
#define GB_SERVER_HTTP_ACCESS_H

#include <stdbool.h>

#include "proto/http_text.h"
#include "server/http.h"

struct gb_http_tokens;

int gb_http_tokens_load(struct gb_http_tokens **out, const char *file, struct goblin_error *error);
void gb_http_tokens_free(struct gb_http_tokens *tokens);
enum gb_http_may { GB_HTTP_MAY, GB_HTTP_MAY_NOT, GB_HTTP_UNKNOWN };
/* What the value of an Authorization field, absent or not, allows. As slow for all. */
enum gb_http_may gb_http_tokens_judge(const struct gb_http_tokens *tokens,
                                      struct gb_http_text authorization, bool writing);

/* For MHD_OPTION_HTTPS_CERT_CALLBACK; a gnutls_certificate_retrieve_function2. */
void *gb_http_tls_callback(void);

#endif
