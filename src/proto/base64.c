/* Base64, strict, and able to decode in place. */
#include "proto/base64.h"

#include <errno.h>
#include <stdint.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t gb_base64_encode(char *to, const void *from, size_t len)
{
    const unsigned char *bytes = from;
    char *start = to;
    for (; len > 0; bytes += 3) {
        size_t here = len < 3 ? len : 3;
        uint32_t word = (uint32_t)bytes[0] << 16;
        word |= here > 1 ? (uint32_t)bytes[1] << 8 : 0;
        word |= here > 2 ? bytes[2] : 0;
        *to++ = alphabet[word >> 18];
        *to++ = alphabet[(word >> 12) & 63];
        *to++ = '=';
        *to++ = '=';
        if (here > 1) {
            to[-2] = alphabet[(word >> 6) & 63];
        }
        if (here > 2) {
            to[-1] = alphabet[word & 63];
        }
        len -= here;
    }
    return (size_t)(to - start);
}

static int digit(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

ssize_t gb_base64_decode(void *to, const char *from, size_t len)
{
    if (len == 0 || len % 4 != 0) {
        return -EINVAL;
    }
    size_t padding = 0;
    while (padding < 2 && from[len - 1 - padding] == '=') {
        padding++;
    }
    unsigned char *out = to;
    uint32_t word = 0;
    size_t digits = len - padding;
    for (size_t i = 0; i < digits; i++) {
        int value = digit(from[i]);
        if (value < 0) {
            return -EINVAL;
        }
        word = word << 6 | (uint32_t)value;
        if (i % 4 == 3) {
            *out++ = (unsigned char)(word >> 16);
            *out++ = (unsigned char)(word >> 8);
            *out++ = (unsigned char)word;
        }
    }
    if (padding == 1) {
        if ((word & 3) != 0) {
            return -EINVAL;
        }
        *out++ = (unsigned char)(word >> 10);
        *out++ = (unsigned char)(word >> 2);
    } else if (padding == 2) {
        if ((word & 15) != 0) {
            return -EINVAL;
        }
        *out++ = (unsigned char)(word >> 4);
    }
    return out - (unsigned char *)to;
}
