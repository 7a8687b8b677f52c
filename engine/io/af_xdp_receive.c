/* Receiving of `af_xdp`. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "io/af_xdp_ring.h"

#define BLOCK_LONGEST_NS 20000000U
#define GATHERED UINTPTR_MAX /* cookie of a frame that was assembled from several chunks */

/* Assemble a frame from its chunks; returns the number of its descriptors, 0 if some have not
 * arrived. */
static uint32_t gather(struct xdp_queue *q, uint32_t ready, uint8_t *room, struct io_frame *frame)
{
    const struct xdp_desc *entries = q->rx.entries;
    uint32_t pieces = 0, length = 0;

    while (pieces < ready && entries[(q->rx.index + pieces) & q->rx.mask].options & XDP_PKT_CONTD)
        pieces++;
    if (pieces == ready)
        return 0;
    pieces++;
    for (uint32_t i = 0; i < pieces; i++) {
        const struct xdp_desc *piece = &entries[(q->rx.index + i) & q->rx.mask];
        const uint32_t rest = XDP_LONGEST - length;
        const uint32_t part = piece->len < rest ? piece->len : rest;
        memcpy(room + length, q->memory->area + piece->addr, part);
        length += part;
        put_chunk(q, piece->addr);
    }
    publish(q->fill.producer, q->fill.index);
    *frame = (struct io_frame){.data = room, .length = length, .cookie = (void *)GATHERED};
    return pieces;
}

static unsigned take(struct xdp_queue *q, struct io_frame *frames, unsigned first, unsigned count)
{
    const struct xdp_desc *entries = q->rx.entries;
    struct xdp_port *port = q->port;
    uint32_t ready = load(q->rx.producer) - q->rx.index;
    unsigned taken = first;

    if (ready == 0)
        return first;
    while (taken < count && ready > 0) {
        const struct xdp_desc *d = &entries[q->rx.index & q->rx.mask];
        if (__builtin_expect((d->options & XDP_PKT_CONTD) != 0, 0)) {
            uint8_t *room = port->assembled + (size_t)taken * XDP_LONGEST;
            const uint32_t pieces = gather(q, ready, room, &frames[taken]);
            if (pieces == 0)
                break;
            q->rx.index += pieces;
            ready -= pieces;
            taken++;
            continue;
        }
        frames[taken++] = (struct io_frame){.data = q->memory->area + d->addr,
                                            .length = d->len,
                                            .cookie = (void *)(uintptr_t)d->addr};
        __builtin_prefetch(q->memory->area + d->addr);
        q->rx.index++;
        ready--;
    }
    publish(q->rx.consumer, q->rx.index);
    return taken;
}

static void poll_kernel(struct xdp_port *port)
{
    for (unsigned i = 0; i < port->queue_count; i++) {
        struct xdp_queue *q = &port->queues[i];
        if (!port->busy_poll && !wants_wakeup(&q->fill))
            continue;
        if (recvfrom(q->fd, NULL, 0, MSG_DONTWAIT, NULL, NULL) < 0)
            xdp_note_failure(port, "receive", errno);
    }
}

static unsigned take_all(struct xdp_port *port, struct io_frame *frames, unsigned count)
{
    unsigned taken = 0;

    for (unsigned i = 0; i < port->queue_count && taken < count; i++) {
        taken = take(&port->queues[port->next_queue], frames, taken, count);
        if (taken < count && ++port->next_queue == port->queue_count)
            port->next_queue = 0;
    }
    return taken;
}

unsigned xdp_rx_burst(struct io_port *base, struct io_frame *frames, unsigned count)
{
    struct xdp_port *port = port_of(base);
    unsigned taken = take_all(port, frames, count);

    if (taken > 0)
        return taken;
    poll_kernel(port);
    if (port->may_block) {
        xdp_rx_wait(base, BLOCK_LONGEST_NS);
        taken = take_all(port, frames, count);
    }
    return taken;
}

void xdp_rx_release(struct io_port *base, struct io_frame *frames, unsigned count)
{
    struct xdp_queue *q = &port_of(base)->queues[0];

    for (unsigned i = 0; i < count; i++) {
        const uintptr_t address = (uintptr_t)frames[i].cookie;
        if (__builtin_expect(address == GATHERED, 0))
            continue;
        struct xdp_queue *owner = owner_of(q, address);
        put_chunk(owner, address);
        if (owner != q)
            publish(owner->fill.producer, owner->fill.index);
    }
    publish(q->fill.producer, q->fill.index);
}

void xdp_rx_wait(struct io_port *base, uint64_t timeout_ns)
{
    struct xdp_port *port = port_of(base);
    struct pollfd fds[XDP_QUEUES_MAX];

    for (unsigned i = 0; i < port->queue_count; i++)
        fds[i] = (struct pollfd){.fd = port->queues[i].fd, .events = POLLIN};
    if (io_poll(fds, port->queue_count, timeout_ns) > 0 && fds[0].revents & POLLERR)
        xdp_note_failure(port, "wait for frames", ENETDOWN);
}
