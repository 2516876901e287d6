/* What simrun.c (lives and crashes), simdrives.c (which drives are there), simfaults.c (what else
 * the disk does), simcheck.c (looking) and simwork.c (operations) share. */
#ifndef GB_SIM_SIMRUN_INTERNAL_H
#define GB_SIM_SIMRUN_INTERNAL_H

#include <goblin/reader.h>
#include <goblin/writer.h>

#include "base/rng.h"
#include "engine/store.h"
#include "sim/simdisk.h"
#include "sim/simmodel.h"
#include "sim/simrun.h"

#define SIMRUN_KEYS_MAX   48u
#define SIMRUN_STREAMS    2u
#define SIMRUN_VALUE_MAX  (3u << 20)
#define SIMRUN_NAME_MAX   4096u
#define SIMRUN_DRIVES_MAX 3u

/* A value that is being streamed in. */
struct simstream {
    struct goblin_writer *writer; /* NULL: none */
    unsigned key;
    struct simstate state;
    uint64_t given;
    enum goblin_condition condition;
    enum goblin_durability durability;
};

/* A drive's directory, and whether the store is given it or a name where nothing is. */
struct simdrive {
    char path[24];
    char nowhere[24];
    bool away;
    bool behind;       /* an opening began since without what is, or was, there */
    unsigned replaced; /* times */
};

/* What has been done to headers of segments before an opening. */
#define SIMRUN_WOUNDS_MAX 6u

struct simwound {
    char path[40];
    uint64_t offset;
    bool flipped; /* else unreadable */
};

struct simheaders {
    struct simwound wounds[SIMRUN_WOUNDS_MAX];
    unsigned count;
    bool both;     /* of one segment: it is lost */
    uint64_t cuts; /* of power, before */
};

/* What the disk does in a life besides what simrun.c draws. */
struct simfaults {
    struct gb_rng rng;
    bool fails_more;   /* it is a disk that fails several writes in a life */
    bool fills;        /* its file system is filled by others now and then */
    bool full;         /* now */
    bool was_full;     /* in this life */
    bool refuses;      /* one of its drives takes no writes now and then */
    bool refusing;     /* now */
    bool has_refused;  /* in this life */
    bool writes_alone; /* nothing but writes fails in this life */
    unsigned left;     /* writes still to fail in it */
    uint64_t told;     /* failures that there are once the one that was ordered has come */
};

struct simrun {
    uint64_t seed;
    bool trace;
    struct simrun_result *result;
    struct gb_rng rng;
    struct gb_io *disk;
    uint64_t cuts;   /* of power, that have been dealt with */
    uint64_t failed; /* operations of the disk, before this life */
    bool fails;      /* it is a disk that does */
    int64_t now_ms;
    struct goblin_options options;
    const char *dirs[SIMRUN_DRIVES_MAX];
    struct simdrive drives[SIMRUN_DRIVES_MAX];
    bool opened;   /* the store was, once at least */
    bool was_hurt; /* writes or syncs failed in the life that ended last */
    bool losing;   /* a drive has been taken away or come back, or a segment has been lost,
                           since the store was last open */
    struct simheaders headers;
    struct simfaults faults;
    bool killed;        /* what is left of the process may complain while it is taken apart */
    bool evicts;        /* objects may have left for lack of room */
    uint64_t reclaimed; /* in this life: segments */
    uint64_t evicted;   /* and objects */
    uint64_t kept_in_ram;
    uint64_t written_later;
    uint64_t returned; /* in this life: drives that had been retired */
    uint64_t rescued;  /* streams */

    struct goblin *store;
    struct goblin_reader *reader;
    struct simstream streams[SIMRUN_STREAMS];

    unsigned key_count;
    struct simkey keys[SIMRUN_KEYS_MAX];
    uint32_t next_write;
    unsigned char *value;
    struct goblin_buffer loaded;
    struct goblin_buffer meta;
};

static inline uint64_t simrun_below(struct simrun *run, uint64_t bound)
{
    return gb_rng_below(&run->rng, bound);
}

static inline bool simrun_chance(struct simrun *run, unsigned percent)
{
    return gb_rng_below(&run->rng, 100) < percent;
}

/* The seeds of the patterns that an object's value and metadata are; by its flags. */
static inline uint64_t simrun_value_seed(unsigned key, uint32_t flags)
{
    return (uint64_t)key << 32 | (flags & SIMSTATE_WRITE);
}

static inline uint64_t simrun_meta_seed(unsigned key, uint32_t flags)
{
    return simrun_value_seed(key, flags) | UINT64_C(1) << 63;
}

/* Notes the first broken promise; always false. */
bool simrun_fail(struct simrun *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool simrun_failed(const struct simrun *run);
void simrun_trace(const struct simrun *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The name of a key; lives until the next call. */
struct goblin_slice simrun_name(struct simrun *run, unsigned key);

/* The power has been cut since the store was opened. */
bool simrun_dark(struct simrun *run);
/* The disk has failed an operation of this life: calls may fail, and what was not acknowledged as
 * written may be gone. */
bool simrun_hurt(struct simrun *run);

/* ---- simdrives.c --------------------------------------------------------------------------- */

void simdrives_init(struct simrun *run, unsigned count);
/* Perhaps takes a drive away, brings it back as it was, or puts an empty directory in its place. */
void simdrives_draw(struct simrun *run, enum simcrash crash);
/* The store is being opened, or open, with the drives that are there. */
void simdrives_note(struct simrun *run, bool open);
/* What the store may say about it. */
bool simdrives_explain(const char *line);

/* ---- simfaults.c --------------------------------------------------------------------------- */

/* `reserves`: the file system can. */
void simfaults_init(struct simrun *run, bool reserves);
/* A life begins, an operation of it, and its end. */
void simfaults_begin(struct simrun *run);
void simfaults_step(struct simrun *run);
void simfaults_end(struct simrun *run);
/* What has failed in this life can go elsewhere, and no drive has been given up for it: no writer
 * hears of it. */
bool simfaults_bearable(struct simrun *run);
/* Each lane's deletes have a segment: of the reserve, or that a cache can empty. */
bool simfaults_deletes_fit(struct simrun *run);
/* A drive has been given up: what the store drops of its own, it cannot say on the drive. */
bool simfaults_given_up(const struct simrun *run);
/* All that has been acknowledged is as safe as can be, but for that. */
void simfaults_all_synced(struct simrun *run, bool given_up);
/* What the store may say about it. */
bool simfaults_explain(const struct simrun *run, const char *line);

/* ---- simheaders.c -------------------------------------------------------------------------- */

/* Perhaps damages headers of segments, or makes them unreadable, before the store is opened. */
void simheaders_draw(struct simrun *run);
/* The store was refused for it, as it should be: makes it undone. False: it was not. */
bool simheaders_refused(struct simrun *run, int rc, const char *text);
/* The store is open: what had to be mended has been. */
bool simheaders_opened(struct simrun *run);
/* What the store may say about it. */
bool simheaders_explain(const struct simrun *run, const char *line);

/* ---- simcheck.c ---------------------------------------------------------------------------- */

/* Reads every key and holds what is there against the model. */
bool simcheck_all(struct simrun *run, enum simcrash crash);
/* The same for one key, by its info alone or with every byte. */
bool simcheck_info(struct simrun *run, unsigned key);
bool simcheck_bytes(struct simrun *run, unsigned key, enum simcrash crash);
bool simcheck_range(struct simrun *run, unsigned key);
bool simcheck_iteration(struct simrun *run);
/* Nothing was found bad that nobody has spoiled. */
bool simcheck_counters(struct simrun *run);

/* ---- simwork.c ----------------------------------------------------------------------------- */

/* One random operation. False: a promise was broken. */
bool simwork_step(struct simrun *run);
void simwork_drop_streams(struct simrun *run);

#endif
