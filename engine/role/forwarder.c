/* forwarder: everything that arrives at port A leaves by port B, and the other way; with more
 * ports, 2 <-> 3 and so on. What the far port refuses is dropped at once: a forwarder that
 * waits only builds up latency. */
#include "trial_loop.h"

/* Some frames' sizes, in one pass. */
struct lengths {
    uint64_t bytes; /* with FCS */
    uint32_t longest;
};

static struct lengths lengths_of(const struct io_frame *frames, unsigned count)
{
    struct lengths sum = {.bytes = (uint64_t)count * FCS_BYTES};

    for (unsigned i = 0; i < count; i++) {
        const uint32_t length = frames[i].length;
        sum.bytes += length;
        sum.longest = length > sum.longest ? length : sum.longest;
    }
    return sum;
}

static void update_macs(const struct end *to, const struct io_frame *frames, unsigned count)
{
    uint8_t macs[12]; /* a copy that no frame can overlap: it stays in registers */

    memcpy(macs, to->address.dst_mac, 6);
    memcpy(macs + 6, to->address.src_mac, 6);
    for (unsigned i = 0; i < count; i++)
        memcpy(frames[i].data, macs, sizeof macs);
}

/* Frames that the far port cannot send go behind the others, which keep their order; returns how
 * many these are. One of them in a burst would be in the way of the rest, or break a socket. */
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

static unsigned forward(struct trial *trial, struct end *from, struct end *to)
{
    struct io_frame frames[IO_BURST_MAX];
    struct io_port *in = from->port, *out = to->port;
    const unsigned count = in->ops->rx_burst(in, frames, IO_BURST_MAX);

    if (count == 0) {
        counter_add(&from->counters.idle_polls, 1);
        trial_check_port(trial, in);
        return 0;
    }
    const struct lengths in_all = lengths_of(frames, count);
    if (trial->options->mac_update)
        update_macs(to, frames, count);
    const bool handed_over = in->ops == out->ops && in->ops->forward != NULL;
    const bool all_fit = in_all.longest <= out->mtu_bytes + 14;
    const unsigned fitting = all_fit ? count : put_fitting_first(out, frames, count);
    const unsigned sent = handed_over ? in->ops->forward(in, out, frames, fitting)
                                      : io_send_copies(out, frames, fitting);
    const uint64_t bytes_out = in_all.bytes - lengths_of(frames + sent, count - sent).bytes;
    if (!handed_over)
        in->ops->rx_release(in, frames, count);
    else if (sent < count)
        in->ops->rx_release(in, frames + sent, count - sent);

    counter_add(&from->counters.useful_polls, 1);
    counter_add(&from->counters.rx_frames, count);
    counter_add(&from->counters.rx_bytes, in_all.bytes);
    counter_add(&to->counters.tx_polls, 1);
    counter_add(&to->counters.ring_full_polls, sent < count);
    counter_add(&to->counters.tx_intended, count);
    counter_add(&to->counters.tx_offered, sent);
    counter_add(&to->counters.tx_dropped, count - sent);
    counter_add(&to->counters.tx_bytes, bytes_out);
    return count;
}

static void run(struct trial *trial, unsigned worker)
{
    struct spell spell = idle_spell(trial);
    uint64_t now = clock_ticks();

    while (trial_goes_on(trial, worker, now)) {
        unsigned forwarded = 0;
        for (unsigned i = 0; i < trial->end_count; i += 2) {
            forwarded += forward(trial, &trial->ends[i], &trial->ends[i + 1]);
            forwarded += forward(trial, &trial->ends[i + 1], &trial->ends[i]);
        }
        if (idle_is_due(&spell, forwarded))
            trial_idle(trial, spell.worked, NULL, now, UINT64_MAX);
        now = trial_round(&trial->ends[0], now, forwarded > 0);
    }
}

const struct role role_forwarder = {
    .name = "forwarder",
    .summary = "passes everything between port A and port B (2 and 3, ...)",
    .ports = 2,
    .pairs = true,
    .stands_between = true,
    .run = run,
};
