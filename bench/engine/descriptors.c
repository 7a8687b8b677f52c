/* The engine with a sender and a receiver that only move descriptors: the maximum of a port kind.
 *
 * Everything else is that of the engine: command line, ports, counters, events. WORDS is 1 for a
 * sender that writes one word into each frame, whose cache line then moves to the other core (floor
 * A), and 0 for a sender that writes nothing (floor B). The receiver reads no frame. These two
 * roles replace the engine's roles of the same names. The target `floors` of meson.build builds it.
 */
#include "trial/loop.h"

static unsigned send_burst(struct end *end)
{
    struct io_frame frames[IO_BURST_MAX];
    struct transmitter *tx = &end->sending.tx;
    const struct io_ops *ops = tx->port->ops;
    const unsigned count = ops->tx_acquire(tx->port, frames, tx->pacing.burst, transmit_room(tx));

    if (count == 0)
        return 0;
    if (!tx->prepared) {
        for (unsigned i = 0; i < count; i++)
            memcpy(frames[i].data, tx->template.bytes, tx->template.length);
    }
#if WORDS
    for (unsigned i = 0; i < count; i++)
        store32(frames[i].data + HEADERS_BYTES + 4, (uint32_t)tx->sequence + i);
#endif
    const unsigned sent = ops->tx_send(tx->port, frames, count);
    tx->sequence += sent;
    counter_add(&end->counters.tx_polls, 1);
    counter_add(&end->counters.ring_full_polls, sent < count);
    counter_add(&end->counters.tx_intended, sent);
    counter_add(&end->counters.tx_offered, sent);
    counter_add(&end->counters.tx_bytes, (uint64_t)sent * (tx->template.length + FCS_BYTES));
    return sent;
}

static void run_sender(struct trial *trial, unsigned worker)
{
    struct end *end = &trial->ends[worker];
    uint64_t now = clock_ticks();

    while (trial_goes_on(trial, worker, now)) {
        const unsigned sent = send_burst(end);
        if (sent == 0)
            clock_pause();
        now = trial_round(end, now, sent > 0);
    }
    end_stop_sending(end, now);
}

static void run_receiver(struct trial *trial, unsigned worker)
{
    struct io_frame frames[IO_BURST_MAX];
    struct end *end = &trial->ends[worker];
    struct io_port *port = end->port;
    uint64_t now = clock_ticks();

    while (trial_goes_on(trial, worker, now)) {
        const unsigned count = port->ops->rx_burst(port, frames, IO_BURST_MAX);
        if (count > 0) {
            port->ops->rx_release(port, frames, count);
            counter_add(&end->counters.useful_polls, 1);
            counter_add(&end->counters.rx_frames, count);
        } else {
            counter_add(&end->counters.idle_polls, 1);
            trial_check_port(trial, port);
            clock_pause();
        }
        now = trial_round(end, now, count > 0);
    }
}

static const struct role floor_sender = {
    .name = "sender",
    .summary = "sends frames that all are alike, as fast as the port takes them",
    .ports = 1,
    .sends = true,
    .takes_queues = true,
    .takes_frames = true,
    .run = run_sender,
};

ROLE_REPLACEMENT(floor_sender);

static const struct role floor_receiver = {
    .name = "receiver",
    .summary = "counts what arrives, and looks at nothing",
    .ports = 1,
    .tracks = true,
    .drains = true,
    .takes_queues = true,
    .takes_latency = true,
    .run = run_receiver,
};

ROLE_REPLACEMENT(floor_receiver);
