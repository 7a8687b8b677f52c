/* udp: datagrams through the kernel's UDP; the kernel writes the headers. With a known peer the
 * socket is connected, which spares a route lookup per datagram; broadcasts, which a connected
 * socket does not hear, have a socket of their own. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/sock_diag.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/socket.h"

static struct sockaddr_in make_address(uint32_t ip, uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {.s_addr = htonl(ip)}};
}

static int open_socket(const struct sockaddr_in *local, const char *device, char *error,
                       size_t size)
{
    const int on = 1;
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        snprintf(error, size, "UDP socket: %s", strerror(errno));
        return -1;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof on);
    if (device[0] != '\0' &&
        setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device, (socklen_t)strlen(device) + 1) != 0) {
        snprintf(error, size, "bind to device %s: %s", device, strerror(errno));
        close(fd);
        return -1;
    }
    if (bind(fd, (const struct sockaddr *)local, sizeof *local) != 0) {
        char text[INET_ADDRSTRLEN];
        inet_ntop(AF_INET, &local->sin_addr, text, sizeof text);
        snprintf(error, size, "bind to %s port %u: %s (is --src-ip an address of this host?)", text,
                 ntohs(local->sin_port), strerror(errno));
        close(fd);
        return -1;
    }
    return fd;
}

/* Frames must not be fragmented; neither must the kernel believe what it heard of the path. */
static void forbid_fragments(int fd)
{
    const int probe = IP_PMTUDISC_PROBE;
    setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof probe);
}

static bool connect_peer(int fd, const struct io_config *config, char *error, size_t size)
{
    const struct sockaddr_in peer = make_address(config->dst_ip, config->dst_udp);

    if (!config->dst_ip_given || connect(fd, (const struct sockaddr *)&peer, sizeof peer) == 0)
        return true;
    snprintf(error, size, "connect to the peer (--dst-ip): %s", strerror(errno));
    return false;
}

static struct socket_port *make_port(const struct io_config *config,
                                     const struct socket_arguments *arguments, char *error,
                                     size_t size)
{
    /* Without --src-ip given we listen on all addresses; so we do where a device is given. */
    struct sockaddr_in local =
        make_address(config->src_ip_given ? config->src_ip : INADDR_ANY, config->src_udp);
    const int fd = open_socket(&local, arguments->device, error, size);

    if (fd < 0)
        return NULL;
    forbid_fragments(fd);
    socket_tune(fd, arguments->block);
    if (!connect_peer(fd, config, error, size)) {
        close(fd);
        return NULL;
    }
    struct socket_port *port =
        socket_port_make(fd, arguments, config, config->frame_length_max, error, size);
    if (port == NULL || !config->dst_ip_given || arguments->device[0] == '\0')
        return port;
    local.sin_addr.s_addr = htonl(INADDR_ANY);
    port->broadcast_fd = open_socket(&local, arguments->device, error, size);
    port->broadcast = make_address(INADDR_BROADCAST, config->dst_udp);
    if (port->broadcast_fd < 0) {
        socket_close(&port->base);
        return NULL;
    }
    return port;
}

static bool udp_check(const char *text, char *error, size_t size)
{
    struct socket_arguments arguments;
    return socket_parse("udp", text, &arguments, error, size);
}

static struct io_port *udp_open(const struct io_config *config, char *error, size_t size)
{
    struct socket_arguments arguments;
    uint8_t mac[6] = {0};
    uint32_t mtu = 65535;
    int index = 0;

    if (!socket_parse("udp", config->arguments, &arguments, error, size))
        return NULL;
    if (arguments.device[0] != '\0' &&
        !socket_device(arguments.device, &index, mac, &mtu, error, size))
        return NULL;
    struct socket_port *port = make_port(config, &arguments, error, size);
    if (port == NULL)
        return NULL;
    if (!config->dst_ip_given) {
        for (unsigned i = 0; i < IO_BURST_MAX; i++)
            port->rx_messages[i].msg_hdr.msg_name = &port->rx_from[i];
    }
    memcpy(port->base.mac, mac, 6);
    port->base.mtu_bytes = mtu;
    port->base.udp_payload_only = true;
    snprintf(port->base.driver, sizeof port->base.driver, "udp%s%s", arguments.mmsg ? " mmsg" : "",
             arguments.block ? " blocking" : "");
    return &port->base;
}

/* Answer each datagram where it came from. */
static unsigned udp_forward(struct io_port *from, struct io_port *to, struct io_frame *frames,
                            unsigned count)
{
    struct socket_port *port = (struct socket_port *)to;
    const bool to_sender = from == to && port->rx_messages[0].msg_hdr.msg_name != NULL;

    for (unsigned i = 0; i < count; i++) {
        struct msghdr *header = &port->tx_messages[i].msg_hdr;
        header->msg_name = to_sender ? frames[i].cookie : NULL;
        header->msg_namelen = to_sender ? sizeof(struct sockaddr_in) : 0;
    }
    if (!to_sender || port->mmsg)
        return socket_send_frames(port, frames, count);
    for (unsigned i = 0; i < count; i++) {
        if (sendto(port->fd, frames[i].data, frames[i].length, port->block ? 0 : MSG_DONTWAIT,
                   frames[i].cookie, sizeof(struct sockaddr_in)) < 0)
            return i;
    }
    return count;
}

static uint64_t udp_rx_drops(struct io_port *base)
{
    struct socket_port *port = (struct socket_port *)base;
    uint32_t info[SK_MEMINFO_VARS] = {0};
    socklen_t length = sizeof info;

    /* A 32-bit counter of the kernel's, read often enough to be extended. */
    if (getsockopt(port->fd, SOL_SOCKET, SO_MEMINFO, info, &length) == 0)
        port->drops += info[SK_MEMINFO_DROPS] - (uint32_t)port->drops;
    return port->drops;
}

const struct io_ops io_udp = {
    .name = "udp",
    .summary = "UDP sockets: dev=NAME, mmsg (sendmmsg/recvmmsg), block",
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
    .close = socket_close,
};
