/* The engine's ends (ports with what sends and receives on them) and the life of one trial:
 * begin, the role's loop, drain, totals. The loop asks `trial_goes_on` once a round: that is
 * one comparison and one load until an interval, the end or a stop is due. */
#ifndef SM_TRIAL_H
#define SM_TRIAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "io/io.h"
#include "lanes.h"
#include "measure/cpu.h"
#include "measure/hardware.h"
#include "options.h"
#include "outage.h"
#include "role/faults.h"
#include "role/role.h"
#include "traffic/receive.h"
#include "traffic/transmit.h"

enum reason {
    REASON_NONE,
    REASON_DURATION,
    REASON_STOP,
    REASON_SIGNAL,
    REASON_EOF,
    REASON_REPLAYED, /* the file that is replayed, or received from, is at its end */
    REASON_FAILURE
};

struct end {
    struct io_port *port;
    struct frame_address address; /* as seen from this port */
    struct flow_set flows;        /* as seen from this port */
    struct counters counters;     /* since ready */
    struct counters before;       /* as they were when the trial began */
    uint64_t forwarded_in;        /* forwarder: frames received, since ready */
    struct transmitter tx;
    struct receiver rx;
    struct sequence_tracker tracker;
    struct histogram lateness, lateness_away, from_actual, from_intended;
    struct outage_watch watch;
    unsigned lane_count; /* streams that are told apart here; 0 and 1: the end's own */
    uint16_t first_stream;
    struct lane *lanes; /* those after the first */
    struct variation variation;
    struct flow_groups groups;  /* with --flow-groups */
    struct fault_counts faults; /* reference: of the frames that leave by this port */
    uint64_t spent_ticks[2];    /* by its worker, in rounds [0] without and [1] with frames */
    struct end *probe;          /* the probe stream on the same port (probes.h), or NULL */
    struct end *probe_memory;   /* kept between trials */
};

/* One port's part of an interval line, for the roles that stand between ports. */
struct port_snapshot {
    uint64_t rx_frames, rx_socket_drops, tx_offered, tx_dropped;
    bool up; /* the port has its peer */
};

/* What an interval line is made of; totals since the trial began. */
struct snapshot {
    uint64_t index, t_ns;
    struct counters totals;
    uint64_t spent_ticks[2];
    struct cpu_times cpu;
    struct port_snapshot ports[PORTS_MAX];
};

#define SNAPSHOTS 64

struct trial {
    const struct options *options;
    struct traffic traffic;
    struct replay replay;      /* of --replay; count 0: none */
    struct schedule_plan plan; /* the traffic's schedule in frames a second */
    struct end *ends;
    unsigned end_count;
    unsigned workers;
    unsigned epoch;
    unsigned number;  /* of the trial, from 1 */
    struct zipf zipf; /* of the flows, if they follow it */
    struct sender_clock sender_clock;
    uint64_t idle; /* enum idle */

    uint64_t start_tick, end_tick;
    uint64_t next_event;    /* tick of the next interval or of the end */
    uint64_t next_interval; /* tick */
    uint64_t interval_ticks;
    uint64_t started_ns, ended_ns, drained_ns; /* CLOCK_MONOTONIC */
    struct counters loop_totals;               /* when the loop ended: without what was drained */
    struct cpu_times cpu_before, cpu_after;
    uint64_t run_delay_before_ns, run_delay_after_ns;
    struct cpu_stolen stolen_before, stolen_after;
    struct hardware hardware; /* used with --hardware-counters */
    enum reason reason;
    bool draining, drained;
    bool partial;              /* the result lacks something through a fault ... */
    char fault[480];           /* ... which is this; empty: none */
    atomic_int stop;           /* enum reason, set by the control thread */
    atomic_uint_fast64_t sent; /* frames for this receiver, as `stop` told, or SENT_UNKNOWN */
    atomic_uint workers_ready;
    atomic_bool workers_go;

    /* Finished intervals on their way to the printing thread: a ring with one writer (worker
     * 0) and one reader. When it is full, lines merge into the next one; the last, partial
     * interval has its own place, so that it is printed whatever the reader did. */
    struct snapshot snapshots[SNAPSHOTS];
    atomic_uint_fast64_t snapshots_written, snapshots_read;
    struct snapshot last_snapshot;
    uint64_t snapshot_index;
    int wake_fd; /* tells the printing thread */
};

/* The core of the loop condition, out of line: intervals, the end, stopping. */
bool trial_event(struct trial *trial, uint64_t now);

static inline bool trial_goes_on(struct trial *trial, unsigned worker, uint64_t now)
{
    if (__builtin_expect(atomic_load_explicit(&trial->stop, memory_order_relaxed) != 0, 0))
        return false;
    if (__builtin_expect(worker != 0, 0))
        return now < trial->end_tick;
    if (__builtin_expect(now >= trial->next_event, 0))
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

/* Nothing to do: as --idle says. `until` is when there will be something (UINT64_MAX: unknown);
 * `port` is one that may receive, or NULL. */
void trial_idle_slow(struct trial *trial, struct io_port *port, uint64_t now, uint64_t until);

static inline void trial_idle(struct trial *trial, struct io_port *port, uint64_t now,
                              uint64_t until)
{
    if (trial->idle == IDLE_POLL)
        clock_pause();
    else
        trial_idle_slow(trial, port, now, until);
}

/* A port has failed for good, or nothing more will come from it: remember it and stop. */
void trial_check_port(struct trial *trial, const struct io_port *port);

/* Nothing was sent: has the port failed, or is the replay over? */
void trial_check_sending(struct trial *trial, const struct end *end);

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
    if (__builtin_expect(end->lane_count > 1, 0))
        lanes_receive(end, frames, count, clock_ticks());
    else
        receive_burst(&end->rx, frames, count, clock_ticks(), NULL);
    port->ops->rx_release(port, frames, count);
    return count;
}

/* Send what is due at an end; returns how many frames went. */
static inline unsigned end_send(struct trial *trial, struct end *end, uint64_t now)
{
    unsigned sent = 0;
    if (__builtin_expect(end->probe != NULL, 0)) /* first: nothing is to queue before a probe */
        sent = transmit_step(&end->probe->tx, now);
    sent += transmit_step(&end->tx, now);
    if (__builtin_expect(sent == 0 && (end->port->failure[0] != '\0' || end->tx.replay != NULL), 0))
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
    const uint64_t due = transmitter_next_due(&end->tx, now);

    if (__builtin_expect(end->probe == NULL, 1))
        return due;
    const uint64_t probe_due = transmitter_next_due(&end->probe->tx, now);
    return probe_due < due ? probe_due : due;
}

/* The trial is over for a sending end. */
static inline void end_stop_sending(struct end *end, uint64_t now)
{
    if (end->probe != NULL)
        transmit_end(&end->probe->tx, now);
    transmit_end(&end->tx, now);
}

/* Run one trial from its start to its result; false when a port failed (message in `error`). */
bool trial_run(struct trial *trial, char *error, size_t error_size);

/* Ask the ports what they have dropped, and put it into the counters. */
void trial_read_drops(struct trial *trial);

/* How many frames of the load were sent to be received at this end, or SENT_UNKNOWN. */
uint64_t trial_sent_to(const struct trial *trial, unsigned end);

/* Sum of all ends' counters since the trial began. */
void trial_totals(const struct trial *trial, struct counters *totals);

/* Is there a probe stream, and is the load timed nevertheless? */
bool trial_has_probes(const struct trial *trial);
bool trial_times_load(const struct trial *trial);
/* That of the sender, where it is on another host; else NULL. */
const struct sender_clock *trial_sender_clock(const struct trial *trial);

/* Tells apart the random schedules of all ends of all streams. */
unsigned trial_seed_index(const struct trial *trial, unsigned end);

/* Of the frames that this trial sends, with FCS. */
double trial_mean_frame_bytes(const struct trial *trial);

/* Does this end send, does it receive and track, in this trial? */
bool trial_end_sends(const struct trial *trial, unsigned end);
bool trial_end_tracks(const struct trial *trial, unsigned end);
#endif
