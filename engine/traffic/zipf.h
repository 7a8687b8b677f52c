/* Zipf's law over up to a million ranks: rank k of 1..N has a probability proportional to k^-s,
 * exactly, without a table of N entries.
 *
 * The alias method (Walker 1974, Vose 1991) draws one of at most 2048 groups of neighbouring ranks:
 * each of the first ranks is a group, later groups grow with the rank. Inside a group a rank is
 * drawn uniformly and accepted with the probability that compensates the difference to the first
 * rank of the group (rejection). Almost always the probability of the group's last rank already
 * decides that it is accepted, and no power is calculated. The table has 32 kB. Draws depend only
 * on the key: the same key gives the same rank. */
#ifndef SM_ZIPF_H
#define SM_ZIPF_H

#include <stdbool.h>
#include <stdint.h>

#define ZIPF_GROUPS_MAX 2048

struct zipf_group {
    uint32_t keep; /* probability in 2^-32 to use this group and not the alias */
    uint32_t alias;
    uint32_t first; /* first rank, from 0 */
    uint32_t ranks : 24;
    uint32_t sure : 8; /* probability in 1/256 that every rank of the group is accepted */
};

struct zipf {
    double exponent;
    uint32_t groups;
    struct zipf_group group[ZIPF_GROUPS_MAX];
};

/* For ranks 0..count-1; exponent from 0 (uniform) to 10. */
void zipf_make(struct zipf *z, uint32_t count, double exponent);

/* The slow end of a draw: compare with the exact probability. */
bool zipf_keep(const struct zipf *z, uint32_t first, uint32_t rank, uint32_t random);

static inline uint64_t zipf_mix(uint64_t x) /* splitmix64 */
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

/* The draw decides no branch except the rare last one: half of them would be mispredicted. One
 * random number serves three choices: the group, by its upper half; group or alias, by the rest of
 * that; the rank, by its lower half. The rest of that almost always decides that the rank is
 * accepted; a group of one rank is always accepted. */
static inline uint32_t zipf_rank(const struct zipf *z, uint64_t key)
{
    for (;;) {
        const uint64_t random = zipf_mix(key);
        const uint64_t drawn = (random >> 32) * z->groups;
        uint64_t index = drawn >> 32;
        const struct zipf_group *g = &z->group[index];
        const uint64_t leave = (uint64_t)((uint32_t)drawn < g->keep) - 1; /* 0, or all ones */
        index = (index & ~leave) | (g->alias & leave);
        g = &z->group[index];
        const uint64_t within = (uint64_t)(uint32_t)random * g->ranks;
        const uint32_t rank = g->first + (uint32_t)(within >> 32), left = (uint32_t)within;
        if (__builtin_expect(left >> 24 < g->sure, 1) || g->ranks == 1)
            return rank;
        key = zipf_mix(random + 0xd6e8feb86659fd93ULL);
        if (zipf_keep(z, g->first, rank, (left & 0xff000000U) | (uint32_t)(key >> 40)))
            return rank;
    }
}

#define ZIPF_STEP 0x9e3779b97f4a7c15ULL /* difference between the keys of consecutive draws */

/* zipf_rank for `count` keys, beginning with this key. */
void zipf_ranks(const struct zipf *z, uint64_t key, uint32_t *ranks, unsigned count);
#endif
