/* How far a TCP connection has got, by the kernel's own count. */
#ifndef GB_SERVER_HTTP_SOCKET_H
#define GB_SERVER_HTTP_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes received, and bytes that the peer has acknowledged, since it was opened; 0 where the kernel
 * does not say (a unix socket). */
uint64_t gb_http_socket_received(int fd);
uint64_t gb_http_socket_acknowledged(int fd);

/* All that has come was read, and nothing will come any more. */
bool gb_http_socket_ended(int fd);

#endif
