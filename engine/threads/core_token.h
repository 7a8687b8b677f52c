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

#define TOKEN_MEMBERS 32 /* of one round; others of the same core yield */
#define TOKEN_CORES 1024
#define TOKEN_YIELDS 4               /* before a thread sleeps until its turn */
#define TOKEN_QUIET_NS 200000000ULL  /* longer than between requests of a rate that is timed */
#define TOKEN_SILENCE_NS 20000000ULL /* longer than the tick or slice of a program in between */

/* One core's round. */
struct core_round {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t
        turn;                               /* the futex: the holder's place, a count above it */
    _Atomic uint32_t asleep;                /* places that must be woken, a bit each */
    _Atomic uint64_t worked;                /* tick at which one of them last had work */
    _Atomic uint32_t owners[TOKEN_MEMBERS]; /* names; 0: the place is free */
};

/* What a thread's waiting came to since it joined. */
struct core_token_counts {
    uint64_t passes;          /* handed on, and got back */
    uint64_t by_yield;        /* of these, those for which the kernel heeded the yield */
    uint64_t waited, longest; /* ticks: until it came back, in all and once */
    uint64_t silent;          /* holders that kept it too long, and were put out */
};

/* One thread's part in the round of its core. Zero: in none. */
struct core_token {
    struct core_round *round;
    unsigned place;
    uint32_t name;
    struct core_token_counts counts;
};

/* Map the file of batons, made if it is not there. NULL: one line in `error`. */
struct core_round *core_token_open(const char *path, char *error, size_t size);
void core_token_close(struct core_round *rounds);

/* Take part in the round of `core`; without effect where there is no room for it, or no file. */
void core_token_join(struct core_token *baton, struct core_round *rounds, unsigned core);

/* Hand on what is held, and take no more part. */
void core_token_leave(struct core_token *baton);

/* Hand the core on and wait until it comes back. False, at once: nobody else is there. */
bool core_token_pass(struct core_token *baton);

/* One of the round has just had work. */
void core_token_note_work(struct core_token *baton, uint64_t now);

/* Several are in the round, and none has had work for TOKEN_QUIET_NS. */
bool core_token_is_quiet(const struct core_token *baton, uint64_t now);

/* The calling thread's own part, and handing on by it, or by a yield where it has none. */
struct core_token *core_token_own(void);
void core_token_give_way(void);
#endif
