/*
 * An HTTP/1.1 client of one connection, for verbs that ask a running server.
 *
 * One exchange per connection: gb_client_open, gb_client_ask, gb_client_answer, gb_client_read
 * until it says 0, gb_client_close. A body that ends before its announced end is a fault, never
 * short.
 *
 * Threads: one. Blocks: in all calls; a server that is silent for half a minute is a fault.
 */
#ifndef GB_CLI_CLIENT_H
#define GB_CLI_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <goblin/error.h>

#define GB_CLIENT_BUFFER 65536u /* a head must fit */
#define GB_CLIENT_HOST   256u
#define GB_CLIENT_TOKEN  1024u

struct gb_client {
    int fd;
    char host[GB_CLIENT_HOST];   /* as the server wants to hear it */
    char token[GB_CLIENT_TOKEN]; /* empty: none */
    bool is_head;                /* the request has the method HEAD: no body comes */
    bool chunked;
    bool to_the_end;  /* the body ends with the connection */
    bool chunk_open;  /* the end of a chunk's line is still to come */
    bool over;        /* the body is */
    const char *head; /* of the answer; until the body is read */
    uint64_t left;    /* of the body, or of the chunk */
    size_t begin;     /* what was received and not used */
    size_t end;
    char buffer[GB_CLIENT_BUFFER];
};

/* "HOST:PORT", "[IPV6]:PORT", "http://HOST:PORT", "/SOCKET" or "unix:SOCKET". The token is the
 * first line of `token_file`; NULL: none.
 * Returns GOBLIN_OK or a fault, explained; then there is nothing to close. */
int gb_client_open(struct gb_client *client, const char *address, const char *token_file,
                   struct goblin_error *error);

/* Sends a head. `fields` are further lines, each with its CRLF, or "". */
int gb_client_ask(struct gb_client *client, const char *method, const char *target,
                  const char *fields, struct goblin_error *error);

/* Receives the answer's head. Returns the status, or a fault, explained. */
int gb_client_answer(struct gb_client *client, struct goblin_error *error);

/* A field of the answer's head, before the body is read. False: it has none, or it does not fit. */
bool gb_client_field(const struct gb_client *client, const char *name, char *out, size_t size);

/* Sends bytes of a request's body, behind gb_client_ask. Returns GOBLIN_OK or a fault: an answer
 * may have come all the same. */
int gb_client_send(struct gb_client *client, const void *bytes, size_t len);

/* Bytes of the body: how many, 0 at its end, or a fault, explained. */
ssize_t gb_client_read(struct gb_client *client, void *bytes, size_t size,
                       struct goblin_error *error);

void gb_client_close(struct gb_client *client);

/* GET, whole, with a NUL behind it: a body of up to `most` bytes. Returns GOBLIN_OK, or a fault,
 * explained; any status but 200 is one. Owns: *text is the caller's to free. */
int gb_client_fetch(char **text, const char *address, const char *token_file, const char *target,
                    size_t most, struct goblin_error *error);

#endif
