/* Decides faults. Random numbers are the output function of splitmix64 applied to a counter
 * (Steele, Lea and Flood 2014). There is no state, so a decision depends only on the number of the
 * frame. */
#include "role/faults.h"

#include "measure/clock.h"
#include "traffic/frame.h"

#define DRAW_JITTER FAULTS /* three numbers per frame */
#define DRAW_BIT (FAULTS + 3U)
#define DRAWS 16U

static uint64_t draw(const struct reference *r, unsigned purpose, unsigned direction,
                     uint64_t number)
{
    uint64_t z = r->seed * 0xd1342543de82ef95ULL + direction * 0xaef17502108ef2d9ULL +
                 (number * DRAWS + purpose + 1) * 0x9e3779b97f4a7c15ULL;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

/* A number below `bound`, uniformly distributed except for a negligible error. */
static uint64_t below(uint64_t random, uint64_t bound)
{
    return (uint64_t)((uint128)random * bound >> 64);
}

bool faults_strike(const struct reference *r, enum fault fault, unsigned direction, uint64_t number)
{
    const uint64_t n = r->every[fault];

    /* In the middle of each n, so that the last frame of a run is not the frame to be overtaken. */
    if (n > 0 && number % n == n / 2)
        return true;
    return r->share[fault] > 0 &&
           below(draw(r, fault, direction, number), FAULT_SHARE_WHOLE) < r->share[fault];
}

/* The sum of twelve uniform numbers has standard deviation 1 and ends at +-6 (Irwin-Hall). */
static double nearly_normal(const struct reference *r, unsigned direction, uint64_t number)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < 3; i++) {
        const uint64_t random = draw(r, DRAW_JITTER + i, direction, number);
        for (unsigned part = 0; part < 64; part += 16)
            sum += random >> part & 0xffff;
    }
    return ((double)sum + 6.0) / 65536.0 - 6.0; /* each part is the middle of its step */
}

uint64_t faults_delay_ns(const struct reference *r, unsigned direction, uint64_t number)
{
    if (r->jitter_ns == 0)
        return r->delay_ns;
    if (r->jitter == JITTER_UNIFORM) {
        const uint64_t random = draw(r, DRAW_JITTER, direction, number);
        const uint64_t drawn = r->delay_ns + below(random, 2 * r->jitter_ns + 1);
        return drawn > r->jitter_ns ? drawn - r->jitter_ns : 0;
    }
    const double drawn =
        (double)r->delay_ns + (double)r->jitter_ns * nearly_normal(r, direction, number);
    return drawn > 0 ? (uint64_t)(drawn + 0.5) : 0;
}

uint64_t faults_bit(const struct reference *r, unsigned direction, uint64_t number,
                    const uint8_t *payload, uint32_t length)
{
    const bool touched = (payload[1] >> 4 & FRAME_TOUCHED) != 0;
    const uint32_t end = touched ? length : STAMP_BYTES;

    return 8 + below(draw(r, DRAW_BIT, direction, number), (end - 1) * 8ULL);
}
