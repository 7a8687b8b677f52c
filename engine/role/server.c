/* server: sends every frame of its stream back to the sender with unchanged payload. With a probe
 * stream it may send back only the probes and count the load. */
#include "trial/loop.h"

static bool is_wanted(const struct trial *trial, uint8_t verdict)
{
    if (verdict == VERDICT_COMPANION)
        return true;
    return verdict == VERDICT_DATA && (!trial->traffic.probes || trial->traffic.echo == ECHO_ALL);
}

/* Swap the addresses of the frames to echo, and move these frames and their verdicts to the front,
 * in order. The others move behind them, so that all can be released. Returns the number of frames
 * to echo. */
static unsigned select_wanted(const struct trial *trial, struct io_frame *frames, uint8_t *verdicts,
                              unsigned count)
{
    const bool payload_only = trial->ends[0].receiving.rx.payload_only;
    const struct frame_layout layout = receive_layout(&trial->ends[0].receiving.rx);
    unsigned echoed = 0;

    for (unsigned i = 0; i < count; i++) {
        const struct io_frame frame = frames[i];
        if (!is_wanted(trial, verdicts[i]))
            continue;
        if (!payload_only)
            frame_swap_addresses(frame.data, &layout);
        frames[i] = frames[echoed];
        verdicts[echoed] = verdicts[i];
        frames[echoed++] = frame;
    }
    return echoed;
}

/* Number of probes among these frames; probes have separate counters. */
static unsigned count_probes(const struct end *end, const uint8_t *verdicts, unsigned count)
{
    unsigned probes = 0;

    if (end->probe == NULL)
        return 0;
    for (unsigned i = 0; i < count; i++)
        probes += verdicts[i] == VERDICT_COMPANION;
    return probes;
}

static void count_echoes(struct end *end, const struct io_frame *frames, const uint8_t *verdicts,
                         unsigned count)
{
    const unsigned probes = count_probes(end, verdicts, count);
    uint64_t bytes[2] = {0};

    for (unsigned i = 0; i < count; i++)
        bytes[verdicts[i] == VERDICT_COMPANION] +=
            receive_frame_size(&end->receiving.rx, &frames[i]);
    counter_add(&end->counters.tx_offered, count - probes);
    counter_add(&end->counters.tx_bytes, bytes[0]);
    if (probes > 0) {
        counter_add(&end->probe->counters.tx_offered, probes);
        counter_add(&end->probe->counters.tx_bytes, bytes[1]);
    }
}

static void count_intended(struct end *end, const uint8_t *verdicts, unsigned count)
{
    const unsigned probes = count_probes(end, verdicts, count);

    counter_add(&end->counters.tx_intended, count - probes);
    if (probes > 0)
        counter_add(&end->probe->counters.tx_intended, probes);
}

static void count_dropped(struct end *end, const uint8_t *verdicts, unsigned count)
{
    const unsigned probes = count_probes(end, verdicts, count);

    counter_add(&end->counters.tx_dropped, count - probes);
    if (probes > 0)
        counter_add(&end->probe->counters.tx_dropped, probes);
}

/* Echo, and try again while the port is full, but no longer than the catch-up bound: then dropping
 * frames is better than delaying all following frames. */
static void echo(struct trial *trial, struct end *end, struct io_frame *frames,
                 const uint8_t *verdicts, unsigned count)
{
    struct io_port *port = end->port;
    const uint64_t begun = clock_ticks();
    const uint64_t bound = clock_ns_to_ticks(trial->options->catch_up_ns);
    unsigned done = 0;

    count_intended(end, verdicts, count);
    while (done < count) {
        const unsigned sent = port->ops->forward != NULL
                                  ? port->ops->forward(port, port, frames + done, count - done)
                                  : io_send_copies(port, frames + done, count - done);
        count_echoes(end, frames + done, verdicts + done, sent);
        if (sent > 0 && port->ops->forward == NULL)
            port->ops->rx_release(port, frames + done, sent);
        done += sent;
        counter_add(&end->counters.tx_polls, 1);
        if (done == count)
            return;
        counter_add(&end->counters.ring_full_polls, 1);
        const uint64_t now = clock_ticks();
        if (now - begun > bound || port->failure[0] != '\0')
            break;
        trial_idle(trial, true, NULL, now, now);
    }
    count_dropped(end, verdicts + done, count - done);
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
    receive_burst(&end->receiving.rx, frames, count, clock_ticks(), verdicts);
    const unsigned echoed = select_wanted(trial, frames, verdicts, count);
    if (echoed < count)
        port->ops->rx_release(port, frames + echoed, count - echoed);
    if (echoed > 0)
        echo(trial, end, frames, verdicts, echoed);
    return count;
}

static void run(struct trial *trial, unsigned worker)
{
    struct end *end = &trial->ends[0];
    struct quantum quantum = idle_quantum(trial);
    uint64_t now = clock_ticks();

    while (trial_goes_on(trial, worker, now)) {
        const unsigned served = serve(trial, end);
        if (idle_is_due(&quantum, served))
            trial_idle(trial, quantum.worked, end->port, now, UINT64_MAX);
        now = trial_round(end, now, served > 0);
    }
}

const struct role role_server = {
    .name = "server",
    .summary = "echoes frames to their sender (MAC, IP and UDP addresses swapped)",
    .ports = 1,
    .echoes = true,
    .takes_latency = true,
    .takes_probes = true,
    .run = run,
};

ROLE(role_server);
