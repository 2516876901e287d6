/*
 * Damages one structure of a store that nobody has open:
 *
 *     faultdamage DIR CLASS flip|truncate SEED
 *
 * CLASS is one of those below; which of its instances, and which bits, the seed draws. `headers` is
 * both of one segment's. `truncate` cuts the file off inside the structure. Prints what was done.
 * Exit code 3: the store has no such structure.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/rng.h"
#include "engine/format_headers.h"

#define SLOTS     4096u
#define PLACES    65536u
#define FLIPS_MAX 4u

/* Bytes of a file that may be damaged. */
struct place {
    char file[32];
    uint64_t offset;
    uint64_t len;
    uint64_t also; /* where as many bytes are damaged as well; 0: nowhere */
};

struct search {
    const char *dir;
    const char *class;
    struct place *places;
    size_t count;
};

static void add(struct search *search, const char *file, uint64_t offset, uint64_t len)
{
    if (len > 0 && search->count < PLACES) {
        struct place *place = &search->places[search->count++];
        (void)snprintf(place->file, sizeof(place->file), "%s", file);
        place->offset = offset;
        place->len = len;
        place->also = 0;
    }
}

static bool wants(const struct search *search, const char *class)
{
    return strcmp(search->class, class) == 0;
}

/* The whole file; NULL where there is none. */
static unsigned char *load(const char *dir, const char *file, size_t *len)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return NULL;
    }
    off_t end = lseek(fd, 0, SEEK_END);
    unsigned char *bytes = end > 0 ? malloc((size_t)end) : NULL;
    *len = end > 0 ? (size_t)end : 0;
    if (bytes != NULL && pread(fd, bytes, *len, 0) != (ssize_t)*len) {
        free(bytes);
        bytes = NULL;
    }
    close(fd);
    return bytes;
}

static void look_at_record(struct search *search, const char *file, uint64_t offset,
                           const struct gb_record *record)
{
    struct gb_layout layout;
    gb_record_layout(record, offset, &layout);
    uint64_t sums = gb_units(layout.payload_len) * GB_SUM_SIZE;
    bool put = record->type == GB_RECORD_PUT;
    if (wants(search, "record") && put) {
        add(search, file, offset, GB_RECORD_HEADER);
    } else if (wants(search, "key") && put) {
        add(search, file, offset + GB_RECORD_HEADER, record->key_len);
    } else if (wants(search, "payload") && put && record->extent_count == 0) {
        add(search, file, layout.payload_offset, layout.payload_len);
    } else if (wants(search, "extents") && put && record->extent_count > 0) {
        add(search, file, layout.payload_offset, layout.payload_len);
    } else if (wants(search, "extent") && record->type == GB_RECORD_EXTENT) {
        add(search, file, layout.payload_offset, record->size);
    } else if (wants(search, "sums") && put) {
        add(search, file, layout.table_offset, sums);
    } else if (wants(search, "summary") && record->type == GB_RECORD_SUMMARY) {
        add(search, file, offset, layout.end - offset);
    }
}

static void look_at_segment(struct search *search, const char *file, const unsigned char *bytes,
                            size_t len)
{
    struct gb_segment_header header;
    struct gb_segment_footer footer;
    if (len < 3 * (size_t)GB_BLOCK || gb_segment_header_decode(&header, bytes) < 0) {
        return;
    }
    uint64_t second = gb_segment_header_at(len, 1);
    if (wants(search, "header") || wants(search, "headers")) {
        add(search, file, 0, GB_BLOCK);
        search->places[search->count - 1].also = wants(search, "headers") ? second : 0;
    } else if (wants(search, "copy")) {
        add(search, file, second, GB_BLOCK);
    }
    if (wants(search, "footer") &&
        gb_segment_footer_decode(&footer, header.salt, bytes + len - GB_BLOCK) == 0) {
        add(search, file, len - GB_BLOCK, GB_BLOCK);
    }
    for (uint64_t at = GB_BLOCK; at + GB_RECORD_HEADER < second;) {
        struct gb_record record;
        struct gb_layout layout;
        if (gb_record_decode(&record, header.salt, at, bytes + at, len - at) < 0) {
            at = gb_align_up(at + 1, GB_BLOCK);
            continue;
        }
        look_at_record(search, file, at, &record);
        gb_record_layout(&record, at, &layout);
        at = layout.end;
    }
}

static void look_around(struct search *search)
{
    static const struct {
        const char *class;
        const char *file;
        uint64_t offset;
        uint64_t len; /* 0: to the end */
    } whole[] = {
        {"identity", "GOBLIN", 0, GB_BLOCK},
        {"identity", "GOBLIN", GB_BLOCK, GB_BLOCK},
        {"checkpoint-head", "CHECKPOINT", 0, GB_BLOCK},
        {"checkpoint-chunk", "CHECKPOINT", GB_BLOCK, 0},
        {"heads", "HEADS", 0, 0},
    };
    size_t len = 0;
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
        unsigned char *bytes =
            wants(search, whole[i].class) ? load(search->dir, whole[i].file, &len) : NULL;
        if (bytes != NULL && len > whole[i].offset) {
            add(search, whole[i].file, whole[i].offset,
                whole[i].len == 0 ? len - whole[i].offset : whole[i].len);
        }
        free(bytes);
    }
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        char file[32];
        (void)snprintf(file, sizeof(file), "%08u.seg", slot);
        unsigned char *bytes = load(search->dir, file, &len);
        if (bytes != NULL) {
            look_at_segment(search, file, bytes, len);
        }
        free(bytes);
    }
}

/* Flips some bits of as many bytes as the place has, from `from` on. */
static int flip_bits(const struct place *place, int fd, uint64_t from, struct gb_rng *rng)
{
    int rc = 0;
    unsigned count = 1 + (unsigned)gb_rng_below(rng, FLIPS_MAX);
    for (unsigned i = 0; rc == 0 && i < count; i++) {
        unsigned char byte = 0;
        off_t at = (off_t)(from + gb_rng_below(rng, place->len));
        rc = pread(fd, &byte, 1, at) == 1 ? 0 : -EIO;
        byte ^= (unsigned char)(1u << gb_rng_below(rng, 8));
        rc = rc == 0 && pwrite(fd, &byte, 1, at) == 1 ? 0 : -EIO;
        (void)printf("%s, byte %lld\n", place->file, (long long)at);
    }
    return rc;
}

static int damage(const struct search *search, const struct place *place, bool flip,
                  struct gb_rng *rng)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/%s", search->dir, place->file);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    int rc = flip ? flip_bits(place, fd, place->offset, rng) : 0;
    if (rc == 0 && flip && place->also != 0) {
        rc = flip_bits(place, fd, place->also, rng);
    }
    if (!flip) {
        off_t at = (off_t)(place->offset + gb_rng_below(rng, place->len));
        rc = ftruncate(fd, at) == 0 ? 0 : -errno;
        (void)printf("%s, cut off at %lld\n", place->file, (long long)at);
    }
    close(fd);
    return rc;
}

int main(int argc, char **argv)
{
    if (argc != 5 || (strcmp(argv[3], "flip") != 0 && strcmp(argv[3], "truncate") != 0)) {
        (void)fprintf(stderr, "usage: faultdamage DIR CLASS flip|truncate SEED\n");
        return 2;
    }
    struct gb_rng rng;
    struct search search = {.dir = argv[1], .class = argv[2]};
    gb_rng_init(&rng, strtoull(argv[4], NULL, 10));
    search.places = calloc(PLACES, sizeof(*search.places));
    if (search.places == NULL) {
        return 1;
    }
    look_around(&search);
    int rc = 3;
    if (search.count > 0) {
        const struct place *place = &search.places[gb_rng_below(&rng, search.count)];
        rc = damage(&search, place, strcmp(argv[3], "flip") == 0, &rng) == 0 ? 0 : 1;
    }
    free(search.places);
    return rc;
}
