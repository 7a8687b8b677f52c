/* The faults of the `reference` role, decided frame by frame. Every n-th is counted; what is
 * random comes from a hash of seed, direction, fault and frame number: the same seed gives the
 * same faults, whatever else is set, and no fault shifts another's. */
#ifndef SM_FAULTS_H
#define SM_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#define FAULT_SHARE_WHOLE 1000000000ULL /* probabilities are counted in billionths */

enum fault { FAULT_DROP, FAULT_DUPLICATE, FAULT_REORDER, FAULT_CORRUPT, FAULTS };
enum jitter { JITTER_UNIFORM, JITTER_NORMAL };

/* What is done to data frames, a direction; 0: not. Delay and jitter are every frame's. */
struct reference {
    uint64_t every[FAULTS];
    uint64_t share[FAULTS]; /* billionths */
    uint64_t delay_ns, jitter_ns;
    uint64_t jitter; /* enum jitter */
    uint64_t seed;
    uint64_t limit_pps, limit_burst; /* token bucket: rate and depth in frames */
    uint64_t cost_ns;                /* of every frame, at least */
    uint64_t queue;                  /* frames that can wait, a power of two */
};

/* What was done, so that a reader can compare it with what was found. */
struct fault_counts {
    uint64_t did[FAULTS];
    uint64_t limited;    /* dropped above the rate */
    uint64_t overflowed; /* dropped because the queue was full */
    uint64_t too_long;   /* dropped because the port cannot send so long a frame */
    uint64_t waiting;    /* neither sent nor dropped when the trial ended */
};

/* Does this fault strike the data frame with this number (from 0) of a direction? */
bool faults_strike(const struct reference *r, enum fault fault, unsigned direction,
                   uint64_t number);

/* How long to hold the frame with this number (of all frames of a direction), at least 0. */
uint64_t faults_delay_ns(const struct reference *r, unsigned direction, uint64_t number);

/* Which bit of a payload of ours to flip, where its receiver verifies it: in the stamp behind
 * the mark, in a touched one anywhere behind it. */
uint64_t faults_bit(const struct reference *r, unsigned direction, uint64_t number,
                    const uint8_t *payload, uint32_t length);
#endif
