/* The scripted backend. */
#include "fake_io.h"

#include <stdlib.h>
#include <string.h>

#include "measure/clock.h"

static void keep_sent(struct fake_port *port, const struct io_frame *frame)
{
    if (port->sent_count == FAKE_FRAMES)
        abort();
    uint8_t *copy = malloc(frame->length);
    if (copy == NULL)
        abort();
    memcpy(copy, frame->data, frame->length);
    port->sent[port->sent_count] = copy;
    port->sent_length[port->sent_count++] = frame->length;
}

static bool prepare(struct io_port *base, const uint8_t *bytes, uint32_t length)
{
    struct fake_port *port = (struct fake_port *)base;
    for (unsigned i = 0; i < IO_BURST_MAX && port->persistent; i++)
        memcpy(port->buffers[i], bytes, length);
    return port->persistent;
}

static unsigned acquire(struct io_port *base, struct io_frame *frames, unsigned count,
                        uint32_t length)
{
    struct fake_port *port = (struct fake_port *)base;
    if (length > port->longest)
        return 0;
    if (count > port->pool)
        count = port->pool;
    for (unsigned i = 0; i < count; i++)
        frames[i] = (struct io_frame){.data = port->buffers[i], .length = length};
    return count;
}

static unsigned take(struct fake_port *port, const struct io_frame *frames, unsigned count)
{
    if (port->refusals > 0) {
        port->refusals--;
        return 0;
    }
    if (count > port->accepts)
        count = port->accepts;
    for (unsigned i = 0; i < count; i++)
        keep_sent(port, &frames[i]);
    return count;
}

static unsigned send_frames(struct io_port *base, struct io_frame *frames, unsigned count)
{
    struct fake_port *port = (struct fake_port *)base;

    if (port->pause_ns > 0)
        nanosleep(&(struct timespec){.tv_nsec = port->pause_ns}, NULL);
    return take(port, frames, count);
}

static void release_tx(struct io_port *base, struct io_frame *frames, unsigned count)
{
    (void)base;
    (void)frames;
    (void)count;
}

static unsigned receive(struct io_port *base, struct io_frame *frames, unsigned count)
{
    struct fake_port *port = (struct fake_port *)base;
    const bool late = port->late_until > 0 && clock_ticks() < port->late_until;
    const unsigned available = late ? port->late_from : port->rx_count;
    unsigned got = 0;

    if (port->endless && port->rx_next == available)
        port->rx_next = 0;
    for (; got < count && port->rx_next < available; got++, port->rx_next++)
        frames[got] = (struct io_frame){.data = port->rx[port->rx_next],
                                        .length = port->rx_length[port->rx_next]};
    port->unreleased += got;
    return got;
}

static void release_rx(struct io_port *base, struct io_frame *frames, unsigned count)
{
    (void)frames;
    ((struct fake_port *)base)->unreleased -= count;
}

static unsigned forward(struct io_port *from, struct io_port *to, struct io_frame *frames,
                        unsigned count)
{
    const unsigned taken = take((struct fake_port *)to, frames, count);
    ((struct fake_port *)from)->unreleased -= taken;
    return taken;
}

static const struct io_ops fake_ops = {
    .name = "fake",
    .tx_prepare = prepare,
    .tx_acquire = acquire,
    .tx_send = send_frames,
    .tx_release = release_tx,
    .rx_burst = receive,
    .rx_release = release_rx,
};

static struct io_ops forwarding_ops;

struct fake_port *fake_open(bool can_forward)
{
    struct fake_port *port = calloc(1, sizeof *port);
    if (port == NULL)
        abort();
    forwarding_ops = fake_ops;
    forwarding_ops.forward = forward;
    port->base.ops = can_forward ? &forwarding_ops : &fake_ops;
    port->accepts = UINT32_MAX;
    port->pool = IO_BURST_MAX;
    port->longest = sizeof port->buffers[0];
    port->base.mtu_bytes = 1500;
    return port;
}

void fake_queue(struct fake_port *port, const uint8_t *bytes, uint32_t length)
{
    if (port->rx_count == FAKE_FRAMES)
        abort();
    uint8_t *copy = malloc(length > 0 ? length : 1);
    if (copy == NULL)
        abort();
    memcpy(copy, bytes, length);
    port->rx[port->rx_count] = copy;
    port->rx_length[port->rx_count++] = length;
}

void fake_close(struct fake_port *port)
{
    for (unsigned i = 0; i < port->rx_count; i++)
        free(port->rx[i]);
    for (unsigned i = 0; i < port->sent_count; i++)
        free(port->sent[i]);
    free(port);
}
