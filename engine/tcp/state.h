/* The state of the TCP roles in a trial: connections, counters, histograms. The worker writes all
 * of it; the printing thread reads snapshots. */
#ifndef SM_TCP_STATE_H
#define SM_TCP_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "measure/histogram.h"
#include "tcp/figures.h"
#include "tcp/http.h"
#include "tcp/options.h"
#include "tcp/sockets.h"
#include "traffic/pacing.h"

#define TCP_EVENTS 64
#define TCP_RECEIVE_BYTES 262144

enum tcp_phase {
    TCP_CLOSED,
    TCP_CONNECTING,
    TCP_IDLE,      /* connected, no request */
    TCP_SENDING,   /* a part of the message waits for room in the send buffer */
    TCP_RECEIVING, /* the response is not complete */
    TCP_FINISHING, /* workload crr: the response is complete; the server will close */
};

struct tcp_connection {
    int fd; /* -1: closed */
    uint8_t phase;
    bool first_byte_came;
    uint8_t matched;                /* server: state of http_requests_end */
    uint64_t due, begun, connected; /* ticks */
    uint64_t to_send, to_receive;   /* bytes left of the message */
    uint64_t waiting;               /* server: bytes or requests behind an unfinished response */
    struct http_response http;
};

/* Distributions of a client, in nanoseconds. */
struct tcp_times {
    struct histogram from_due, from_sent, connect, first_byte;
    struct histogram lateness;   /* from when a request was due until it was sent */
    struct histogram unanswered; /* from when a request was due until the end, without an answer */
};

/* The values of an interval line, since the begin of the trial. */
struct tcp_snapshot {
    struct tcp_counters counters;
    struct tcp_kernel kernel, live; /* all connections; open connections */
    bool is_partial;                /* too many connections are open to read all of them */
    uint64_t open;                  /* connections that are open now */
    uint64_t behind_ns; /* how far the oldest request that was not sent is behind its schedule */
    uint64_t spent_ticks[2];
};

struct tcp_state {
    struct tcp_counters counters;
    struct tcp_kernel closed; /* sums over closed connections */
    struct tcp_times *times;  /* client */
    struct tcp_connection *connections;
    unsigned connection_count, open;
    uint32_t *unused; /* ring of connections without a request, or free places of a server */
    unsigned unused_first, unused_count;
    struct pacing pacing;
    uint64_t not_before;   /* closed loop: no request before this tick, after a failure */
    uint64_t next_timeout; /* tick of the next search for requests that took too long */
    uint64_t unsent, unfinished;
    uint64_t slept;          /* ticks of the current round */
    uint64_t spent_ticks[2]; /* rounds [0] without and [1] with work */
    int epoll, listener;     /* -1: none */
    int last_error;          /* errno of the last failure; 0: none */
    char congestion[TCP_CONGESTION_NAME_MAX];
    bool congestion_varies;
    bool sending_ended;
    uint8_t *message, *received; /* bytes to send; buffer for received bytes */
    uint64_t message_bytes;      /* length of the message that this role sends */
};
#endif
