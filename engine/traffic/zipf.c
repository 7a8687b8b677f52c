/* Making the table of groups, and the rare exact comparison. */
#include "traffic/zipf.h"

#include <math.h>

#define SINGLE_RANKS 1024
#define TAIL_GROUPS 1000 /* some fewer than there is room for: sizes are rounded up */

static double weight(const struct zipf *z, uint32_t rank)
{
    return pow(rank + 1.0, -z->exponent);
}

bool zipf_keep(const struct zipf *z, uint32_t first, uint32_t rank, uint32_t random)
{
    return random / 4294967296.0 * weight(z, first) < weight(z, rank);
}

/* Fills the groups; `share` gets the probability of drawing each, times their number. */
static void make_groups(struct zipf *z, uint32_t count, double *share)
{
    const double growth = pow((double)count / SINGLE_RANKS, 1.0 / TAIL_GROUPS) - 1;
    double sum = 0;

    z->groups = 0;
    for (uint32_t first = 0; first < count; z->groups++) {
        struct zipf_group *g = &z->group[z->groups];
        uint32_t ranks = first < SINGLE_RANKS ? 1 : (uint32_t)ceil(first * growth);
        if (ranks > count - first)
            ranks = count - first;
        const double sure = 256 * weight(z, first + ranks - 1) / weight(z, first);
        g->first = first;
        g->ranks = ranks;
        g->sure = sure < 255 ? (uint32_t)sure : 255;
        share[z->groups] = ranks * weight(z, first);
        sum += share[z->groups];
        first += ranks;
    }
    for (uint32_t i = 0; i < z->groups; i++)
        share[i] *= z->groups / sum;
}

void zipf_make(struct zipf *z, uint32_t count, double exponent)
{
    double share[ZIPF_GROUPS_MAX];
    uint16_t small[ZIPF_GROUPS_MAX], large[ZIPF_GROUPS_MAX];
    unsigned smalls = 0, larges = 0;

    z->exponent = exponent;
    make_groups(z, count, share);
    for (uint32_t i = 0; i < z->groups; i++) {
        z->group[i].keep = UINT32_MAX;
        z->group[i].alias = i;
        if (share[i] < 1)
            small[smalls++] = (uint16_t)i;
        else
            large[larges++] = (uint16_t)i;
    }
    while (smalls > 0 && larges > 0) {
        const uint16_t less = small[--smalls], more = large[larges - 1];
        z->group[less].keep = (uint32_t)(share[less] * 4294967295.0);
        z->group[less].alias = more;
        share[more] -= 1 - share[less];
        if (share[more] < 1) {
            small[smalls++] = more;
            larges--;
        }
    }
}
