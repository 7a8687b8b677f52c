/* Functions that the TCP roles share: memory of a trial, connections, waiting for events. */
#ifndef SM_ROLE_TCP_H
#define SM_ROLE_TCP_H

#include <sys/epoll.h>

#include "tcp/state.h"
#include "trial/loop.h"

/* Allocate the state of a role with so many connections; false: one line in `error`. */
bool tcp_state_open(struct trial *trial, uint64_t connections, char *error, size_t size);
void tcp_state_close(struct trial *trial);

/* Forget the last trial; all connections must be closed. */
void tcp_state_reset(struct tcp_state *state);

/* Register a connection for events; false: errno. */
bool tcp_watch(struct tcp_state *state, struct tcp_connection *connection, uint32_t events);

/* Add the kernel's figures of a connection to those of closed connections, and close it. */
void tcp_close(struct tcp_state *state, struct tcp_connection *connection);

/* The ring of connections without work. */
void tcp_put_unused(struct tcp_state *state, struct tcp_connection *connection);
struct tcp_connection *tcp_take_unused(struct tcp_state *state);

/* Count a failure by its reason. */
void tcp_count_failure(struct tcp_state *state, int error);

/* Wait for events as --idle requires, but not beyond the tick `until`, the next event of the trial,
 * or 10 ms. Returns the number of events. */
unsigned tcp_wait(struct trial *trial, struct epoll_event *events, bool worked, uint64_t now,
                  uint64_t until);

/* Send up to `left` bytes of the role's message that ends with them; -1: errno. */
ssize_t tcp_send(struct tcp_state *state, const struct tcp_connection *connection, uint64_t left);

/* Fill in the part of an interval line. */
void tcp_snapshot_fill(struct trial *trial, struct tcp_snapshot *snapshot);

/* Add the time of a round to the useful or idle time, without the time that it slept; returns the
 * tick at which the next begins. */
static inline uint64_t tcp_round(struct tcp_state *state, uint64_t begun, bool useful)
{
    const uint64_t now = clock_ticks();

    counter_add(&state->spent_ticks[0], state->slept);
    counter_add(&state->spent_ticks[useful], now - begun - state->slept);
    state->slept = 0;
    return now;
}
#endif
