/* The parts of sending that are not on the path of every burst. */
#include "traffic/transmit.h"

#include "threads/core_token.h"

#define AWAY_NS 1000 /* a look at the clock and a pause take some 20 */
#define REST_NS (100U * 1000 * 1000)
#define ROUND_NS (1000U * 1000)

void transmit_begin(struct transmitter *tx)
{
    const struct frame_template *t = &tx->template;

    tx->pending = 0;
    tx->sequence = 0;
    tx->skipped = 0;
    tx->tried = 0;
    tx->refused = false;
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
        return; /* knows its own end */
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

/* A set number of frames at a rate is sent whole, however late: for such a sender the schedule
 * slips. A recorded schedule has a time for each frame, and leaves out what is late. */
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

/* Give up what is pending and what was due before `limit`, and note how far behind it was. If the
 * schedule slips, the trial is over: what slipped and was not made up for is given up, too. */
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
    if (!tx->refused)
        counter_add(&tx->counters->tx_late, owed + tx->pending);
    note_skipped(tx, skipped + tx->pending, oldest, now);
    tx->pending = 0;
}

/* A little more than must be, or a sender that is asked for more than it can would be here again
 * with every burst, which costs more than sending one. */
void transmit_give_up(struct transmitter *tx, uint64_t now, uint64_t tried)
{
    const uint64_t bound = tx->pacing.bound;

    if (now - tried > bound / 2) /* the port was not asked meanwhile */
        tx->refused = false;
    if (schedule_slips(tx)) {
        const uint64_t oldest = tx->pending > 0 ? tx->intended : pacing_due(&tx->pacing);
        const uint64_t slipped = pacing_give_up_before(&tx->pacing, now - bound + bound / 64);
        note_skipped(tx, slipped, oldest, now);
        tx->intended = now; /* what is pending is due anew */
    } else {
        give_up_before(tx, now - bound + bound / 64, now);
    }
}

/* The last frames before the end may just be late, as any may be: the same bound holds, and a port
 * that takes none is no more asked after a while. A round that took longer than this one's work can
 * was spent without a core, which says nothing of the port. Who shares the core has its turn as
 * before: what is sent in one go would find a full ring. */
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
    if (tx->pacing.unlimited) /* what was refused last was never owed */
        tx->pending = 0;
    give_up_before(tx, tx->pacing.end, clock_ticks());
    /* Refused frames are still acquired: hand them back. */
    const unsigned held =
        tx->port->ops->tx_acquire(tx->port, frames, IO_BURST_MAX, transmit_room(tx));
    if (held > 0)
        tx->port->ops->tx_release(tx->port, frames, held);
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
