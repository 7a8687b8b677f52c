/* Sending and receiving bursts on a socket. The kernel copies, so a buffer is free as soon as
 * its frame is accepted; frames that are refused stay in front of the ring of buffers. */
#include "io/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <unistd.h>

#include "io/arguments.h"
#include "io/packet.h"

#define BUFFER_BYTES (64 << 20) /* tens of thousands of frames: rides out a long preemption */
#define BLOCK_LONGEST_US 20000
#define TAG_BYTES 4

#define AT(field) offsetof(struct socket_arguments, field)

static const struct io_key keys[] = {
    {.name = "dev", .kind = IO_KEY_DEVICE, .offset = AT(device)},
    {.name = "mmsg", .kind = IO_KEY_FLAG, .offset = AT(mmsg)},
    {.name = "block", .kind = IO_KEY_FLAG, .offset = AT(block)},
    {.name = "qdisc", .kind = IO_KEY_CHOICE, .offset = AT(qdisc), .choices = packet_qdisc_names},
};

bool socket_parse(const char *backend, const char *arguments, struct socket_arguments *parsed,
                  char *error, size_t size)
{
    const bool has_qdisc = strcmp(backend, "raw") == 0; /* the last row */
    const unsigned count = sizeof keys / sizeof keys[0];

    memset(parsed, 0, sizeof *parsed);
    return io_parse(backend, keys, has_qdisc ? count : count - 1, arguments, parsed, error, size);
}

void socket_tune(int fd, bool block)
{
    const int bytes = BUFFER_BYTES;
    const struct timeval longest = {0, BLOCK_LONGEST_US};

    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) != 0)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    if (block) {
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof longest);
    }
}

bool socket_device(const char *name, int *index, uint8_t mac[6], uint32_t *mtu, char *error,
                   size_t size)
{
    struct ifreq request = {0};
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool found = false;

    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (fd >= 0 && ioctl(fd, SIOCGIFINDEX, &request) == 0) {
        *index = request.ifr_ifindex;
        if (ioctl(fd, SIOCGIFMTU, &request) == 0)
            *mtu = (uint32_t)request.ifr_mtu;
        if (ioctl(fd, SIOCGIFHWADDR, &request) == 0)
            memcpy(mac, request.ifr_hwaddr.sa_data, 6);
        found = true;
    } else {
        snprintf(error, size, "device '%s': %s", name, strerror(errno));
    }
    if (fd >= 0)
        close(fd);
    return found;
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
    port->tx_buffers = aligned_alloc(64, (size_t)IO_BURST_MAX * port->stride);
    port->rx_buffers = aligned_alloc(64, (size_t)IO_BURST_MAX * port->stride);
    if (port->tx_buffers == NULL || port->rx_buffers == NULL) {
        snprintf(error, size, "out of memory");
        socket_close(&port->base);
        return NULL;
    }
    memset(port->tx_buffers, 0, (size_t)IO_BURST_MAX * port->stride);
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
    for (unsigned i = 0; i < IO_BURST_MAX; i++) { /* the buffers are larger than a frame and this */
        port->rx_vectors[i].iov_base = port->rx_buffers + (size_t)i * port->stride + TAG_BYTES;
        port->rx_vectors[i].iov_len = port->stride - TAG_BYTES;
    }
    return true;
}

struct io_frame socket_with_tag(struct io_frame frame, const struct cmsghdr *c)
{
    struct tpacket_auxdata aux;

    if (c == NULL || c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA)
        return frame;
    memcpy(&aux, CMSG_DATA(c), sizeof aux);
    if ((aux.tp_status & TP_STATUS_VLAN_VALID) == 0 || frame.length < 12)
        return frame;
    const uint16_t tag[2] = {htons(aux.tp_vlan_tpid), htons(aux.tp_vlan_tci)};
    frame.data -= TAG_BYTES;
    frame.length += TAG_BYTES;
    memmove(frame.data, frame.data + TAG_BYTES, 12);
    memcpy(frame.data + 12, tag, sizeof tag);
    return frame;
}

bool socket_device_up(struct io_port *base)
{
    struct socket_port *port = (struct socket_port *)base;
    return device_link_look(&port->link, &base->links_lost);
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

unsigned socket_tx_acquire(struct io_port *base, struct io_frame *frames, unsigned count,
                           uint32_t length)
{
    struct socket_port *port = (struct socket_port *)base;

    if (length > port->stride)
        return 0;
    for (unsigned i = 0; i < count; i++) {
        const size_t buffer = (port->tx_first + i) % IO_BURST_MAX;
        frames[i] =
            (struct io_frame){.data = port->tx_buffers + buffer * port->stride, .length = length};
    }
    if (port->tx_held < count)
        port->tx_held = count;
    return count;
}

bool socket_error_passes(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS || error == EINTR ||
           error == ECONNREFUSED || error == EHOSTUNREACH || error == ENOMEM;
}

static void note_failure(struct socket_port *port, const char *call, int error)
{
    if (!socket_error_passes(error))
        snprintf(port->base.failure, sizeof port->base.failure, "%s: %s", call, strerror(error));
}

static unsigned send_many(struct socket_port *port, int fd, const struct io_frame *frames,
                          unsigned count, int flags)
{
    for (unsigned i = 0; i < count; i++)
        port->tx_vectors[i] = (struct iovec){frames[i].data, frames[i].length};
    const int sent = sendmmsg(fd, port->tx_messages, count, flags);
    if (sent < 0)
        note_failure(port, "sendmmsg", errno);
    return sent < 0 ? 0 : (unsigned)sent;
}

static unsigned send_each(struct socket_port *port, int fd, const struct io_frame *frames,
                          unsigned count, int flags)
{
    for (unsigned i = 0; i < count; i++) {
        if (send(fd, frames[i].data, frames[i].length, flags) < 0) {
            note_failure(port, "send", errno);
            return i;
        }
    }
    return count;
}

static unsigned send_broadcast(struct socket_port *port, const struct io_frame *frames,
                               unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (sendto(port->broadcast_fd, frames[i].data, frames[i].length, MSG_DONTWAIT,
                   &port->broadcast.any, port->address_bytes) < 0) {
            note_failure(port, "sendto broadcast", errno);
            return i;
        }
    }
    return count;
}

unsigned socket_send_frames(struct socket_port *port, const struct io_frame *frames, unsigned count)
{
    const int flags = port->block ? 0 : MSG_DONTWAIT;

    if (count == 0)
        return 0;
    if (port->broadcast_fd >= 0 && frames[0].flags & IO_FRAME_BROADCAST)
        return send_broadcast(port, frames, count);
    return port->mmsg ? send_many(port, port->fd, frames, count, flags)
                      : send_each(port, port->fd, frames, count, flags);
}

unsigned socket_tx_send(struct io_port *base, struct io_frame *frames, unsigned count)
{
    struct socket_port *port = (struct socket_port *)base;
    const unsigned sent = socket_send_frames(port, frames, count);

    socket_tx_sent(port, sent);
    return sent;
}

static void expect_control(struct socket_port *port, unsigned i)
{
    port->rx_messages[i].msg_hdr.msg_control = port->rx_control[i].bytes;
    port->rx_messages[i].msg_hdr.msg_controllen = sizeof port->rx_control[i].bytes;
}

static unsigned receive_many(struct socket_port *port, int fd, unsigned count)
{
    const int flags = MSG_TRUNC | (port->rx_block ? MSG_WAITFORONE : MSG_DONTWAIT);

    for (unsigned i = 0; i < count; i++) {
        if (port->rx_messages[i].msg_hdr.msg_name != NULL)
            port->rx_messages[i].msg_hdr.msg_namelen = sizeof port->rx_from[i];
        if (port->tags)
            expect_control(port, i);
    }
    const int got = recvmmsg(fd, port->rx_messages, count, flags, NULL);
    if (got < 0)
        note_failure(port, "recvmmsg", errno);
    return got < 0 ? 0 : (unsigned)got;
}

static unsigned receive_each(struct socket_port *port, int fd, unsigned count, bool block)
{
    unsigned got = 0;

    for (; got < count; got++) {
        struct mmsghdr *message = &port->rx_messages[got];
        const int flags = MSG_TRUNC | (block && got == 0 ? 0 : MSG_DONTWAIT);
        ssize_t n;
        if (message->msg_hdr.msg_name != NULL || port->tags) {
            if (message->msg_hdr.msg_name != NULL)
                message->msg_hdr.msg_namelen = sizeof port->rx_from[got];
            if (port->tags)
                expect_control(port, got);
            n = recvmsg(fd, &message->msg_hdr, flags);
        } else {
            n = recv(fd, port->rx_vectors[got].iov_base, port->stride, flags);
        }
        if (n < 0) {
            note_failure(port, "recv", errno);
            break;
        }
        message->msg_len = (unsigned)n;
    }
    return got;
}

unsigned socket_rx_burst(struct io_port *base, struct io_frame *frames, unsigned count)
{
    struct socket_port *port = (struct socket_port *)base;
    unsigned got = port->mmsg ? receive_many(port, port->fd, count)
                              : receive_each(port, port->fd, count, port->rx_block);

    if (got == 0 && port->broadcast_fd >= 0)
        got = receive_each(port, port->broadcast_fd, count, false);
    for (unsigned i = 0; i < got; i++) {
        const uint32_t length = port->rx_messages[i].msg_len;
        const uint32_t room = (uint32_t)port->rx_vectors[i].iov_len;
        frames[i] = (struct io_frame){
            .data = port->rx_vectors[i].iov_base,
            .length = length < room ? length : room,
            .cookie = &port->rx_from[i],
        };
        if (port->tags)
            frames[i] = socket_with_tag(frames[i], CMSG_FIRSTHDR(&port->rx_messages[i].msg_hdr));
    }
    return got;
}

void socket_rx_wait(struct io_port *base, uint64_t timeout_ns)
{
    const struct socket_port *port = (const struct socket_port *)base;
    struct pollfd fds[2] = {{.fd = port->fd, .events = POLLIN},
                            {.fd = port->broadcast_fd, .events = POLLIN}};
    const struct timespec timeout = {(time_t)(timeout_ns / 1000000000U),
                                     (long)(timeout_ns % 1000000000U)};
    ppoll(fds, 2, &timeout, NULL);
}
