/* The ring of a core: its token, passing it on, and removing members that died.
 *
 * `turn` names the place that has the token, with a count above it. Two kinds of members may write
 * it.
 *
 * - The holder passes the token to the next member (pass_on).
 *
 * - Any waiting member takes it over, if the holder's place is free, or if `turn` has not changed
 * for TOKEN_SILENCE_NS (take_over).
 *
 * Each write is a compare-and-exchange that increases the count. So of two writers one fails and
 * reads again, and a value that a thread waits for never comes back.
 *
 * `owners` has the name of each member. A member writes its name into a free place (take_place) and
 * removes it (core_token_leave); a member that takes over from a silent holder also removes the
 * name of that holder, which then has to take a place again (is_member).
 *
 * A pass is a store and a yield, which is one system call and usually enough. If the kernel runs
 * the same thread again, that thread yields a few more times, and then sleeps on the futex until
 * the token comes back. */
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

/* The count makes every value of `turn` unique, so that no thread sleeps on an old value. */
static uint32_t turn_of(unsigned place, uint32_t before)
{
    return ((before & ~PLACE_MASK) + TOKEN_MEMBERS) | place;
}

/* Sleep until `turn` differs from `seen`; false if that takes longer than TOKEN_SILENCE_NS. */
static bool sleep_on(struct core_token *b, uint32_t observed)
{
    const uint64_t until_ns = clock_monotonic_ns() + TOKEN_SILENCE_NS;
    const struct timespec until = {(time_t)(until_ns / NS_PER_S), (long)(until_ns % NS_PER_S)};
    const uint32_t bit = 1U << b->place;

    atomic_fetch_or(&b->round->asleep, bit);
    const long result =
        syscall(SYS_futex, &b->round->turn, FUTEX_WAIT_BITSET, observed, &until, NULL, bit);
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

/* Return the next member of the ring, or the own place if it is alone. */
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
        uint32_t free_place = 0;
        if (atomic_compare_exchange_strong(&b->round->owners[place], &free_place, b->name)) {
            b->place = place;
            return true;
        }
    }
    return false;
}

/* A member that was removed because it was silent takes a place again. */
static bool is_member(struct core_token *b)
{
    return atomic_load(&b->round->owners[b->place]) == b->name || take_place(b);
}

/* Pass the token on if this thread has it; false if there is no other member. The next member may
 * leave at the same moment without seeing the token: then the token goes to the member after it. */
static bool pass_on(struct core_token *b)
{
    uint32_t observed = atomic_load(&b->round->turn);

    while (holder(observed) == b->place) {
        const unsigned next = next_of(b);
        uint32_t turn = turn_of(next, observed);
        if (next == b->place)
            return false;
        if (!atomic_compare_exchange_strong(&b->round->turn, &observed, turn))
            continue;
        wake(b, next);
        if (atomic_load(&b->round->owners[next]) != 0)
            return true;
        observed = turn_of(b->place, turn);
        if (!atomic_compare_exchange_strong(&b->round->turn, &turn, observed))
            return true; /* another member has taken it */
    }
    return true;
}

/* Continue without the holder, which was silent for too long, or whose place is free. */
static bool take_over(struct core_token *b, uint32_t observed, bool silent)
{
    _Atomic uint32_t *owner = &b->round->owners[holder(observed)];
    uint32_t name = atomic_load(owner);

    if (!atomic_compare_exchange_strong(&b->round->turn, &observed, turn_of(b->place, observed)))
        return false;
    if (silent && name != 0) {
        b->counts.silent++;
        atomic_compare_exchange_strong(owner, &name, 0);
    }
    return true;
}

/* The number of tries is limited: the thread continues without the token if other members come and
 * go faster than it can follow. */
static void sleep_until_turn(struct core_token *b)
{
    for (unsigned tries = 0; tries < TOKEN_MEMBERS && is_member(b); tries++) {
        const uint32_t observed = atomic_load(&b->round->turn);
        if (holder(observed) == b->place)
            return;
        const bool vacant = atomic_load(&b->round->owners[holder(observed)]) == 0;
        const bool silent =
            !vacant && !sleep_on(b, observed) && atomic_load(&b->round->turn) == observed;
        if ((vacant || silent) && take_over(b, observed, silent))
            return;
    }
}

/* In one scheduling group (a container, or without sched_autogroup) the kernel often runs a thread
 * again after its first yield, and another thread after one more. Sleeping and waking takes longer:
 * it doubled round trips (docs/engine-io.md). */
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

    if (b->round == NULL || !is_member(b) || !pass_on(b))
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
    while (b->name == 0) /* process numbers repeat between containers, but not times on one core */
        b->name = (uint32_t)clock_ticks() ^ (uint32_t)getpid() << 16;
    if (!take_place(b))
        b->round = NULL;
}

void core_token_leave(struct core_token *b)
{
    uint32_t name = b->name;

    if (b->round == NULL)
        return;
    pass_on(b);
    if (atomic_compare_exchange_strong(&b->round->owners[b->place], &name, 0))
        pass_on(b); /* if the token came in the meantime */
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
    static _Thread_local struct core_token membership;

    return &membership;
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
