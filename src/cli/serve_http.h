/* What the options of `serve` that are about HTTP become. */
#ifndef GB_CLI_SERVE_HTTP_H
#define GB_CLI_SERVE_HTTP_H

#include "cli/options.h"
#include "server/http.h"

/* As the command line has them. */
struct gb_serve_http_settings {
    struct gb_option_list certificates; /* "CHAIN:KEY" */
    struct gb_option_list rules;        /* "[HOST]/PATH=KEY" */
    const char *tokens_file;
    const char *origins;
    bool read_only;
};

struct gb_serve_http {
    struct gb_http_options options; /* points into the rest */
    struct gb_certs_files certificates[GB_OPTION_LIST_MAX];
    struct gb_http_rule rules[GB_OPTION_LIST_MAX];
    char *texts[3 * GB_OPTION_LIST_MAX]; /* owned */
    size_t text_count;
};

/* Takes the settings apart and reads every file they name. `secure`: HTTPS is to be served. Zero
 * *out first; gb_serve_http_free, also after a fault. */
int gb_serve_http_fill(struct gb_serve_http *out, const struct gb_serve_http_settings *settings,
                       bool secure, struct goblin_error *error);
void gb_serve_http_free(struct gb_serve_http *http);

#endif
