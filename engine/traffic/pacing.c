/* The shapes of schedules: Poisson, on-off, ramps. Each calculates when the next burst is due, and
 * how many bursts are due before a given time. They depend only on the plan: the same seed and
 * clock rate give the same schedule on every machine. */
#include "traffic/pacing.h"

#include <math.h>
#include <pthread.h>

#include "traffic/replay.h"

#define LOG_BITS 10
#define LOG_STEPS (1U << LOG_BITS)
#define LN2_32 2977044472ULL /* ln 2 with 32 fraction bits */
#define NEVER ((uint128)UINT64_MAX << 64)
#define POISSON_STEPS_MAX 4096
#define ONE_TICK ((uint128)1 << 64)

static uint64_t log_table[LOG_STEPS + 1]; /* log2(1 + i / LOG_STEPS), 32 fraction bits */
static pthread_once_t log_table_made = PTHREAD_ONCE_INIT;

/* log2 of a number in [1, 2) with 63 fraction bits, by squaring. It uses only integers, so that
 * mathematics libraries cannot make two machines differ. */
static uint64_t log2_of(uint64_t x)
{
    uint64_t result = 0;

    for (unsigned bit = 0; bit < 32; bit++) {
        const uint128 square = (uint128)x * x; /* in [1, 4), 126 fraction bits */
        const bool two = (square >> 127) != 0;
        x = (uint64_t)(square >> (two ? 64 : 63));
        result = result << 1 | two;
    }
    return result;
}

static void make_log_table(void)
{
    for (uint64_t i = 0; i < LOG_STEPS; i++)
        log_table[i] = log2_of((1ULL << 63) + (i << (63 - LOG_BITS)));
    log_table[LOG_STEPS] = 1ULL << 32;
}

static uint64_t draw(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15ULL; /* splitmix64 (Steele, Lea and Flood 2014) */
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

/* -ln U of a uniform U: an exponential variable with mean 1 and 32 fraction bits. The logarithm is
 * interpolated linearly in a table: the error is below 2e-7. */
static uint64_t exponential(uint64_t *state)
{
    const uint64_t u = draw(state) | 1;
    const unsigned zeros = (unsigned)__builtin_clzll(u);
    const uint64_t fraction = (u << zeros) << 1; /* the 64 bits behind the leading one */
    const uint64_t i = fraction >> (64 - LOG_BITS);
    const uint64_t within = (fraction << LOG_BITS) >> 32;
    const uint64_t log = log_table[i] + (((log_table[i + 1] - log_table[i]) * within) >> 32);
    const uint64_t minus_log2 = ((uint64_t)(zeros + 1) << 32) - log;
    return (uint64_t)(((uint128)minus_log2 * LN2_32) >> 32);
}

static uint128 poisson_gap(struct pacing *p)
{
    return (p->step >> 32) * exponential(&p->random);
}

/* The bursts of an on-off schedule have equal distances in a time that passes only in the on-times,
 * so that the mean rate is right, however many bursts an on-time has. `within` is the time of the
 * next burst in its on-time, plus `slack`: a burst at the end of an on-time belongs to the next
 * on-time, and must not miss it because of a rounding error. */
static void on_off_place(struct pacing *p)
{
    p->next = p->window + (p->within > p->slack ? p->within - p->slack : 0);
}

static void on_off_go_to(struct pacing *p, uint64_t burst)
{
    const uint128 passed = burst * p->step + p->slack;

    p->index = burst;
    p->window = p->start + passed / p->on * p->period;
    p->within = passed % p->on;
    on_off_place(p);
}

static void on_off_advance(struct pacing *p)
{
    p->index++;
    p->within += p->step;
    if (p->within >= p->on) {
        p->window += p->within / p->on * p->period;
        p->within %= p->on;
    }
    on_off_place(p);
}

static uint64_t on_off_give_up(struct pacing *p, uint128 limit)
{
    const uint128 within = (limit - p->start) % p->period;
    const uint128 open = within + p->slack < p->on ? within + p->slack : p->on;
    const uint128 passed = (limit - p->start) / p->period * p->on + (within > 0 ? open : 0);
    const uint64_t first = p->index;

    if (passed > p->slack) /* otherwise the first burst is not due */
        on_off_go_to(p, (uint64_t)((passed - p->slack + p->step - 1) / p->step));
    return p->index - first;
}

/* When burst `index` of a ramp is due: the time t at which from * t + slope * t^2 / 2 frames were
 * due, solved for t in the form without cancellation. */
static uint128 ramp_due(const struct pacing *p, uint64_t index)
{
    const double frames = (double)index * p->burst;
    const double in_ramp = (p->from + p->to) / 2 * p->over;
    double ticks = 0.0;

    if (frames > in_ramp) {
        if (p->to <= 0)
            return NEVER;
        ticks = p->over + (frames - in_ramp) / p->to;
    } else if (frames > 0) {
        const double square = p->from * p->from + 2 * p->slope * frames;
        ticks = 2 * frames / (p->from + sqrt(square > 0 ? square : 0));
    }
    return ticks < 9e18 ? p->start + pacing_fixed(ticks) : NEVER;
}

static void ramp_go_to(struct pacing *p, uint64_t index)
{
    p->index = index;
    p->next = ramp_due(p, index);
}

static uint128 recorded_due(const struct pacing *p, uint64_t index)
{
    if (index >= p->frames)
        return NEVER;
    return p->start + pacing_fixed((double)replay_time_ns(p->replay, index) * p->ticks_a_ns);
}

static void recorded_go_to(struct pacing *p, uint64_t index)
{
    p->index = index;
    p->next = recorded_due(p, index);
}

void pacing_take_shape(struct pacing *p, const struct schedule_plan *plan, double hz,
                       unsigned index)
{
    p->shape = plan->shape;
    p->shaped = plan->shape != SCHEDULE_CONSTANT;
    switch (plan->shape) {
    case SCHEDULE_POISSON:
        pthread_once(&log_table_made, make_log_table);
        p->random = plan->seed + ((uint64_t)index << 32) * 0x2545f4914f6cdd1dULL;
        p->next = p->start + poisson_gap(p);
        break;
    case SCHEDULE_ON_OFF:
        p->on = pacing_fixed((double)plan->on_ns * hz / 1e9);
        p->period = p->on + pacing_fixed((double)plan->off_ns * hz / 1e9);
        p->window = p->start;
        p->slack = p->on >> 10 < ONE_TICK ? p->on >> 10 : ONE_TICK;
        if (!p->unlimited)
            on_off_go_to(p, 0);
        break;
    case SCHEDULE_RAMP:
        p->unlimited = false;
        p->over = (double)plan->over_ns * hz / 1e9;
        p->from = plan->from_pps / hz;
        p->to = plan->rate_pps / hz;
        p->slope = (p->to - p->from) / p->over;
        ramp_go_to(p, 0);
        break;
    case SCHEDULE_RECORDED:
        p->unlimited = false;
        p->replay = plan->replay;
        p->frames = plan->frames;
        p->ticks_a_ns = hz / 1e9;
        recorded_go_to(p, 0);
        break;
    default:
        break;
    }
}

void pacing_advance_shaped(struct pacing *p)
{
    switch (p->shape) {
    case SCHEDULE_POISSON:
        p->next += poisson_gap(p);
        break;
    case SCHEDULE_ON_OFF:
        on_off_advance(p);
        break;
    case SCHEDULE_RECORDED:
        recorded_go_to(p, p->index + 1);
        break;
    default:
        ramp_go_to(p, p->index + 1);
    }
}

/* A Poisson process has no memory: after a long stall the number of missed bursts is drawn, and the
 * process begins again. Drawing every gap would take so long that further frames fall due. */
static uint64_t poisson_give_up(struct pacing *p, uint128 limit)
{
    uint64_t bursts = 0;

    for (; p->next < limit && bursts < POISSON_STEPS_MAX; bursts++)
        p->next += poisson_gap(p);
    if (p->next < limit) {
        const double mean = (double)(limit - p->next) / (double)p->step;
        double normal = -6.0; /* sum of twelve uniform numbers minus its mean: variance 1 */
        for (unsigned i = 0; i < 12; i++)
            normal += (double)(draw(&p->random) >> 11) * 0x1p-53;
        const double missed = mean + normal * sqrt(mean);
        bursts += 1 + (uint64_t)(missed > 0 ? missed : 0);
        p->next = limit + poisson_gap(p);
    }
    return bursts;
}

/* The place of the burst is known except for the last digit of a double. */
static uint64_t ramp_give_up(struct pacing *p, uint128 limit)
{
    const double ticks = (double)(uint64_t)((limit - p->start) >> 64);
    const double within = ticks < p->over ? ticks : p->over;
    const double frames = within * (p->from + p->slope * within / 2) + (ticks - within) * p->to;
    const uint64_t first = p->index;
    uint64_t index = (uint64_t)(frames / p->burst);

    if (index < first)
        index = first;
    while (index > first && ramp_due(p, index - 1) >= limit)
        index--;
    while (ramp_due(p, index) < limit)
        index++;
    ramp_go_to(p, index);
    return index - first;
}

static uint64_t recorded_give_up(struct pacing *p, uint128 limit)
{
    const double ticks = (double)(uint64_t)((limit - p->start) >> 64);
    const uint64_t first = p->index;
    uint64_t index = replay_before(p->replay, (uint64_t)(ticks / p->ticks_a_ns));

    if (index > p->frames)
        index = p->frames;
    if (index < first)
        index = first;
    while (index > first && recorded_due(p, index - 1) >= limit)
        index--;
    while (recorded_due(p, index) < limit)
        index++;
    recorded_go_to(p, index);
    return index - first;
}

uint64_t pacing_give_up_shaped(struct pacing *p, uint64_t limit)
{
    const uint128 until = (uint128)limit << 64;
    uint64_t bursts;

    switch (p->shape) {
    case SCHEDULE_POISSON:
        bursts = poisson_give_up(p, until);
        break;
    case SCHEDULE_ON_OFF:
        bursts = on_off_give_up(p, until);
        break;
    case SCHEDULE_RECORDED:
        bursts = recorded_give_up(p, until);
        break;
    default:
        bursts = ramp_give_up(p, until);
    }
    return bursts * p->burst;
}

/* Unlimited in the on-times. */
bool pacing_is_open_shaped(struct pacing *p, uint64_t now)
{
    const uint128 t = (uint128)now << 64;

    if (t < p->next)
        return false;
    if (t - p->next >= p->on)
        p->next += (t - p->next + p->period - p->on) / p->period * p->period;
    return t >= p->next;
}
