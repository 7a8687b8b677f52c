/* Arrivals by group of flows: the sequence number modulo a power of two. If flows are sent in turn
 * (round-robin) and their number is a multiple of the number of groups, a group has the frames of
 * every Nth flow. So loss, duplicates and reordering of some flows are visible without a table of
 * flows, and without knowing how the sender makes them. */
#ifndef SM_FLOW_GROUPS_H
#define SM_FLOW_GROUPS_H

#include <stdint.h>
#include <string.h>

#include "measure/sequence.h"

#define FLOW_GROUPS_MAX 256U

struct flow_groups {
    uint32_t count; /* a power of two; 0: no groups */
    uint64_t arrivals[FLOW_GROUPS_MAX][SEQUENCE_ARRIVALS];
};

struct flow_group_summary {
    uint64_t expected, received_unique, lost, duplicates, reordered;
};

static inline void flow_groups_reset(struct flow_groups *groups)
{
    memset(groups->arrivals, 0, sizeof groups->arrivals);
}

static inline void flow_groups_add(struct flow_groups *groups, uint32_t sequence,
                                   enum sequence_arrival arrival)
{
    groups->arrivals[sequence & (groups->count - 1)][arrival]++;
}

/* How many of the sequence numbers below `end` belong to the group. */
static inline uint64_t flow_group_numbers(const struct flow_groups *groups, uint32_t group,
                                          uint64_t end)
{
    return end / groups->count + (end % groups->count > group);
}

static inline struct flow_group_summary flow_group_summarise(const struct flow_groups *groups,
                                                             uint32_t group,
                                                             const struct sequence_summary *all)
{
    const uint64_t *arrivals = groups->arrivals[group];
    struct flow_group_summary s = {.duplicates = arrivals[SEQUENCE_AGAIN],
                                   .reordered = arrivals[SEQUENCE_LATE]};

    s.received_unique = arrivals[SEQUENCE_FIRST] + arrivals[SEQUENCE_LATE];
    s.expected =
        flow_group_numbers(groups, group, all->end) - flow_group_numbers(groups, group, all->begin);
    s.lost = s.expected > s.received_unique ? s.expected - s.received_unique : 0;
    return s;
}
#endif
