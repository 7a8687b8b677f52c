/* Frame sizes: one size, several in turn (lists and IMIX), random in a range, or drawn from a list,
 * whose proportions then hold on average. The size of a frame follows from its sequence number, so
 * the counts of a list are exact even if the port does not accept some frames, and a repeated trial
 * sends the same frames. */
#ifndef SM_SIZES_H
#define SM_SIZES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIZES_CYCLE_MAX 1024

enum sizes_kind { SIZES_FIXED, SIZES_CYCLE, SIZES_RANDOM, SIZES_DRAWN };

struct sizes {
    enum sizes_kind kind;
    uint32_t smallest, largest; /* with FCS */
    uint64_t seed;              /* seed of random and drawn sizes */
    unsigned cycle_length;      /* length of the list */
    uint16_t cycle[SIZES_CYCLE_MAX];
};

/* Parse "512", "64*7+570*4+1518", "imix", "genome:aaafag" (imix.h), "random:64-1518[:seed=N]", or
 * "random:64*7+570*4+1518[:seed=N]". False: `error` has the reason. */
bool sizes_parse(const char *text, struct sizes *sizes, char *error, size_t error_size);

/* Set one size for all frames. */
void sizes_set(struct sizes *sizes, uint32_t frame_size);

double sizes_mean(const struct sizes *sizes);

/* How many of the first `frames` frames have this size; not for random and drawn sizes. */
uint64_t sizes_count(const struct sizes *sizes, uint32_t frame_size, uint64_t frames);

/* A number below `count` for this frame, uniformly distributed. */
static inline uint32_t sizes_draw(const struct sizes *s, uint64_t sequence, uint32_t count)
{
    uint64_t x = (sequence + s->seed * 0xd6e8feb86659fd93ULL) * 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ULL;
    return (uint32_t)((x >> 32) * count >> 32);
}

static inline uint32_t sizes_random(const struct sizes *s, uint64_t sequence)
{
    if (s->kind == SIZES_DRAWN)
        return s->cycle[sizes_draw(s, sequence, s->cycle_length)];
    return s->smallest + sizes_draw(s, sequence, s->largest - s->smallest + 1U);
}

/* The size of frame number `sequence`. */
static inline uint32_t sizes_at(const struct sizes *s, uint64_t sequence)
{
    if (s->kind == SIZES_FIXED)
        return s->largest;
    return s->kind == SIZES_CYCLE ? s->cycle[sequence % s->cycle_length]
                                  : sizes_random(s, sequence);
}
#endif
