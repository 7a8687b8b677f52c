/* Statistics of a histogram: mean, standard deviation, percentiles, merging. */
#include "measure/histogram.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static bool is_empty(const struct histogram *h)
{
    return h->count == 0; /* then min is not the value of a sample */
}

void histogram_reset(struct histogram *h)
{
    if (!is_empty(h)) {
        const uint32_t first = histogram_index(h->min), last = histogram_index(h->max);
        memset(&h->counts[first], 0, (last - first + 1) * sizeof h->counts[0]);
    }
    h->count = h->clamped = h->max = 0;
    h->sum = h->squares = 0;
    h->min = UINT64_MAX;
}

void histogram_add(struct histogram *to, const struct histogram *from)
{
    if (is_empty(from))
        return;
    for (uint32_t i = histogram_index(from->min); i <= histogram_index(from->max); i++)
        to->counts[i] += from->counts[i];
    to->count += from->count;
    to->clamped += from->clamped;
    to->sum += from->sum;
    to->squares += from->squares;
    to->min = from->min < to->min ? from->min : to->min;
    to->max = from->max > to->max ? from->max : to->max;
}

void histogram_slot(uint32_t index, uint64_t *low, uint64_t *high)
{
    const uint32_t shift = index < 2 * HISTOGRAM_HALF ? 0 : index / HISTOGRAM_HALF - 1;
    *low = (uint64_t)(index - shift * HISTOGRAM_HALF) << shift;
    *high = *low + (1ULL << shift) - 1;
}

void histogram_subtract(struct histogram *from, const struct histogram *samples)
{
    uint32_t top = histogram_index(from->max);

    if (is_empty(samples))
        return;
    for (uint32_t i = histogram_index(samples->min); i <= histogram_index(samples->max); i++)
        from->counts[i] -= samples->counts[i];
    from->count -= samples->count;
    from->clamped -= samples->clamped;
    from->sum -= samples->sum;
    from->squares -= samples->squares;
    while (top > 0 && from->counts[top] == 0)
        top--;
    if (top < histogram_index(from->max)) {
        uint64_t low;
        histogram_slot(top, &low, &from->max);
    }
}

double histogram_mean(const struct histogram *h)
{
    return h->count == 0 ? 0.0 : (double)h->sum / (double)h->count;
}

/* Squares of the distances from the whole part of the mean, in integers, so that nothing cancels
 * out, even for 100 s with a spread of a nanosecond. */
double histogram_stdev(const struct histogram *h)
{
    if (is_empty(h))
        return 0.0;
    const uint64_t about = (uint64_t)(h->sum / h->count);
    const uint128 about_sum = (uint128)about * h->count;
    const uint128 squares = h->squares + about * about_sum - 2 * (about * h->sum);
    const double rest = (double)(h->sum - about_sum) / (double)h->count;
    const double variance = (double)squares / (double)h->count - rest * rest;

    return variance > 0 ? sqrt(variance) : 0.0;
}

uint64_t histogram_rank(uint64_t count, double percentile)
{
    /* One bit less, because otherwise 99.9 % of 1000 would round up to 1000. */
    const double share = nextafter(percentile, 0.0) * (double)count / 100.0;
    const uint64_t rank = (uint64_t)ceil(share);

    return rank > 0 ? rank : 1;
}

uint64_t histogram_percentile(const struct histogram *h, double percentile)
{
    const uint64_t rank = histogram_rank(h->count, percentile);
    uint64_t passed = 0;

    if (h->count == 0)
        return 0;
    for (uint32_t i = 0; i < HISTOGRAM_COUNTS; i++) {
        passed += h->counts[i];
        if (passed >= rank) {
            uint64_t low, high;
            histogram_slot(i, &low, &high);
            return high < h->max ? high : h->max;
        }
    }
    return h->max;
}
