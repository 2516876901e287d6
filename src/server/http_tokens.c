/*
 * Who may do what: bearer tokens (RFC 6750) out of a file.
 *
 *     # a comment
 *     read   n0b0dy-kn0ws-this
 *     write  n0r-this
 *     read   anonymous
 *
 * Who may write may read. `anonymous` stands for whoever brings no token. Tokens are 16 to 256
 * characters without blanks.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/http_internal.h"

#define TOKEN_LEAST 16u
#define TOKEN_MOST  256u

struct token {
    unsigned char bytes[TOKEN_MOST]; /* zeros behind the token */
    size_t len;
    bool writes;
};

struct gb_http_tokens {
    struct token *list;
    size_t count;
    bool anonymous_reads;
    bool anonymous_writes;
};

void gb_http_tokens_free(struct gb_http_tokens *tokens)
{
    if (tokens == NULL) {
        return;
    }
    if (tokens->list != NULL) {
        explicit_bzero(tokens->list, tokens->count * sizeof(*tokens->list));
    }
    free(tokens->list);
    free(tokens);
}

static int add_token(struct gb_http_tokens *tokens, const char *text, size_t len, bool writes)
{
    if (len == strlen("anonymous") && memcmp(text, "anonymous", len) == 0) {
        tokens->anonymous_reads = true;
        tokens->anonymous_writes = tokens->anonymous_writes || writes;
        return 0;
    }
    if (len < TOKEN_LEAST || len > TOKEN_MOST) {
        return -EINVAL;
    }
    struct token *list = calloc(tokens->count + 1, sizeof(*list));
    if (list == NULL) {
        return -ENOMEM;
    }
    if (tokens->count > 0) {
        memcpy(list, tokens->list, tokens->count * sizeof(*list));
        explicit_bzero(tokens->list, tokens->count * sizeof(*list));
    }
    free(tokens->list);
    tokens->list = list;
    struct token *token = &list[tokens->count++];
    memcpy(token->bytes, text, len);
    token->len = len;
    token->writes = writes;
    return 0;
}

/* Returns 0, -EINVAL or -ENOMEM. */
static int read_line(struct gb_http_tokens *tokens, char *line)
{
    char *rest = NULL;
    char *right = strtok_r(line, " \t\r\n", &rest);
    if (right == NULL || right[0] == '#') {
        return 0;
    }
    const char *token = strtok_r(NULL, " \t\r\n", &rest);
    bool writes = strcmp(right, "write") == 0;
    if (token == NULL || strtok_r(NULL, " \t\r\n", &rest) != NULL ||
        (!writes && strcmp(right, "read") != 0)) {
        return -EINVAL;
    }
    return add_token(tokens, token, strlen(token), writes);
}

static int explain(struct goblin_error *error, const char *file, unsigned line, int fault)
{
    if (error != NULL && fault == -EINVAL) {
        (void)snprintf(error->text, sizeof(error->text),
                       "%s: line %u: say 'read' or 'write', and a token of 16 to 256 characters or "
                       "'anonymous'",
                       file, line);
    } else if (error != NULL) {
        (void)snprintf(error->text, sizeof(error->text), "%s: %s", file, goblin_strerror(fault));
    }
    return fault;
}

int gb_http_tokens_load(struct gb_http_tokens **out, const char *file, struct goblin_error *error)
{
    *out = NULL;
    if (file == NULL) {
        return GOBLIN_OK;
    }
    FILE *stream = fopen(file, "re");
    if (stream == NULL) {
        return explain(error, file, 0, -errno);
    }
    struct gb_http_tokens *tokens = calloc(1, sizeof(*tokens));
    char line[1024];
    unsigned number = 0;
    int rc = tokens == NULL ? -ENOMEM : 0;
    while (rc == 0 && fgets(line, sizeof(line), stream) != NULL) {
        number++;
        rc = strlen(line) == sizeof(line) - 1 ? -EINVAL : read_line(tokens, line);
    }
    if (rc == 0 && ferror(stream) != 0) {
        rc = -EIO;
    }
    explicit_bzero(line, sizeof(line));
    (void)fclose(stream);
    if (rc < 0) {
        gb_http_tokens_free(tokens);
        return explain(error, file, number, rc);
    }
    *out = tokens;
    return GOBLIN_OK;
}

/* Looks at every byte of both, whatever it finds. */
static bool is_token(const struct token *token, const unsigned char *bytes, size_t len)
{
    size_t differences = token->len ^ len;
    for (size_t i = 0; i < TOKEN_MOST; i++) {
        differences |= (size_t)(token->bytes[i] ^ bytes[i]);
    }
    return differences == 0;
}

enum gb_http_may gb_http_tokens_judge(const struct gb_http_tokens *tokens,
                                      struct gb_http_text authorization, bool writing)
{
    const struct gb_http_text scheme = GB_HTTP_TEXT("Bearer ");
    unsigned char bytes[TOKEN_MOST] = {0};
    if (authorization.at == NULL) {
        bool may = writing ? tokens->anonymous_writes : tokens->anonymous_reads;
        return may ? GB_HTTP_MAY : GB_HTTP_UNKNOWN;
    }
    if (authorization.len <= scheme.len ||
        !gb_http_text_same_name((struct gb_http_text){authorization.at, scheme.len}, scheme)) {
        return GB_HTTP_UNKNOWN;
    }
    const struct gb_http_text given = gb_http_text_trim(
        (struct gb_http_text){authorization.at + scheme.len, authorization.len - scheme.len});
    if (given.len > TOKEN_MOST) {
        return GB_HTTP_UNKNOWN;
    }
    memcpy(bytes, given.at, given.len);
    bool known = false;
    bool writes = false;
    for (size_t i = 0; i < tokens->count; i++) {
        bool same = is_token(&tokens->list[i], bytes, given.len);
        known = known || same;
        writes = writes || (same && tokens->list[i].writes);
    }
    if (!known) {
        return GB_HTTP_UNKNOWN;
    }
    return writing && !writes ? GB_HTTP_MAY_NOT : GB_HTTP_MAY;
}
