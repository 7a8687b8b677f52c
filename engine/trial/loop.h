/* What a role's loop asks and does once a round, inline: does the trial go on, receive a burst,
 * send what is due, rest. `trial_goes_on` is one comparison and one load until an interval, the
 * end or a stop is due. */
#ifndef SM_TRIAL_LOOP_H
#define SM_TRIAL_LOOP_H

#include "threads/idle.h"
#include "trial/state.h"

/* The next interval or the end, whichever comes first; to be called when either has changed. */
void trial_set_next_event(struct trial *trial);

/* Have the interval end now; from any thread, while a trial runs or is about to. */
void trial_ask_interval(struct trial *trial);

/* The core of the loop condition, out of line: intervals, the end, stopping. */
bool trial_event(struct trial *trial, uint64_t now);

static inline bool trial_goes_on(struct trial *trial, unsigned worker, uint64_t now)
{
    if (__builtin_expect(atomic_load_explicit(&trial->request.stop, memory_order_relaxed) != 0, 0))
        return false;
    if (__builtin_expect(worker != 0, 0))
        return now < trial->clock.end_tick;
    if (__builtin_expect(now >= __atomic_load_n(&trial->clock.next_event, __ATOMIC_RELAXED), 0))
        return trial_event(trial, now);
    return true;
}

/* The end of one round of a role's loop that began at tick `begun`: charge it to the end as
 * useful or idle; returns the tick at which the next one begins. */
static inline uint64_t trial_round(struct end *end, uint64_t begun, bool useful)
{
    const uint64_t now = clock_ticks();

    counter_add(&end->spent_ticks[useful], now - begun);
    return now;
}

/* Nothing to do, or no more for now: see idle_rest. */
static inline void trial_idle(struct trial *trial, bool worked, struct io_port *port, uint64_t now,
                              uint64_t until)
{
    if (trial->threads.idle == IDLE_POLL)
        clock_pause();
    else
        idle_rest(trial, worked, port, now, until);
}

/* End the trial, from any thread. The first reason stands, but for a port that fails. */
void trial_stop(struct trial *trial, enum reason reason);

/* A port has failed for good, or nothing more will come from it: remember it and stop. */
void trial_check_port(struct trial *trial, const struct io_port *port);

/* Nothing was sent: has the port failed, or is the replay over? */
void trial_check_sending(struct trial *trial, const struct end *end);

/* Loss as it is known by now: numbers that frames with higher ones have overtaken. Several queues
 * know it together, at the end. */
static inline void end_note_missing(struct end *end)
{
    const struct sequence_tracker *t = &end->receiving.tracker;
    const uint64_t missing = t->next - t->lowest - t->unique;

    if (__builtin_expect(missing == end->receiving.missing || end->receiving.stream_count > 1, 1))
        return;
    counter_add(&end->counters.rx_missing, missing - end->receiving.missing);
    end->receiving.missing = missing;
}

/* Receive one burst at an end, count and track it; returns how many frames came. */
static inline unsigned end_receive(struct trial *trial, struct end *end)
{
    struct io_frame frames[IO_BURST_MAX];
    struct io_port *port = end->port;
    const unsigned count = port->ops->rx_burst(port, frames, IO_BURST_MAX);

    if (count == 0) {
        counter_add(&end->counters.idle_polls, 1);
        if (__builtin_expect(port->failure[0] != '\0' || port->ended, 0))
            trial_check_port(trial, port);
        return 0;
    }
    counter_add(&end->counters.useful_polls, 1);
    if (__builtin_expect(end->receiving.stream_count > 1, 0))
        queues_receive(end, frames, count, clock_ticks());
    else
        receive_burst(&end->receiving.rx, frames, count, clock_ticks(), NULL);
    port->ops->rx_release(port, frames, count);
    end_note_missing(end);
    return count;
}

/* A round of a receiving end took so long, the last part of it at rest, and found so many frames:
 * was it away meanwhile? */
static inline void end_note_absence(struct end *end, uint64_t took, uint64_t rested, unsigned count)
{
    const uint64_t lost =
        absence_round(&end->receiving.absence, took, rested, count, end->receiving.missing);

    if (__builtin_expect(lost > 0, 0))
        counter_add(&end->counters.rx_missed_away, lost);
}

/* Send what is due at an end; returns how many frames went. */
static inline unsigned end_send(struct trial *trial, struct end *end, uint64_t now)
{
    unsigned sent = 0;
    if (__builtin_expect(end->probe != NULL, 0)) /* first: nothing is to queue before a probe */
        sent = transmit_step(&end->probe->sending.tx, now);
    sent += transmit_step(&end->sending.tx, now);
    if (__builtin_expect(sent == 0 && (end->port->failure[0] != '\0' || end->sending.tx.counts), 0))
        trial_check_sending(trial, end);
    return sent;
}

static inline uint64_t transmitter_next_due(const struct transmitter *tx, uint64_t now)
{
    if (tx->pending > 0 || (tx->pacing.unlimited && !tx->pacing.shaped))
        return now;
    return pacing_due(&tx->pacing);
}

/* When the next frame of an end is due; now, when the port refused some. */
static inline uint64_t end_next_due(const struct end *end, uint64_t now)
{
    const uint64_t due = transmitter_next_due(&end->sending.tx, now);

    if (__builtin_expect(end->probe == NULL, 1))
        return due;
    const uint64_t probe_due = transmitter_next_due(&end->probe->sending.tx, now);
    return probe_due < due ? probe_due : due;
}

/* The trial is over for a sending end. */
static inline void end_stop_sending(struct end *end, uint64_t now)
{
    if (end->probe != NULL)
        transmit_end(&end->probe->sending.tx, now);
    transmit_end(&end->sending.tx, now);
}
#endif
