/* Threads that share a core hand it to each other for certain: whoever has moved its burst, or has
 * nothing to do, passes the baton on and gets it back in its turn. `sched_yield` alone is a wish:
 * the kernel may run the thread that yielded again, and its peer's ring overflows meanwhile.
 *
 * The batons are words in a file that all these programs map, one for each core: a futex in a
 * shared file works across network, process and mount namespaces, for any number of programs, and
 * needs no privilege. Nobody depends on the others: the wait is bounded, one that is dead or
 * silent is put out of the round, and one that was only slow joins it again. */
#ifndef SM_THREADS_CORE_TOKEN_H
#define SM_THREADS_CORE_TOKEN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache_line_bytes.h"

/* Half of what a usual ring holds: more in a row, and a peer on the same core loses frames. */
#define FRAMES_IN_A_ROW 128

#define BATON_MEMBERS 32 /* of one round; others of the same core yield */
#define BATON_CORES 1024
#define BATON_YIELDS 4               /* before a thread sleeps until its turn */
#define BATON_QUIET_NS 200000000ULL  /* longer than between requests of a rate that is timed */
#define BATON_SILENCE_NS 20000000ULL /* longer than the tick or slice of a program in between */

/* One core's round. */
struct baton_round {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t
        turn;                               /* the futex: the holder's place, a count above it */
    _Atomic uint32_t asleep;                /* places that must be woken, a bit each */
    _Atomic uint64_t worked;                /* tick at which one of them last had work */
    _Atomic uint32_t owners[BATON_MEMBERS]; /* names; 0: the place is free */
};

/* What a thread's waiting came to since it joined. */
struct baton_counts {
    uint64_t passes;          /* handed on, and got back */
    uint64_t by_yield;        /* of these, those for which the kernel heeded the yield */
    uint64_t waited, longest; /* ticks: until it came back, in all and once */
    uint64_t silent;          /* holders that kept it too long, and were put out */
};

/* One thread's part in the round of its core. Zero: in none. */
struct baton {
    struct baton_round *round;
    unsigned place;
    uint32_t name;
    struct baton_counts counts;
};

/* Map the file of batons, made if it is not there. NULL: one line in `error`. */
struct baton_round *baton_open(const char *path, char *error, size_t size);
void baton_close(struct baton_round *rounds);

/* Take part in the round of `core`; without effect where there is no room for it, or no file. */
void baton_join(struct baton *baton, struct baton_round *rounds, unsigned core);

/* Hand on what is held, and take no more part. */
void baton_leave(struct baton *baton);

/* Hand the core on and wait until it comes back. False, at once: nobody else is there. */
bool baton_pass(struct baton *baton);

/* One of the round has just had work. */
void baton_note_work(struct baton *baton, uint64_t now);

/* Several are in the round, and none has had work for BATON_QUIET_NS. */
bool baton_is_quiet(const struct baton *baton, uint64_t now);

/* The calling thread's own part, and handing on by it, or by a yield where it has none. */
struct baton *baton_own(void);
void baton_give_way(void);
#endif
