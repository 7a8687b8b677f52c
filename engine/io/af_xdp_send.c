/* Sending of `af_xdp`, and forwarding without a copy.
 *
 * Slots for sending are a stack, so that a sender always writes to the same few slots, which stay
 * in its cache. Each slot contains the template since tx_prepare. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "io/af_xdp_ring.h"
#include "io/socket.h"

#define TRIES_MAX 64 /* system calls that a kernel may need for one burst */

/* A slot of several chunks is free when its last sent chunk is free. */
static void put_slot(struct xdp_queue *q, uint64_t address)
{
    struct xdp_port *port = q->port;

    if (__builtin_expect(q->memory->slot_chunks > 1, 0)) {
        const uint64_t slot_bytes = (uint64_t)q->memory->slot_chunks * q->memory->chunk_bytes;
        const uint64_t offset = address - q->first - receive_bytes(q);
        const uint64_t slot = offset / slot_bytes;
        if (offset % slot_bytes / q->memory->chunk_bytes != port->last_chunk[slot])
            return;
        address = q->first + receive_bytes(q) + slot * slot_bytes;
    }
    port->free_slots[port->free_count++] = address;
}

/* Take back the slots that the kernel has sent. */
static void reap(struct xdp_queue *q)
{
    struct xdp_ring *done = &q->done;
    const uint64_t *entries = done->entries;
    const uint32_t until = load(done->producer);

    if (done->index == until)
        return;
    for (; done->index != until; done->index++) {
        const uint64_t address = entries[done->index & done->mask];
        struct xdp_queue *owner = owner_of(q, address);
        if (__builtin_expect(address - owner->first >= receive_bytes(owner), 1)) {
            put_slot(owner, address);
        } else { /* a forwarded frame */
            put_chunk(owner, address);
            publish(owner->fill.producer, owner->fill.index);
        }
    }
    publish(done->consumer, done->index);
}

/* Make the kernel send the frames in the ring. Without zero-copy it sends within the call, a part
 * at a time. */
static void kick(struct xdp_queue *q)
{
    uint32_t before = load(q->tx.consumer);

    for (unsigned tries = 0; tries < TRIES_MAX && before != q->tx.index; tries++) {
        if (!wants_wakeup(&q->tx))
            return;
        const int error = sendto(q->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 ? errno : 0;
        if (error != 0 && error != EAGAIN) {
            xdp_note_failure(q->port, "send", error);
            if (!socket_error_passes(error))
                return;
        }
        const uint32_t after = load(q->tx.consumer);
        if (q->port->zero_copy)
            return;
        reap(q);
        if (after == before)
            return; /* the next call tries again */
        before = after;
    }
}

static uint32_t room_in(struct xdp_ring *tx)
{
    if (tx->mask + 1 - (tx->index - tx->kernel_index) < IO_BURST_MAX * 4)
        tx->kernel_index = load(tx->consumer);
    return tx->mask + 1 - (tx->index - tx->kernel_index);
}

bool xdp_tx_prepare(struct io_port *base, const uint8_t *bytes, uint32_t length)
{
    struct xdp_port *port = port_of(base);
    struct xdp_queue *q = &port->queues[0];

    if (length > port->slot_room)
        return false;
    for (unsigned tries = 0; tries < TRIES_MAX && port->free_count < XDP_TX_SLOTS; tries++) {
        kick(q);
        reap(q);
    }
    for (unsigned i = 0; i < port->free_count; i++)
        memcpy(q->memory->area + port->free_slots[i], bytes, length);
    return port->free_count == XDP_TX_SLOTS; /* the other slots may still contain another frame */
}

unsigned xdp_tx_acquire(struct io_port *base, struct io_frame *frames, unsigned count,
                        uint32_t length)
{
    struct xdp_port *port = port_of(base);
    struct xdp_queue *q = &port->queues[0];

    if (length > port->slot_room)
        return 0;
    if (port->acquired_count < count) {
        if (__builtin_expect(load(q->tx.consumer) != q->tx.index, 0))
            kick(q);
        reap(q);
        while (port->acquired_count < count && port->free_count > 0)
            port->acquired[port->acquired_count++] = port->free_slots[--port->free_count];
        if (port->acquired_count < count)
            count = port->acquired_count;
    }
    for (unsigned i = 0; i < count; i++)
        frames[i] =
            (struct io_frame){.data = q->memory->area + port->acquired[i], .length = length};
    return count;
}

/* Write the descriptors of a frame of several chunks. */
static void describe_pieces(struct xdp_queue *q, uint64_t address, uint32_t length)
{
    const uint64_t slot_bytes = (uint64_t)q->memory->slot_chunks * q->memory->chunk_bytes;
    struct xdp_desc *entries = q->tx.entries;
    uint8_t chunk = 0;

    for (uint32_t at = 0; at < length; at += q->memory->chunk_bytes, chunk++) {
        const uint32_t rest = length - at;
        const bool last = rest <= q->memory->chunk_bytes;
        entries[q->tx.index++ & q->tx.mask] = (struct xdp_desc){
            address + at, last ? rest : q->memory->chunk_bytes, last ? 0 : XDP_PKT_CONTD};
    }
    q->port->last_chunk[(address - q->first - receive_bytes(q)) / slot_bytes] =
        (uint8_t)(chunk - 1);
}

unsigned xdp_tx_send(struct io_port *base, struct io_frame *frames, unsigned count)
{
    struct xdp_port *port = port_of(base);
    struct xdp_queue *q = &port->queues[0];
    struct xdp_desc *entries = q->tx.entries;
    const uint32_t room = room_in(&q->tx) / q->memory->slot_chunks;

    if (count > room)
        count = room;
    for (unsigned i = 0; i < count; i++) { /* the acquired frames, in order */
        if (__builtin_expect(q->memory->slot_chunks > 1, 0))
            describe_pieces(q, port->acquired[i], frames[i].length);
        else
            entries[q->tx.index++ & q->tx.mask] =
                (struct xdp_desc){port->acquired[i], frames[i].length, 0};
    }
    publish(q->tx.producer, q->tx.index);
    port->acquired_count -= count;
    if (__builtin_expect(port->acquired_count > 0, 0))
        memmove(port->acquired, port->acquired + count,
                port->acquired_count * sizeof port->acquired[0]);
    kick(q);
    return count;
}

void xdp_tx_release(struct io_port *base, struct io_frame *frames, unsigned count)
{
    struct xdp_port *port = port_of(base);

    (void)frames;
    while (count-- > 0 && port->acquired_count > 0)
        port->free_slots[port->free_count++] = port->acquired[--port->acquired_count];
}

unsigned xdp_forward(struct io_port *from, struct io_port *to, struct io_frame *frames,
                     unsigned count)
{
    struct xdp_queue *in = &port_of(from)->queues[0], *out = &port_of(to)->queues[0];
    struct xdp_desc *entries = out->tx.entries;

    if (in->memory != out->memory || port_of(from)->several) {
        count = io_send_copies(to, frames, count);
        xdp_rx_release(from, frames, count);
        return count;
    }
    reap(out);
    const uint32_t room = room_in(&out->tx);
    if (count > room)
        count = room;
    for (unsigned i = 0; i < count; i++)
        entries[out->tx.index++ & out->tx.mask] =
            (struct xdp_desc){(uintptr_t)frames[i].cookie, frames[i].length, 0};
    publish(out->tx.producer, out->tx.index);
    kick(out);
    return count;
}
