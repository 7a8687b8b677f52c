/* The round of a core: which thread holds its baton, passing it on, and doing without the dead.
 *
 * A pass is a store and a yield, which is one system call and mostly enough. If the kernel runs the
 * same thread again, that thread yields a few times more, and then sleeps on the futex until the
 * other has passed the baton back.
 */
#include "threads/core_token.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "measure/clock.h"

#define FILE_BYTES (TOKEN_CORES * sizeof(struct core_round))
#define PLACE_MASK (TOKEN_MEMBERS - 1U)

static unsigned holder(uint32_t turn)
{
    return turn & PLACE_MASK;
}

/* The count makes every turn a new word: nobody sleeps on an old one. */
static uint32_t turn_of(unsigned place, uint32_t before)
{
    return ((before & ~PLACE_MASK) + TOKEN_MEMBERS) | place;
}

/* Until the turn is no longer `seen`. False: that took too long. */
static bool sleep_on(struct core_token *b, uint32_t seen)
{
    const uint64_t until_ns = clock_monotonic_ns() + TOKEN_SILENCE_NS;
    const struct timespec until = {(time_t)(until_ns / NS_PER_S), (long)(until_ns % NS_PER_S)};
    const uint32_t bit = 1U << b->place;

    atomic_fetch_or(&b->round->asleep, bit);
    const long result =
        syscall(SYS_futex, &b->round->turn, FUTEX_WAIT_BITSET, seen, &until, NULL, bit);
    const bool in_time = result == 0 || errno != ETIMEDOUT;
    atomic_fetch_and(&b->round->asleep, ~bit);
    return in_time;
}

static void wake(struct core_token *b, unsigned place)
{
    const uint32_t bit = 1U << place;

    if ((atomic_load(&b->round->asleep) & bit) != 0)
        syscall(SYS_futex, &b->round->turn, FUTEX_WAKE_BITSET, INT_MAX, NULL, NULL, bit);
}

/* The next in the round; the place itself when it is alone. */
static unsigned next_of(const struct core_token *b)
{
    for (unsigned step = 1; step < TOKEN_MEMBERS; step++) {
        const unsigned place = (b->place + step) & PLACE_MASK;
        if (atomic_load(&b->round->owners[place]) != 0)
            return place;
    }
    return b->place;
}

static bool take_place(struct core_token *b)
{
    for (unsigned step = 0; step < TOKEN_MEMBERS; step++) {
        const unsigned place = (b->place + step) & PLACE_MASK;
        uint32_t nobody = 0;
        if (atomic_compare_exchange_strong(&b->round->owners[place], &nobody, b->name)) {
            b->place = place;
            return true;
        }
    }
    return false;
}

/* One that was put out for its silence takes a place anew. */
static bool is_member(struct core_token *b)
{
    return atomic_load(&b->round->owners[b->place]) == b->name || take_place(b);
}

/* Hand on what is held. False: there is nobody to have it. Whom it goes to may leave at the same
 * moment without having seen it come: then it goes to the one after. */
static bool hand_on(struct core_token *b)
{
    uint32_t seen = atomic_load(&b->round->turn);

    while (holder(seen) == b->place) {
        const unsigned next = next_of(b);
        uint32_t turn = turn_of(next, seen);
        if (next == b->place)
            return false;
        if (!atomic_compare_exchange_strong(&b->round->turn, &seen, turn))
            continue;
        wake(b, next);
        if (atomic_load(&b->round->owners[next]) != 0)
            return true;
        seen = turn_of(b->place, turn);
        if (!atomic_compare_exchange_strong(&b->round->turn, &turn, seen))
            return true; /* somebody has taken it */
    }
    return true;
}

/* The holder has been silent for too long, or is not there: go on without it. */
static bool take_over(struct core_token *b, uint32_t seen, bool silent)
{
    _Atomic uint32_t *owner = &b->round->owners[holder(seen)];
    uint32_t name = atomic_load(owner);

    if (!atomic_compare_exchange_strong(&b->round->turn, &seen, turn_of(b->place, seen)))
        return false;
    if (silent && name != 0) {
        b->counts.silent++;
        atomic_compare_exchange_strong(owner, &name, 0);
    }
    return true;
}

/* Bounded: it goes on without the baton when the others come and go faster than it can follow. */
static void sleep_until_turn(struct core_token *b)
{
    for (unsigned tries = 0; tries < TOKEN_MEMBERS && is_member(b); tries++) {
        const uint32_t seen = atomic_load(&b->round->turn);
        if (holder(seen) == b->place)
            return;
        const bool vacant = atomic_load(&b->round->owners[holder(seen)]) == 0;
        const bool silent = !vacant && !sleep_on(b, seen) && atomic_load(&b->round->turn) == seen;
        if ((vacant || silent) && take_over(b, seen, silent))
            return;
    }
}

/* In one scheduling group (a container, or without sched_autogroup) the kernel often runs a thread
 * again after its first yield, and then another after one more. Sleeping and being woken takes
 * longer: it doubled round trips (docs/engine-io.md). */
static bool yield_until_turn(const struct core_token *b)
{
    for (unsigned tries = 0; tries < TOKEN_YIELDS; tries++) {
        sched_yield();
        if (holder(atomic_load(&b->round->turn)) == b->place)
            return true;
    }
    return false;
}

bool core_token_pass(struct core_token *b)
{
    const uint64_t begun = clock_ticks();

    if (b->round == NULL || !is_member(b) || !hand_on(b))
        return false;
    if (yield_until_turn(b))
        b->counts.by_yield++;
    else
        sleep_until_turn(b);
    const uint64_t waited = clock_ticks() - begun;
    b->counts.passes++;
    b->counts.waited += waited;
    b->counts.longest = waited > b->counts.longest ? waited : b->counts.longest;
    return true;
}

void core_token_join(struct core_token *b, struct core_round *rounds, unsigned core)
{
    *b = (struct core_token){0};
    if (rounds == NULL || core >= TOKEN_CORES)
        return;
    b->round = &rounds[core];
    while (b->name == 0) /* process numbers repeat between containers, moments on one core do not */
        b->name = (uint32_t)clock_ticks() ^ (uint32_t)getpid() << 16;
    if (!take_place(b))
        b->round = NULL;
}

void core_token_leave(struct core_token *b)
{
    uint32_t name = b->name;

    if (b->round == NULL)
        return;
    hand_on(b);
    if (atomic_compare_exchange_strong(&b->round->owners[b->place], &name, 0))
        hand_on(b); /* what came in between */
    b->round = NULL;
}

void core_token_note_work(struct core_token *b, uint64_t now)
{
    if (b->round != NULL)
        atomic_store_explicit(&b->round->worked, now, memory_order_relaxed);
}

bool core_token_is_quiet(const struct core_token *b, uint64_t now)
{
    if (b->round == NULL || next_of(b) == b->place)
        return false;
    const uint64_t worked = atomic_load_explicit(&b->round->worked, memory_order_relaxed);
    return now > worked && now - worked > clock_ns_to_ticks(TOKEN_QUIET_NS);
}

struct core_token *core_token_own(void)
{
    static _Thread_local struct core_token own;

    return &own;
}

void core_token_give_way(void)
{
    if (!core_token_pass(core_token_own()))
        sched_yield();
}

struct core_round *core_token_open(const char *path, char *error, size_t size)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *rounds = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, (off_t)FILE_BYTES) == 0)
        rounds = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (rounds == MAP_FAILED)
        snprintf(error, size, "--baton %s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return rounds == MAP_FAILED ? NULL : rounds;
}

void core_token_close(struct core_round *rounds)
{
    if (rounds != NULL)
        munmap(rounds, FILE_BYTES);
}
