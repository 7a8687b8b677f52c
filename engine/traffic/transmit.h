/* One sending end: takes due frames from the schedule, stamps them and offers them to the port.
 *
 * A frame gets its sequence number only if the port accepts it. A frame that was not accepted
 * because the ring is full keeps its place in the schedule and is stamped again at the next try. So
 * it is never mistaken for a lost frame, and the actual send time is that of the successful try. */
#ifndef SM_TRANSMIT_H
#define SM_TRANSMIT_H

#include "io/io.h"
#include "measure/clock.h"
#include "measure/counters.h"
#include "measure/histogram.h"
#include "traffic/frame.h"
#include "traffic/pacing.h"
#include "traffic/replay.h"
#include "traffic/varied.h"

struct transmitter {
    struct io_port *port;
    struct counters *counters;
    struct histogram *lateness;      /* ns, one sample per burst; unused if unlimited */
    struct histogram *lateness_away; /* samples of bursts after an absence (transmit_idle_round);
                                        NULL: not recorded */
    bool away;                       /* the core was away, and the sender has not yet caught up */
    uint64_t away_limit,
        away_ticks; /* duration above which a round counts as absence; sum of absences */
    struct pacing pacing;
    bool shares_port;   /* another transmitter uses the same buffers: write whole frames */
    bool prepared;      /* the port's buffers contain the template */
    uint32_t pending;   /* frames of the current burst that the port has not yet accepted */
    uint64_t intended;  /* tick at which the current burst was due */
    uint64_t sequence;  /* number of the next frame */
    uint64_t skipped;   /* frames given up, or sent later than the bound permits */
    uint64_t tried;     /* tick of the last check of the schedule */
    bool ring_was_full; /* the ring was full since something was due */
    uint64_t stall;     /* largest delay in ticks of frames that were given up */
    const struct replay *replay; /* source of frames in place of the template, or NULL */
    uint64_t replay_index;       /* index of the next frame in all rounds */
    bool counts;          /* replay_index is counted: for a replay, or a limited number of frames */
    uint64_t frames_end;  /* index after the last frame; UINT64_MAX: unlimited */
    struct varied varied; /* how frames differ from the template */
    struct frame_template template;
};

/* Begin a trial with a template and a schedule; sequence numbers begin at 0. */
void transmit_begin(struct transmitter *tx);

/* The trial is over: send the last due frames, and count the rest as given up. */
void transmit_end(struct transmitter *tx, uint64_t now);

/* Limit a burst to the number of frames left to send. Call it after the schedule has begun. */
void transmit_limit_burst(struct transmitter *tx);

/* Return true if the last frame of a replay or of --frames was sent or given up. */
bool transmit_is_over(const struct transmitter *tx);

/* Give up frames beyond the catch-up bound, or, for a given number of frames, let the schedule slip
 * by as much; the previous check was at `tried`. It is not on the usual path. */
void transmit_give_up(struct transmitter *tx, uint64_t now, uint64_t tried);

/* Send `count` frames of another template at once, for example verification frames; returns the
 * number of sent frames. */
unsigned transmit_now(struct io_port *port, const struct frame_template *t, uint32_t flags,
                      uint32_t first_sequence, unsigned count);

/* Stamp frames in which every byte is written. */
void transmit_touch(const struct frame_template *t, struct io_frame *frames, unsigned count,
                    uint32_t sequence, const struct frame_times *times);

static inline void transmit_fill(struct transmitter *tx, struct io_frame *frames, unsigned count,
                                 uint64_t now)
{
    const struct frame_times times = frame_times_make(tx->intended, now);
    const struct frame_template *t = &tx->template;
    const uint32_t sequence = (uint32_t)tx->sequence;

    if (__builtin_expect(tx->replay != NULL, 0)) {
        replay_fill(tx->replay, frames, count, tx->replay_index, sequence, &times);
        return;
    }
    if (__builtin_expect(tx->varied.used, 0)) {
        varied_fill(&tx->varied, t, frames, count, tx->sequence, &times, tx->prepared);
        return;
    }
    if (!tx->prepared) {
        for (unsigned i = 0; i < count; i++)
            memcpy(frames[i].data, t->bytes, t->length);
    }
    if (__builtin_expect(t->touch, 0)) {
        transmit_touch(t, frames, count, sequence, &times);
        return;
    }
    for (unsigned i = 0; i < count; i++)
        frame_stamp(t, frames[i].data, sequence + i, &times);
}

/* The longest frame, for which the port must have room. */
static inline uint32_t transmit_room(const struct transmitter *tx)
{
    return __builtin_expect(tx->replay != NULL, 0) ? tx->replay->longest : tx->template.length;
}

/* L2 bytes with FCS of the first `sent` frames; also advances a replay. */
static inline uint64_t transmit_account(struct transmitter *tx, const struct io_frame *frames,
                                        unsigned sent)
{
    const struct frame_template *t = &tx->template;

    if (__builtin_expect(tx->counts, 0)) {
        tx->replay_index += sent;
        transmit_limit_burst(tx);
    }
    if (__builtin_expect(tx->replay == NULL && tx->varied.sizes == NULL, 1))
        return (uint64_t)sent * (t->length + t->beside);
    uint64_t bytes = (uint64_t)sent * (tx->replay != NULL ? FCS_BYTES : t->beside);
    for (unsigned i = 0; i < sent; i++)
        bytes += frames[i].length;
    return bytes;
}

/* Record a round without work that began at `begun` and ends now. If it took longer than reading
 * the clock takes, the core was away (an interrupt, another program, the hypervisor). Frames that
 * fell due in the meantime are late for that reason, and so are all following frames until the
 * sender has caught up, that is, until a round finds no due frame. The reason for a long round with
 * sent frames is unknown, so lateness after it counts as that of the sender. */
static inline void transmit_idle_round(struct transmitter *tx, uint64_t begun, uint64_t now)
{
    if (tx->pending == 0 &&
        begun < pacing_due(&tx->pacing)) /* no due frames are left; giving up also sends nothing */
        tx->away = false;
    if (__builtin_expect(now - begun > tx->away_limit, 0)) {
        tx->away = true;
        tx->away_ticks += now - begun;
    }
}

#define TRANSMIT_INLINE static inline __attribute__((always_inline))

/* Take the next burst from a schedule with a rate; false: no burst is due. */
TRANSMIT_INLINE bool transmit_take_paced(struct transmitter *tx, uint64_t now, uint64_t tried)
{
    struct pacing *p = &tx->pacing;

    if (now < pacing_due(p)) {
        tx->ring_was_full = false;
        return false;
    }
    if (__builtin_expect(now - pacing_due(p) > p->bound, 0)) {
        /* Send the rest now: at the next check it would again be too late. */
        transmit_give_up(tx, now, tried);
        if (pacing_ended(p, now) || now < pacing_due(p))
            return false;
    }
    tx->intended = pacing_due(p);
    if (__builtin_expect(p->shape == SCHEDULE_RECORDED, 0))
        tx->replay_index = p->index; /* frames that were given up are not sent later */
    pacing_advance(p);
    counter_add(&tx->counters->tx_intended, p->burst);
    const int64_t late_ns = (int64_t)clock_ticks_to_ns(now - tx->intended);
    histogram_record(tx->lateness, late_ns);
    if (__builtin_expect(tx->away, 0) && tx->lateness_away != NULL)
        histogram_record(tx->lateness_away, late_ns);
    return true;
}

/* Set `pending` to the frames to send now; false: there are none. */
TRANSMIT_INLINE bool transmit_take_burst(struct transmitter *tx, uint64_t now, uint64_t tried)
{
    struct pacing *p = &tx->pacing;

    if (tx->pending > 0) {
        if (!p->unlimited && now - tx->intended > p->bound)
            transmit_give_up(tx, now, tried);
        return tx->pending > 0;
    }
    if (pacing_ended(p, now))
        return false;
    if (p->unlimited) {
        if (!pacing_is_open(p, now))
            return false;
        tx->intended = now;
    } else if (!transmit_take_paced(tx, now, tried)) {
        return false;
    }
    tx->pending = p->burst;
    return true;
}

/* Send the frames that are due now; returns how many the port accepted. 0: nothing was due, or the
 * ring is full. */
static inline unsigned transmit_step(struct transmitter *tx, uint64_t now)
{
    struct counters *c = tx->counters;
    struct io_frame frames[IO_BURST_MAX];
    const uint64_t tried = tx->tried;

    tx->tried = now;
    if (!transmit_take_burst(tx, now, tried))
        return 0;
    const unsigned required = tx->pending < IO_BURST_MAX ? tx->pending : IO_BURST_MAX;
    const unsigned count = tx->port->ops->tx_acquire(tx->port, frames, required, transmit_room(tx));
    unsigned sent = 0;
    if (count > 0) {
        transmit_fill(tx, frames, count, now);
        sent = tx->port->ops->tx_send(tx->port, frames, count);
    }
    tx->pending -= sent;
    tx->sequence += sent;
    counter_add(&c->tx_polls, 1);
    if (sent < required) {
        counter_add(&c->ring_full_polls, 1);
        tx->ring_was_full = true;
    }
    counter_add(&c->tx_offered, sent);
    counter_add(&c->tx_bytes, transmit_account(tx, frames, sent));
    if (tx->pacing.unlimited)
        counter_add(&c->tx_intended, sent);
    return sent;
}
#endif
