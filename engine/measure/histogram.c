/* Summaries of a histogram: mean, deviation, percentiles, merging. */
#include "measure/histogram.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static bool is_empty(const struct histogram *h)
{
    return h->count == 0; /* min is not that of a value then */
}

void histogram_reset(struct histogram *h)
{
    if (!is_empty(h)) {
        const uint32_t first = histogram_index(h->min), last = histogram_index(h->max);
        memset(&h->counts[first], 0, (last - first + 1) * sizeof h->counts[0]);
    }
    h->count = h->clamped = h->max = 0;
    h->sum = 0;
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
    to->min = from->min < to->min ? from->min : to->min;
    to->max = from->max > to->max ? from->max : to->max;
}

/* The range of values [low, high] that share a slot. */
static void slot_range(uint32_t index, uint64_t *low, uint64_t *high)
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
    while (top > 0 && from->counts[top] == 0)
        top--;
    if (top < histogram_index(from->max)) {
        uint64_t low;
        slot_range(top, &low, &from->max);
    }
}

double histogram_mean(const struct histogram *h)
{
    return h->count == 0 ? 0.0 : (double)h->sum / (double)h->count;
}

double histogram_stdev(const struct histogram *h)
{
    const double mean = histogram_mean(h);
    double squares = 0.0;

    for (uint32_t i = 0; i < HISTOGRAM_COUNTS; i++) {
        if (h->counts[i] == 0)
            continue;
        uint64_t low, high;
        slot_range(i, &low, &high);
        const double away = ((double)low + (double)high) / 2.0 - mean;
        squares += away * away * (double)h->counts[i];
    }
    return h->count == 0 ? 0.0 : sqrt(squares / (double)h->count);
}

uint64_t histogram_percentile(const struct histogram *h, double percentile)
{
    if (h->count == 0)
        return 0;
    /* One step down in the last bit, or 99.9 % of 1000 would round up to all of them. */
    const double share = nextafter(percentile, 0.0) * (double)h->count / 100.0;
    uint64_t wanted = (uint64_t)ceil(share);
    uint64_t seen = 0;

    if (wanted == 0)
        wanted = 1;
    for (uint32_t i = 0; i < HISTOGRAM_COUNTS; i++) {
        seen += h->counts[i];
        if (seen >= wanted) {
            uint64_t low, high;
            slot_range(i, &low, &high);
            return high < h->max ? high : h->max;
        }
    }
    return h->max;
}
