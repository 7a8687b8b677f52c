/* udp: datagrams through the kernel's UDP, over IPv4 or IPv6; the kernel writes the headers. With a
 * known peer the socket is connected, which saves a route lookup per datagram. Broadcasts, or over
 * IPv6 multicasts to all nodes of the link, have a separate socket, because a connected socket does
 * not receive them. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/sock_diag.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fail.h"
#include "io/socket.h"
#include "traffic/frame.h"

static const uint8_t any_prefix[12];
static const uint8_t all_nodes_prefix[12] = {0xff, 0x02};

static bool is_ip6(const struct io_config *config)
{
    return config->address->ip6;
}

static socklen_t address_bytes(const struct io_config *config)
{
    return is_ip6(config) ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

/* `prefix`: the first twelve bytes of an IPv6 address. */
static union socket_address make_address(const struct io_config *config, const uint8_t prefix[12],
                                         uint32_t ip, uint16_t port)
{
    union socket_address a = {.v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)}};

    if (is_ip6(config)) {
        memcpy(a.v6.sin6_addr.s6_addr, prefix, 12);
        store32(a.v6.sin6_addr.s6_addr + 12, htonl(ip));
    } else {
        a.v4 = (struct sockaddr_in){
            .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {.s_addr = htonl(ip)}};
    }
    return a;
}

static void set_options(int fd, int family)
{
    const int on = 1, off = 0;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof on);
    if (family == AF_INET6) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
        setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, &off, sizeof off);
    }
}

static void explain_bind(const union socket_address *local, char *error, size_t size)
{
    const int reason = errno;
    char text[INET6_ADDRSTRLEN] = "";

    if (local->any.sa_family == AF_INET6)
        inet_ntop(AF_INET6, &local->v6.sin6_addr, text, sizeof text);
    else
        inet_ntop(AF_INET, &local->v4.sin_addr, text, sizeof text);
    snprintf(error, size, "bind to %s port %u: %s (is --src-ip an address of this host?)", text,
             ntohs(local->v4.sin_port),
             strerror(reason)); /* both structs have the port at this place */
}

static int open_socket(const union socket_address *local, socklen_t bytes, const char *device,
                       char *error, size_t size)
{
    const int fd = socket(local->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        snprintf(error, size, "UDP socket: %s", strerror(errno));
        return -1;
    }
    set_options(fd, local->any.sa_family);
    if (device[0] != '\0' &&
        setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device, (socklen_t)strlen(device) + 1) != 0) {
        snprintf(error, size, "bind to device %s: %s", device, strerror(errno));
        close(fd);
        return -1;
    }
    if (bind(fd, &local->any, bytes) != 0) {
        explain_bind(local, error, size);
        close(fd);
        return -1;
    }
    return fd;
}

/* Frames must not be fragmented, and the kernel must not use path MTU reports. */
static void forbid_fragments(int fd, int family)
{
    const int probe = IP_PMTUDISC_PROBE, probe6 = IPV6_PMTUDISC_PROBE;

    if (family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &probe6, sizeof probe6);
    else
        setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof probe);
}

static bool connect_peer(int fd, const struct io_config *config, char *error, size_t size)
{
    const uint8_t *prefix = is_ip6(config) ? config->address->dst_prefix : any_prefix;
    const union socket_address peer =
        make_address(config, prefix, config->address->dst_ip, config->address->dst_udp);

    if (!config->dst_ip_given || connect(fd, &peer.any, address_bytes(config)) == 0)
        return true;
    return fail(error, size, "connect to the peer (--dst-ip): %s", strerror(errno));
}

/* Open the socket for broadcasts on one device. */
static bool open_broadcast(struct socket_port *port, const struct io_config *config,
                           const char *device, char *error, size_t size)
{
    const union socket_address local =
        make_address(config, any_prefix, 0, config->address->src_udp);

    port->broadcast_fd = open_socket(&local, port->address_bytes, device, error, size);
    port->broadcast = make_address(config, all_nodes_prefix, is_ip6(config) ? 1 : INADDR_BROADCAST,
                                   config->address->dst_udp);
    if (is_ip6(config))
        port->broadcast.v6.sin6_scope_id = if_nametoindex(device);
    return port->broadcast_fd >= 0;
}

static struct socket_port *make_port(const struct io_config *config,
                                     const struct socket_arguments *arguments, char *error,
                                     size_t size)
{
    /* Without --src-ip it receives on all addresses. */
    const bool given = config->src_ip_given;
    const uint8_t *prefix = given && is_ip6(config) ? config->address->src_prefix : any_prefix;
    const union socket_address local =
        make_address(config, prefix, given ? config->address->src_ip : 0, config->address->src_udp);
    const int fd = open_socket(&local, address_bytes(config), arguments->device, error, size);

    if (fd < 0)
        return NULL;
    forbid_fragments(fd, local.any.sa_family);
    const struct io_buffers buffers = socket_tune(fd, arguments->block, config->unforced_buffers);
    if (!connect_peer(fd, config, error, size)) {
        close(fd);
        return NULL;
    }
    struct socket_port *port =
        socket_port_make(fd, arguments, config, config->frame_length_max, error, size);
    if (port == NULL)
        return NULL;
    port->base.buffers = buffers;
    port->address_bytes = address_bytes(config);
    if (!config->dst_ip_given || arguments->device[0] == '\0' ||
        open_broadcast(port, config, arguments->device, error, size))
        return port;
    socket_close(&port->base);
    return NULL;
}

static bool udp_check(const char *text, char *error, size_t size)
{
    struct socket_arguments arguments;
    return socket_parse("udp", false, text, &arguments, error, size);
}

static struct io_port *udp_open(const struct io_config *config, char *error, size_t size)
{
    struct socket_arguments arguments;
    struct network_device device = {.mtu_bytes = 65535};

    if (!socket_parse("udp", false, config->arguments, &arguments, error, size))
        return NULL;
    if (arguments.device[0] != '\0' && !socket_device(arguments.device, &device, error, size))
        return NULL;
    struct socket_port *port = make_port(config, &arguments, error, size);
    if (port == NULL)
        return NULL;
    if (!config->dst_ip_given) {
        for (unsigned i = 0; i < IO_BURST_MAX; i++)
            port->rx_messages[i].msg_hdr.msg_name = &port->rx_from[i];
    }
    memcpy(port->base.mac, device.mac, 6);
    port->base.mtu_bytes = device.mtu_bytes;
    port->base.udp_payload_only = true;
    snprintf(port->base.driver, sizeof port->base.driver, "udp%s%s", arguments.mmsg ? " mmsg" : "",
             arguments.block ? " blocking" : "");
    return &port->base;
}

/* Send each datagram back to its sender. */
static unsigned udp_forward(struct io_port *from, struct io_port *to, struct io_frame *frames,
                            unsigned count)
{
    struct socket_port *port = (struct socket_port *)to;
    const bool to_sender = from == to && port->rx_messages[0].msg_hdr.msg_name != NULL;

    for (unsigned i = 0; i < count; i++) {
        struct msghdr *header = &port->tx_messages[i].msg_hdr;
        header->msg_name = to_sender ? frames[i].cookie : NULL;
        header->msg_namelen = to_sender ? port->address_bytes : 0;
    }
    if (!to_sender || port->mmsg)
        return socket_send_frames(port, frames, count);
    for (unsigned i = 0; i < count; i++) {
        if (sendto(port->fd, frames[i].data, frames[i].length, port->block ? 0 : MSG_DONTWAIT,
                   frames[i].cookie, port->address_bytes) < 0) {
            socket_note_failure(port, "sendto", errno);
            return i;
        }
    }
    return count;
}

static uint64_t udp_rx_drops(struct io_port *base)
{
    struct socket_port *port = (struct socket_port *)base;
    uint32_t info[SK_MEMINFO_VARS] = {0};
    socklen_t length = sizeof info;

    /* A 32-bit counter of the kernel, which is read often enough to extend it. */
    if (getsockopt(port->fd, SOL_SOCKET, SO_MEMINFO, info, &length) == 0)
        port->drops += info[SK_MEMINFO_DROPS] - (uint32_t)port->drops;
    return port->drops;
}

static const struct io_variant variants[] = {
    {.name = "udp",
     .meaning = "a UDP socket, send and recv",
     .arguments = "dev=DEVICE",
     .container = ""},
    {.name = "udp-mmsg",
     .meaning = "a UDP socket, sendmmsg and recvmmsg",
     .arguments = "dev=DEVICE,mmsg",
     .container = ""},
    {.name = NULL},
};

const struct io_ops io_udp = {
    .name = "udp",
    .summary = "UDP sockets",
    .keys = "dev=NAME (bind to device), mmsg (sendmmsg/recvmmsg; default send/recv), block",
    .variants = variants,
    .privileges = "net_admin", /* buffers above net.core.rmem_max */
    .capabilities = IO_DATAGRAMS | IO_OPENS_NO_FILE,
    .check = udp_check,
    .open = udp_open,
    .tx_prepare = socket_tx_prepare,
    .tx_acquire = socket_tx_acquire,
    .tx_send = socket_tx_send,
    .tx_release = io_release_nothing,
    .rx_burst = socket_rx_burst,
    .rx_release = io_release_nothing,
    .forward = udp_forward,
    .rx_wait = socket_rx_wait,
    .rx_drops = udp_rx_drops,
    .device_up = socket_device_up,
    .close = socket_close,
};

IO_BACKEND(io_udp);
