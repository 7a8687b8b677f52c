/* The faults of the `reference` role, decided for each frame. "Every n-th" is counted; random
 * faults come from a hash of seed, direction, fault and frame number. So the same seed gives the
 * same faults, independent of other options, and no fault changes another fault. */
#ifndef SM_FAULTS_H
#define SM_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#define FAULT_SHARE_WHOLE 1000000000ULL /* probabilities are in billionths */

enum fault { FAULT_DROP, FAULT_DUPLICATE, FAULT_REORDER, FAULT_CORRUPT, FAULTS };
enum jitter { JITTER_UNIFORM, JITTER_NORMAL };

/* Faults of the data frames of one direction; 0: none. Delay and jitter apply to all frames. */
struct reference {
    uint64_t every[FAULTS];
    uint64_t share[FAULTS]; /* billionths */
    uint64_t delay_ns, jitter_ns;
    uint64_t jitter; /* enum jitter */
    uint64_t seed;
    uint64_t limit_pps, limit_burst; /* token bucket: rate and depth in frames */
    uint64_t cost_ns;                /* minimum time per frame */
    uint64_t queue;                  /* frames that can wait, a power of two */
};

/* The applied faults, so that they can be compared with measured faults. */
struct fault_counts {
    uint64_t did[FAULTS];
    uint64_t limited;    /* dropped above the rate */
    uint64_t overflowed; /* dropped because the queue was full */
    uint64_t too_long;   /* dropped because the frame is too long for the port */
    uint64_t waiting;    /* neither sent nor dropped when the trial ended */
};

/* Return true if this fault applies to the data frame with this number (from 0) of a direction. */
bool faults_strike(const struct reference *r, enum fault fault, unsigned direction,
                   uint64_t number);

/* How long to delay the frame with this number, counting all frames of a direction; at least 0. */
uint64_t faults_delay_ns(const struct reference *r, unsigned direction, uint64_t number);

/* Which bit of a payload to flip, so that its receiver can detect it: a bit of the stamp
 * behind the signature, or in a touched payload any bit behind the signature. */
uint64_t faults_bit(const struct reference *r, unsigned direction, uint64_t number,
                    const uint8_t *payload, uint32_t length);
#endif
