/*
 * Clients of the network fuzzer: each sends a stream in pieces, takes what comes back, may leave
 * in the middle. One thread drives them all, taking turns as the seed says.
 */
#ifndef GB_TESTS_NETCLIENT_H
#define GB_TESTS_NETCLIENT_H

#include "lib/netstream.h"

/* How the stream is cut into pieces. */
enum gb_netclient_split {
    GB_SPLIT_WHOLE,
    GB_SPLIT_BYTES,        /* one by one, for a good while */
    GB_SPLIT_SMALL,        /* 1 to 16 */
    GB_SPLIT_ANY,          /* 1 to 4096 */
    GB_SPLIT_EDGES,        /* where words, lines and values begin and end */
    GB_SPLIT_BESIDE_EDGES, /* a byte before or behind */
    GB_SPLIT_TWO,
    GB_SPLITS,
};

/* How the client ends. */
enum gb_netclient_cut {
    GB_CUT_NOT,   /* sends all, takes all */
    GB_CUT_CLOSE, /* closes; a reset if something has not been read */
    GB_CUT_RESET,
    GB_CUT_HALF, /* sends no more, and takes what still comes */
    GB_CUT_MUTE, /* says and takes nothing more until the others are done */
    GB_CUTS,
};

struct gb_netclient {
    const struct gb_netstream *stream;
    int fd; /* -1: closed */
    bool is_unix;
    enum gb_netclient_split split;
    enum gb_netclient_cut cut;
    size_t end; /* how much of the stream is sent */
    bool lazy;  /* takes nothing while it can send */
    size_t sent;
    size_t piece_end;
    size_t edge; /* next one of the stream */
    bool half_closed;
    bool broken; /* the server closed while there was more to send */
    bool over;
    unsigned char *answers;
    size_t answers_len;
    size_t answers_room;
};

/* Draws how a stream is sent to a server's listener, and connects. */
void gb_netclient_open(struct gb_netclient *client, const struct gb_netstream *stream,
                       const char *address);
void gb_netclient_draw(struct gb_netclient *client, struct gb_rng *rng, bool cuts);

/* Until all are over: answered to the end of the connection, or cut as was drawn. Fails the test if
 * nothing moves for a long while. */
void gb_netclient_run(struct gb_netclient *clients, size_t count, struct gb_rng *rng);

void gb_netclient_fini(struct gb_netclient *client);

#endif
