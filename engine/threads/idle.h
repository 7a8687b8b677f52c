/* Actions of a worker that has nothing to do, or has used its quantum: see --idle. */
#ifndef SM_THREADS_IDLE_H
#define SM_THREADS_IDLE_H

#include <stdbool.h>
#include <stdint.h>

struct io_port;
struct trial;

/* The quantum of a worker: the frames it moved since it last gave way, and whether it moved any
 * before that. */
struct quantum {
    uint32_t moved, most;
    bool worked;
};

/* The quantum of a worker: unlimited if it has the core to itself, or if it yields only when idle.
 */
struct quantum idle_quantum(const struct trial *trial);

/* The same for a worker that only receives: if possible it gives the core away with an empty ring,
 * because the frames that it leaves there would overflow the ring in the next quantum of its peers.
 */
struct quantum idle_quantum_to_empty(const struct trial *trial, const struct io_port *port);

/* Add `moved` frames of a round; returns true if it is the turn of the other threads. */
static inline bool idle_is_due(struct quantum *quantum, unsigned moved)
{
    quantum->moved += moved;
    if (moved > 0 && quantum->moved < quantum->most)
        return false;
    quantum->worked = quantum->moved > 0;
    quantum->moved = 0;
    return true;
}

/* Call these at the begin and at the end of the part of the calling thread in a trial. */
void idle_begin(struct trial *trial, unsigned worker);
void idle_end(struct trial *trial, unsigned worker);

/* Rest as --idle requires, if there is nothing to do or the quantum is used (`worked`). `until` is
 * when there will be work (UINT64_MAX: unknown); `port` is a port that may receive, or NULL. */
void idle_rest(struct trial *trial, bool worked, struct io_port *port, uint64_t now,
               uint64_t until);
#endif
