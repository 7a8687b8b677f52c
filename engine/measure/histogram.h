/* A high dynamic range histogram (Gil Tene's HdrHistogram) of nanoseconds from 1 ns to 100 s with
 * three significant digits: the relative error of any value is below 0.1 %. No sample is dropped:
 * values outside the range are counted at its edge and in `clamped`. */
#ifndef SM_HISTOGRAM_H
#define SM_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "measure/clock.h"

#define HISTOGRAM_LOWEST 1ULL
#define HISTOGRAM_HIGHEST 100000000000ULL
#define HISTOGRAM_DIGITS 3
#define HISTOGRAM_HALF 1024U /* half of the linear sub-buckets that three digits need */
#define HISTOGRAM_BUCKETS 27 /* 2048 << 26 is the first power above 100 s */
#define HISTOGRAM_COUNTS ((HISTOGRAM_BUCKETS + 1) * HISTOGRAM_HALF)

struct histogram {
    uint64_t count, clamped;
    uint64_t min, max;    /* exact values */
    uint128 sum, squares; /* exact values */
    uint64_t counts[HISTOGRAM_COUNTS];
};

/* Reset a histogram that is zero or in use; it is fast if there are few values. */
void histogram_reset(struct histogram *h);
void histogram_add(struct histogram *to, const struct histogram *from);
/* Remove samples that were added before; the exact max becomes that of its slot. */
void histogram_subtract(struct histogram *from, const struct histogram *samples);

double histogram_mean(const struct histogram *h);
/* From the exact values, not from the slots: a constant delay has deviation 0. */
double histogram_stdev(const struct histogram *h);
/* The value at or below which `percentile` (0..100) of the samples are; 0 if there are no samples.
 */
uint64_t histogram_percentile(const struct histogram *h, double percentile);

/* The range of values [low, high] in a slot. */
void histogram_slot(uint32_t index, uint64_t *low, uint64_t *high);
/* The rank of the percentile among `count` samples in rising order, from 1. */
uint64_t histogram_rank(uint64_t count, double percentile);

/* HdrHistogram V2 compressed, base64, as a new string (free it), or NULL if memory is missing. */
char *histogram_encode(const struct histogram *h);

static inline uint32_t histogram_index(uint64_t value)
{
    /* Values below 2048 are their index; each doubling above has 1024 slots. */
    const uint32_t shift = 53U - (uint32_t)__builtin_clzll(value | 2047);
    return (uint32_t)(value >> shift) + shift * HISTOGRAM_HALF;
}

static inline void histogram_count(struct histogram *h, uint64_t v, uint64_t times)
{
    h->counts[histogram_index(v)] += times;
    h->count += times;
    h->sum += (uint128)v * times;
    h->squares += (uint128)v * v * times;
    if (v < h->min)
        h->min = v;
    if (v > h->max)
        h->max = v;
}

/* Record the same value several times: frames of one burst have the same times. */
static inline void histogram_record_times(struct histogram *h, int64_t value, uint64_t times)
{
    uint64_t v = (uint64_t)value;
    if (__builtin_expect(value < (int64_t)HISTOGRAM_LOWEST || v > HISTOGRAM_HIGHEST, 0)) {
        v = value < (int64_t)HISTOGRAM_LOWEST ? HISTOGRAM_LOWEST : HISTOGRAM_HIGHEST;
        h->clamped += times;
    }
    histogram_count(h, v, times);
}

static inline void histogram_record(struct histogram *h, int64_t value)
{
    histogram_record_times(h, value, 1);
}

/* Record a difference of times, which may be 0. */
static inline void histogram_record_magnitude(struct histogram *h, uint64_t v)
{
    if (__builtin_expect(v > HISTOGRAM_HIGHEST, 0)) {
        v = HISTOGRAM_HIGHEST;
        h->clamped++;
    }
    histogram_count(h, v, 1);
}
#endif
