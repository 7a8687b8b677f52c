/* server: sends every frame of our stream back where it came from, payload untouched. */
#include "trial.h"

/* Turn round the frames that are to be echoed and keep them, in order, at the front; the
 * others move behind them, so that all can be released. Returns how many are kept. */
static unsigned select_ours(const struct receiver *rx, struct io_frame *frames,
                            const uint8_t *verdicts, unsigned count)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < count; i++) {
        const struct io_frame frame = frames[i];
        if (verdicts[i] != VERDICT_DATA)
            continue;
        if (!rx->payload_only)
            frame_swap_addresses(frame.data, &rx->expected.layout);
        frames[i] = frames[kept];
        frames[kept++] = frame;
    }
    return kept;
}

static unsigned send_copies(struct io_port *port, const struct io_frame *frames, unsigned count)
{
    struct io_frame out[IO_BURST_MAX];
    uint32_t longest = 0;

    for (unsigned i = 0; i < count; i++)
        longest = frames[i].length > longest ? frames[i].length : longest;
    const unsigned got = port->ops->tx_acquire(port, out, count, longest);
    for (unsigned i = 0; i < got; i++) {
        memcpy(out[i].data, frames[i].data, frames[i].length);
        out[i].length = frames[i].length;
    }
    const unsigned sent = got > 0 ? port->ops->tx_send(port, out, got) : 0;
    if (sent < got)
        port->ops->tx_release(port, out + sent, got - sent);
    return sent;
}

/* Echo, trying again while the port is full, but not for longer than the catch-up bound: then
 * it is better to drop than to let waiting frames grow old. */
static void echo(struct trial *trial, struct end *end, struct io_frame *frames, unsigned count)
{
    struct io_port *port = end->port;
    struct counters *c = &end->counters;
    const uint64_t begun = clock_ticks();
    const uint64_t bound = clock_ns_to_ticks(trial->options->catch_up_ns);
    unsigned done = 0;

    counter_add(&c->tx_intended, count);
    while (done < count) {
        const unsigned sent = port->ops->forward != NULL
                                  ? port->ops->forward(port, port, frames + done, count - done)
                                  : send_copies(port, frames + done, count - done);
        for (unsigned i = done; i < done + sent; i++)
            counter_add(&c->tx_bytes, receive_frame_size(&end->rx, &frames[i]));
        if (sent > 0 && port->ops->forward == NULL)
            port->ops->rx_release(port, frames + done, sent);
        done += sent;
        counter_add(&c->tx_polls, 1);
        counter_add(&c->tx_offered, sent);
        if (done == count)
            return;
        counter_add(&c->ring_full_polls, 1);
        const uint64_t now = clock_ticks();
        if (now - begun > bound || port->failure[0] != '\0')
            break;
        trial_idle(trial, NULL, now, now);
    }
    counter_add(&c->tx_dropped, count - done);
    port->ops->rx_release(port, frames + done, count - done);
}

static unsigned serve(struct trial *trial, struct end *end)
{
    struct io_frame frames[IO_BURST_MAX];
    uint8_t verdicts[IO_BURST_MAX];
    struct io_port *port = end->port;
    const unsigned count = port->ops->rx_burst(port, frames, IO_BURST_MAX);

    if (count == 0) {
        counter_add(&end->counters.idle_polls, 1);
        trial_check_port(trial, port);
        return 0;
    }
    counter_add(&end->counters.useful_polls, 1);
    receive_burst(&end->rx, frames, count, clock_ticks(), verdicts);
    const unsigned ours = select_ours(&end->rx, frames, verdicts, count);
    if (ours < count)
        port->ops->rx_release(port, frames + ours, count - ours);
    if (ours > 0)
        echo(trial, end, frames, ours);
    return count;
}

static void run(struct trial *trial, unsigned worker)
{
    struct end *end = &trial->ends[0];
    uint64_t now = clock_ticks();

    while (trial_goes_on(trial, worker, now)) {
        if (serve(trial, end) == 0)
            trial_idle(trial, end->port, now, UINT64_MAX);
        now = clock_ticks();
    }
}

const struct role role_server = {
    .name = "server",
    .summary = "echoes frames to their sender (MAC, IP and UDP addresses swapped)",
    .ports = 1,
    .run = run,
};
