/* The Debian package index on this machine as a corpus: every Filename and Size it lists. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/corpus_build.h"
#include "bench/source.h"

static int is_index(const struct dirent *entry)
{
    const char *found = strstr(entry->d_name, "_Packages");
    return found != NULL && (found[9] == '\0' || found[9] == '.');
}

/* "Size: 123" into a number; false unless it is digits alone. */
static bool parse_size(const char *text, uint64_t *size)
{
    char *end;
    if (!isdigit((unsigned char)*text)) {
        return false;
    }
    errno = 0;
    *size = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0';
}

/* The value of a field line, or NULL if the line is another field's. */
static const char *field(const char *line, const char *name)
{
    size_t len = strlen(name);
    return strncmp(line, name, len) == 0 ? line + len : NULL;
}

/* One paragraph's worth of state. */
struct paragraph {
    char filename[GB_CORPUS_KEY_MAX + 1];
    uint64_t size;
    bool has_size;
};

static int end_paragraph(struct gb_corpus_build *build, struct paragraph *paragraph)
{
    int result = 0;
    if (paragraph->filename[0] != '\0' && paragraph->has_size) {
        uint32_t object;
        result = gb_corpus_build_intern(build, paragraph->filename, strlen(paragraph->filename),
                                        &object);
        if (result == 0) {
            build->corpus.sizes[object] = paragraph->size;
        }
    }
    paragraph->filename[0] = '\0';
    paragraph->has_size = false;
    return result;
}

static int take_line(struct gb_corpus_build *build, struct paragraph *paragraph, const char *line)
{
    if (*line == '\0') {
        return end_paragraph(build, paragraph);
    }
    const char *value = field(line, "Filename: ");
    if (value != NULL) {
        if (strlen(value) > GB_CORPUS_KEY_MAX) {
            return -EINVAL;
        }
        (void)snprintf(paragraph->filename, sizeof(paragraph->filename), "%s", value);
    }
    value = field(line, "Size: ");
    if (value != NULL) {
        paragraph->has_size = parse_size(value, &paragraph->size);
        return paragraph->has_size ? 0 : -EINVAL;
    }
    return 0;
}

static int read_index(struct gb_corpus_build *build, const char *path, struct goblin_error *error)
{
    struct gb_source source;
    int result = gb_source_open(&source, path, error);
    if (result < 0) {
        return result;
    }
    struct paragraph paragraph = {.has_size = false};
    char *line = NULL;
    size_t line_bytes = 0;
    uint64_t number = 0;
    ssize_t len;
    while (result == 0 && (len = getline(&line, &line_bytes, source.file)) >= 0) {
        number++;
        if (len > 0 && line[len - 1] == '\n') {
            line[len - 1] = '\0';
        }
        result = take_line(build, &paragraph, line);
    }
    if (result == 0) {
        result = end_paragraph(build, &paragraph);
    }
    free(line);
    if (result < 0) {
        (void)gb_corpus_build_fail(error, result, "%s:%llu: %s", path, (unsigned long long)number,
                                   result == -EINVAL ? "not a Filename or Size that can be used"
                                                     : strerror(-result));
    }
    int closed = gb_source_close(&source, path, result == 0, result == 0 ? error : NULL);
    return result < 0 ? result : closed;
}

int gb_corpus_debian_list(struct gb_corpus_build *build, const char *directory,
                          struct goblin_error *error)
{
    struct dirent **entries;
    int count = scandir(directory, &entries, is_index, alphasort);
    if (count < 0) {
        int fault = errno;
        return gb_corpus_build_fail(error, -fault, "%s: %s", directory, strerror(fault));
    }
    int result = 0;
    if (count == 0) {
        result = gb_corpus_build_fail(
            error, -ENOENT, "%s: no package index (run apt-get update to get one)", directory);
    }
    for (int i = 0; i < count; i++) {
        char path[4096];
        int len = snprintf(path, sizeof(path), "%s/%s", directory, entries[i]->d_name);
        if (result == 0 && (len < 0 || (size_t)len >= sizeof(path))) {
            result = gb_corpus_build_fail(error, -ENAMETOOLONG, "%s: name too long", directory);
        }
        if (result == 0) {
            result = read_index(build, path, error);
        }
        free(entries[i]);
    }
    free(entries);
    return result;
}
