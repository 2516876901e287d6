/* What the options of `serve` that are about HTTP become: see serve_http.h. */
#include "cli/serve_http.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/say.h"

/* A piece of an option's text, with an end of its own. NULL without memory. */
static const char *keep(struct gb_serve_http *http, const char *text, size_t len)
{
    char *copy = strndup(text, len);
    if (copy != NULL) {
        http->texts[http->text_count++] = copy;
    }
    return copy;
}

static int add_certificate(struct gb_serve_http *http, const char *text, struct goblin_error *error)
{
    const char *colon = strchr(text, ':');
    if (colon == NULL || colon == text || colon[1] == '\0' || strchr(colon + 1, ':') != NULL) {
        return gb_say_explain(error, "--certificate %s: give CHAIN:KEY: two files", text);
    }
    struct gb_certs_files *files = &http->certificates[http->options.certificate_count++];
    files->chain = keep(http, text, (size_t)(colon - text));
    files->key = colon + 1;
    return files->chain == NULL ? -ENOMEM : GOBLIN_OK;
}

static int add_rule(struct gb_serve_http *http, const char *text, struct goblin_error *error)
{
    const char *slash = strchr(text, '/');
    const char *sign = slash == NULL ? NULL : strchr(slash, '=');
    if (sign == NULL) {
        return gb_say_explain(error, "--http-map %s: give [HOST]/PATH=KEY", text);
    }
    struct gb_http_rule *rule = &http->rules[http->options.rule_count++];
    rule->host = slash == text ? NULL : keep(http, text, (size_t)(slash - text));
    rule->path = keep(http, slash, (size_t)(sign - slash));
    rule->key = sign + 1;
    return rule->path == NULL || (slash != text && rule->host == NULL) ? -ENOMEM : GOBLIN_OK;
}

int gb_serve_http_fill(struct gb_serve_http *out, const struct gb_serve_http_settings *settings,
                       bool secure, struct goblin_error *error)
{
    int result = GOBLIN_OK;
    out->options = (struct gb_http_options){
        .read_only = settings->read_only,
        .tokens_file = settings->tokens_file,
        .origins = settings->origins,
        .certificates = out->certificates,
        .rules = out->rules,
    };
    for (unsigned i = 0; result >= 0 && i < settings->certificates.count; i++) {
        result = add_certificate(out, settings->certificates.items[i], error);
    }
    for (unsigned i = 0; result >= 0 && i < settings->rules.count; i++) {
        result = add_rule(out, settings->rules.items[i], error);
    }
    if (result >= 0 && secure && settings->certificates.count == 0) {
        return gb_say_explain(error, "--https needs a --certificate CHAIN:KEY");
    }
    if (result == -ENOMEM) {
        (void)gb_say_explain(error, "no memory");
    }
    return result < 0 ? result : gb_http_check(&out->options, error);
}

void gb_serve_http_free(struct gb_serve_http *http)
{
    for (size_t i = 0; i < http->text_count; i++) {
        free(http->texts[i]);
    }
    http->text_count = 0;
}
