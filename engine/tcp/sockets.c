/* Makes and prepares the sockets of the TCP roles. */
#include "tcp/sockets.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fail.h"

#define BACKLOG 4096
#define OTHER_FILES 64 /* files of the engine itself */

static bool set_congestion(const struct tcp_options *o, int fd)
{
    return o->congestion == NULL || setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, o->congestion,
                                               (socklen_t)strlen(o->congestion)) == 0;
}

int tcp_socket_make(const struct tcp_options *o, const struct tcp_address *address)
{
    const int fd =
        socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    const int on = 1;

    if (fd < 0)
        return -1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 && set_congestion(o, fd))
        return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

int tcp_socket_listen(const struct tcp_options *o, char *error, size_t size)
{
    char text[TCP_ADDRESS_TEXT_MAX];
    const int fd = tcp_socket_make(o, &o->listen);
    const int on = 1;

    tcp_address_print(&o->listen, text);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(fd, &o->listen.any, o->listen.length) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    fail(error, size, "--listen %s: %s", text, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

void tcp_socket_congestion(int fd, char name[TCP_CONGESTION_NAME_MAX])
{
    socklen_t length = TCP_CONGESTION_NAME_MAX;

    if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length) != 0)
        length = 0;
    name[length < TCP_CONGESTION_NAME_MAX ? length : TCP_CONGESTION_NAME_MAX - 1] = '\0';
}

bool tcp_sockets_suffice(uint64_t *sockets, bool given, char *error, size_t size)
{
    const uint64_t files = *sockets + OTHER_FILES;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= files)
        return true;
    limit.rlim_cur = limit.rlim_max < files ? limit.rlim_max : files;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur >= files)
        return true;
    if (!given && limit.rlim_cur > OTHER_FILES) {
        *sockets = limit.rlim_cur - OTHER_FILES;
        return true;
    }
    return fail(error, size,
                "--connections: needs %llu open files, and this process may open %llu (ulimit -n); "
                "raise the limit or use fewer connections",
                (unsigned long long)files, (unsigned long long)limit.rlim_cur);
}

bool tcp_congestion_is_permitted(const struct tcp_options *o, char *error, size_t size)
{
    const struct tcp_address *address = o->connect.length > 0 ? &o->connect : &o->listen;
    const int fd = tcp_socket_make(o, address);

    if (fd >= 0) {
        close(fd);
        return true;
    }
    if (o->congestion == NULL)
        return fail(error, size, "cannot make a TCP socket: %s", strerror(errno));
    if (errno == EPERM)
        return fail(error, size,
                    "--congestion-control: %s is not among the algorithms that every user may use "
                    "(net.ipv4.tcp_allowed_congestion_control); set it at the route: ip route "
                    "change ... congctl %s",
                    o->congestion, o->congestion);
    return fail(error, size, "--congestion-control: this kernel has no %s: %s", o->congestion,
                strerror(errno));
}
