/* Mending: in a store that is open for writing, without background threads. First the tombstones,
 * so that nothing older comes back whatever is found again by scanning; then the files. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/check_internal.h"
#include "engine/headers.h"

/* ---- pieces -------------------------------------------------------------------------------- */

/* Writes `len` bytes at any offset of a segment, block by block as direct I/O wants it. */
static int patch(const struct gb_segment *segment, uint64_t offset, const unsigned char *bytes,
                 size_t len)
{
    void *block = NULL;
    if (posix_memalign(&block, GB_BLOCK, GB_BLOCK) != 0) {
        return -ENOMEM;
    }
    const struct gb_io_ops *ops = segment->file->io->ops;
    int rc = 0;
    while (rc >= 0 && len > 0) {
        uint64_t at = gb_align_down(offset, GB_BLOCK);
        size_t n = gb_min(len, at + GB_BLOCK - offset);
        int64_t moved = ops->file_read(segment->file, block, GB_BLOCK, at);
        if (moved >= 0) {
            memcpy((unsigned char *)block + (offset - at), bytes, n);
            moved = ops->file_write(segment->file, block, GB_BLOCK, at);
        }
        rc = moved < 0 ? (int)moved : 0;
        offset += n;
        bytes += n;
        len -= n;
    }
    rc = rc < 0 ? rc : ops->file_sync(segment->file);
    free(block);
    return rc;
}

static int wipe(const struct gb_segment *segment, uint64_t offset)
{
    static const unsigned char zeros[GB_BLOCK];
    return patch(segment, offset, zeros, GB_BLOCK);
}

static int rewrite_record(const struct gb_segment *segment, const struct gb_case *about)
{
    unsigned char bytes[GB_RECORD_HEADER + GOBLIN_KEY_MAX];
    gb_record_encode(&about->record, about->key, segment->salt, about->offset, bytes);
    return patch(segment, about->offset, bytes, GB_RECORD_HEADER + about->key_len);
}

/* Whether the segment is still what it was when it was looked at: the log may have moved on. */
static bool is_same(const struct gb_segment *segment, const struct gb_case *about)
{
    switch (about->trouble) {
    case GB_TROUBLE_SHORT_FREE:
    case GB_TROUBLE_HEADER_FREE:
    case GB_TROUBLE_HEADERS: /* a cache has freed it while it was opened */
        return segment->status == GB_SEGMENT_FREE || segment->status == GB_SEGMENT_LOST;
    case GB_TROUBLE_LONG:
        return true;
    default:
        return segment->status == GB_SEGMENT_SEALED && segment->generation == about->generation;
    }
}

/* One of two headers: opening has written it already, if it could. */
static int rewrite_header(struct goblin *store, const struct gb_segment *segment,
                          const struct gb_case *about)
{
    int rc = gb_headers_write(store, segment, about->offset == 0 ? 0 : 1);
    return rc < 0 ? rc : store->io->ops->file_sync(segment->file);
}

static int mend_segment(struct goblin *store, const struct gb_case *about)
{
    struct gb_segment *segment = &store->segments.table[about->slot];
    if (segment->file == NULL || !is_same(segment, about)) {
        bool lost = about->trouble == GB_TROUBLE_HEADERS && segment->status == GB_SEGMENT_LOST;
        return lost ? -EIO : 0; /* or written anew meanwhile */
    }
    const struct gb_io_ops *ops = store->io->ops;
    int rc = 0;
    switch (about->trouble) {
    case GB_TROUBLE_SHORT:
    case GB_TROUBLE_SHORT_FREE:
        rc = ops->file_allocate(segment->file, store->segments.segment_bytes);
        return rc < 0 ? rc : ops->file_sync(segment->file);
    case GB_TROUBLE_LONG:
        rc = ops->file_truncate(segment->file, store->segments.segment_bytes);
        return rc < 0 ? rc : ops->file_sync(segment->file);
    case GB_TROUBLE_HEADER:
    case GB_TROUBLE_HEADER_HALF:
        return rewrite_header(store, segment, about);
    case GB_TROUBLE_HEADER_FREE:
    case GB_TROUBLE_HEADERS: /* opening has seen to it that what it held stays lost */
        return gb_headers_wipe(store, segment);
    case GB_TROUBLE_FOOTER:
    case GB_TROUBLE_SUMMARY:
        return wipe(segment, store->segments.segment_bytes - GB_SEGMENT_FOOTER);
    case GB_TROUBLE_RECORD:
        return rewrite_record(segment, about);
    case GB_TROUBLE_DRIVE_GONE:
    case GB_TROUBLE_DRIVE_OUTSIDE:
    case GB_TROUBLE_STRANGER:
    case GB_TROUBLE_IDENTITY:
    case GB_TROUBLE_CHECKPOINT:
    case GB_TROUBLE_CHECKPOINT_HALF:
    case GB_TROUBLE_UNREADABLE:
    case GB_TROUBLE_GONE: /* opening and closing do it */
    case GB_TROUBLE_OBJECT:
    default:
        return 0;
    }
}

/* A tombstone, unless the key has another value by now. */
static int remove_object(struct goblin *store, const struct gb_case *about)
{
    const struct goblin_slice key = {about->key, about->key_len};
    const struct goblin_put_options options = {
        .condition = GOBLIN_IF_VERSION,
        .if_version = about->version,
        .durability = GOBLIN_DURABILITY_SYNCED,
    };
    int rc = goblin_delete(store, key, &options);
    return rc < 0 ? rc : 0;
}

static bool has_remedy(const struct gb_check *check, const struct gb_case *about)
{
    switch (about->trouble) {
    case GB_TROUBLE_DRIVE_OUTSIDE: /* opening has taken it back, if it was to */
        return !check->store->drives[about->slot].missing;
    case GB_TROUBLE_DRIVE_GONE:
    case GB_TROUBLE_STRANGER:
    case GB_TROUBLE_UNREADABLE:
        return false;
    case GB_TROUBLE_IDENTITY:        /* two epochs, */
    case GB_TROUBLE_CHECKPOINT:      /* and a checkpoint, */
    case GB_TROUBLE_CHECKPOINT_HALF: /* under that name, come with opening and closing */
    case GB_TROUBLE_SHORT:
    case GB_TROUBLE_SHORT_FREE:
    case GB_TROUBLE_LONG:
    case GB_TROUBLE_HEADER:
    case GB_TROUBLE_HEADER_HALF:
    case GB_TROUBLE_HEADER_FREE:
    case GB_TROUBLE_HEADERS:
    case GB_TROUBLE_GONE:
    case GB_TROUBLE_FOOTER:
    case GB_TROUBLE_SUMMARY:
    case GB_TROUBLE_RECORD:
    case GB_TROUBLE_OBJECT:
    default:
        return true;
    }
}

/* ---- one case after the other -------------------------------------------------------------- */

/* A copy of a checkpoint on a drive that gets none any more would stay as it is. */
static int drop_half(struct goblin *store, const struct gb_case *about)
{
    int rc = store->io->ops->unlink(store->io, about->path);
    return rc == -ENOENT ? 0 : rc;
}

static void mend_one(struct gb_check *check, const struct gb_case *about)
{
    struct goblin *store = check->store;
    int rc = 0;
    if (about->trouble == GB_TROUBLE_CHECKPOINT_HALF || about->trouble == GB_TROUBLE_CHECKPOINT) {
        rc = drop_half(store, about);
    } else if (about->trouble == GB_TROUBLE_OBJECT) {
        rc = remove_object(store, about);
        check->result->removed += rc >= 0;
    } else {
        rc = mend_segment(store, about);
    }
    gb_check_dealt(check, about, has_remedy(check, about) && rc >= 0, rc < 0 ? rc : 0);
}

void gb_check_mend(struct gb_check *check)
{
    for (unsigned pass = 0; pass < 2; pass++) {
        for (const struct gb_case *about = check->first; about != NULL; about = about->next) {
            if ((about->trouble == GB_TROUBLE_OBJECT) == (pass == 0)) {
                mend_one(check, about);
            }
        }
    }
}
