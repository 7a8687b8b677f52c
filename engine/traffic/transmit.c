/* The parts of sending that are not on the path of every burst. */
#include "traffic/transmit.h"

#include "threads/core_token.h"

#define AWAY_NS 1000 /* reading the clock and a pause take about 20 */
#define REST_NS (100U * 1000 * 1000)
#define ROUND_NS (1000U * 1000)

void transmit_begin(struct transmitter *tx)
{
    const struct frame_template *t = &tx->template;

    tx->pending = 0;
    tx->sequence = 0;
    tx->skipped = 0;
    tx->tried = 0;
    tx->ring_was_full = false;
    tx->stall = 0;
    tx->replay_index = 0;
    histogram_reset(tx->lateness);
    if (tx->lateness_away != NULL)
        histogram_reset(tx->lateness_away);
    tx->away = false;
    tx->away_ticks = 0;
    tx->away_limit = clock_ns_to_ticks(AWAY_NS);
    tx->prepared = !tx->shares_port && tx->replay == NULL && tx->port->ops->tx_prepare != NULL &&
                   tx->port->ops->tx_prepare(tx->port, t->bytes, t->length);
}

void transmit_limit_burst(struct transmitter *tx)
{
    struct pacing *p = &tx->pacing;
    const uint64_t left = tx->frames_end - tx->replay_index;

    if (p->shape == SCHEDULE_RECORDED)
        return; /* its schedule has an end */
    if (left < p->burst)
        p->burst = (uint32_t)left;
    if (left == 0)
        p->end = 0;
}

bool transmit_is_over(const struct transmitter *tx)
{
    if (!tx->counts || tx->pending > 0)
        return false;
    return tx->pacing.shape == SCHEDULE_RECORDED ? tx->pacing.index >= tx->frames_end
                                                 : tx->replay_index >= tx->frames_end;
}

/* A given number of frames at a rate is sent completely, even if late: the schedule of such a
 * sender slips. A recorded schedule has a time for each frame, and leaves out late frames. */
static bool schedule_slips(const struct transmitter *tx)
{
    return tx->counts && tx->frames_end != UINT64_MAX && tx->pacing.shape != SCHEDULE_RECORDED;
}

static void note_skipped(struct transmitter *tx, uint64_t frames, uint64_t oldest, uint64_t now)
{
    tx->skipped += frames;
    if (frames > 0 && now > oldest && now - oldest > tx->stall)
        tx->stall = now - oldest;
}

/* Give up pending frames and frames that were due before `limit`, and record how late they were. If
 * the schedule slips, the trial is over: frames by which it slipped and that were not caught up are
 * also given up. */
static void give_up_before(struct transmitter *tx, uint64_t limit, uint64_t now)
{
    const uint64_t oldest = tx->pending > 0 ? tx->intended : pacing_due(&tx->pacing);
    const uint64_t skipped = pacing_give_up_before(&tx->pacing, limit);
    uint64_t owed = skipped;

    if (schedule_slips(tx)) {
        const uint64_t left = tx->frames_end - tx->replay_index - tx->pending;
        owed = skipped + tx->skipped < left ? skipped + tx->skipped : left;
    }
    counter_add(&tx->counters->tx_intended, owed);
    counter_add(&tx->counters->tx_dropped, owed + tx->pending);
    if (!tx->ring_was_full)
        counter_add(&tx->counters->tx_late, owed + tx->pending);
    note_skipped(tx, skipped + tx->pending, oldest, now);
    tx->pending = 0;
}

/* It gives up slightly more than necessary. Otherwise a sender that cannot reach its rate would
 * call this function for every burst, which costs more than sending it. */
void transmit_give_up(struct transmitter *tx, uint64_t now, uint64_t tried)
{
    const uint64_t bound = tx->pacing.bound;

    if (now - tried > bound / 2) /* no frame was offered to the port in the meantime */
        tx->ring_was_full = false;
    if (schedule_slips(tx)) {
        const uint64_t oldest = tx->pending > 0 ? tx->intended : pacing_due(&tx->pacing);
        const uint64_t slipped = pacing_give_up_before(&tx->pacing, now - bound + bound / 64);
        note_skipped(tx, slipped, oldest, now);
        tx->intended = now; /* pending frames are now due */
    } else {
        give_up_before(tx, now - bound + bound / 64, now);
    }
}

/* Send the last frames before the end, which may just be late: the same bound applies, and a port
 * that accepts none is no longer polled after a while. A round that took longer than its work was
 * spent without a core and is not evidence about the port. Threads on the same core get their turns
 * as before, because frames sent without a pause would find a full ring. */
static void send_rest(struct transmitter *tx, uint64_t now)
{
    unsigned in_a_row = 0;
    const uint64_t longest = clock_ns_to_ticks(REST_NS), work = clock_ns_to_ticks(ROUND_NS);
    uint64_t left = tx->pacing.bound < longest ? tx->pacing.bound : longest;

    while (tx->pending > 0 || !pacing_ended(&tx->pacing, now)) {
        const unsigned sent = transmit_step(tx, now);
        in_a_row += sent;
        if (sent == 0 || in_a_row >= FRAMES_IN_A_ROW) {
            core_token_give_way();
            in_a_row = 0;
        }
        const uint64_t begun = now;
        now = clock_ticks();
        const uint64_t took = now - begun < work ? now - begun : work;
        if (took > left)
            return;
        left -= took;
    }
}

void transmit_end(struct transmitter *tx, uint64_t now)
{
    struct io_frame frames[IO_BURST_MAX];

    if (now < tx->pacing.end)
        tx->pacing.end = now;
    if (!tx->pacing.unlimited)
        send_rest(tx, now);
    if (tx->pacing.unlimited) /* frames that were last not accepted were never due */
        tx->pending = 0;
    give_up_before(tx, tx->pacing.end, clock_ticks());
    /* Frames that were not accepted are still acquired: release them. */
    const unsigned acquired =
        tx->port->ops->tx_acquire(tx->port, frames, IO_BURST_MAX, transmit_room(tx));
    if (acquired > 0)
        tx->port->ops->tx_release(tx->port, frames, acquired);
}

void transmit_touch(const struct frame_template *t, struct io_frame *frames, unsigned count,
                    uint32_t sequence, const struct frame_times *times)
{
    for (unsigned i = 0; i < count && i < FRAMES_FETCHED_AHEAD; i++)
        frame_fetch(frames[i].data, t->length);
    for (unsigned i = 0; i < count; i++) {
        if (i + FRAMES_FETCHED_AHEAD < count)
            frame_fetch(frames[i + FRAMES_FETCHED_AHEAD].data, t->length);
        frame_stamp(t, frames[i].data, sequence + i, times);
    }
}

unsigned transmit_now(struct io_port *port, const struct frame_template *t, uint32_t flags,
                      uint32_t first_sequence, unsigned count)
{
    struct io_frame frames[IO_BURST_MAX];
    const uint64_t now = clock_ticks();
    const struct frame_times times = frame_times_make(now, now);

    if (count > IO_BURST_MAX)
        count = IO_BURST_MAX;
    const unsigned got = port->ops->tx_acquire(port, frames, count, t->length);
    for (unsigned i = 0; i < got; i++) {
        memcpy(frames[i].data, t->bytes, t->length);
        frame_stamp(t, frames[i].data, first_sequence + i, &times);
        frames[i].flags = flags;
    }
    return io_send_or_release(port, frames, got);
}
