/* forwarder: sends every frame that arrives at port A by port B, and vice versa; with more ports,
 * also 2 <-> 3 and so on. Frames that the other port does not accept are dropped at once, because
 * waiting would only add latency. With --gather-us it holds frames as DPDK's l2fwd does (its
 * rte_eth_tx_buffer and drain timer): until a burst is full, or the common timer of all ports
 * expires. */
#include "measure/clock.h"
#include "trial/loop.h"

#define GATHERED 32 /* frames of a full burst, MAX_PKT_BURST of l2fwd */

/* The sizes of some frames. */
struct lengths {
    uint64_t bytes;   /* with FCS */
    uint32_t longest; /* longest part behind an Ethernet header; very long if a frame has no whole
                         header */
};

static struct lengths lengths_of(const struct io_frame *frames, unsigned count)
{
    struct lengths sum = {.bytes = (uint64_t)count * FCS_BYTES};

    for (unsigned i = 0; i < count; i++) {
        const uint32_t length = frames[i].length;
        const uint32_t behind_header = length - IO_HEADER_BYTES; /* wraps below 0 */
        sum.bytes += length;
        sum.longest = behind_header > sum.longest ? behind_header : sum.longest;
    }
    return sum;
}

/* Frames without a whole header remain unchanged. */
static void update_macs(const struct end *to, const struct io_frame *frames, unsigned count)
{
    uint8_t macs[12]; /* a copy that no frame can overlap stays in registers */

    memcpy(macs, to->address.dst_mac, 6);
    memcpy(macs + 6, to->address.src_mac, 6);
    for (unsigned i = 0; i < count; i++) {
        if (__builtin_expect(frames[i].length >= OFFSET_IP, 1))
            memcpy(frames[i].data, macs, sizeof macs);
    }
}

/* Move frames that the other port cannot send behind the others, which keep their order; returns
 * the number of the others. Such a frame within a burst would block the following frames, or a
 * socket would fail. */
static unsigned put_fitting_first(const struct io_port *out, struct io_frame *frames,
                                  unsigned count)
{
    struct io_frame too_long[IO_BURST_MAX];
    unsigned fitting = 0, others = 0;

    for (unsigned i = 0; i < count; i++) {
        if (io_fits(out, &frames[i]))
            frames[fitting++] = frames[i];
        else
            too_long[others++] = frames[i];
    }
    memcpy(frames + fitting, too_long, others * sizeof *frames);
    return fitting;
}

static unsigned receive(struct trial *trial, struct end *from, struct io_frame *frames,
                        struct lengths *in_all)
{
    struct io_port *in = from->port;
    const unsigned count = in->ops->rx_burst(in, frames, IO_BURST_MAX);

    if (count == 0) {
        counter_add(&from->counters.idle_polls, 1);
        trial_check_port(trial, in);
        return 0;
    }
    *in_all = lengths_of(frames, count);
    counter_add(&from->counters.useful_polls, 1);
    counter_add(&from->counters.rx_frames, count);
    counter_add(&from->counters.rx_bytes, in_all->bytes);
    return count;
}

static void send_on(struct trial *trial, struct end *from, struct end *to, struct io_frame *frames,
                    unsigned count, struct lengths all)
{
    struct io_port *in = from->port, *out = to->port;

    if (trial->options->mac_update)
        update_macs(to, frames, count);
    const bool handed_over = in->ops == out->ops && in->ops->forward != NULL;
    const bool all_fit = io_fits_behind_header(out, all.longest);
    const unsigned fitting = all_fit ? count : put_fitting_first(out, frames, count);
    const unsigned sent = handed_over ? in->ops->forward(in, out, frames, fitting)
                                      : io_send_copies(out, frames, fitting);
    const uint64_t bytes_out = all.bytes - lengths_of(frames + sent, count - sent).bytes;
    if (!handed_over)
        in->ops->rx_release(in, frames, count);
    else if (sent < count)
        in->ops->rx_release(in, frames + sent, count - sent);

    counter_add(&to->counters.tx_polls, 1);
    counter_add(&to->counters.ring_full_polls, sent < count);
    counter_add(&to->counters.tx_intended, count);
    counter_add(&to->counters.tx_offered, sent);
    counter_add(&to->counters.tx_dropped, count - sent);
    counter_add(&to->counters.tx_misfits, count - fitting);
    counter_add(&to->counters.tx_bytes, bytes_out);
}

static unsigned forward(struct trial *trial, struct end *from, struct end *to)
{
    struct io_frame frames[IO_BURST_MAX];
    struct lengths all;
    const unsigned count = receive(trial, from, frames, &all);

    if (count > 0)
        send_on(trial, from, to, frames, count, all);
    return count;
}

static void run_at_once(struct trial *trial, unsigned worker)
{
    struct quantum quantum = idle_quantum(trial);
    uint64_t now = clock_ticks();

    while (trial_goes_on(trial, worker, now)) {
        unsigned forwarded = 0;
        for (unsigned i = 0; i < trial->end_count; i += 2) {
            forwarded += forward(trial, &trial->ends[i], &trial->ends[i + 1]);
            forwarded += forward(trial, &trial->ends[i + 1], &trial->ends[i]);
        }
        if (idle_is_due(&quantum, forwarded))
            trial_idle(trial, quantum.worked, NULL, now, UINT64_MAX);
        now = trial_round(&trial->ends[0], now, forwarded > 0);
    }
}

/* Frames that have arrived at one of two ports and wait for more; their buffers belong to that
 * port. */
struct gathering {
    struct end *from, *to;
    struct io_frame frames[GATHERED + IO_BURST_MAX];
    unsigned count;
};

static void let_go(struct trial *trial, struct gathering *g, unsigned count)
{
    if (count == 0)
        return;
    send_on(trial, g->from, g->to, g->frames, count, lengths_of(g->frames, count));
    g->count -= count;
    memmove(g->frames, g->frames + count, g->count * sizeof *g->frames);
}

static unsigned gather(struct trial *trial, struct gathering *g)
{
    struct lengths all;
    const unsigned count = receive(trial, g->from, g->frames + g->count, &all);

    g->count += count;
    while (g->count >= GATHERED)
        let_go(trial, g, GATHERED);
    return count;
}

/* Both directions; returns the number of frames. */
static unsigned let_all_go(struct trial *trial, struct gathering ways[2])
{
    const unsigned count = ways[0].count + ways[1].count;

    let_go(trial, &ways[0], ways[0].count);
    let_go(trial, &ways[1], ways[1].count);
    return count;
}

static void run_gathering(struct trial *trial, unsigned worker)
{
    const uint64_t period = clock_ns_to_ticks(trial->options->gather_ns);
    struct gathering ways[2] = {{.from = &trial->ends[0], .to = &trial->ends[1]},
                                {.from = &trial->ends[1], .to = &trial->ends[0]}};
    struct quantum quantum = idle_quantum(trial);
    uint64_t now = clock_ticks(), drain = now + period;

    while (trial_goes_on(trial, worker, now)) {
        unsigned moved = 0;
        if (now >= drain) {
            moved = let_all_go(trial, ways);
            drain = now + period;
        }
        moved += gather(trial, &ways[0]) + gather(trial, &ways[1]);
        if (idle_is_due(&quantum, moved))
            trial_idle(trial, quantum.worked, NULL, now, drain);
        now = trial_round(&trial->ends[0], now, moved > 0);
    }
    let_all_go(trial, ways);
}

static void run(struct trial *trial, unsigned worker)
{
    if (trial->options->gather_ns > 0)
        run_gathering(trial, worker);
    else
        run_at_once(trial, worker);
}

const struct role role_forwarder = {
    .name = "forwarder",
    .summary = "passes everything between port A and port B (2 and 3, ...)",
    .ports = 2,
    .stands_between = true,
    .takes_pairs = true,
    .takes_mac_update = true,
    .takes_gathering = true,
    .run = run,
};

ROLE(role_forwarder);
