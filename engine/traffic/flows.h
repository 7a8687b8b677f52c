/* Flows: which header fields differ from frame to frame, over which values, in what order.
 *
 * Flow f of N has in every field that varies the value base + f / every mod count: a range counted
 * upwards, or, where it is to be random, the same values in an order that follows from the seed (a
 * permutation that is computed). All fields go on together (`every` is 1) as long as N is at most
 * the least common multiple of the counts, so that N flows are N different ones. Beyond that, as
 * when ten addresses and ten ports are to make a hundred flows, they go on as an odometer's digits
 * do: each field when those before it have been through all their values. Nothing is looked up in a
 * table of flows: round-robin goes on by one from frame to frame, Zipf (zipf.h) computes the flow
 * from the sequence number. A frame that the port refused is filled again with the same flow. */
#ifndef SM_FLOWS_H
#define SM_FLOWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FLOWS_MAX 1000000U
#define FLOW_VALUES_MAX (1U << 24) /* of one field */

struct frame_address;

enum flow_field {
    FLOW_SRC_MAC,
    FLOW_DST_MAC,
    FLOW_SRC_IP,
    FLOW_DST_IP,
    FLOW_SRC_PORT,
    FLOW_DST_PORT,
    FLOW_VLAN, /* the inner of two */
    FLOW_FIELDS
};

struct flow_range {
    bool varies, random;
    uint32_t asked; /* values, as given; 0: as many as make sense */
    /* From flows_bind on: */
    uint32_t base;  /* host byte order; of MAC and IPv6 addresses the last four bytes */
    uint32_t count; /* values; 0: this field does not vary */
    uint32_t every; /* flows in a row have the same value */
    struct flow_order {
        uint32_t mask; /* of the power of two that is shuffled, `count` or the next above it */
        uint32_t shift, first, factors[3];
    } order; /* of a random field */
};

struct flow_set {
    uint32_t count; /* flows; 1 (or 0): no field varies */
    bool zipf;      /* else round-robin */
    double exponent;
    uint64_t seed;
    struct flow_range fields[FLOW_FIELDS];
};

/* Read "N[:FIELD[+FIELD...]][:zipf=S][:seed=N]", FIELD being NAME[=COUNT][/random] and NAME
 * src-mac, dst-mac, src-ip, dst-ip, src-port, dst-port or vlan (default: src-ip). COUNT is by
 * default as many values as there are flows, or as fit (and, where several fields are too small,
 * somewhat fewer, so that together they have enough). False: `error` says why. */
bool flows_parse(const char *text, struct flow_set *flows, char *error, size_t error_size);

/* Begin the ranges at this address and choose their counts; false when one of them does not fit
 * there, or when they have not enough combinations. May be done again for another address. */
bool flows_bind(struct flow_set *flows, const struct frame_address *address, char *error,
                size_t error_size);

/* The same flows seen from the other end. */
struct flow_set flows_swapped(const struct flow_set *flows);

/* One round of a permutation of 0..mask: each step can be undone. */
static inline uint32_t flow_mix(const struct flow_order *o, uint32_t x)
{
    x = (x + o->first) * o->factors[0] & o->mask;
    x = (x ^ x >> o->shift) * o->factors[1] & o->mask;
    return (x ^ x >> o->shift) * o->factors[2] & o->mask;
}

/* The place that follows from place `at` of 0..count-1; what lies beyond is mixed again until it
 * does not, which leaves a permutation of the rest. */
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

/* Do the flows 0..flows-1 have values in a row? Then no division is needed. */
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
