/* Delay variation against the shortest delay (PDV, RFC 5481): the delay less its minimum.
 *
 * A histogram of delays holds it, too, but only to a thousandth of the *delay*: of 20 ms with a
 * jitter of 10 us nothing would be left. So distances from a base are kept, in two histograms, one
 * each way, and each is good to a thousandth of itself. The base should be the minimum, which is
 * known only at the end: the shortest of the first delays stands for it, and those are kept as they
 * are until then. */
#ifndef SM_PDV_H
#define SM_PDV_H

#include <stdbool.h>
#include <stdint.h>

#include "measure/histogram.h"

#define PDV_FIRST 1024U

struct pdv {
    uint64_t base_ns;
    bool based;                    /* base_ns is chosen, `first` is empty */
    uint32_t held;                 /* how many are in it */
    struct histogram above, below; /* distances from the base, in ns */
    struct {
        uint64_t delay_ns, times;
    } first[PDV_FIRST];
};

void pdv_reset(struct pdv *p);

/* Choose the base now, from what there is. */
void pdv_settle(struct pdv *p);

/* The samples of `from`, too; both must be settled. */
void pdv_merge(struct pdv *to, const struct pdv *from);

/* The variation at or below which `percentile` (0..100) of the samples lie. Settled. */
uint64_t pdv_percentile(const struct pdv *p, uint64_t shortest_ns, double percentile);

/* One of the first. */
void pdv_hold(struct pdv *p, uint64_t delay_ns, uint64_t times);

static inline void pdv_record(struct pdv *p, uint64_t delay_ns, uint64_t times)
{
    const bool above = delay_ns >= p->base_ns;
    const uint64_t distance = above ? delay_ns - p->base_ns : p->base_ns - delay_ns;

    histogram_count(above ? &p->above : &p->below, distance, times);
}

/* `times` frames had this delay. */
static inline void pdv_add(struct pdv *p, int64_t delay_ns, uint64_t times)
{
    uint64_t ns = (uint64_t)delay_ns; /* never below 0 */

    if (__builtin_expect(ns > HISTOGRAM_HIGHEST, 0))
        ns = HISTOGRAM_HIGHEST; /* the histogram of delays counts it */
    if (__builtin_expect(!p->based, 0))
        pdv_hold(p, ns, times);
    else
        pdv_record(p, ns, times);
}
#endif
