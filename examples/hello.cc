// Streams a value in and reads it chunk by chunk, from C++.
#include <goblin/reader.h>
#include <goblin/stats.h>
#include <goblin/writer.h>

#include <cstdio>
#include <string>

static int append(void *arg, const goblin_chunk *chunk)
{
    static_cast<std::string *>(arg)->append(static_cast<const char *>(chunk->data), chunk->len);
    return GOBLIN_CHUNK_DONE;
}

int main(int argc, char **argv)
{
    const char *dir = argc > 1 ? argv[1] : "hello.store";
    goblin_options options = GOBLIN_OPTIONS_INIT;
    options.dirs = &dir;
    options.dir_count = 1;
    options.create = true;
    options.size_bytes = 64 << 20;

    goblin *store = nullptr;
    goblin_error error;
    if (goblin_open(&store, &options, &error) < 0) {
        std::fprintf(stderr, "%s\n", error.text);
        return 1;
    }

    const std::string text = "hello from C++";
    const goblin_slice key = {"greeting", 8};
    goblin_writer *writer = nullptr;
    int result = goblin_writer_begin(&writer, store, key, text.size(), nullptr);
    if (result >= 0) {
        result = goblin_writer_write(writer, text.data(), text.size());
        if (result >= 0) {
            result = goblin_writer_commit(writer, nullptr);
        } else {
            goblin_writer_abort(writer);
        }
    }

    std::string read;
    goblin_reader *reader = nullptr;
    if (result == GOBLIN_OK) {
        result = goblin_reader_create(&reader, store, nullptr);
    }
    if (result >= 0) {
        goblin_request request = {};
        request.key = key;
        request.on_chunk = append;
        request.arg = &read;
        result = goblin_get(reader, &request);
    }
    std::printf("%s\n", result == GOBLIN_OK ? read.c_str() : goblin_strerror(result));
    goblin_reader_destroy(reader);
    return goblin_close(store) == GOBLIN_OK && read == text ? 0 : 1;
}
