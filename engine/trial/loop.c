/* Rare events of the loop: intervals, the end, ports that fail. */
#include "trial/loop.h"

#include "trial/snapshot.h"

/* The requesting thread sets the flag and then the tick; this function writes the tick and then
 * reads the flag. So the request is seen, whichever tick is written last. */
void trial_set_next_event(struct trial *trial)
{
    uint64_t next = trial->clock.next_interval;

    if (!trial->draining && trial->clock.end_tick < next)
        next = trial->clock.end_tick;
    __atomic_store_n(&trial->clock.next_event, next, __ATOMIC_SEQ_CST);
    if (atomic_load(&trial->request.interval))
        __atomic_store_n(&trial->clock.next_event, 0, __ATOMIC_RELAXED);
}

void trial_request_interval(struct trial *trial)
{
    atomic_store(&trial->request.interval, true);
    __atomic_store_n(&trial->clock.next_event, 0, __ATOMIC_SEQ_CST);
}

bool trial_event(struct trial *trial, uint64_t now)
{
    if (atomic_exchange(&trial->request.interval, false) || now >= trial->clock.next_interval) {
        snapshot_take(trial);
        while (trial->clock.next_interval <= now) /* a stall makes one long interval, not many */
            trial->clock.next_interval += trial->clock.interval_ticks;
    }
    trial_set_next_event(trial);
    return trial->draining || now < trial->clock.end_tick;
}

void trial_stop(struct trial *trial, enum reason reason)
{
    int none = REASON_NONE;

    atomic_compare_exchange_strong(&trial->request.stop, &none, (int)reason);
}

void trial_check_port(struct trial *trial, const struct io_port *port)
{
    if (port->failure[0] != '\0')
        atomic_store(&trial->request.stop, REASON_FAILURE);
    else if (port->ended && !trial->options->role->sends)
        trial_stop(trial, REASON_REPLAYED);
}

void trial_check_sending(struct trial *trial, const struct end *end)
{
    trial_check_port(trial, end->port);
    if (transmit_is_over(&end->sending.tx))
        trial_stop(trial, end->sending.tx.frames_end == trial->options->frames ? REASON_SENT
                                                                               : REASON_REPLAYED);
}
