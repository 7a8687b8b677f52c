/* What a worker does when it has nothing to do, or has had the core long enough: see --idle. */
#ifndef SM_THREADS_IDLE_H
#define SM_THREADS_IDLE_H

#include <stdbool.h>
#include <stdint.h>

struct io_port;
struct trial;

/* How many frames a worker has moved since it last gave way, and whether it had any before that. */
struct spell {
    uint32_t moved, most;
    bool worked;
};

/* A worker's spell: without end where it has the core to itself, or yields only when idle. */
struct spell idle_spell(const struct trial *trial);

/* The same of one that only receives: it hands the core on with an empty ring, if it can. What it
 * left there would have the next spell of its peers overflow it. */
struct spell idle_spell_to_empty(const struct trial *trial, const struct io_port *port);

/* A round moved `moved` frames: is it the others' turn? */
static inline bool idle_is_due(struct spell *spell, unsigned moved)
{
    spell->moved += moved;
    if (moved > 0 && spell->moved < spell->most)
        return false;
    spell->worked = spell->moved > 0;
    spell->moved = 0;
    return true;
}

/* The calling thread begins, and ends, its part of a trial. */
void idle_begin(struct trial *trial, unsigned worker);
void idle_end(struct trial *trial, unsigned worker);

/* Nothing to do, or enough `worked`: as --idle says. `until` is when there will be something
 * (UINT64_MAX: unknown); `port` is one that may receive, or NULL. */
void idle_rest(struct trial *trial, bool worked, struct io_port *port, uint64_t now,
               uint64_t until);
#endif
