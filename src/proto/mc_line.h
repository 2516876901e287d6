/* One whole command line and what becomes of it; between the files of the memcached parser. */
#ifndef GB_PROTO_MC_LINE_H
#define GB_PROTO_MC_LINE_H

#include "proto/mc_parse.h"

struct gb_mc_line {
    const char *base;
    size_t len; /* without its end */
    uint64_t value_max;
    unsigned count;
    struct gb_mc_text words[GB_MC_WORDS_MAX];
};

#define GB_MC_BAD_LINE "CLIENT_ERROR bad command line format"

static inline void gb_mc_refuse(struct gb_mc_event *event, struct gb_mc_text text)
{
    event->kind = GB_MC_REFUSED;
    event->text = text;
}

/* Splits data[0…len) at its spaces. */
void gb_mc_line_split(struct gb_mc_line *line, const char *data, size_t len);

/* Reads the line into event->request (zeroed), or refuses it. The keys of get, gets, gat, gats are
 * not looked at. */
void gb_mc_line_read(const struct gb_mc_line *line, struct gb_mc_event *event);

/* Of mg, ms, md, ma, me; event->request.verb is set. */
void gb_mc_meta_read(const struct gb_mc_line *line, struct gb_mc_event *event);

#endif
