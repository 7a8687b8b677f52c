/* Chooses the base, merges, calculates percentiles. */
#include "measure/pdv.h"

#include <math.h>

void pdv_reset(struct pdv *p)
{
    p->based = false;
    p->first_count = 0;
    p->base_ns = 0;
    histogram_reset(&p->above);
    histogram_reset(&p->below);
}

void pdv_finish(struct pdv *p)
{
    if (p->based)
        return;
    for (uint32_t i = 0; i < p->first_count; i++) {
        if (i == 0 || p->first[i].delay_ns < p->base_ns)
            p->base_ns = p->first[i].delay_ns;
    }
    p->based = true;
    for (uint32_t i = 0; i < p->first_count; i++)
        pdv_record(p, p->first[i].delay_ns, p->first[i].times);
    p->first_count = 0;
}

void pdv_store(struct pdv *p, uint64_t delay_ns, uint64_t times)
{
    p->first[p->first_count].delay_ns = delay_ns;
    p->first[p->first_count++].times = times;
    if (p->first_count == PDV_FIRST)
        pdv_finish(p);
}

/* From the middle of each slot, so the error is half its width. */
static void merge_side(struct pdv *to, const struct pdv *from, bool above)
{
    const struct histogram *h = above ? &from->above : &from->below;

    for (uint32_t i = 0; h->count > 0 && i <= histogram_index(h->max); i++) {
        uint64_t low, high;
        if (h->counts[i] == 0)
            continue;
        histogram_slot(i, &low, &high);
        const uint64_t distance = low + (high - low) / 2;
        const uint64_t nearer = distance < from->base_ns ? distance : from->base_ns;
        pdv_record(to, above ? from->base_ns + distance : from->base_ns - nearer, h->counts[i]);
    }
}

void pdv_merge(struct pdv *to, const struct pdv *from)
{
    if (from->above.count + from->below.count == 0)
        return;
    if (to->above.count + to->below.count == 0)
        to->base_ns = from->base_ns;
    merge_side(to, from, true);
    merge_side(to, from, false);
}

static uint64_t above_shortest(uint64_t delay_ns, uint64_t shortest_ns)
{
    return delay_ns > shortest_ns ? delay_ns - shortest_ns : 0;
}

/* Count from the shortest to the longest delay; the result is the upper end of a slot, as in
 * histogram_percentile. */
uint64_t pdv_percentile(const struct pdv *p, uint64_t shortest_ns, double percentile)
{
    const uint64_t count = p->above.count + p->below.count;
    uint64_t low, high, left = histogram_rank(count, percentile);

    if (count == 0)
        return 0;
    for (uint32_t i = p->below.count > 0 ? histogram_index(p->below.max) + 1 : 0; i-- > 0;) {
        if (p->below.counts[i] >= left) {
            histogram_slot(i, &low, &high);
            return above_shortest(p->base_ns - low, shortest_ns);
        }
        left -= p->below.counts[i];
    }
    for (uint32_t i = 0; i < histogram_index(p->above.max); i++) {
        if (p->above.counts[i] >= left) {
            histogram_slot(i, &low, &high);
            return above_shortest(p->base_ns + high, shortest_ns);
        }
        left -= p->above.counts[i];
    }
    return above_shortest(p->base_ns + p->above.max, shortest_ns);
}
