/* What HTTP keeps beside a value: see http_meta.h. */
#include "proto/http_meta.h"

#include "base/bits.h"

#define HEADER_BYTES 2u
#define ENTRY_BYTES  3u

static const struct {
    enum gb_http_meta_kind kind;
    struct gb_http_text name;
} kinds[] = {
    {GB_HTTP_META_CONTENT_TYPE, {"Content-Type", 12}},
    {GB_HTTP_META_CONTENT_ENCODING, {"Content-Encoding", 16}},
    {GB_HTTP_META_CONTENT_LANGUAGE, {"Content-Language", 16}},
    {GB_HTTP_META_CONTENT_DISPOSITION, {"Content-Disposition", 19}},
    {GB_HTTP_META_CACHE_CONTROL, {"Cache-Control", 13}},
    {GB_HTTP_META_VARY, {"Vary", 4}},
};

static void put(struct gb_http_meta_writer *writer, const void *bytes, size_t len)
{
    if (writer->full || len > writer->size - writer->len) {
        writer->full = true;
        return;
    }
    if (len > 0) {
        memcpy(writer->out + writer->len, bytes, len);
    }
    writer->len += len;
}

static void put_entry_header(struct gb_http_meta_writer *writer, enum gb_http_meta_kind kind,
                             size_t len)
{
    unsigned char header[ENTRY_BYTES] = {(unsigned char)kind};
    if (len > UINT16_MAX) {
        writer->full = true;
        return;
    }
    gb_store_le16(header + 1, (uint16_t)len);
    put(writer, header, sizeof(header));
}

void gb_http_meta_begin(struct gb_http_meta_writer *writer, unsigned char *out, size_t size)
{
    static const unsigned char header[HEADER_BYTES] = {GB_HTTP_META_MAGIC, GB_HTTP_META_VERSION};
    *writer = (struct gb_http_meta_writer){.size = size};
    writer->out = out;
    put(writer, header, sizeof(header));
}

void gb_http_meta_modified(struct gb_http_meta_writer *writer, int64_t modified_ms)
{
    unsigned char bytes[8];
    gb_store_le64(bytes, (uint64_t)modified_ms);
    put_entry_header(writer, GB_HTTP_META_MODIFIED, sizeof(bytes));
    put(writer, bytes, sizeof(bytes));
}

void gb_http_meta_entry(struct gb_http_meta_writer *writer, enum gb_http_meta_kind kind,
                        struct gb_http_text value)
{
    put_entry_header(writer, kind, value.len);
    put(writer, value.at, value.len);
}

static bool is_named(struct gb_http_text name)
{
    const struct gb_http_text prefix = GB_HTTP_TEXT("x-meta-");
    return name.len > prefix.len && name.len <= UINT8_MAX && gb_http_text_is_token(name) &&
           gb_http_text_same_name((struct gb_http_text){name.at, prefix.len}, prefix);
}

bool gb_http_meta_field(struct gb_http_meta_writer *writer, struct gb_http_text name,
                        struct gb_http_text value)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (kinds[i].kind != GB_HTTP_META_VARY && gb_http_text_same_name(name, kinds[i].name)) {
            put_entry_header(writer, kinds[i].kind, value.len);
            put(writer, value.at, value.len);
            return true;
        }
    }
    if (!is_named(name)) {
        return false;
    }
    const unsigned char name_len = (unsigned char)name.len;
    put_entry_header(writer, GB_HTTP_META_NAMED, 1 + name.len + value.len);
    put(writer, &name_len, 1);
    put(writer, name.at, name.len);
    put(writer, value.at, value.len);
    return true;
}

struct gb_http_text gb_http_meta_entries(const void *meta, size_t len)
{
    const unsigned char *bytes = meta;
    if (len < HEADER_BYTES || bytes[0] != GB_HTTP_META_MAGIC || bytes[1] != GB_HTTP_META_VERSION) {
        return (struct gb_http_text){NULL, 0};
    }
    return (struct gb_http_text){(const char *)bytes + HEADER_BYTES, len - HEADER_BYTES};
}

/* A value must not end the field it is sent in. */
static bool is_value(struct gb_http_text value)
{
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.at[i];
        if ((c < ' ' && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    return true;
}

/* Gives the entry its name and value. False: of no known kind, or broken. */
static bool read_entry(struct gb_http_meta_entry *entry, struct gb_http_text bytes)
{
    entry->name = (struct gb_http_text){NULL, 0};
    entry->value = bytes;
    if (entry->kind == GB_HTTP_META_MODIFIED) {
        return bytes.len == 8;
    }
    if (entry->kind == GB_HTTP_META_ORIGIN || entry->kind == GB_HTTP_META_VARIANT) {
        return true;
    }
    if (entry->kind == GB_HTTP_META_ETAG) {
        return is_value(bytes);
    }
    if (entry->kind == GB_HTTP_META_NAMED) {
        size_t name_len = bytes.len == 0 ? 0 : (unsigned char)bytes.at[0];
        if (bytes.len == 0 || bytes.len - 1 < name_len) {
            return false;
        }
        entry->name = (struct gb_http_text){bytes.at + 1, name_len};
        entry->value = (struct gb_http_text){bytes.at + 1 + name_len, bytes.len - 1 - name_len};
        return is_named(entry->name) && is_value(entry->value);
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (kinds[i].kind == entry->kind) {
            entry->name = kinds[i].name;
            return is_value(entry->value);
        }
    }
    return false;
}

bool gb_http_meta_next(struct gb_http_text *rest, struct gb_http_meta_entry *entry)
{
    while (rest->len >= ENTRY_BYTES) {
        size_t len = gb_load_le16(rest->at + 1);
        entry->kind = (enum gb_http_meta_kind)(unsigned char)rest->at[0];
        if (len > rest->len - ENTRY_BYTES) {
            break;
        }
        const struct gb_http_text bytes = {rest->at + ENTRY_BYTES, len};
        *rest = (struct gb_http_text){bytes.at + len, rest->len - ENTRY_BYTES - len};
        if (read_entry(entry, bytes)) {
            return true;
        }
    }
    rest->len = 0;
    return false;
}

int64_t gb_http_meta_modified_ms(const void *meta, size_t len)
{
    struct gb_http_text rest = gb_http_meta_entries(meta, len);
    struct gb_http_meta_entry entry;
    while (gb_http_meta_next(&rest, &entry)) {
        if (entry.kind == GB_HTTP_META_MODIFIED) {
            int64_t modified_ms = (int64_t)gb_load_le64(entry.value.at);
            return modified_ms < 0 ? -1 : modified_ms;
        }
    }
    return -1;
}
