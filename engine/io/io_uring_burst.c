/* The hot path of `io_uring`: completions, sending, receiving. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "io/io_uring.h"

#define BLOCK_LONGEST_NS 20000000U
#define CLEAR_LONGEST_MS 100

/* A worker that sends so many bursts without a check for received frames only sends. While it is
 * idle it receives; then its receive request is withdrawn, because the kernel would check such a
 * request for every sent frame. */
#define BURSTS_WITHOUT_POLL_MAX 64

static uint64_t tag(enum uring_request request, uint32_t number)
{
    return (uint64_t)number << 32 | request;
}

static void receive_on(struct uring_port *port, int file)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&port->ring);

    if (sqe == NULL)
        return;
    if (port->socket->tags) /* only for packet sockets, whose frames come without their tag */
        io_uring_prep_recvmsg_multishot(sqe, file, &port->message, 0);
    else
        io_uring_prep_recv_multishot(sqe, file, NULL, 0, 0);
    sqe->flags |= IOSQE_FIXED_FILE | IOSQE_BUFFER_SELECT;
    sqe->buf_group = URING_GROUP;
    io_uring_sqe_set_data64(
        sqe,
        tag(file == FILE_MAIN ? REQUEST_RECEIVE : REQUEST_RECEIVE_BROADCAST, port->generation));
    port->receiving[file] = true;
}

void uring_receive(struct uring_port *port)
{
    if (!port->receiving[FILE_MAIN])
        receive_on(port, FILE_MAIN);
    if (!port->receiving[FILE_BROADCAST] && port->socket->broadcast_fd >= 0)
        receive_on(port, FILE_BROADCAST);
    io_uring_submit(&port->ring);
}

static void note_failure(struct uring_port *port, const char *call, int result)
{
    if (socket_error_passes(-result) || result == -ECANCELED ||
        (result == -ENETDOWN &&
         device_link_is_only_down(&port->socket->link, &port->base.links_lost)))
        return;
    uring_fail(call, result, port->base.failure, sizeof port->base.failure);
}

static void take_arrival(struct uring_port *port, const struct io_uring_cqe *cqe, int file)
{
    const bool counts = cqe->user_data >> 32 == port->generation;

    if (cqe->flags & IORING_CQE_F_BUFFER) {
        const unsigned last = (port->arrived_first + port->arrived_count++) % URING_BUFFERS;
        port->arrived[last] = (struct uring_arrival){
            (uint16_t)(cqe->flags >> IORING_CQE_BUFFER_SHIFT),
            cqe->res > 0 ? (uint16_t)cqe->res : 0,
        };
    } else if (cqe->res < 0) {
        note_failure(port, "receive", cqe->res);
    }
    if (!(cqe->flags & IORING_CQE_F_MORE) && counts)
        port->receiving[file] = false;
}

static void take_completions(struct uring_port *port)
{
    struct io_uring_cqe *cqe;
    unsigned head, count = 0;

    io_uring_for_each_cqe(&port->ring, head, cqe)
    {
        switch (cqe->user_data & UINT32_MAX) {
        case REQUEST_SEND:
            port->results[cqe->user_data >> 32] = cqe->res;
            port->sending--;
            break;
        case REQUEST_RECEIVE:
            take_arrival(port, cqe, FILE_MAIN);
            break;
        default:
            take_arrival(port, cqe, FILE_BROADCAST);
        }
        count++;
    }
    io_uring_cq_advance(&port->ring, count);
}

/* Complete what the kernel has for this thread, and process all completions. */
static void take_all_completions(struct uring_port *port)
{
    if (__atomic_load_n(port->ring.sq.kflags, __ATOMIC_RELAXED) &
        (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW))
        io_uring_get_events(&port->ring);
    take_completions(port);
}

static void poll_requests(struct uring_port *port)
{
    take_all_completions(port);
    if (__builtin_expect(!port->receiving[FILE_MAIN], 0) ||
        (port->socket->broadcast_fd >= 0 && !port->receiving[FILE_BROADCAST]))
        uring_receive(port);
}

/* Until the next check for received frames. */
static void end_receiving(struct uring_port *port)
{
    struct io_uring_sync_cancel_reg all = {
        .flags = IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL,
        .timeout = {-1, -1},
    };

    port->generation++;
    port->receiving[FILE_MAIN] = port->receiving[FILE_BROADCAST] = false;
    io_uring_register_sync_cancel(&port->ring, &all);
    take_all_completions(port);
}

/* Requests complete only in the thread that made them: with COOP_TASKRUN, when it next enters the
 * kernel. So no request may remain for another thread. */
void uring_change_thread(struct io_port *base)
{
    end_receiving((struct uring_port *)(void *)base);
}

/* --- sending --- */

bool uring_tx_prepare(struct io_port *base, const uint8_t *bytes, uint32_t length)
{
    return socket_tx_prepare(&((struct uring_port *)(void *)base)->socket->base, bytes, length);
}

unsigned uring_tx_acquire(struct io_port *base, struct io_frame *frames, unsigned count,
                          uint32_t length)
{
    struct uring_port *port = (struct uring_port *)(void *)base;
    return socket_tx_acquire(&port->socket->base, frames, count, length);
}

/* A frame was refused, but a later frame accepted: it can only be sent now, behind that frame. */
static void send_late(struct uring_port *port, const struct io_frame *frame)
{
    struct pollfd fd = {.fd = port->socket->fd, .events = POLLOUT};

    poll(&fd, 1, CLEAR_LONGEST_MS);
    if (send(port->socket->fd, frame->data, frame->length, MSG_DONTWAIT) < 0)
        snprintf(port->base.failure, sizeof port->base.failure, "send: %s, out of order",
                 strerror(errno));
}

static unsigned count_taken(struct uring_port *port, const struct io_frame *frames, unsigned count)
{
    unsigned taken = count;

    while (taken > 0 && port->results[taken - 1] < 0)
        note_failure(port, "send", port->results[--taken]);
    for (unsigned i = 0; i < taken; i++) {
        if (__builtin_expect(port->results[i] < 0, 0))
            send_late(port, &frames[i]);
    }
    return taken;
}

unsigned uring_tx_send(struct io_port *base, struct io_frame *frames, unsigned count)
{
    struct uring_port *port = (struct uring_port *)(void *)base;
    struct socket_port *socket = port->socket;

    if (count == 0)
        return 0;
    if (socket->broadcast_fd >= 0 && frames[0].flags & IO_FRAME_BROADCAST)
        return socket_tx_send(&socket->base, frames, count);
    if (__builtin_expect(++port->bursts_since_poll == BURSTS_WITHOUT_POLL_MAX, 0))
        end_receiving(port);
    for (unsigned i = 0; i < count; i++) {
        struct io_uring_sqe *sqe = io_uring_get_sqe(&port->ring);
        io_uring_prep_send(sqe, FILE_MAIN, frames[i].data, frames[i].length, MSG_DONTWAIT);
        sqe->flags |= IOSQE_FIXED_FILE;
        io_uring_sqe_set_data64(sqe, tag(REQUEST_SEND, i));
    }
    port->sending = count;
    io_uring_submit(&port->ring);
    take_completions(port);
    while (port->sending > 0) {
        struct io_uring_cqe *cqe;
        io_uring_submit(&port->ring);
        io_uring_wait_cqe(&port->ring, &cqe);
        take_completions(port);
    }
    const unsigned taken = count_taken(port, frames, count);
    socket_tx_sent(socket, taken);
    return taken;
}

/* --- receiving --- */

static void give_back(struct uring_port *port)
{
    for (unsigned i = 0; i < port->handed_count; i++)
        uring_provide(port, port->handed_out[i], i);
    io_uring_buf_ring_advance(port->provided, (int)port->handed_count);
    port->handed_count = 0;
}

void uring_rx_wait(struct io_port *base, uint64_t timeout_ns)
{
    struct uring_port *port = (struct uring_port *)(void *)base;
    struct __kernel_timespec timeout = {(long long)(timeout_ns / 1000000000U),
                                        (long long)(timeout_ns % 1000000000U)};
    struct io_uring_cqe *cqe;

    if (!port->receiving[FILE_MAIN])
        uring_receive(port);
    if (port->arrived_count == 0)
        io_uring_wait_cqe_timeout(&port->ring, &cqe, &timeout);
}

/* The frame in a buffer that begins with data of the kernel about it. */
static struct io_frame unpack(struct uring_port *port, struct io_frame frame)
{
    struct msghdr *message = &port->message;
    struct io_uring_recvmsg_out *out =
        io_uring_recvmsg_validate(frame.data, (int)frame.length, message);

    if (out == NULL) {
        frame.length = 0;
        return frame;
    }
    frame.length = io_uring_recvmsg_payload_length(out, (int)frame.length, message);
    frame.data = io_uring_recvmsg_payload(out, message);
    return socket_with_tag(frame, io_uring_recvmsg_cmsg_firsthdr(out, message));
}

unsigned uring_rx_burst(struct io_port *base, struct io_frame *frames, unsigned count)
{
    struct uring_port *port = (struct uring_port *)(void *)base;
    unsigned taken = 0;

    port->bursts_since_poll = 0;
    give_back(port);
    if (port->arrived_count < count)
        poll_requests(port);
    if (port->arrived_count == 0 && port->may_block) {
        uring_rx_wait(base, BLOCK_LONGEST_NS);
        poll_requests(port);
    }
    for (; taken < count && port->arrived_count > 0; taken++) {
        const struct uring_arrival a = port->arrived[port->arrived_first];
        frames[taken] = (struct io_frame){.data = port->buffers + (size_t)a.buffer * port->stride,
                                          .length = a.length};
        port->handed_out[taken] = a.buffer;
        port->arrived_first = (port->arrived_first + 1) % URING_BUFFERS;
        port->arrived_count--;
    }
    port->handed_count = taken;
    for (unsigned i = 0; port->socket->tags && i < taken; i++)
        frames[i] = unpack(port, frames[i]);
    return taken;
}

uint64_t uring_rx_drops(struct io_port *base)
{
    struct uring_port *port = (struct uring_port *)(void *)base;
    return port->kind->rx_drops(&port->socket->base);
}
