/* Gets a netmap port: opens it here or in another network namespace, or receives it, open, over a
 * Unix socket. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "fail.h"
#include "io/netmap.h"

#define OWN_NETNS "/proc/thread-self/ns/net"
#define DOOR_PATIENCE_S 10

/* Bind a descriptor to the port. The kernel searches names in the network namespace of the caller.
 */
static bool bind_port(struct netmap_port *port, const struct netmap_arguments *arguments,
                      struct nmreq_register *request, char *error, size_t size)
{
    struct nmreq_header header = {.nr_version = NETMAP_API, .nr_reqtype = NETMAP_REQ_REGISTER};

    port->fd = open(NETMAP_DEVICE_NAME, O_RDWR | O_CLOEXEC);
    if (port->fd < 0)
        return fail(error, size, "%s: %s%s", NETMAP_DEVICE_NAME, strerror(errno),
                    errno == ENOENT ? " (load netmap.ko)" : "");
    memcpy(header.nr_name, arguments->name, sizeof arguments->name);
    header.nr_body = (uintptr_t)request;
    request->nr_mode = NR_REG_ALL_NIC;
    request->nr_flags = NR_NO_TX_POLL;
    if (ioctl(port->fd, NIOCCTRL, &header) != 0)
        return fail(error, size, "netmap does not open '%s': %s", arguments->name, strerror(errno));
    return true;
}

static bool enter_netns(const char *path, char *error, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) {
        snprintf(error, size, "netns=%s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    close(fd);
    return true;
}

static bool bind_in_netns(struct netmap_port *port, const struct netmap_arguments *arguments,
                          struct nmreq_register *request, char *error, size_t size)
{
    if (arguments->netns[0] == '\0')
        return bind_port(port, arguments, request, error, size);
    const int home = open(OWN_NETNS, O_RDONLY | O_CLOEXEC);
    bool bound = false;

    if (home < 0)
        return fail(error, size, "%s: %s", OWN_NETNS, strerror(errno));
    if (enter_netns(arguments->netns, error, size)) {
        bound = bind_port(port, arguments, request, error, size);
        if (setns(home, CLONE_NEWNET) != 0) {
            snprintf(error, size, "back from netns=%s: %s", arguments->netns, strerror(errno));
            bound = false;
        }
    }
    close(home);
    return bound;
}

/* The reply over the socket: the descriptor of the port with the kernel's description of it, or a
 * line with an error. */
static bool receive_port(int door, struct netmap_port *port, struct nmreq_register *request,
                         char *error, size_t size)
{
    char answer[256] = "";
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec parts = {.iov_base = answer, .iov_len = sizeof answer - 1};
    struct msghdr message = {.msg_iov = &parts,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    const ssize_t got = recvmsg(door, &message, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *header = got < 0 ? NULL : CMSG_FIRSTHDR(&message);

    if (header != NULL && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&port->fd, CMSG_DATA(header), sizeof(int));
    if (port->fd >= 0 && got == (ssize_t)sizeof *request) {
        memcpy(request, answer, sizeof *request);
        return true;
    }
    if (got < 0)
        snprintf(error, size, "nobody hands the port out: %s", strerror(errno));
    else
        snprintf(error, size, "%s",
                 port->fd < 0 && answer[0] != '\0'
                     ? answer
                     : "the program at the door did not send a netmap port");
    return false;
}

/* A container may neither enter the network namespace of the switch nor open /dev/netmap, so it
 * gets the open port from outside. It then uses the port directly. */
static bool take_through_door(struct netmap_port *port, const struct netmap_arguments *arguments,
                              struct nmreq_register *request, char *error, size_t size)
{
    const struct timeval patience = {.tv_sec = DOOR_PATIENCE_S};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char reason[256];
    const int door = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    bool taken = false;

    memcpy(address.sun_path, arguments->door, strlen(arguments->door) + 1);
    if (door < 0 || setsockopt(door, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
        connect(door, (struct sockaddr *)&address, sizeof address) != 0) {
        snprintf(error, size, "door=%s: %s", arguments->door, strerror(errno));
    } else {
        taken = receive_port(door, port, request, reason, sizeof reason);
        if (!taken)
            snprintf(error, size, "door=%s: %s", arguments->door, reason);
    }
    if (door >= 0)
        close(door);
    return taken;
}

bool netmap_get_port(struct netmap_port *port, const struct netmap_arguments *arguments,
                     struct nmreq_register *request, char *error, size_t size)
{
    return arguments->door[0] != '\0' ? take_through_door(port, arguments, request, error, size)
                                      : bind_in_netns(port, arguments, request, error, size);
}
