/* Writers of memcached's answers. */
#include "proto/mc_write.h"

#include <string.h>

#include "proto/base64.h"

char *gb_mc_write_text(char *to, struct gb_mc_text text)
{
    if (text.len > 0) {
        memcpy(to, text.data, text.len);
    }
    return to + text.len;
}

char *gb_mc_write_unsigned(char *to, uint64_t value)
{
    char digits[GB_MC_NUMBER_MAX];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    memcpy(to, digits + at, sizeof(digits) - at);
    return to + (sizeof(digits) - at);
}

char *gb_mc_write_signed(char *to, int64_t value)
{
    if (value >= 0) {
        return gb_mc_write_unsigned(to, (uint64_t)value);
    }
    *to++ = '-';
    return gb_mc_write_unsigned(to, -(uint64_t)value);
}

static char *write_end(char *to)
{
    *to++ = '\r';
    *to++ = '\n';
    return to;
}

char *gb_mc_write_line(char *to, struct gb_mc_text text)
{
    return write_end(gb_mc_write_text(to, text));
}

char *gb_mc_write_value_head(char *to, struct gb_mc_text key, uint32_t flags, uint64_t size,
                             const uint64_t *cas)
{
    to = gb_mc_write_text(to, GB_MC_LITERAL("VALUE "));
    to = gb_mc_write_text(to, key);
    *to++ = ' ';
    to = gb_mc_write_unsigned(to, flags);
    *to++ = ' ';
    to = gb_mc_write_unsigned(to, size);
    if (cas != NULL) {
        *to++ = ' ';
        to = gb_mc_write_unsigned(to, *cas);
    }
    return write_end(to);
}

char *gb_mc_write_stat(char *to, struct gb_mc_text name, struct gb_mc_text value)
{
    to = gb_mc_write_text(to, GB_MC_LITERAL("STAT "));
    to = gb_mc_write_text(to, name);
    *to++ = ' ';
    return gb_mc_write_line(to, value);
}

char *gb_mc_write_stat_unsigned(char *to, struct gb_mc_text name, uint64_t value)
{
    char digits[GB_MC_NUMBER_MAX];
    size_t len = (size_t)(gb_mc_write_unsigned(digits, value) - digits);
    return gb_mc_write_stat(to, name, (struct gb_mc_text){digits, len});
}

static char *write_key(char *to, struct gb_mc_text key, bool binary)
{
    return binary ? to + gb_base64_encode(to, key.data, key.len) : gb_mc_write_text(to, key);
}

static char *write_field(char *to, char letter, uint64_t value)
{
    *to++ = ' ';
    *to++ = letter;
    return gb_mc_write_unsigned(to, value);
}

/* Of the object: what each verb has to tell of it, asked for by a letter. */
static char *write_asked(char *to, enum gb_mc_verb verb, char letter, int64_t left_s,
                         const struct gb_mc_object *object)
{
    const char *tells = verb == GB_MC_MG   ? "stcflh"
                        : verb == GB_MC_MS ? "cs"
                        : verb == GB_MC_MA ? "ct"
                                           : "";
    if (strchr(tells, letter) == NULL) {
        return to;
    }
    switch (letter) {
    case 's':
        return write_field(to, 's', object->size);
    case 'c':
        return write_field(to, 'c', object->cas);
    case 'f':
        return write_field(to, 'f', object->client_flags);
    case 'l':
        return write_field(to, 'l', object->idle_s);
    case 'h':
        return write_field(to, 'h', object->fetched ? 1 : 0);
    default:
        *to++ = ' ';
        *to++ = 't';
        return gb_mc_write_signed(to, left_s);
    }
}

static char *write_asked_key(char *to, const struct gb_mc_request *request)
{
    *to++ = ' ';
    *to++ = 'k';
    to = write_key(to, request->key, request->key_binary);
    return request->key_binary ? gb_mc_write_text(to, GB_MC_LITERAL(" b")) : to;
}

char *gb_mc_write_meta(char *to, const struct gb_mc_request *request, const char code[2],
                       const struct gb_mc_object *object)
{
    *to++ = code[0];
    *to++ = code[1];
    if (code[0] == 'V') {
        *to++ = ' ';
        to = gb_mc_write_unsigned(to, object->size);
    }
    bool changed = false;
    for (unsigned i = 0; i < request->options; i++) {
        char letter = request->order[i];
        changed = changed || letter == 'T' || letter == 'N';
        if (letter == 'O') {
            *to++ = ' ';
            to = gb_mc_write_text(to, request->opaque);
        } else if (letter == 'k') {
            to = write_asked_key(to, request);
        } else if (object != NULL) {
            int64_t left_s = changed ? object->left_s : object->left_before_s;
            to = write_asked(to, request->verb, letter, left_s, object);
        }
    }
    if (object != NULL && request->verb == GB_MC_MG) {
        to = gb_mc_write_text(to, object->sent ? GB_MC_LITERAL(" Z") : GB_MC_LITERAL(""));
        to = gb_mc_write_text(to, object->stale ? GB_MC_LITERAL(" X") : GB_MC_LITERAL(""));
        to = gb_mc_write_text(to, object->won ? GB_MC_LITERAL(" W") : GB_MC_LITERAL(""));
    }
    return write_end(to);
}

/* The fields that me and metadump share. */
static char *write_fields(char *to, const struct gb_mc_object *object)
{
    to = gb_mc_write_text(to, GB_MC_LITERAL(" la="));
    to = gb_mc_write_unsigned(to, object->idle_s);
    to = gb_mc_write_text(to, GB_MC_LITERAL(" cas="));
    to = gb_mc_write_unsigned(to, object->cas);
    to = gb_mc_write_text(to, object->fetched ? GB_MC_LITERAL(" fetch=yes cls=1 size=")
                                              : GB_MC_LITERAL(" fetch=no cls=1 size="));
    return gb_mc_write_unsigned(to, object->size);
}

char *gb_mc_write_debug(char *to, const struct gb_mc_request *request,
                        const struct gb_mc_object *object)
{
    to = gb_mc_write_text(to, GB_MC_LITERAL("ME "));
    to = write_key(to, request->key, request->key_binary);
    to = gb_mc_write_text(to, GB_MC_LITERAL(" exp="));
    to = gb_mc_write_signed(to, object->left_s);
    return write_end(write_fields(to, object));
}

static bool is_plain(unsigned char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '-' || c == '.' ||
           c == '_' || c == '~';
}

char *gb_mc_write_key_encoded(char *to, struct gb_mc_text key)
{
    for (size_t i = 0; i < key.len; i++) {
        unsigned char c = (unsigned char)key.data[i];
        if (is_plain(c)) {
            *to++ = (char)c;
        } else {
            *to++ = '%';
            *to++ = "0123456789ABCDEF"[c >> 4];
            *to++ = "0123456789ABCDEF"[c & 15];
        }
    }
    return to;
}

char *gb_mc_write_dump(char *to, struct gb_mc_text key, const struct gb_mc_object *object,
                       int64_t expires_s)
{
    to = gb_mc_write_text(to, GB_MC_LITERAL("key="));
    to = gb_mc_write_key_encoded(to, key);
    to = gb_mc_write_text(to, GB_MC_LITERAL(" exp="));
    to = gb_mc_write_signed(to, expires_s);
    to = write_fields(to, object);
    *to++ = '\n';
    return to;
}

char *gb_mc_write_mgdump(char *to, struct gb_mc_text key)
{
    bool binary = false;
    for (size_t i = 0; i < key.len; i++) {
        binary = binary || (unsigned char)key.data[i] <= ' ' || key.data[i] == 127;
    }
    to = gb_mc_write_text(to, GB_MC_LITERAL("mg "));
    to = write_key(to, key, binary);
    return gb_mc_write_line(to, binary ? GB_MC_LITERAL(" b") : GB_MC_LITERAL(""));
}
