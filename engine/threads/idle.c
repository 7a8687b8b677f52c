/* Giving the core away: by a yield, a nap, a wait for the port, or the baton. */
#include "threads/idle.h"

#include <sched.h>
#include <time.h>

#include "measure/clock.h"
#include "threads/core_token.h"
#include "trial/state.h"

#define NAP_NS 50000U
#define LONG_NAP_NS 10000000U /* what a stop may have to wait for */
#define DRAIN_NAP_NS 1000000U
#define SHORT_NAP_NS 20000U /* of whoever holds the baton: its peers wait meanwhile */

/* Its core, where it has only one. */
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

struct spell idle_spell(const struct trial *trial)
{
    const bool shares = trial->threads.idle == IDLE_TOKEN ||
                        (trial->threads.idle == IDLE_YIELD && trial->options->role->sends);

    return (struct spell){.most = shares ? FRAMES_IN_A_ROW : UINT32_MAX};
}

struct spell idle_spell_to_empty(const struct trial *trial, const struct io_port *port)
{
    struct spell spell = idle_spell(trial);

    if (spell.most != UINT32_MAX && 2 * port->rx_ring > spell.most)
        spell.most = 2 * port->rx_ring; /* and what comes meanwhile */
    return spell;
}

/* The longest sleep from now on: the next interval and the end of the trial are to be on time, and
 * hundreds of engines that sleep on one core are to wake up rarely. */
static uint64_t longest_nap_ns(const struct trial *trial, uint64_t now)
{
    const uint64_t event = __atomic_load_n(&trial->clock.next_event, __ATOMIC_RELAXED);
    const uint64_t longest_ns = trial->draining ? DRAIN_NAP_NS : LONG_NAP_NS;
    const uint64_t left_ns = event > now ? clock_ticks_to_ns(event - now) : 0;

    return left_ns < longest_ns ? left_ns : longest_ns;
}

/* A timer cannot be exact for short waits: give way then, and look again. */
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

/* Whoever hands the baton on sleeps until it comes back, and where control groups keep threads
 * apart each turn is a wake-up, most of a million a second. Linux 6.18 then runs the woken one at
 * once, again and again, and hardly anything else on that core: for minutes, seen with containers
 * that wait for frames while others are still being made. So a round in which nobody has had work
 * for long rests, too. */
static void rest_in_round(bool worked, uint64_t now, uint64_t until)
{
    struct core_token *own = core_token_own();

    if (worked) {
        core_token_note_work(own, now);
    } else if (core_token_is_quiet(own, now) && until > now + clock_ns_to_ticks(SHORT_NAP_NS)) {
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
