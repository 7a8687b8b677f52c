/* Gives the core away: by a yield, a sleep, a wait for the port, or the token. */
#include "threads/idle.h"

#include <sched.h>
#include <time.h>

#include "measure/clock.h"
#include "threads/core_token.h"
#include "trial/state.h"

#define NAP_NS 50000U
#define LONG_NAP_NS 10000000U /* the longest time that a stop waits */
#define DRAIN_NAP_NS 1000000U
#define SHORT_NAP_NS                                                                               \
    20000U /* for the holder of the token, because the other members wait in the meantime */

/* The core of this process, if it has only one. */
static bool own_core(unsigned *core)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) != 1)
        return false;
    for (*core = 0; !CPU_ISSET(*core, &set); ++*core)
        continue;
    return true;
}

void idle_begin(struct trial *trial, unsigned worker)
{
    unsigned core;

    trial->threads.passed[worker] = (struct core_token_counts){0};
    if (trial->threads.idle == IDLE_TOKEN && own_core(&core))
        core_token_join(core_token_own(), trial->threads.tokens, core);
}

void idle_end(struct trial *trial, unsigned worker)
{
    trial->threads.passed[worker] = core_token_own()->counts;
    core_token_leave(core_token_own());
}

struct quantum idle_quantum(const struct trial *trial)
{
    const bool shares = trial->threads.idle == IDLE_TOKEN ||
                        (trial->threads.idle == IDLE_YIELD && trial->options->role->sends);

    return (struct quantum){.most = shares ? FRAMES_IN_A_ROW : UINT32_MAX};
}

struct quantum idle_quantum_to_empty(const struct trial *trial, const struct io_port *port)
{
    struct quantum quantum = idle_quantum(trial);

    if (quantum.most != UINT32_MAX && 2 * port->rx_ring > quantum.most)
        quantum.most = 2 * port->rx_ring; /* with the frames that arrive in the meantime */
    return quantum;
}

/* The longest sleep from now on: the next interval and the end of the trial must be on time, and
 * hundreds of engines that sleep on one core should wake up rarely. */
static uint64_t longest_nap_ns(const struct trial *trial, uint64_t now)
{
    const uint64_t event = __atomic_load_n(&trial->clock.next_event, __ATOMIC_RELAXED);
    const uint64_t longest_ns = trial->draining ? DRAIN_NAP_NS : LONG_NAP_NS;
    const uint64_t left_ns = event > now ? clock_ticks_to_ns(event - now) : 0;

    return left_ns < longest_ns ? left_ns : longest_ns;
}

/* Timers are not exact for short waits: then give way and poll again. */
static void sleep_until(const struct trial *trial, struct io_port *port, uint64_t now,
                        uint64_t until)
{
    const bool waits = port != NULL && port->ops->rx_wait != NULL;
    const uint64_t longest_ns = longest_nap_ns(trial, now);
    uint64_t rest_ns = waits ? LONG_NAP_NS : NAP_NS;

    if (until != UINT64_MAX)
        rest_ns = until > now ? clock_ticks_to_ns(until - now) : NAP_NS;
    if (rest_ns > longest_ns)
        rest_ns = longest_ns;
    if (rest_ns < 10000) {
        sched_yield();
        return;
    }
    if (waits) {
        port->ops->rx_wait(port, rest_ns);
    } else {
        const struct timespec nap = {0, (long)rest_ns};
        nanosleep(&nap, NULL);
    }
}

/* A thread that passes the token on sleeps until it comes back. If control groups separate the
 * threads, each turn is a wake-up, almost a million per second. Linux 6.18 then runs the woken
 * thread at once, again and again, and hardly anything else on that core. This lasted for minutes
 * with containers that waited for frames while other containers were being created. So a ring in
 * which no member had work for a long time also rests. */
static void rest_in_round(bool worked, uint64_t now, uint64_t until)
{
    struct core_token *membership = core_token_own();

    if (worked) {
        core_token_note_work(membership, now);
    } else if (core_token_is_quiet(membership, now) &&
               until > now + clock_ns_to_ticks(SHORT_NAP_NS)) {
        const struct timespec nap = {0, SHORT_NAP_NS};
        nanosleep(&nap, NULL);
    }
}

void idle_rest(struct trial *trial, bool worked, struct io_port *port, uint64_t now, uint64_t until)
{
    if (trial->threads.idle == IDLE_SLEEP) {
        sleep_until(trial, port, now, until);
        return;
    }
    rest_in_round(worked, now, until);
    core_token_give_way();
}
