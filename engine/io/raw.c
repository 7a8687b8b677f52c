/* raw: whole Ethernet frames through AF_PACKET on one device, past the device's queueing
 * discipline. The socket hears every protocol (so that flooding is seen) but not what this host
 * itself sends, or each frame would be counted twice where sender and receiver share a device. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/socket.h"

static bool set_packet_option(int fd, int option, const char *name, char *error, size_t size)
{
    const int on = 1;
    if (setsockopt(fd, SOL_PACKET, option, &on, sizeof on) == 0)
        return true;
    snprintf(error, size, "%s: %s (Linux 4.20 or later is needed)", name, strerror(errno));
    return false;
}

/* A socket bound to one device. It is made deaf (protocol 0) and bound last, so that no frame of
 * another device, and none of our own, gets in before the options stand. */
static int open_socket(int index, char *error, size_t size)
{
    const struct packet_mreq all = {.mr_ifindex = index, .mr_type = PACKET_MR_PROMISC};
    const struct sockaddr_ll address = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = index};
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        snprintf(error, size, "packet socket: %s%s", strerror(errno),
                 errno == EPERM ? " (run as root or with CAP_NET_RAW)" : "");
        return -1;
    }
    const int on = 1; /* without it everything works, only slower */
    setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on);
    setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all);
    if (!set_packet_option(fd, PACKET_IGNORE_OUTGOING, "PACKET_IGNORE_OUTGOING", error, size)) {
        close(fd);
        return -1;
    }
    if (bind(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        snprintf(error, size, "bind: %s", strerror(errno));
        close(fd);
        return -1;
    }
    return fd;
}

static bool raw_check(const char *text, char *error, size_t size)
{
    struct socket_arguments arguments;
    return socket_parse("raw", text, &arguments, error, size);
}

static struct io_port *raw_open(const struct io_config *config, char *error, size_t size)
{
    struct socket_arguments arguments;
    uint8_t mac[6] = {0};
    uint32_t mtu = 0;
    int index = 0;

    if (!socket_parse("raw", config->arguments, &arguments, error, size))
        return NULL;
    if (arguments.device[0] == '\0') {
        snprintf(error, size, "raw needs dev=NAME");
        return NULL;
    }
    if (!socket_device(arguments.device, &index, mac, &mtu, error, size))
        return NULL;
    const int fd = open_socket(index, error, size);
    if (fd < 0)
        return NULL;
    socket_tune(fd, arguments.block);
    const uint32_t longest =
        mtu + 18 > config->frame_length_max ? mtu + 18 : config->frame_length_max;
    struct socket_port *port =
        socket_port_make(fd, &arguments, config, longest < 16384 ? longest : 16384, error, size);
    if (port == NULL)
        return NULL;
    if (config->tagged && !socket_keep_tags(port)) {
        snprintf(error, size, "PACKET_AUXDATA: %s", strerror(errno));
        socket_close(&port->base);
        return NULL;
    }
    memcpy(port->base.mac, config->src_mac_given ? config->src_mac : mac, 6);
    port->base.mtu_bytes = mtu;
    snprintf(port->base.driver, sizeof port->base.driver, "af_packet%s%s",
             arguments.mmsg ? " mmsg" : "", arguments.block ? " blocking" : "");
    return &port->base;
}

static unsigned raw_forward(struct io_port *from, struct io_port *to, struct io_frame *frames,
                            unsigned count)
{
    (void)from; /* its buffers stay valid until its next receive call */
    return socket_send_frames((struct socket_port *)to, frames, count);
}

static uint64_t raw_rx_drops(struct io_port *base)
{
    struct socket_port *port = (struct socket_port *)base;
    struct tpacket_stats stats;
    socklen_t length = sizeof stats;

    /* Reading resets the kernel's counter. */
    if (getsockopt(port->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &length) == 0)
        port->drops += stats.tp_drops;
    return port->drops;
}

const struct io_ops io_raw = {
    .name = "raw",
    .summary = "AF_PACKET: dev=NAME, mmsg (sendmmsg/recvmmsg), block",
    .check = raw_check,
    .open = raw_open,
    .tx_prepare = socket_tx_prepare,
    .tx_acquire = socket_tx_acquire,
    .tx_send = socket_tx_send,
    .tx_release = socket_tx_release,
    .rx_burst = socket_rx_burst,
    .rx_release = socket_rx_release,
    .forward = raw_forward,
    .rx_wait = socket_rx_wait,
    .rx_drops = raw_rx_drops,
    .close = socket_close,
};
