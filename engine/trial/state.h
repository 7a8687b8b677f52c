/* The state of a trial: its ends, times and totals, grouped by the thread that writes them. Nothing
 * here runs anything: loop.h has the steps of the loops, trial.h the run from begin to end. */
#ifndef SM_TRIAL_STATE_H
#define SM_TRIAL_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ends/queues.h"
#include "io/io.h"
#include "measure/absence.h"
#include "measure/cpu.h"
#include "measure/hardware.h"
#include "options/options.h"
#include "role/faults.h"
#include "role/role.h"
#include "tcp/state.h"
#include "threads/core_token.h"
#include "traffic/receive.h"
#include "traffic/transmit.h"
#include "trial/port_faults.h"

enum reason {
    REASON_NONE,
    REASON_DURATION,
    REASON_STOP,
    REASON_SIGNAL,
    REASON_EOF,
    REASON_REPLAYED, /* the file that is replayed, or that is the input of the port, is at its end
                      */
    REASON_SENT,     /* all of --frames have been sent */
    REASON_FAILURE
};

/* The sending half of an end. */
struct end_sending {
    struct transmitter tx;
    struct histogram lateness, lateness_away;
};

/* The receiving half of an end. */
struct end_receiving {
    struct receiver rx;
    struct sequence_tracker tracker;
    uint64_t missing;        /* missing sequence numbers, when they were last counted */
    uint64_t last_poll_tick; /* last poll by the worker, until the drain begins; 0: unknown */
    struct absence absence;
    struct histogram from_actual, from_intended;
    struct variation variation;
    struct flow_groups groups; /* with --flow-groups */
    struct expectation expectation;

    /* Streams of several queues (ends/queues.h). 0 and 1: only the end's own stream. */
    unsigned stream_count;
    uint16_t first_stream;
    struct queue_stream *streams; /* all but the first */
};

/* One port, or one queue of a port, with the halves that send and receive there. */
struct end {
    struct io_port *port;
    struct frame_address address; /* as seen from this port */
    struct flow_set flows;        /* as seen from this port */
    struct counters counters;     /* since ready */
    struct counters before;       /* values when the trial began */
    struct end_sending sending;
    struct end_receiving receiving;
    struct port_watch watch;
    struct fault_counts faults; /* reference: faults of the frames that leave by this port */
    uint64_t spent_ticks[2];    /* time of the worker in rounds [0] without and [1] with frames */
    struct end *probe;          /* the probe stream on the same port (ends/probes.h), or NULL */
    struct end *probe_memory;   /* kept between trials */
    struct end *denied;         /* the denied stream on the same port (ends/denied.h), or NULL */
    struct end *denied_memory;  /* kept between trials */
};

/* The part of one port in an interval line, for roles that stand between ports. */
struct port_snapshot {
    uint64_t rx_frames, rx_socket_drops, tx_offered, tx_dropped;
    bool up; /* the port has a connected peer */
};

/* The values of an interval line; totals since the trial began. */
struct snapshot {
    uint64_t index, t_ns;
    struct counters totals;
    uint64_t spent_ticks[2];
    struct cpu_times cpu;
    struct port_snapshot ports[PORTS_MAX];
    bool lost_link;          /* a port lost its peer or its device since the trial began */
    struct tcp_snapshot tcp; /* TCP roles only */
};

#define SNAPSHOTS 64

/* Requests to the running trial. The control thread writes them. */
struct trial_request {
    atomic_int stop;           /* enum reason; REASON_NONE: the trial goes on */
    atomic_bool interval;      /* an interval line is wanted now */
    atomic_uint_fast64_t sent; /* frames for this receiver, from `stop`, or SENT_UNKNOWN */
};

/* Times of the trial. The main thread sets them before the workers begin. */
struct trial_clock {
    uint64_t start_tick, end_tick;
    uint64_t next_event; /* atomic: tick of the next interval or of the end; 0: an event waits */
    uint64_t next_interval, interval_ticks;
};

/* How workers begin, end and share cores. */
struct trial_threads {
    unsigned count;
    uint64_t idle; /* enum idle */
    atomic_uint ready;
    atomic_bool go, leave;
    struct core_round *tokens;                  /* the file of --baton, or NULL */
    struct core_token_counts passed[CORES_MAX]; /* by worker */
};

/* Finished intervals on their way to the printing thread: a ring with one writer, worker 0, and one
 * reader. If the ring is full, an interval is merged into the next one. The last, partial interval
 * has its own place, so that it is printed even if the reader is late. */
struct trial_intervals {
    struct snapshot ring[SNAPSHOTS];
    atomic_uint_fast64_t written, read;
    struct snapshot last;
    uint64_t next_index;
    int wake_fd; /* wakes the printing thread */
};

/* Results of the main thread about a trial. */
struct trial_outcome {
    uint64_t started_ns, ended_ns, drained_ns; /* CLOCK_MONOTONIC */
    struct counters loop_totals;               /* at the end of the loop, before the drain */
    struct cpu_times cpu_before, cpu_after;
    uint64_t run_delay_before_ns, run_delay_after_ns;
    struct cpu_stolen stolen_before, stolen_after;
    struct hardware hardware; /* with --hardware-counters */
    enum reason reason;
    bool drained;
    bool partial;         /* the result is incomplete because of a fault */
    char fault[480];      /* description of the fault; empty: no fault */
    uint64_t residual_ns; /* from the end of the loop to the last frame of the drain */
    uint64_t sent;        /* request.sent at the end of the trial: the next `start` resets that */
};

struct trial {
    /* From the command line and the `start` command. */
    const struct options *options;
    struct traffic traffic;
    struct replay replay;         /* file of --replay; count 0: no file */
    struct schedule_plan plan;    /* the schedule in frames per second */
    struct zipf zipf;             /* popularity of flows, if they follow Zipf's law */
    struct row_table table;       /* addresses and ports of the flows; count 0: none */
    struct row_table tunnels;     /* outer headers of VXLAN */
    struct row_table denied;      /* the same of the flows that the switch must drop */
    struct field_writes modified; /* fields of sent frames that modifiers set */
    struct field_writes expected; /* the same of received frames, as far as they are compared */
    struct sender_clock sender_clock;

    struct end *ends;
    unsigned end_count;
    struct tcp_state *tcp; /* NULL: the role uses ports */
    unsigned epoch;
    unsigned number; /* number of the trial, from 1 */
    bool draining;

    struct trial_request request;
    struct trial_clock clock;
    struct trial_threads threads;
    struct trial_intervals intervals;
    struct trial_outcome outcome;
};

/* Return true if this end sends, or if it receives and tracks, in this trial. */
bool trial_end_sends(const struct trial *trial, unsigned end);
bool trial_end_tracks(const struct trial *trial, unsigned end);

/* Return true if there is a probe stream, or if the load is timed. */
bool trial_has_probes(const struct trial *trial);
bool trial_times_load(const struct trial *trial);

/* The stream ID of the probes, and the rate of probes of each sending end. */
uint16_t trial_probe_stream(const struct trial *trial);
double trial_probe_rate_pps(const struct trial *trial);

/* The clock of the sender if the sender is on another host, otherwise NULL. */
const struct sender_clock *trial_sender_clock(const struct trial *trial);

/* The number of load frames that were sent to this end, or SENT_UNKNOWN. */
uint64_t trial_frames_sent_to(const struct trial *trial, unsigned end);

/* CLOCK_MONOTONIC, but at least the start of the trial: a trial that is stopped before its start
 * ends at its start. */
uint64_t trial_now_ns(const struct trial *trial);

/* A number that makes the random schedules of all ends and streams differ. */
unsigned trial_seed_index(const struct trial *trial, unsigned end);

/* Mean size of the frames that this trial sends, with FCS. */
double trial_mean_frame_bytes(const struct trial *trial);

/* Number of frames that a sender sends: all rounds of a replay, or --frames; UINT64_MAX: unlimited.
 */
uint64_t trial_frames_to_send(const struct trial *trial);

/* Read how many frames the ports have dropped, and store it in the counters. */
void trial_read_drops(struct trial *trial);

/* Sum of the counters of all ends since the trial began. */
void trial_totals(const struct trial *trial, struct counters *totals);
#endif
