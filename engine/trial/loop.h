/* The steps of a round of a role's loop, inline: test whether the trial continues, receive a burst,
 * send due frames, rest. `trial_goes_on` costs one comparison and one load until an interval, the
 * end or a stop is due. */
#ifndef SM_TRIAL_LOOP_H
#define SM_TRIAL_LOOP_H

#include "ends/denied.h"
#include "threads/idle.h"
#include "trial/state.h"

/* Set the tick of the next interval or of the end, whichever is first. Call it after either has
 * changed. */
void trial_set_next_event(struct trial *trial);

/* End the current interval now; from any thread, while a trial runs or is about to run. */
void trial_request_interval(struct trial *trial);

/* The slow part of the loop condition, out of line: intervals, the end, stopping. */
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

/* End one round of a role's loop that began at tick `begun`, and add its time to the useful or idle
 * time of the end; returns the tick at which the next round begins. */
static inline uint64_t trial_round(struct end *end, uint64_t begun, bool useful)
{
    const uint64_t now = clock_ticks();

    counter_add(&end->spent_ticks[useful], now - begun);
    return now;
}

/* There is nothing to do now, or the quantum is used: see idle_rest. */
static inline void trial_idle(struct trial *trial, bool worked, struct io_port *port, uint64_t now,
                              uint64_t until)
{
    if (trial->threads.idle == IDLE_POLL)
        clock_pause();
    else
        idle_rest(trial, worked, port, now, until);
}

/* End the trial, from any thread. The first reason counts, except that the failure of a port
 * replaces it. */
void trial_stop(struct trial *trial, enum reason reason);

/* Stop the trial if a port has failed, or if no further frame can come from it. */
void trial_check_port(struct trial *trial, const struct io_port *port);

/* Call it if no frame was sent: stop the trial if the port has failed or all frames were sent. */
void trial_check_sending(struct trial *trial, const struct end *end);

/* Update the loss known so far: missing numbers below the highest. With several queues it is known
 * only at the end. */
static inline void end_note_missing(struct end *end)
{
    const struct sequence_tracker *t = &end->receiving.tracker;
    const uint64_t missing = t->next - t->lowest - t->unique;

    if (__builtin_expect(missing == end->receiving.missing || end->receiving.stream_count > 1, 1))
        return;
    counter_add(&end->counters.rx_missing, missing - end->receiving.missing);
    end->receiving.missing = missing;
}

/* Get one burst of received frames, at most IO_BURST_MAX; returns their number. */
static inline unsigned end_poll(struct trial *trial, struct end *end, struct io_frame *frames)
{
    struct io_port *port = end->port;
    const unsigned count = port->ops->rx_burst(port, frames, IO_BURST_MAX);

    if (count > 0)
        return count;
    counter_add(&end->counters.idle_polls, 1);
    if (__builtin_expect(port->failure[0] != '\0' || port->ended, 0))
        trial_check_port(trial, port);
    return 0;
}

/* Count, track and release a burst of received frames. */
static inline void end_take(struct end *end, struct io_frame *frames, unsigned count)
{
    counter_add(&end->counters.useful_polls, 1);
    if (__builtin_expect(end->receiving.stream_count > 1, 0))
        queues_receive(end, frames, count, clock_ticks());
    else
        receive_burst(&end->receiving.rx, frames, count, clock_ticks(), NULL);
    end->port->ops->rx_release(end->port, frames, count);
    end_note_missing(end);
}

/* Receive one burst at an end, count and track it; returns the number of frames. */
static inline unsigned end_receive(struct trial *trial, struct end *end)
{
    struct io_frame frames[IO_BURST_MAX];
    const unsigned count = end_poll(trial, end, frames);

    if (count > 0)
        end_take(end, frames, count);
    return count;
}

/* Call it after each round of a receiving end: it charges losses to an absence if the round took
 * too long for its frames. The worker was at rest for the last `rested` ticks. */
static inline void end_note_absence(struct end *end, uint64_t took, uint64_t rested, unsigned count)
{
    const uint64_t lost =
        absence_round(&end->receiving.absence, took, rested, count, end->receiving.missing);

    if (__builtin_expect(lost > 0, 0))
        counter_add(&end->counters.rx_missed_away, lost);
}

/* Send the due frames of an end; returns the number of sent frames. */
static inline unsigned end_send(struct trial *trial, struct end *end, uint64_t now)
{
    unsigned sent = 0;
    if (__builtin_expect(end->probe != NULL, 0)) /* first, so that no load frame delays a probe */
        sent = transmit_step(&end->probe->sending.tx, now);
    sent += transmit_step(&end->sending.tx, now);
    if (__builtin_expect(end->denied != NULL, 0)) {
        const unsigned denied = transmit_step(&end->denied->sending.tx, now);
        counter_add(&end->counters.tx_denied, denied);
        sent += denied;
    }
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

static inline uint64_t earlier(uint64_t due, const struct end *side, uint64_t now)
{
    const uint64_t side_due = transmitter_next_due(&side->sending.tx, now);
    return side_due < due ? side_due : due;
}

/* Return when the next frame of an end is due; if the port did not accept some frames, now. */
static inline uint64_t end_next_due(const struct end *end, uint64_t now)
{
    uint64_t due = transmitter_next_due(&end->sending.tx, now);

    if (__builtin_expect(end->probe != NULL, 0))
        due = earlier(due, end->probe, now);
    if (__builtin_expect(end->denied != NULL, 0))
        due = earlier(due, end->denied, now);
    return due;
}

/* The trial is over for a sending end. */
static inline void end_stop_sending(struct end *end, uint64_t now)
{
    if (end->probe != NULL)
        transmit_end(&end->probe->sending.tx, now);
    if (end->denied != NULL)
        denied_stop(end, now);
    transmit_end(&end->sending.tx, now);
}
#endif
