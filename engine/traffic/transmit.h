/* One sending end: takes what is due from the schedule, stamps it, offers it to the port.
 *
 * A frame gets its sequence number only by being accepted: what the port refuses keeps its
 * place in the schedule and is stamped anew at the next try, so refused frames are never
 * mistaken for lost ones, and the actual send time is that of the try that worked. */
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
    struct histogram *lateness;      /* ns, one sample a burst; unused when unlimited */
    struct histogram *lateness_away; /* of these, the bursts of transmit_looked; NULL: not kept */
    bool away;                       /* and not yet caught up with what fell due meanwhile */
    uint64_t away_limit, away_ticks; /* from when on a round counts as such; their sum */
    struct pacing pacing;
    bool shares_port;  /* another transmitter uses the same buffers: write whole frames */
    bool prepared;     /* the port's buffers hold the template */
    uint32_t pending;  /* frames of the current burst that the port has not accepted */
    uint64_t intended; /* tick at which the current burst was due */
    uint64_t sequence; /* of the next frame */
    uint64_t skipped;  /* frames given up, or that came later than their schedule could wait */
    uint64_t tried;    /* tick of the last look at the schedule */
    bool refused;      /* by the port, since nothing was due */
    uint64_t stall;    /* ticks that the latest of these was behind when it was given up */
    const struct replay *replay; /* where frames come from instead of the template, or NULL */
    uint64_t replay_index;       /* of the next frame, all rounds counted */
    bool counts;                 /* replay_index is kept: a replay, or a bound of frames */
    uint64_t frames_end;         /* index after the last; UINT64_MAX: no bound */
    struct varied varied;        /* how frames differ from the template */
    struct frame_template template;
};

/* Take up a template and schedule for one trial; sequence numbers begin at 0. */
void transmit_begin(struct transmitter *tx);

/* Count what the schedule still asked for and what is pending as given up: the trial is over. */
void transmit_end(struct transmitter *tx, uint64_t now);

/* Limit a burst to the frames that are left to send. Call it once the schedule has begun. */
void transmit_limit_burst(struct transmitter *tx);

/* Has the last frame of a replay or of --frames been sent or given up? */
bool transmit_is_over(const struct transmitter *tx);

/* Give up frames that lie beyond the catch-up bound, or let the schedule of a set number of frames
 * slip by as much; the look before this one was at `tried`. Not on the usual path. */
void transmit_give_up(struct transmitter *tx, uint64_t now, uint64_t tried);

/* Send `count` frames of another template at once, as verification frames are; returns how many
 * went. */
unsigned transmit_now(struct io_port *port, const struct frame_template *t, uint32_t flags,
                      uint32_t first_sequence, unsigned count);

/* Stamp frames whose every byte is written. */
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

/* The longest frame, as the port must have room for it. */
static inline uint32_t transmit_room(const struct transmitter *tx)
{
    return __builtin_expect(tx->replay != NULL, 0) ? tx->replay->longest : tx->template.length;
}

/* L2 bytes with FCS of the first `sent` frames; a replay is that much further. */
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

/* A round in which there was nothing to do began at `begun` and ends now. When it took longer than
 * a look at the clock can, the core was somewhere else (an interrupt, another program, the
 * hypervisor), and what fell due meanwhile is late for that reason, as is all after it until the
 * sender has caught up: a round finds nothing due. What makes a round long in which frames were
 * sent is not known, so lateness after such a round is the sender's own. */
static inline void transmit_looked(struct transmitter *tx, uint64_t begun, uint64_t now)
{
    if (tx->pending == 0 && begun < pacing_due(&tx->pacing)) /* (giving up sends nothing, either) */
        tx->away = false;
    if (__builtin_expect(now - begun > tx->away_limit, 0)) {
        tx->away = true;
        tx->away_ticks += now - begun;
    }
}

/* Send what is due now; returns how many frames the port accepted. 0: nothing was due, or the
 * port is full. */
static inline unsigned transmit_step(struct transmitter *tx, uint64_t now)
{
    struct counters *c = tx->counters;
    struct pacing *p = &tx->pacing;
    struct io_frame frames[IO_BURST_MAX];
    const uint64_t tried = tx->tried;

    tx->tried = now;
    if (tx->pending == 0) {
        if (pacing_ended(p, now))
            return 0;
        if (p->unlimited) {
            if (!pacing_is_open(p, now))
                return 0;
            tx->intended = now;
        } else {
            if (now < pacing_due(p)) {
                tx->refused = false;
                return 0;
            }
            if (__builtin_expect(now - pacing_due(p) > p->bound, 0)) {
                /* What is left goes now: at the next look it would be too late again. */
                transmit_give_up(tx, now, tried);
                if (pacing_ended(p, now) || now < pacing_due(p))
                    return 0;
            }
            tx->intended = pacing_due(p);
            if (__builtin_expect(p->shape == SCHEDULE_RECORDED, 0))
                tx->replay_index = p->index; /* what was given up is not sent later */
            pacing_advance(p);
            counter_add(&c->tx_intended, p->burst);
            const int64_t late_ns = (int64_t)clock_ticks_to_ns(now - tx->intended);
            histogram_record(tx->lateness, late_ns);
            if (__builtin_expect(tx->away, 0) && tx->lateness_away != NULL)
                histogram_record(tx->lateness_away, late_ns);
        }
        tx->pending = p->burst;
    } else if (!p->unlimited && now - tx->intended > p->bound) {
        transmit_give_up(tx, now, tried);
        if (tx->pending == 0)
            return 0;
    }

    const unsigned wanted = tx->pending < IO_BURST_MAX ? tx->pending : IO_BURST_MAX;
    const unsigned count = tx->port->ops->tx_acquire(tx->port, frames, wanted, transmit_room(tx));
    unsigned sent = 0;
    if (count > 0) {
        transmit_fill(tx, frames, count, now);
        sent = tx->port->ops->tx_send(tx->port, frames, count);
    }
    tx->pending -= sent;
    tx->sequence += sent;
    counter_add(&c->tx_polls, 1);
    if (sent < wanted) {
        counter_add(&c->ring_full_polls, 1);
        tx->refused = true;
    }
    counter_add(&c->tx_offered, sent);
    counter_add(&c->tx_bytes, transmit_account(tx, frames, sent));
    if (p->unlimited)
        counter_add(&c->tx_intended, sent);
    return sent;
}
#endif
