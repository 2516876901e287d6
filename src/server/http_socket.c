/* TCP's counts of bytes: see http_socket.h. A file of its own, for the kernel's header has them,
 * and gets on with none of the C library's. */
#include "server/http_socket.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

static struct tcp_info read_info(int fd)
{
    struct tcp_info info;
    socklen_t len = sizeof(info);
    memset(&info, 0, sizeof(info));
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0) {
        memset(&info, 0, sizeof(info));
    }
    return info;
}

uint64_t gb_http_socket_received(int fd)
{
    return read_info(fd).tcpi_bytes_received;
}

uint64_t gb_http_socket_acknowledged(int fd)
{
    return read_info(fd).tcpi_bytes_acked;
}

bool gb_http_socket_ended(int fd)
{
    char byte = 0;
    ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}
