/* The port of a socket: its arguments, device, buffers and options. */
#include "io/socket.h"

#include "traffic/frame.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <unistd.h>

#include "io/arguments.h"
#include "io/packet.h"

#define BUFFER_BYTES (64 << 20) /* tens of thousands of frames, for a long preemption */
#define BLOCK_LONGEST_US 20000
#define FRAME_OVERHEAD 18 /* Ethernet header and a VLAN tag, which the MTU does not include */
#define ROOM_MAX 16384

#define AT(field) offsetof(struct socket_arguments, field)

static const struct io_key keys[] = {
    {.name = "dev", .kind = IO_KEY_DEVICE, .offset = AT(device)},
    {.name = "mmsg", .kind = IO_KEY_FLAG, .offset = AT(mmsg)},
    {.name = "block", .kind = IO_KEY_FLAG, .offset = AT(block)},
    /* The last row, which only packet sockets use. */
    {.name = "qdisc", .kind = IO_KEY_CHOICE, .offset = AT(qdisc), .choices = packet_qdisc_names},
};

bool socket_parse(const char *backend, bool has_qdisc, const char *arguments,
                  struct socket_arguments *parsed, char *error, size_t size)
{
    const unsigned count = sizeof keys / sizeof keys[0];

    memset(parsed, 0, sizeof *parsed);
    return io_parse(backend, keys, has_qdisc ? count : count - 1, arguments, parsed, error, size);
}

static uint32_t set_buffer(int fd, int option, int forcing, bool unforced)
{
    const int asked_bytes = BUFFER_BYTES;
    int granted_bytes = 0;
    socklen_t length = sizeof granted_bytes;

    if (unforced || setsockopt(fd, SOL_SOCKET, forcing, &asked_bytes, sizeof asked_bytes) != 0)
        setsockopt(fd, SOL_SOCKET, option, &asked_bytes, sizeof asked_bytes);
    return getsockopt(fd, SOL_SOCKET, option, &granted_bytes, &length) == 0 && granted_bytes > 0
               ? (uint32_t)granted_bytes
               : 0;
}

struct io_buffers socket_tune(int fd, bool block, bool unforced)
{
    const struct timeval longest = {0, BLOCK_LONGEST_US};
    const struct io_buffers buffers = {
        .asked_bytes = 2U * BUFFER_BYTES,
        .receive_bytes = set_buffer(fd, SO_RCVBUF, SO_RCVBUFFORCE, unforced),
        .send_bytes = set_buffer(fd, SO_SNDBUF, SO_SNDBUFFORCE, unforced),
    };

    if (block) {
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof longest);
    }
    return buffers;
}

bool socket_device(const char *name, struct network_device *device, char *error, size_t size)
{
    struct ifreq request = {0};
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool found = false;

    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (fd >= 0 && ioctl(fd, SIOCGIFINDEX, &request) == 0) {
        device->index = request.ifr_ifindex;
        if (ioctl(fd, SIOCGIFMTU, &request) == 0)
            device->mtu_bytes = (uint32_t)request.ifr_mtu;
        if (ioctl(fd, SIOCGIFHWADDR, &request) == 0)
            memcpy(device->mac, request.ifr_hwaddr.sa_data, 6);
        found = true;
    } else {
        snprintf(error, size, "device '%s': %s", name, strerror(errno));
    }
    if (fd >= 0)
        close(fd);
    return found;
}

void socket_describe(struct io_port *port, const struct network_device *device,
                     const struct io_config *config)
{
    memcpy(port->mac, config->src_mac_given ? config->address->src_mac : device->mac, 6);
    port->mtu_bytes = device->mtu_bytes;
}

uint32_t socket_frame_room(const struct network_device *device, const struct io_config *config)
{
    const uint32_t received = device->mtu_bytes + FRAME_OVERHEAD;
    const uint32_t longest =
        received > config->frame_length_max ? received : config->frame_length_max;

    return longest < ROOM_MAX ? longest : ROOM_MAX;
}

struct socket_port *socket_port_make(int fd, const struct socket_arguments *arguments,
                                     const struct io_config *config, uint32_t frame_room,
                                     char *error, size_t size)
{
    struct socket_port *port = calloc(1, sizeof *port);

    if (port == NULL) {
        close(fd);
        snprintf(error, size, "out of memory");
        return NULL;
    }
    port->fd = fd;
    device_link_open(&port->link, arguments->device);
    port->broadcast_fd = -1;
    port->mmsg = arguments->mmsg;
    port->block = arguments->block;
    port->rx_block = arguments->block && config->rx_may_block;
    port->base.blocking = arguments->block;
    port->stride = (frame_room + 127U) / 64 * 64;
    port->base.room = port->stride;
    port->rx_used = IO_BURST_MAX;
    port->tx_buffers = aligned_alloc(64, (size_t)IO_BURST_MAX * port->stride);
    port->rx_buffers = aligned_alloc(64, (size_t)IO_BURST_MAX * port->stride);
    if (port->tx_buffers == NULL || port->rx_buffers == NULL) {
        snprintf(error, size, "out of memory");
        socket_close(&port->base);
        return NULL;
    }
    /* Writing gets the pages now, not during the trial. A role without a direction needs none. */
    if (!config->only_receives)
        memset(port->tx_buffers, 0, (size_t)IO_BURST_MAX * port->stride);
    if (!config->only_sends)
        memset(port->rx_buffers, 0, (size_t)IO_BURST_MAX * port->stride);
    for (unsigned i = 0; i < IO_BURST_MAX; i++) {
        port->rx_vectors[i] =
            (struct iovec){port->rx_buffers + (size_t)i * port->stride, port->stride};
        port->rx_messages[i].msg_hdr =
            (struct msghdr){.msg_iov = &port->rx_vectors[i], .msg_iovlen = 1};
        port->tx_messages[i].msg_hdr =
            (struct msghdr){.msg_iov = &port->tx_vectors[i], .msg_iovlen = 1};
    }
    return port;
}

bool socket_keep_tags(struct socket_port *port)
{
    const int on = 1;

    port->rx_control = calloc(IO_BURST_MAX, sizeof *port->rx_control);
    if (port->rx_control == NULL ||
        setsockopt(port->fd, SOL_PACKET, PACKET_AUXDATA, &on, sizeof on) != 0)
        return false;
    port->tags = true;
    for (unsigned i = 0; i < IO_BURST_MAX;
         i++) { /* each buffer is larger than a frame and this offset */
        port->rx_vectors[i].iov_base =
            port->rx_buffers + (size_t)i * port->stride + SOCKET_TAG_BYTES;
        port->rx_vectors[i].iov_len = port->stride - SOCKET_TAG_BYTES;
    }
    return true;
}

bool socket_device_up(struct io_port *base)
{
    struct socket_port *port = (struct socket_port *)base;
    return device_link_check(&port->link, &base->links_lost);
}

void socket_close(struct io_port *base)
{
    struct socket_port *port = (struct socket_port *)base;

    device_link_close(&port->link);
    close(port->fd);
    if (port->broadcast_fd >= 0)
        close(port->broadcast_fd);
    free(port->tx_buffers);
    free(port->rx_buffers);
    free(port->rx_control);
    free(port);
}

bool socket_tx_prepare(struct io_port *base, const uint8_t *bytes, uint32_t length)
{
    struct socket_port *port = (struct socket_port *)base;

    if (length > port->stride)
        return false;
    for (unsigned i = 0; i < IO_BURST_MAX; i++)
        memcpy(port->tx_buffers + (size_t)i * port->stride, bytes, length);
    return true;
}
