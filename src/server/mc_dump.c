/*
 * lru_crawler metadump and mgdump, stats cachedump: lists of what there is.
 *
 * A worker walks the index a slice at a time and writes lines; the loop appends them and asks for
 * the next slice when the client has taken enough. The connection is paused meanwhile.
 */
#include <errno.h>
#include <stdlib.h>

#include "server/mc_session.h"

#define SLICE_OBJECTS 256u /* bucket by bucket: a few more may come */
#define SLICE_BYTES   ((SLICE_OBJECTS + 64) * (size_t)GB_MC_DUMP_MAX)

struct gb_mc_dump {
    struct gb_job job;
    struct gb_mc_session *session;
    enum gb_mc_dump_form form;
    bool working; /* a worker has it */
    bool over;
    uint64_t cursor;
    uint64_t left; /* objects still to be listed */
    int64_t now_ms;
    int result;
    size_t len;
    char text[SLICE_BYTES];
};

static char *write_line(const struct gb_mc_dump *dump, struct gb_mc_text key,
                        const struct goblin_info *info, char *to)
{
    const struct gb_mc_object object = {
        .size = info->size, .cas = info->version, .fetched = info->accesses > 0};
    int64_t expires_s = info->expires_ms / 1000;
    switch (dump->form) {
    case GB_MC_DUMP_MG:
        return gb_mc_write_mgdump(to, key);
    case GB_MC_DUMP_CACHE:
        to = gb_mc_write_text(to, GB_MC_LITERAL("ITEM "));
        to = gb_mc_write_text(to, key);
        to = gb_mc_write_text(to, GB_MC_LITERAL(" ["));
        to = gb_mc_write_unsigned(to, info->size);
        to = gb_mc_write_text(to, GB_MC_LITERAL(" b; "));
        to = gb_mc_write_signed(to, expires_s);
        return gb_mc_write_text(to, GB_MC_LITERAL(" s]\r\n"));
    case GB_MC_DUMP_META:
    default:
        return gb_mc_write_dump(to, key, &object, info->expires_ms == 0 ? -1 : expires_s);
    }
}

/* Keys that memcached cannot have are not its to tell. */
static int visit(void *arg, struct goblin_slice key, const struct goblin_info *info)
{
    struct gb_mc_dump *dump = arg;
    bool expired = info->expires_ms != 0 && info->expires_ms <= dump->now_ms;
    if (key.len > GB_MC_KEY_MAX || expired || dump->left == 0 ||
        dump->len + GB_MC_DUMP_MAX > sizeof(dump->text)) {
        return 0;
    }
    char *to = dump->text + dump->len;
    const char *end = write_line(dump, (struct gb_mc_text){key.data, key.len}, info, to);
    dump->len += (size_t)(end - to);
    dump->left--;
    return 0;
}

static void run_slice(struct gb_job *job)
{
    struct gb_mc_dump *dump = (struct gb_mc_dump *)job; /* its first member */
    dump->result =
        goblin_iterate(dump->session->home->loop->store, &dump->cursor, SLICE_OBJECTS, visit, dump);
}

static void next_slice(struct gb_mc_dump *dump)
{
    struct gb_loop *loop = dump->session->home->loop;
    dump->working = true;
    dump->len = 0;
    dump->now_ms = loop->wall_ms;
    gb_work_submit(loop->work, loop, &dump->job);
}

static void end_dump(struct gb_mc_dump *dump)
{
    struct gb_mc_session *session = dump->session;
    gb_limits_give(session->home->loop->limits, sizeof(*dump));
    session->dump = NULL;
    free(dump);
    gb_conn_resume(session->conn);
}

static void slice_done(struct gb_job *job)
{
    struct gb_mc_dump *dump = (struct gb_mc_dump *)job;
    struct gb_conn *conn = dump->session->conn;
    dump->working = false;
    if (gb_conn_is_closed(conn)) {
        end_dump(dump);
        return;
    }
    gb_conn_append(conn, dump->text, dump->len);
    if (gb_conn_is_closed(conn)) {
        return; /* gb_mc_dump_close has ended it */
    }
    if (dump->result < 0 || dump->cursor == 0 || dump->left == 0) {
        dump->session->event.request.noreply = false;
        if (dump->result < 0) {
            gb_mc_session_say_fault(dump->session, dump->result);
        } else {
            gb_mc_session_say(dump->session, dump->form == GB_MC_DUMP_MG ? GB_MC_LITERAL("EN")
                                                                         : GB_MC_LITERAL("END"));
        }
        gb_mc_session_done(dump->session, GB_METRICS_OP_other, "DUMPED");
        end_dump(dump);
    } else if (!gb_conn_full(conn)) {
        next_slice(dump);
    }
}

void gb_mc_dump_drained(struct gb_mc_session *session)
{
    if (session->dump != NULL && !session->dump->working) {
        next_slice(session->dump);
    }
}

/* One that a worker has is ended when it comes back. */
void gb_mc_dump_close(struct gb_mc_session *session)
{
    if (session->dump != NULL && !session->dump->working) {
        end_dump(session->dump);
    }
}

void gb_mc_dump_begin(struct gb_mc_session *session, enum gb_mc_dump_form form, uint64_t limit)
{
    struct gb_limits *limits = session->home->loop->limits;
    struct gb_mc_dump *dump = NULL;
    if (gb_limits_take(limits, sizeof(*dump))) {
        dump = malloc(sizeof(*dump));
        if (dump == NULL) {
            gb_limits_give(limits, sizeof(*dump));
        }
    }
    if (dump == NULL) {
        gb_mc_session_say(session, GB_MC_LITERAL("SERVER_ERROR out of memory"));
        return;
    }
    *dump = (struct gb_mc_dump){
        .job = {.run = run_slice, .done = slice_done},
        .session = session,
        .form = form,
        .left = limit == 0 ? UINT64_MAX : limit,
    };
    session->dump = dump;
    gb_conn_pause(session->conn);
    next_slice(dump);
}
