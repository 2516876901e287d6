/*
 * What a store has done and what it holds. Counters only grow from open; gauges are as of now.
 * Both come from one list each, so that a program can print them all without knowing them.
 *
 * Every object that was there at open or put since is either there now or counted once by why it
 * left: objects at open + puts = objects + the sum of left_*, but for left_drive, which counts what
 * opening did not find.
 */
#ifndef GOBLIN_STATS_H
#define GOBLIN_STATS_H

#include <goblin/goblin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, help) */
#define GOBLIN_COUNTERS(X)                                                                         \
    X(gets, "requests for an object")                                                              \
    X(hits, "requests that found their object")                                                    \
    X(hits_resident, "hits served whole from RAM")                                                 \
    X(misses, "requests that found none")                                                          \
    X(get_bytes, "value bytes handed over")                                                        \
    X(get_resident_bytes, "value bytes handed over from RAM")                                      \
    X(puts, "values stored")                                                                       \
    X(put_bytes, "value and metadata bytes stored")                                                \
    X(put_key_bytes, "bytes of the keys they were stored under")                                   \
    X(puts_refused, "puts whose condition did not hold")                                           \
    X(puts_delayed, "puts held back a little while disk is being reclaimed")                       \
    X(would_wait, "puts, deletes and amendments that must not wait and would have had to")         \
    X(deletes, "objects deleted")                                                                  \
    X(amends, "objects amended: expiry, flags, version or marks")                                  \
    X(device_reads, "reads sent to the device, those of opening among them")                       \
    X(device_read_bytes, "bytes read from the device")                                             \
    X(device_writes, "writes sent to the device, the store's own among them")                      \
    X(device_write_bytes, "bytes written to the device: records, their lists, checkpoints, all")   \
    X(device_syncs, "fdatasync calls, the store's own among them")                                 \
    X(read_errors, "device reads that failed")                                                     \
    X(write_errors, "device writes that failed")                                                   \
    X(blocks_rescued, "of these, blocks whose records were written elsewhere")                     \
    X(streams_rescued, "times that what a stream had written to a segment was moved elsewhere")    \
    X(checksum_errors, "units that did not match their checksum")                                  \
    X(drive_trials, "trials of retired drives")                                                    \
    X(drive_returns, "of these, trials after which the drive was used again")                      \
    X(headers_by_copy, "segments of which one header could not be read, and the other one did")    \
    X(promotions, "objects made whole in RAM")                                                     \
    X(promotions_refused, "candidates worth less than what they would push out")                   \
    X(arena_moved_bytes, "bytes moved by reclaiming RAM")                                          \
    X(segments_reclaimed, "segments freed")                                                        \
    X(reinserted_bytes, "bytes copied forward by reclaiming disk")                                 \
    X(left_overwritten, "objects replaced by a newer value")                                       \
    X(left_deleted, "objects deleted by request")                                                  \
    X(left_cleared, "objects that went when the store was cleared")                                \
    X(left_expired, "objects dropped after their expiry")                                          \
    X(left_disk, "objects evicted for lack of disk")                                               \
    X(left_ram, "objects evicted for lack of RAM")                                                 \
    X(left_bad, "objects dropped because they could not be read")                                  \
    X(left_drive, "objects lost with a drive or segment, as far as the others tell")               \
    X(left_admission, "objects dropped from RAM that were never written to disk")                  \
    X(admission_refused, "values kept in RAM alone")                                               \
    X(admission_written, "of these written when they were asked for")                              \
    X(admission_rejected, "values refused because the write budget was spent")                     \
    X(checkpoints, "checkpoints written")

/* X(name, help) */
#define GOBLIN_GAUGES(X)                                                                           \
    X(objects, "objects in the index, expired ones until they are swept")                          \
    X(ordered_keys, "keys in the ordered set; 0 until it is asked for")                            \
    X(ram_only_objects, "of these in RAM alone, not on disk")                                      \
    X(write_budget_left_bytes, "what the write budget has to spend now")                           \
    X(live_bytes, "disk bytes of live records")                                                    \
    X(disk_bytes, "disk bytes the store may use")                                                  \
    X(live_user_bytes, "of these what users gave: keys, metadata and values")                      \
    X(disk_used_bytes, "disk bytes in segments that are not free, checkpoint, identity and heads") \
    X(disk_file_bytes, "the same with segments that are free and have a file")                     \
    X(write_amplification_permille, "device_write_bytes by 1000 (put_bytes + put_key_bytes)")      \
    X(space_amplification_permille, "disk_used_bytes by 1000 live_user_bytes")                     \
    X(segments, "segments in all")                                                                 \
    X(segments_free, "segments free")                                                              \
    X(segments_failing, "segments in which the device failed, still to be emptied")                \
    X(segments_lost, "segments on drives that are missing, or set aside because they failed")      \
    X(drives, "drives the store was made with")                                                    \
    X(drives_missing, "drives the store goes without")                                             \
    X(drives_retired, "drives that failed too often to be written to, until a trial succeeds")     \
    X(memory_budget_bytes, "what `memory_bytes` promised")                                         \
    X(memory_used_bytes, "all that the library holds now, the sum of the next lines")              \
    X(memory_arena_bytes, "blocks of the RAM log in use")                                          \
    X(memory_index_bytes, "the index")                                                             \
    X(memory_ordered_bytes, "the ordered set of keys")                                             \
    X(memory_write_bytes, "write blocks")                                                          \
    X(memory_read_bytes, "readers' chunk buffers")                                                 \
    X(memory_other_bytes, "segment tables and the like")                                           \
    X(arena_live_bytes, "bytes of live items in the RAM log")                                      \
    X(arena_capacity_bytes, "bytes the RAM log may take at the index's present size")              \
    X(resident_bytes, "value bytes in RAM")                                                        \
    X(pinned_blocks, "blocks of the RAM log that readers hold")                                    \
    X(warming, "1 while heads are being read back after open")

struct goblin_stats {
#define GOBLIN_X(name, help) uint64_t name;
    GOBLIN_COUNTERS(GOBLIN_X)
    GOBLIN_GAUGES(GOBLIN_X)
#undef GOBLIN_X
};

/* A consistent enough snapshot: each number is exact at some moment of the call. */
void goblin_stats(struct goblin *store, struct goblin_stats *stats);

struct goblin_stats_field {
    const char *name;
    const char *help;
    size_t offset; /* of the uint64_t in struct goblin_stats */
    bool counter;
};

/* The list, in order; *count is its length. Static. */
const struct goblin_stats_field *goblin_stats_fields(size_t *count);

#ifdef __cplusplus
}
#endif

#endif
