/* Sends and receives bursts on a socket. The kernel copies frames, so a buffer is free as soon as
 * its frame is accepted; frames that were not accepted stay at the front of the ring of buffers. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "io/socket.h"

struct io_frame socket_with_tag(struct io_frame frame, const struct cmsghdr *c)
{
    struct tpacket_auxdata aux;

    if (c == NULL || c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA)
        return frame;
    memcpy(&aux, CMSG_DATA(c), sizeof aux);
    if ((aux.tp_status & TP_STATUS_VLAN_VALID) == 0 || frame.length < 12)
        return frame;
    const uint16_t tag[2] = {htons(aux.tp_vlan_tpid), htons(aux.tp_vlan_tci)};
    frame.data -= SOCKET_TAG_BYTES;
    frame.length += SOCKET_TAG_BYTES;
    memmove(frame.data, frame.data + SOCKET_TAG_BYTES, 12);
    memcpy(frame.data + 12, tag, sizeof tag);
    return frame;
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

void socket_note_failure(struct socket_port *port, const char *call, int error)
{
    if (socket_error_passes(error) ||
        (error == ENETDOWN && device_link_is_only_down(&port->link, &port->base.links_lost)))
        return;
    snprintf(port->base.failure, sizeof port->base.failure, "%s: %s", call, strerror(error));
}

static unsigned send_many(struct socket_port *port, int fd, const struct io_frame *frames,
                          unsigned count, int flags)
{
    for (unsigned i = 0; i < count; i++)
        port->tx_vectors[i] = (struct iovec){frames[i].data, frames[i].length};
    const int sent = sendmmsg(fd, port->tx_messages, count, flags);
    if (sent < 0)
        socket_note_failure(port, "sendmmsg", errno);
    return sent < 0 ? 0 : (unsigned)sent;
}

static unsigned send_each(struct socket_port *port, int fd, const struct io_frame *frames,
                          unsigned count, int flags)
{
    for (unsigned i = 0; i < count; i++) {
        if (send(fd, frames[i].data, frames[i].length, flags) < 0) {
            socket_note_failure(port, "send", errno);
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
            socket_note_failure(port, "sendto broadcast", errno);
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

/* The kernel writes only the headers of messages that it returns, so only the messages of the last
 * call are prepared again. All 256 messages would use a third of the nearest cache. */
static void rearm(struct socket_port *port)
{
    for (unsigned i = 0; i < port->rx_used; i++) {
        if (port->rx_messages[i].msg_hdr.msg_name != NULL)
            port->rx_messages[i].msg_hdr.msg_namelen = sizeof port->rx_from[i];
        if (port->tags)
            expect_control(port, i);
    }
}

static unsigned receive_many(struct socket_port *port, int fd, unsigned count)
{
    const int flags = MSG_TRUNC | (port->rx_block ? MSG_WAITFORONE : MSG_DONTWAIT);

    rearm(port);
    const int got = recvmmsg(fd, port->rx_messages, count, flags, NULL);
    if (got < 0)
        socket_note_failure(port, "recvmmsg", errno);
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
            socket_note_failure(port, "recv", errno);
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
    port->rx_used = got;
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
    io_poll(fds, 2, timeout_ns);
}
