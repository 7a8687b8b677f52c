/* Threads on one core take turns: a thread that has moved its burst, or has nothing to do, passes
 * the token of the core on and waits until it comes back. `sched_yield` is not enough: the kernel
 * may run the same thread again, and the ring of its peer overflows in the meantime.
 *
 * The tokens are words in a file that all programs map, one word per core. A futex in a shared file
 * works across network, process and mount namespaces, for any number of programs, and needs no
 * privilege. No thread depends on the others: waiting is limited, a dead or silent member is
 * removed from the ring, and a member that was only slow joins again.
 *
 * The option and the JSON field of the token have the name `baton`. */
#ifndef SM_THREADS_CORE_TOKEN_H
#define SM_THREADS_CORE_TOKEN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache_line_bytes.h"

/* Half of a usual ring: with more frames in a row, a peer on the same core loses frames. */
#define FRAMES_IN_A_ROW 128

#define TOKEN_MEMBERS 32 /* members per core; further threads use yields */
#define TOKEN_CORES 1024
#define TOKEN_YIELDS 4 /* yields before a thread sleeps until its turn */
#define TOKEN_QUIET_NS                                                                             \
    200000000ULL /* longer than the time between requests at a rate that is timed */
#define TOKEN_SILENCE_NS                                                                           \
    20000000ULL /* longer than the time slice of another program in between                        \
                 */

/* The ring of members of one core. */
struct core_round {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t
        turn;                /* the futex: place of the holder, with a count above it */
    _Atomic uint32_t asleep; /* one bit for each place that must be woken */
    _Atomic uint64_t worked; /* tick at which a member last had work */
    _Atomic uint32_t owners[TOKEN_MEMBERS]; /* names of the members; 0: the place is free */
};

/* How a thread waited since it joined. */
struct core_token_counts {
    uint64_t passes;          /* passed on and received back */
    uint64_t by_yield;        /* passes after which the kernel ran another thread at once */
    uint64_t waited, longest; /* ticks until the token came back: sum and maximum */
    uint64_t silent;          /* holders that kept the token too long and were removed */
};

/* The membership of one thread in the ring of its core. Zero: not a member. */
struct core_token {
    struct core_round *round;
    unsigned place;
    uint32_t name;
    struct core_token_counts counts;
};

/* Map the file of tokens; it is created if it does not exist. NULL: error in one line in `error`.
 */
struct core_round *core_token_open(const char *path, char *error, size_t size);
void core_token_close(struct core_round *rounds);

/* Join the ring of `core`; no effect if the ring is full or there is no file. */
void core_token_join(struct core_token *token, struct core_round *rounds, unsigned core);

/* Pass the token on if this thread has it, and leave the ring. */
void core_token_leave(struct core_token *token);

/* Pass the token on and wait until it comes back; false, at once, if there is no other member. */
bool core_token_pass(struct core_token *token);

/* Record that a member of the ring has just had work. */
void core_token_note_work(struct core_token *token, uint64_t now);

/* Return true if the ring has several members and none has had work for TOKEN_QUIET_NS. */
bool core_token_is_quiet(const struct core_token *token, uint64_t now);

/* The membership of the calling thread; give_way passes its token on, or yields if it has none. */
struct core_token *core_token_own(void);
void core_token_give_way(void);
#endif
