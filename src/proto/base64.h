/*
 * Base64 with the standard alphabet and padding (RFC 4648, section 4), strict: no white space, no
 * missing padding, no bits left over that are not zero.
 */
#ifndef GB_PROTO_BASE64_H
#define GB_PROTO_BASE64_H

#include <stddef.h>
#include <sys/types.h>

/* Bytes that encoding len_bytes takes. */
#define GB_BASE64_SIZE(len_bytes) (((len_bytes) + 2) / 3 * 4)

/* Returns GB_BASE64_SIZE(len). Nothing terminates the text. */
size_t gb_base64_encode(char *to, const void *from, size_t len);

/* `to` has room for len / 4 * 3 bytes and may be `from` itself. Returns the bytes decoded, or
 * -EINVAL for what is no base64, of nothing too. */
ssize_t gb_base64_decode(void *to, const char *from, size_t len);

#endif
