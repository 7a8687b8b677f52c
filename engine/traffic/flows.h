/* Flows: which header fields differ from frame to frame, with which values, in which order.
 *
 * Each varying field of flow f of N has the value base + f / every mod count: a range that counts
 * up. If the field is random, it takes the same values in an order that follows from the seed (a
 * calculated permutation). All fields advance together (`every` is 1) if N is at most the least
 * common multiple of the counts, so that N flows are N different flows. Beyond that, for example if
 * ten addresses and ten ports must make a hundred flows, they advance like an odometer: each field
 * after the fields before it have taken all their values. There is no table of flows: round-robin
 * advances by one from frame to frame, and Zipf (zipf.h) calculates the flow from the sequence
 * number. A frame that the port did not accept is filled again with the same flow. */
#ifndef SM_FLOWS_H
#define SM_FLOWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FLOWS_MAX 1000000U
#define FLOW_VALUES_MAX (1U << 24) /* maximum number of values of one field */

struct frame_address;

enum flow_field {
    FLOW_SRC_MAC,
    FLOW_DST_MAC,
    FLOW_SRC_IP,
    FLOW_DST_IP,
    FLOW_SRC_PORT,
    FLOW_DST_PORT,
    FLOW_VLAN, /* the inner of two tags */
    FLOW_FIELDS
};

struct flow_range {
    bool varies, random;
    uint32_t requested; /* number of values as given; 0: as many as useful */
    /* The following values are set by flows_bind. */
    uint32_t base;  /* host byte order; for MAC and IPv6 addresses the last four bytes */
    uint32_t count; /* number of values; 0: this field does not vary */
    uint32_t every; /* consecutive flows with the same value */
    struct flow_order {
        uint32_t mask; /* mask of the shuffled power of two: `count` or the next above it */
        uint32_t shift, first, factors[3];
    } order; /* order of a random field */
};

struct flow_set {
    uint32_t count; /* number of flows; 1 or 0: no field varies */
    bool zipf;      /* otherwise round-robin */
    double exponent;
    uint64_t seed;
    struct flow_range fields[FLOW_FIELDS];
};

/* Parse "N[:FIELD[+FIELD...]][:zipf=S][:seed=N]", where FIELD is NAME[=COUNT][/random] and NAME is
 * src-mac, dst-mac, src-ip, dst-ip, src-port, dst-port or vlan (default: src-ip). The default COUNT
 * is the number of flows, or the number of possible values; if several fields are too small, it is
 * slightly lower, so that together they have enough combinations. False: `error` has the reason. */
bool flows_parse(const char *text, struct flow_set *flows, char *error, size_t error_size);

/* Begin the ranges at this address and choose their counts; false if a range does not fit there, or
 * if there are not enough combinations. It may be called again for another address. */
bool flows_bind(struct flow_set *flows, const struct frame_address *address, char *error,
                size_t error_size);

/* The same flows from the point of view of the other end. */
struct flow_set flows_swapped(const struct flow_set *flows);

/* One round of a permutation of 0..mask: each step is invertible. */
static inline uint32_t flow_mix(const struct flow_order *o, uint32_t x)
{
    x = (x + o->first) * o->factors[0] & o->mask;
    x = (x ^ x >> o->shift) * o->factors[1] & o->mask;
    return (x ^ x >> o->shift) * o->factors[2] & o->mask;
}

/* The place for place `at` of 0..count-1; a result outside is mixed again until it is inside, which
 * gives a permutation of 0..count-1. */
static inline uint32_t flow_shuffled(const struct flow_range *range, uint32_t at)
{
    do
        at = flow_mix(&range->order, at);
    while (__builtin_expect(at >= range->count, 0));
    return at;
}

static inline uint32_t flow_offset(const struct flow_range *range, uint32_t flow)
{
    const uint32_t at = flow / range->every % range->count;
    return range->random ? flow_shuffled(range, at) : at;
}

/* Return true if the flows 0..flows-1 have consecutive values. Then no division is needed. */
static inline bool flow_counts_up(const struct flow_range *range, uint32_t flows)
{
    return !range->random && range->every == 1 && range->count >= flows;
}

/* The value of a field in flow `flow`. */
static inline uint32_t flow_value(const struct flow_range *range, uint32_t flow)
{
    return range->base + flow_offset(range, flow);
}
#endif
