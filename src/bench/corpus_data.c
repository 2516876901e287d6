/* Real files as a corpus: every readable regular file below a directory, keyed by its path. */
#include <errno.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/corpus_build.h"

static int compare_names(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static int add_file(struct gb_corpus_build *build, const FTSENT *entry, size_t root_len)
{
    const char *key = entry->fts_path + root_len;
    while (*key == '/') {
        key++;
    }
    size_t key_len = strlen(key);
    if (key_len > GB_CORPUS_KEY_MAX || access(entry->fts_path, R_OK) != 0) {
        return 0;
    }
    uint32_t object;
    int result = gb_corpus_build_intern(build, key, key_len, &object);
    if (result == 0) {
        build->corpus.sizes[object] = (uint64_t)entry->fts_statp->st_size;
    }
    return result;
}

int gb_corpus_data_list(struct gb_corpus_build *build, const char *directory,
                        struct goblin_error *error)
{
    char *root = strdup(directory);
    build->corpus.directory = strdup(directory);
    if (root == NULL || build->corpus.directory == NULL) {
        free(root);
        return -ENOMEM;
    }
    char *roots[] = {root, NULL};
    int result = 0;
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, compare_names);
    FTSENT *entry;
    while (walk != NULL && result == 0 && (entry = fts_read(walk)) != NULL) {
        bool is_root_missing = entry->fts_level == FTS_ROOTLEVEL && entry->fts_info != FTS_D &&
                               entry->fts_info != FTS_DP;
        if (is_root_missing) {
            int fault = entry->fts_errno != 0 ? entry->fts_errno : ENOTDIR;
            result = gb_corpus_build_fail(error, -fault, "%s: %s", directory, strerror(fault));
        } else if (entry->fts_info == FTS_F) {
            result = add_file(build, entry, strlen(root));
        }
    }
    if (walk == NULL) {
        int fault = errno;
        result = gb_corpus_build_fail(error, -fault, "%s: %s", directory, strerror(fault));
    } else {
        (void)fts_close(walk);
    }
    free(root);
    return result;
}
