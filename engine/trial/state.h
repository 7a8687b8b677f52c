/* What a trial is made of: its ends (ports with what sends and receives on them), its times, its
 * totals, and what follows from them and the options. Everything about a trial looks here; nothing
 * here runs anything (trial_loop.h does in the loop, trial.h from begin to end). */
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
    REASON_REPLAYED, /* the file that is replayed, or received from, is at its end */
    REASON_SENT,     /* all of --frames have been sent */
    REASON_FAILURE
};

struct end {
    struct io_port *port;
    struct frame_address address; /* as seen from this port */
    struct flow_set flows;        /* as seen from this port */
    struct counters counters;     /* since ready */
    struct counters before;       /* as they were when the trial began */
    struct transmitter tx;
    struct receiver rx;
    struct sequence_tracker tracker;
    uint64_t missing;     /* numbers between those that came, when last looked */
    uint64_t looked_tick; /* when its worker last looked, until the drain does; 0: not alone */
    struct absence absence;
    struct histogram lateness, lateness_away, from_actual, from_intended;
    struct port_watch watch;
    unsigned stream_count; /* streams that are told apart here; 0 and 1: the end's own */
    uint16_t first_stream;
    struct queue_stream *streams; /* those after the first */
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
    uint64_t idle;                                /* enum idle */
    struct baton_round *batons;                   /* the file of --baton, or NULL */
    struct baton_counts batons_passed[CORES_MAX]; /* by worker */

    uint64_t start_tick, end_tick;
    uint64_t next_event;    /* tick of the next interval or of the end; 0: look at once (atomic) */
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
    uint64_t residual_ns;       /* from the end of the loop to the last frame of the drain */
    bool partial;               /* the result lacks something through a fault ... */
    char fault[480];            /* ... which is this; empty: none */
    atomic_int stop;            /* enum reason, set by the control thread */
    atomic_bool interval_asked; /* ... that wants an interval line now */
    atomic_uint_fast64_t sent;  /* frames for this receiver, as `stop` told, or SENT_UNKNOWN */
    uint64_t sent_told;         /* the same, as it was when the trial ended: the next `start`
                                   resets the one above */
    atomic_uint workers_ready;
    atomic_bool workers_go, workers_leave;

    /* Finished intervals on their way to the printing thread: a ring with one writer (worker
     * 0) and one reader. When it is full, lines merge into the next one; the last, partial
     * interval has its own place, so that it is printed whatever the reader did. */
    struct snapshot snapshots[SNAPSHOTS];
    atomic_uint_fast64_t snapshots_written, snapshots_read;
    struct snapshot last_snapshot;
    uint64_t snapshot_index;
    int wake_fd; /* tells the printing thread */
};

/* Does this end send, does it receive and track, in this trial? */
bool trial_end_sends(const struct trial *trial, unsigned end);
bool trial_end_tracks(const struct trial *trial, unsigned end);

/* Is there a probe stream, and is the load timed nevertheless? */
bool trial_has_probes(const struct trial *trial);
bool trial_times_load(const struct trial *trial);

/* The stream ID of the probes, and frames a second that each sending end has of them. */
uint16_t trial_probe_stream(const struct trial *trial);
double trial_probe_rate_pps(const struct trial *trial);

/* The clock of the sender, where it is on another host; else NULL. */
const struct sender_clock *trial_sender_clock(const struct trial *trial);

/* How many frames of the load were sent to be received at this end, or SENT_UNKNOWN. */
uint64_t trial_sent_to(const struct trial *trial, unsigned end);

/* CLOCK_MONOTONIC, or the start of the trial where that is still ahead: who stops it earlier ends
 * it there. */
uint64_t trial_now_ns(const struct trial *trial);

/* Tells apart the random schedules of all ends of all streams. */
unsigned trial_seed_index(const struct trial *trial, unsigned end);

/* Of the frames that this trial sends, with FCS. */
double trial_mean_frame_bytes(const struct trial *trial);

/* How many frames a sender sends: all rounds of a replay, or --frames; UINT64_MAX: no bound. */
uint64_t trial_frames_to_send(const struct trial *trial);

/* Ask the ports what they have dropped, and put it into the counters. */
void trial_read_drops(struct trial *trial);

/* Sum of all ends' counters since the trial began. */
void trial_totals(const struct trial *trial, struct counters *totals);
#endif
