/* Stores a value, reads it back: cc hello.c $(pkg-config --cflags --libs goblin) */
#include <goblin/reader.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    const char *dir = argc > 1 ? argv[1] : "hello.store";
    struct goblin_options options = GOBLIN_OPTIONS_INIT;
    options.dirs = &dir;
    options.dir_count = 1;
    options.create = true;
    options.size_bytes = 64 << 20;

    struct goblin *store = NULL;
    struct goblin_error error;
    if (goblin_open(&store, &options, &error) < 0) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }

    struct goblin_reader *reader = NULL;
    struct goblin_buffer value = {0};
    struct goblin_slice key = GOBLIN_LITERAL("greeting");
    int result = goblin_put(store, key, GOBLIN_LITERAL("hello from disk"), NULL, NULL);
    if (result == GOBLIN_OK) {
        result = goblin_reader_create(&reader, store, NULL);
    }
    if (result >= 0) {
        result = goblin_load(reader, key, &value, NULL, NULL);
    }
    if (result == GOBLIN_OK) {
        printf("%.*s\n", (int)value.len, (const char *)value.data);
    } else {
        fprintf(stderr, "%s\n", goblin_strerror(result));
    }
    goblin_buffer_free(&value);
    goblin_reader_destroy(reader);
    return goblin_close(store) == GOBLIN_OK && result == GOBLIN_OK ? 0 : 1;
}
