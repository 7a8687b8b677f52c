/* Delay variation relative to the shortest delay (PDV, RFC 5481): the delay minus its minimum.
 *
 * A histogram of delays also contains it, but only to a thousandth of the *delay*: nothing would
 * remain of a jitter of 10 us at 20 ms. So this file records distances from a base in two
 * histograms, one for each direction, each exact to a thousandth of the distance. The base should
 * be the minimum, which is known only at the end: the shortest of the first delays is used, and
 * these are stored exactly until then. */
#ifndef SM_PDV_H
#define SM_PDV_H

#include <stdbool.h>
#include <stdint.h>

#include "measure/histogram.h"

#define PDV_FIRST 1024U

struct pdv {
    uint64_t base_ns;
    bool based;                    /* base_ns is chosen, `first` is empty */
    uint32_t first_count;          /* number of stored delays */
    struct histogram above, below; /* distances from the base, in ns */
    struct {
        uint64_t delay_ns, times;
    } first[PDV_FIRST];
};

void pdv_reset(struct pdv *p);

/* Choose the base now, from the delays recorded so far. */
void pdv_finish(struct pdv *p);

/* Add the samples of `from`; both must be finished. */
void pdv_merge(struct pdv *to, const struct pdv *from);

/* The variation at or below which `percentile` (0..100) of the samples are. `p` must be finished.
 */
uint64_t pdv_percentile(const struct pdv *p, uint64_t shortest_ns, double percentile);

/* Store one of the first delays. */
void pdv_store(struct pdv *p, uint64_t delay_ns, uint64_t times);

static inline void pdv_record(struct pdv *p, uint64_t delay_ns, uint64_t times)
{
    const bool above = delay_ns >= p->base_ns;
    const uint64_t distance = above ? delay_ns - p->base_ns : p->base_ns - delay_ns;

    histogram_count(above ? &p->above : &p->below, distance, times);
}

/* Record a delay that `times` frames had. */
static inline void pdv_add(struct pdv *p, int64_t delay_ns, uint64_t times)
{
    uint64_t ns = (uint64_t)delay_ns; /* never below 0 */

    if (__builtin_expect(ns > HISTOGRAM_HIGHEST, 0))
        ns = HISTOGRAM_HIGHEST; /* the histogram of delays counts it as clamped */
    if (__builtin_expect(!p->based, 0))
        pdv_store(p, ns, times);
    else
        pdv_record(p, ns, times);
}
#endif
