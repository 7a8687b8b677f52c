/* netmap: rings of a NIC, a VALE port or a pipe, shared with the kernel. Transmit buffers are the
 * ring's own slots; received frames stay in their slots until they are released. Frames are
 * forwarded by exchanging buffers where both ports share netmap's memory, else copied. */
#include "io/io.h"

#define SUMMARY "netmap"
#define KEYS                                                                                       \
    "NAME, as netmap calls the port: a NIC (eth0), a VALE port (vale0:1), an end of a pipe (x{1, " \
    "x}1); netns=PATH opens it in that network namespace; door=SOCKET takes it, opened, from who " \
    "listens there"

static const struct io_word words[] = {
    {.name = "netmap",
     .meaning = "netmap: a VALE port, or a kernel device in netmap mode",
     .container = "net_raw"},
    {.name = NULL},
};

#ifndef HAVE_NETMAP

static const struct io_ops io_netmap = {
    .name = "netmap",
    .summary = SUMMARY,
    .keys = KEYS,
    .words = words,
    .missing = "built without netmap's headers; rebuild with -Dnetmap_headers=FOLDER",
};

IO_BACKEND(io_netmap);

#else

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <linux/if_packet.h>

#include "io/netmap.h"
#include "io/socket.h"

#define NAME_MAX_BYTES 64
#define PATH_MAX_BYTES 128
#define OWN_NETNS "/proc/thread-self/ns/net"
#define DOOR_PATIENCE_S 10

struct netmap_arguments {
    char name[NAME_MAX_BYTES];  /* what netmap calls the port: eth0, vale0:1, x{1 */
    char netns[PATH_MAX_BYTES]; /* a VALE switch belongs to a network namespace; empty: ours */
    char door[PATH_MAX_BYTES];  /* a Unix socket; empty: we open the port ourselves */
};

static bool parse(const char *text, struct netmap_arguments *parsed, char *error, size_t size)
{
    char key[NAME_MAX_BYTES], value[PATH_MAX_BYTES];
    bool bad = false;

    memset(parsed, 0, sizeof *parsed);
    while ((text = io_next_argument(text, key, sizeof key, value, sizeof value, &bad))) {
        if (strcmp(key, "netns") == 0 && value[0] != '\0') {
            memcpy(parsed->netns, value, sizeof value);
        } else if (strcmp(key, "door") == 0 && value[0] != '\0') {
            memcpy(parsed->door, value, sizeof value);
        } else if (value[0] == '\0' && parsed->name[0] == '\0' && key[0] != '\0') {
            memcpy(parsed->name, key, sizeof key);
        } else {
            snprintf(error, size,
                     "'%s': netmap takes NAME (eth0, vale0:1, x{1), netns=PATH or door=SOCKET",
                     key);
            return false;
        }
    }
    if (bad || parsed->name[0] == '\0') {
        snprintf(error, size, "netmap needs the NAME of a port (eth0, vale0:1, x{1)");
        return false;
    }
    if (parsed->netns[0] != '\0' && parsed->door[0] != '\0') {
        snprintf(error, size, "netmap: who listens at the door opens the port; leave netns= out");
        return false;
    }
    if (strlen(parsed->door) >= sizeof((struct sockaddr_un *)NULL)->sun_path) {
        snprintf(error, size, "door=%s: too long for a Unix socket", parsed->door);
        return false;
    }
    return true;
}

static bool netmap_check(const char *text, char *error, size_t size)
{
    struct netmap_arguments arguments;
    return parse(text, &arguments, error, size);
}

static void netmap_close(struct io_port *base)
{
    struct netmap_port *port = port_of(base);

    if (port->memory != NULL)
        munmap(port->memory, port->memory_bytes);
    if (port->promiscuous_fd >= 0)
        close(port->promiscuous_fd);
    if (port->fd >= 0)
        close(port->fd);
    free(port);
}

/* Bind a descriptor to the port. The kernel looks names up in the caller's network namespace. */
static bool bind_port(struct netmap_port *port, const struct netmap_arguments *arguments,
                      struct nmreq_register *request, char *error, size_t size)
{
    struct nmreq_header header = {.nr_version = NETMAP_API, .nr_reqtype = NETMAP_REQ_REGISTER};

    port->fd = open(NETMAP_DEVICE_NAME, O_RDWR | O_CLOEXEC);
    if (port->fd < 0) {
        snprintf(error, size, "%s: %s%s", NETMAP_DEVICE_NAME, strerror(errno),
                 errno == ENOENT ? " (load netmap.ko)" : "");
        return false;
    }
    memcpy(header.nr_name, arguments->name, sizeof arguments->name);
    header.nr_body = (uintptr_t)request;
    request->nr_mode = NR_REG_ALL_NIC;
    request->nr_flags = NR_NO_TX_POLL;
    if (ioctl(port->fd, NIOCCTRL, &header) != 0) {
        snprintf(error, size, "netmap does not open '%s': %s", arguments->name, strerror(errno));
        return false;
    }
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

    if (home < 0) {
        snprintf(error, size, "%s: %s", OWN_NETNS, strerror(errno));
        return false;
    }
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

/* The answer at a door: the descriptor of the port, with the kernel's account of it; or a line that
 * says why there is none. */
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
    const struct cmsghdr *held = got < 0 ? NULL : CMSG_FIRSTHDR(&message);

    if (held != NULL && held->cmsg_level == SOL_SOCKET && held->cmsg_type == SCM_RIGHTS &&
        held->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&port->fd, CMSG_DATA(held), sizeof(int));
    if (port->fd >= 0 && got == (ssize_t)sizeof *request) {
        memcpy(request, answer, sizeof *request);
        return true;
    }
    if (got < 0)
        snprintf(error, size, "nobody hands the port out: %s", strerror(errno));
    else
        snprintf(error, size, "%s",
                 port->fd < 0 && answer[0] != '\0' ? answer
                                                   : "what the door hands out is no netmap port");
    return false;
}

/* A container may neither enter the switch's network namespace nor open /dev/netmap: it gets the
 * port from outside. What it has then is the port itself, with nothing in between. */
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

static bool get_port(struct netmap_port *port, const struct netmap_arguments *arguments,
                     struct nmreq_register *request, char *error, size_t size)
{
    return arguments->door[0] != '\0' ? take_through_door(port, arguments, request, error, size)
                                      : bind_in_netns(port, arguments, request, error, size);
}

static bool map_rings(struct netmap_port *port, const struct nmreq_register *request, char *error,
                      size_t size)
{
    port->memory_bytes = request->nr_memsize;
    port->memory_id = request->nr_mem_id;
    port->memory = mmap(NULL, port->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, port->fd, 0);
    if (port->memory == MAP_FAILED) {
        port->memory = NULL;
        snprintf(error, size, "netmap memory: %s", strerror(errno));
        return false;
    }
    port->rings = NETMAP_IF(port->memory, request->nr_offset);
    if (port->rings->ni_tx_rings == 0 || port->rings->ni_rx_rings == 0) {
        snprintf(error, size, "netmap port has no rings");
        return false;
    }
    port->tx = NETMAP_TXRING(port->rings, 0);
    port->rx_next = NETMAP_RXRING(port->rings, 0)->head;
    return true;
}

/* A NIC is told to hear all addresses, as long as we have the socket. Best effort. */
static int hear_everything(int index)
{
    const struct packet_mreq all = {.mr_ifindex = index, .mr_type = PACKET_MR_PROMISC};
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

    if (fd >= 0)
        setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all);
    return fd;
}

static bool describe(struct netmap_port *port, const struct netmap_arguments *arguments,
                     const struct io_config *config, char *error, size_t size)
{
    const uint32_t room = port->tx->nr_buf_size;
    uint8_t mac[6];
    int index = 0;

    if (config->frame_length_max > room) {
        snprintf(error, size, "frames of %u bytes do not fit netmap's buffers of %u (buf_size)",
                 config->frame_length_max, room);
        return false;
    }
    memcpy(mac, config->src_mac, 6);
    port->base.mtu_bytes = room - 14;
    if (if_nametoindex(arguments->name) != 0) {
        if (!socket_device(arguments->name, &index, mac, &port->base.mtu_bytes, error, size))
            return false;
        port->promiscuous_fd = hear_everything(index);
    }
    memcpy(port->base.mac, config->src_mac_given ? config->src_mac : mac, 6);
    port->is_pipe = strpbrk(arguments->name, "{}") != NULL;
    snprintf(port->base.driver, sizeof port->base.driver, "netmap API %d, %u+%u slots", NETMAP_API,
             port->tx->num_slots, NETMAP_RXRING(port->rings, 0)->num_slots);
    return true;
}

static struct io_port *netmap_open(const struct io_config *config, char *error, size_t size)
{
    struct netmap_arguments arguments;
    struct nmreq_register request = {0};

    if (!parse(config->arguments, &arguments, error, size))
        return NULL;
    struct netmap_port *port = calloc(1, sizeof *port);
    if (port == NULL) {
        snprintf(error, size, "out of memory");
        return NULL;
    }
    port->fd = port->promiscuous_fd = -1;
    if (!get_port(port, &arguments, &request, error, size) ||
        !map_rings(port, &request, error, size) ||
        !describe(port, &arguments, config, error, size)) {
        netmap_close(&port->base);
        return NULL;
    }
    return &port->base;
}

static const char *privileges_of(const char *text)
{
    struct netmap_arguments arguments;
    char error[256];

    if (!parse(text, &arguments, error, sizeof error) || arguments.door[0] != '\0')
        return "";
    return arguments.netns[0] != '\0' ? "net_raw,net_admin,sys_admin" : "net_raw,net_admin";
}

static const struct io_ops io_netmap = {
    .name = "netmap",
    .summary = SUMMARY,
    .keys = KEYS,
    .words = words,
    .privileges_of = privileges_of,
    .check = netmap_check,
    .open = netmap_open,
    .tx_prepare = netmap_tx_prepare,
    .tx_acquire = netmap_tx_acquire,
    .tx_send = netmap_tx_send,
    .tx_release = io_release_nothing, /* slots that were not sent are still the next ones */
    .rx_burst = netmap_rx_burst,
    .rx_release = netmap_rx_release,
    .forward = netmap_forward,
    .rx_wait = netmap_rx_wait,
    .close = netmap_close,
};

IO_BACKEND(io_netmap);

#endif
