/* One peer over a UNIX socket, for drivers with such a control channel (vhost-user, memif).
 *
 * DPDK's ways to find the peer do not suit measurements: virtio-user as the server blocks in
 * accept() while the device is created, the vhost client searches for its server once per second,
 * and the memif driver unmaps its rings under the worker when the peer dies. So this file listens
 * or connects itself and passes the connected socket to the driver when the driver calls connect():
 * the build links with --wrap=connect (static DPDK), which redirects that call here. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "fail.h"
#include "io/dpdk.h"

#define RETRY_MS 10
#define ANSWER_TIMEOUT_S 2 /* a peer that accepts and never replies must not block us */
#define LAST_ANSWER_US 300000
#define RELAY_BYTES_MAX 4096
#define RELAY_FDS_MAX 16

int __real_connect(int fd, const struct sockaddr *address, socklen_t length);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length);

static _Thread_local int handed_over = -1;

void dpdk_socket_hand_over(int fd)
{
    handed_over = fd;
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length)
{
    const int connected = handed_over;

    if (connected < 0)
        return __real_connect(fd, address, length);
    handed_over = -1;
    return dup3(connected, fd, O_CLOEXEC) < 0 ? -1 : 0;
}

static int socket_type(const struct dpdk_port *port)
{
    return (port->kind == DPDK_MEMIF ? SOCK_SEQPACKET : SOCK_STREAM) | SOCK_CLOEXEC;
}

static int connect_to(const struct dpdk_port *port)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, socket_type(port), 0);

    memcpy(address.sun_path, port->spec.target, DPDK_PATH_MAX);
    if (fd >= 0 && __real_connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    const int reason = errno;
    if (fd >= 0)
        close(fd);
    errno = reason;
    return -1;
}

/* A socket file whose owner has died refuses connections and can be removed. */
static bool remove_stale(const struct dpdk_port *port)
{
    const int fd = connect_to(port);

    if (fd >= 0) {
        close(fd);
        return false;
    }
    return errno == ECONNREFUSED && unlink(port->spec.target) == 0;
}

bool dpdk_socket_listen(struct dpdk_port *port, char *error, size_t size)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    bool bound;

    memcpy(address.sun_path, port->spec.target, DPDK_PATH_MAX);
    port->keeper.listen_fd = socket(AF_UNIX, socket_type(port) | SOCK_NONBLOCK, 0);
    bound = bind(port->keeper.listen_fd, (struct sockaddr *)&address, sizeof address) == 0;
    if (!bound && errno == EADDRINUSE) {
        if (!remove_stale(port))
            return fail(error, size,
                        "another process listens on this socket; stop it or choose another path");
        bound = bind(port->keeper.listen_fd, (struct sockaddr *)&address, sizeof address) == 0;
    }
    if (!bound || listen(port->keeper.listen_fd, 1) != 0)
        return fail(error, size,
                    "cannot make this socket: %s; its folder must exist and be writable",
                    strerror(errno));
    return true;
}

bool dpdk_socket_stopping(struct dpdk_port *port, int wait_ms)
{
    struct pollfd stop = {.fd = port->keeper.stop_fd, .events = POLLIN};

    return poll(&stop, 1, wait_ms) > 0;
}

static int accept_peer(struct dpdk_port *port)
{
    struct pollfd fds[2] = {{.fd = port->keeper.stop_fd, .events = POLLIN},
                            {.fd = port->keeper.listen_fd, .events = POLLIN}};

    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return -1;
        if (fds[0].revents != 0)
            return -1;
        const int fd = accept4(port->keeper.listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            return fd;
    }
}

int dpdk_socket_wait_peer(struct dpdk_port *port)
{
    const struct timeval timeout = {.tv_sec = ANSWER_TIMEOUT_S};
    int fd;

    if (port->spec.listens) {
        fd = accept_peer(port);
    } else {
        while ((fd = connect_to(port)) < 0) {
            if (dpdk_socket_stopping(port, RETRY_MS))
                return -1;
        }
    }
    /* The vhost library reads only if there is data, so this is only for virtio-user. */
    if (fd >= 0 && port->kind == DPDK_VIRTIO_USER)
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    return fd;
}

bool dpdk_socket_wait_hangup(struct dpdk_port *port, int fd, int timeout_ms)
{
    struct pollfd fds[2] = {{.fd = port->keeper.stop_fd, .events = POLLIN},
                            {.fd = fd, .events = POLLRDHUP}};
    int ready;

    while ((ready = poll(fds, 2, timeout_ms)) < 0 && errno == EINTR)
        ;
    return ready != 0;
}

void dpdk_socket_hurry(int fd)
{
    const struct timeval timeout = {.tv_usec = LAST_ANSWER_US};

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
}

/* Relay one message with its descriptors. False: the sender disconnected, or the other end does not
 * accept the message. */
static bool relay_message(int from, int to)
{
    char bytes[RELAY_BYTES_MAX];
    alignas(struct cmsghdr) char control[CMSG_SPACE(RELAY_FDS_MAX * sizeof(int))];
    struct iovec piece = {.iov_base = bytes, .iov_len = sizeof bytes};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    const ssize_t length = recvmsg(from, &message, MSG_CMSG_CLOEXEC);
    bool passed;

    if (length <= 0)
        return false;
    piece.iov_len = (size_t)length;
    if (message.msg_controllen == 0)
        message.msg_control = NULL;
    passed = sendmsg(to, &message, MSG_NOSIGNAL) == length;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            close(fd);
        }
    }
    return passed;
}

bool dpdk_socket_relay(struct dpdk_port *port, int peer_fd, int driver_fd, int timeout_ms)
{
    struct pollfd fds[3] = {{.fd = port->keeper.stop_fd, .events = POLLIN},
                            {.fd = peer_fd, .events = POLLIN | POLLRDHUP},
                            {.fd = driver_fd, .events = POLLIN | POLLRDHUP}};

    for (;;) {
        const int ready = poll(fds, 3, timeout_ms);
        if (ready == 0)
            return true;
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready < 0 || fds[0].revents != 0)
            return false;
        if (fds[1].revents != 0 && !relay_message(peer_fd, driver_fd))
            return false;
        if (fds[2].revents != 0 && !relay_message(driver_fd, peer_fd))
            return false;
    }
}
