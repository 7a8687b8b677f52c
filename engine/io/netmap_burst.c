/* The hot path of `netmap`: slots of the rings, and publishing our position to the kernel. */
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "io/netmap.h"

#define DRAIN_TRIES 2000

static uint8_t *slot_bytes(struct netmap_ring *ring, const struct netmap_slot *slot)
{
    return (uint8_t *)NETMAP_BUF(ring, slot->buf_idx);
}

/* Slots keep their buffers, except on a pipe. The kernel copies the frame, or has sent it, before
 * it returns the slot: so each slot needs the template only once. */
bool netmap_tx_prepare(struct io_port *base, const uint8_t *bytes, uint32_t length)
{
    struct netmap_port *port = port_of(base);
    struct netmap_ring *ring = port->tx;

    if (port->is_pipe || length > ring->nr_buf_size)
        return false;
    for (unsigned tries = 0; nm_tx_pending(ring); tries++) {
        if (tries == DRAIN_TRIES)
            return false;
        ioctl(port->fd, NIOCTXSYNC, NULL);
        usleep(50);
    }
    for (uint32_t i = 0; i < ring->num_slots; i++)
        memcpy(slot_bytes(ring, &ring->slot[i]), bytes, length);
    return true;
}

unsigned netmap_tx_acquire(struct io_port *base, struct io_frame *frames, unsigned count,
                           uint32_t length)
{
    struct netmap_port *port = port_of(base);
    struct netmap_ring *ring = port->tx;
    uint32_t next = ring->head;

    if (length > ring->nr_buf_size)
        return 0;
    if (nm_ring_space(ring) < count)
        ioctl(port->fd, NIOCTXSYNC, NULL);
    if (nm_ring_space(ring) < count)
        count = nm_ring_space(ring);
    for (unsigned i = 0; i < count; i++) {
        struct netmap_slot *slot = &ring->slot[next];
        frames[i] = (struct io_frame){.data = slot_bytes(ring, slot), .length = length};
        port->acquired[i] = slot;
        next = nm_ring_next(ring, next);
    }
    return count;
}

static void publish(struct netmap_port *port, uint32_t head)
{
    port->tx->head = port->tx->cur = head;
    ioctl(port->fd, NIOCTXSYNC, NULL);
}

unsigned netmap_tx_send(struct io_port *base, struct io_frame *frames, unsigned count)
{
    struct netmap_port *port = port_of(base);
    uint32_t head = port->tx->head;

    for (unsigned i = 0; i < count; i++) { /* the acquired frames are these slots, in order */
        port->acquired[i]->len = (uint16_t)frames[i].length;
        port->acquired[i]->flags = 0;
        head = nm_ring_next(port->tx, head);
    }
    publish(port, head);
    return count;
}

/* The ring to take frames from: the current ring while the role has frames of it, otherwise the
 * next ring with frames. */
static struct netmap_ring *filled_ring(struct netmap_port *port)
{
    struct netmap_ring *ring = NETMAP_RXRING(port->rings, port->rx_ring);

    if (port->rx_next != ring->tail || port->taken != port->released)
        return ring;
    ioctl(port->fd, NIOCRXSYNC, NULL);
    for (unsigned tried = 0; port->rx_next == ring->tail; tried++) {
        if (tried == port->rings->ni_rx_rings)
            break;
        port->rx_ring = port->rx_ring + 1 == port->rings->ni_rx_rings ? 0 : port->rx_ring + 1;
        ring = NETMAP_RXRING(port->rings, port->rx_ring);
        port->rx_next = ring->head;
    }
    return ring;
}

unsigned netmap_rx_burst(struct io_port *base, struct io_frame *frames, unsigned count)
{
    struct netmap_port *port = port_of(base);
    struct netmap_ring *ring = filled_ring(port);
    unsigned received = 0;

    while (received < count && port->rx_next != ring->tail) {
        struct netmap_slot *slot = &ring->slot[port->rx_next];
        frames[received++] =
            (struct io_frame){.data = slot_bytes(ring, slot), .length = slot->len, .cookie = slot};
        port->rx_next = nm_ring_next(ring, port->rx_next);
    }
    port->taken += received;
    return received;
}

/* Slots are returned in the order of the ring, so all together, after the last was released. */
static void give_back(struct netmap_port *port, unsigned count)
{
    port->released += count;
    if (port->released != port->taken)
        return;
    struct netmap_ring *ring = NETMAP_RXRING(port->rings, port->rx_ring);
    ring->head = ring->cur = port->rx_next;
    port->released = port->taken = 0;
}

void netmap_rx_release(struct io_port *base, struct io_frame *frames, unsigned count)
{
    (void)frames;
    give_back(port_of(base), count);
}

static void exchange_buffers(struct netmap_slot *in, struct netmap_slot *out)
{
    const uint32_t spare = out->buf_idx;

    out->buf_idx = in->buf_idx;
    in->buf_idx = spare;
    in->flags |= NS_BUF_CHANGED;
    out->flags = NS_BUF_CHANGED;
}

unsigned netmap_forward(struct io_port *from, struct io_port *to, struct io_frame *frames,
                        unsigned count)
{
    struct netmap_port *in = port_of(from), *out = port_of(to);
    struct netmap_ring *ring = out->tx;
    uint32_t head = ring->head;

    if (nm_ring_space(ring) < count)
        ioctl(out->fd, NIOCTXSYNC, NULL);
    if (nm_ring_space(ring) < count)
        count = nm_ring_space(ring);
    for (unsigned i = 0; i < count; i++) {
        struct netmap_slot *slot = &ring->slot[head];
        if (in->memory_id == out->memory_id) {
            exchange_buffers(frames[i].cookie, slot);
        } else {
            memcpy(slot_bytes(ring, slot), frames[i].data, frames[i].length);
            slot->flags = 0;
        }
        slot->len = (uint16_t)frames[i].length;
        head = nm_ring_next(ring, head);
    }
    if (count > 0)
        publish(out, head);
    give_back(in, count);
    return count;
}

void netmap_rx_wait(struct io_port *base, uint64_t timeout_ns)
{
    struct pollfd waiting = {.fd = port_of(base)->fd, .events = POLLIN};
    io_poll(&waiting, 1, timeout_ns);
}
