/* Sending by `af_xdp`, and forwarding without a copy.
 *
 * Sending slots are taken and given back as a stack, so that a sender goes on writing to the few
 * that its cache holds, and each holds the template since tx_prepare. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "io/af_xdp_ring.h"
#include "io/socket.h"

#define TRIES_MAX 64 /* system calls that a kernel may need to send one burst */

/* A slot of several chunks is free when the last that was sent of it is. */
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
    port->spare[port->spare_count++] = address;
}

/* Take back what the kernel has sent. */
static void reap(struct xdp_queue *q)
{
    struct xdp_ring *done = &q->done;
    const uint64_t *entries = done->entries;
    const uint32_t until = load(done->producer);

    if (done->own == until)
        return;
    for (; done->own != until; done->own++) {
        const uint64_t address = entries[done->own & done->mask];
        struct xdp_queue *owner = owner_of(q, address);
        if (__builtin_expect(address - owner->first >= receive_bytes(owner), 1)) {
            put_slot(owner, address);
        } else { /* it was forwarded */
            put_chunk(owner, address);
            publish(owner->fill.producer, owner->fill.own);
        }
    }
    publish(done->consumer, done->own);
}

/* Have the kernel send what is in the ring. Without zero-copy it does so within the call, a part
 * at a time. */
static void kick(struct xdp_queue *q)
{
    uint32_t before = load(q->tx.consumer);

    for (unsigned tries = 0; tries < TRIES_MAX && before != q->tx.own; tries++) {
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
    if (tx->mask + 1 - (tx->own - tx->seen) < IO_BURST_MAX * 4)
        tx->seen = load(tx->consumer);
    return tx->mask + 1 - (tx->own - tx->seen);
}

bool xdp_tx_prepare(struct io_port *base, const uint8_t *bytes, uint32_t length)
{
    struct xdp_port *port = port_of(base);
    struct xdp_queue *q = &port->queues[0];

    if (length > port->slot_room)
        return false;
    for (unsigned tries = 0; tries < TRIES_MAX && port->spare_count < XDP_TX_SLOTS; tries++) {
        kick(q);
        reap(q);
    }
    for (unsigned i = 0; i < port->spare_count; i++)
        memcpy(q->memory->area + port->spare[i], bytes, length);
    return port->spare_count == XDP_TX_SLOTS; /* the others may still hold another frame */
}

unsigned xdp_tx_acquire(struct io_port *base, struct io_frame *frames, unsigned count,
                        uint32_t length)
{
    struct xdp_port *port = port_of(base);
    struct xdp_queue *q = &port->queues[0];

    if (length > port->slot_room)
        return 0;
    if (port->held_count < count) {
        if (__builtin_expect(load(q->tx.consumer) != q->tx.own, 0))
            kick(q);
        reap(q);
        while (port->held_count < count && port->spare_count > 0)
            port->held[port->held_count++] = port->spare[--port->spare_count];
        if (port->held_count < count)
            count = port->held_count;
    }
    for (unsigned i = 0; i < count; i++)
        frames[i] = (struct io_frame){.data = q->memory->area + port->held[i], .length = length};
    return count;
}

/* Descriptors of a frame of several chunks. */
static void describe_pieces(struct xdp_queue *q, uint64_t address, uint32_t length)
{
    const uint64_t slot_bytes = (uint64_t)q->memory->slot_chunks * q->memory->chunk_bytes;
    struct xdp_desc *entries = q->tx.entries;
    uint8_t chunk = 0;

    for (uint32_t at = 0; at < length; at += q->memory->chunk_bytes, chunk++) {
        const uint32_t rest = length - at;
        const bool last = rest <= q->memory->chunk_bytes;
        entries[q->tx.own++ & q->tx.mask] = (struct xdp_desc){
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
    for (unsigned i = 0; i < count; i++) { /* the acquired frames are the held ones, in order */
        if (__builtin_expect(q->memory->slot_chunks > 1, 0))
            describe_pieces(q, port->held[i], frames[i].length);
        else
            entries[q->tx.own++ & q->tx.mask] =
                (struct xdp_desc){port->held[i], frames[i].length, 0};
    }
    publish(q->tx.producer, q->tx.own);
    port->held_count -= count;
    if (__builtin_expect(port->held_count > 0, 0))
        memmove(port->held, port->held + count, port->held_count * sizeof port->held[0]);
    kick(q);
    return count;
}

void xdp_tx_release(struct io_port *base, struct io_frame *frames, unsigned count)
{
    struct xdp_port *port = port_of(base);

    (void)frames;
    while (count-- > 0 && port->held_count > 0)
        port->spare[port->spare_count++] = port->held[--port->held_count];
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
        entries[out->tx.own++ & out->tx.mask] =
            (struct xdp_desc){(uintptr_t)frames[i].cookie, frames[i].length, 0};
    publish(out->tx.producer, out->tx.own);
    kick(out);
    return count;
}
