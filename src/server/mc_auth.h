/*
 * Who may use the memcached port: memcached's -Y. A file of lines NAME:PASSWORD, and a `set` of any
 * key whose value is "NAME PASSWORD" as a connection's first command.
 *
 * Threads: a table belongs to its loop.
 */
#ifndef GB_SERVER_MC_AUTH_H
#define GB_SERVER_MC_AUTH_H

#include "server/mc_session.h"

/* Errors: any errno of reading the file; -EINVAL: it has more than 64 KiB, or a line without a
 * colon; explained. */
int gb_mc_auth_load(struct gb_mc_auth **out, const char *path, struct goblin_error *error);
void gb_mc_auth_free(struct gb_mc_auth *auth);

/* Whether the table has them; takes as long for the wrong as for the right. */
bool gb_mc_auth_check(const struct gb_mc_auth *auth, struct gb_mc_text name,
                      struct gb_mc_text password);

/* A command of somebody who has not said who he is. Returns as gb_conn_ops.on_bytes. */
ptrdiff_t gb_mc_auth_take(struct gb_mc_session *session, const struct gb_mc_parser *before,
                          const char *data, size_t len, size_t used);

#endif
