/* The authentication file of the memcached port, and the set that speaks for a client. */
#include "server/mc_auth.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 65536, TOKEN_MAX = 1024 };

struct gb_mc_auth {
    size_t len;
    char text[]; /* lines, each with its end */
};

static int read_file(struct gb_mc_auth *auth, const char *path)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return -errno;
    }
    auth->len = fread(auth->text, 1, FILE_MAX, file);
    int result = ferror(file) ? -EIO : fgetc(file) != EOF ? -EINVAL : GOBLIN_OK;
    (void)fclose(file);
    if (auth->len > 0 && auth->text[auth->len - 1] != '\n') {
        auth->text[auth->len++] = '\n';
    }
    return result;
}

/* The line at *at, which is moved behind it. */
static struct gb_mc_text next_line(const struct gb_mc_auth *auth, size_t *at)
{
    const char *line = auth->text + *at;
    const char *end = memchr(line, '\n', auth->len - *at); /* each has one */
    *at += (size_t)(end - line) + 1;
    return (struct gb_mc_text){line, (size_t)(end - line)};
}

static bool is_table(const struct gb_mc_auth *auth)
{
    bool good = true;
    for (size_t at = 0; at < auth->len;) {
        struct gb_mc_text line = next_line(auth, &at);
        good = good && (line.len == 0 || memchr(line.data, ':', line.len) != NULL);
    }
    return good;
}

int gb_mc_auth_load(struct gb_mc_auth **out, const char *path, struct goblin_error *error)
{
    struct gb_mc_auth *auth = calloc(1, sizeof(*auth) + FILE_MAX + 1);
    int result = auth == NULL ? -ENOMEM : read_file(auth, path);
    if (result == GOBLIN_OK && !is_table(auth)) {
        result = -EINVAL;
    }
    if (result < 0) {
        const char *why = result == -EINVAL ? "not lines of NAME:PASSWORD, 64 KiB at the most"
                                            : goblin_strerror(result);
        (void)snprintf(error->text, sizeof(error->text), "authentication file: %.300s: %s", path,
                       why);
        free(auth);
        return result;
    }
    *out = auth;
    return GOBLIN_OK;
}

void gb_mc_auth_free(struct gb_mc_auth *auth)
{
    if (auth != NULL) {
        explicit_bzero(auth->text, auth->len);
        free(auth);
    }
}

/* Bytes that differ are counted to the end, so that how long it took says nothing. */
static bool same(struct gb_mc_text line, const char *given, size_t len)
{
    unsigned different = line.len != len;
    for (size_t i = 0; i < len; i++) { /* an empty line has its end */
        different |= (unsigned char)given[i] ^ (unsigned char)line.data[i < line.len ? i : 0];
    }
    return different == 0;
}

bool gb_mc_auth_check(const struct gb_mc_auth *auth, struct gb_mc_text name,
                      struct gb_mc_text password)
{
    char given[TOKEN_MAX + 1];
    size_t len = name.len + 1 + password.len;
    if (len > sizeof(given) || name.len == 0) {
        return false;
    }
    memcpy(given, name.data, name.len);
    given[name.len] = ':';
    memcpy(given + name.len + 1, password.data, password.len);
    bool found = false;
    for (size_t at = 0; at < auth->len;) {
        bool match = same(next_line(auth, &at), given, len);
        found = found || match;
    }
    explicit_bzero(given, sizeof(given));
    return found;
}

ptrdiff_t gb_mc_auth_take(struct gb_mc_session *session, const struct gb_mc_parser *before,
                          const char *data, size_t len, size_t used)
{
    const struct gb_mc_request *request = &session->event.request;
    session->event.request.noreply = false;
    if (request->verb != GB_MC_SET || request->size > TOKEN_MAX) {
        gb_mc_session_say(session, GB_MC_LITERAL("CLIENT_ERROR unauthenticated"));
        gb_conn_finish(session->conn);
        return (ptrdiff_t)len;
    }
    size_t size = (size_t)request->size;
    if (len - used < size + 2) {
        session->parser = *before;
        gb_conn_want(session->conn, used + size + 2);
        return 0;
    }
    struct gb_mc_text rest = {data + used, size};
    struct gb_mc_text name = gb_mc_next_word(&rest);
    struct gb_mc_text password = gb_mc_next_word(&rest);
    gb_mc_parser_taken(&session->parser);
    if (!gb_mc_parser_end(&session->parser, data + used + size)) {
        gb_mc_session_say(session, GB_MC_LITERAL("CLIENT_ERROR bad command line termination"));
    } else if (password.len == 0) {
        gb_mc_session_say(session, GB_MC_LITERAL("CLIENT_ERROR bad authentication token format"));
    } else {
        session->authenticated = gb_mc_auth_check(session->home->auth, name, password);
        gb_mc_session_count(session, GB_MC_COUNT_auth_cmds);
        if (!session->authenticated) {
            gb_mc_session_count(session, GB_MC_COUNT_auth_errors);
        }
        gb_mc_session_say(session, session->authenticated
                                       ? GB_MC_LITERAL("STORED")
                                       : GB_MC_LITERAL("CLIENT_ERROR authentication failure"));
    }
    return (ptrdiff_t)(used + size + 2);
}
