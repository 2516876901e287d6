/* main() of a fuzz target outside the fuzzer: feeds it every file of the directories named on the
 * command line, and fails if there is none. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX ((size_t)1 << 20)

/* Returns 1 for a file, 0 for anything else. A heap block of the exact size lets the address
 * sanitizer see a read beyond the input. */
static int replay_file(const char *path)
{
    static uint8_t bytes[INPUT_MAX];
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return 0;
    }
    size_t len = fread(bytes, 1, sizeof(bytes), file);
    int failed = ferror(file);
    (void)fclose(file);
    if (failed) {
        return 0;
    }
    uint8_t *input = malloc(len == 0 ? 1 : len);
    if (input == NULL) {
        return 0;
    }
    for (size_t i = 0; i < len; i++) {
        input[i] = bytes[i];
    }
    (void)LLVMFuzzerTestOneInput(input, len);
    free(input);
    return 1;
}

static int replay_directory(const char *path)
{
    int count = 0;
    DIR *dir = opendir(path);
    if (dir == NULL) {
        return 0;
    }
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char file[4096];
        int len = snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.' && len > 0 && (size_t)len < sizeof(file)) {
            count += replay_file(file);
        }
    }
    (void)closedir(dir);
    return count;
}

int main(int argc, char **argv)
{
    int count = 0;
    for (int i = 1; i < argc; i++) {
        count += replay_directory(argv[i]);
    }
    printf("%d inputs replayed\n", count);
    return count > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
