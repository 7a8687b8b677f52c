/* Creates the table of groups, and has the rare exact comparison and the drawing of eight ranks at
 * a time. */
#include "traffic/zipf.h"

#include <math.h>

#ifdef __AVX512DQ__
#include <immintrin.h>
#endif

#define SINGLE_RANKS 1024
#define TAIL_GROUPS 1000 /* slightly fewer than possible, because sizes are rounded up */

static double weight(const struct zipf *z, uint32_t rank)
{
    return pow(rank + 1.0, -z->exponent);
}

bool zipf_keep(const struct zipf *z, uint32_t first, uint32_t rank, uint32_t random)
{
    return random / 4294967296.0 * weight(z, first) < weight(z, rank);
}

/* Fill the groups; `share` gets the probability of drawing each group, times the number of groups.
 */
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

#ifdef __AVX512DQ__
static inline __m512i every(uint64_t value)
{
    return _mm512_set1_epi64((long long)value);
}

static inline __m512i mix_eight(__m512i x) /* zipf_mix */
{
    x = _mm512_xor_si512(x, _mm512_srli_epi64(x, 30));
    x = _mm512_mullo_epi64(x, every(0xbf58476d1ce4e5b9ULL));
    x = _mm512_xor_si512(x, _mm512_srli_epi64(x, 27));
    x = _mm512_mullo_epi64(x, every(0x94d049bb133111ebULL));
    return _mm512_xor_si512(x, _mm512_srli_epi64(x, 31));
}

_Static_assert(sizeof(struct zipf_group) == 16, "see draw_eight");

/* The first round of eight draws; a bit is set for each undecided draw. A group is two words of 64
 * bits: keep and alias, then first, ranks and sure. */
static inline unsigned draw_eight(const struct zipf *z, uint64_t key, uint32_t *ranks)
{
    const __m512i lanes = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0), low = every(UINT32_MAX);
    const __m512i keys = _mm512_add_epi64(every(key), _mm512_mullo_epi64(lanes, every(ZIPF_STEP)));
    const __m512i random = mix_eight(keys);
    const __m512i drawn = _mm512_mul_epu32(_mm512_srli_epi64(random, 32), every(z->groups));
    __m512i index = _mm512_srli_epi64(drawn, 32);
    const __m512i choice =
        _mm512_i64gather_epi64(_mm512_add_epi64(index, index), (const void *)&z->group[0].keep, 8);
    const __mmask8 stay =
        _mm512_cmplt_epu64_mask(_mm512_and_si512(drawn, low), _mm512_and_si512(choice, low));
    index = _mm512_mask_mov_epi64(_mm512_srli_epi64(choice, 32), stay, index);
    const __m512i group =
        _mm512_i64gather_epi64(_mm512_add_epi64(index, index), (const void *)&z->group[0].first, 8);
    const __m512i of_group = _mm512_and_si512(_mm512_srli_epi64(group, 32), every(0xffffff));
    const __m512i within = _mm512_mul_epu32(random, of_group);
    const __m512i rank =
        _mm512_add_epi64(_mm512_and_si512(group, low), _mm512_srli_epi64(within, 32));
    const __m512i left = _mm512_and_si512(_mm512_srli_epi64(within, 24), every(255));

    _mm256_storeu_si256((void *)ranks, _mm512_cvtepi64_epi32(rank));
    return _mm512_cmpge_epu64_mask(left, _mm512_srli_epi64(group, 56)) &
           _mm512_cmpgt_epu64_mask(of_group, every(1));
}
#endif

void zipf_ranks(const struct zipf *z, uint64_t key, uint32_t *ranks, unsigned count)
{
    unsigned i = 0;

#ifdef __AVX512DQ__
    for (; i + 8 <= count; i += 8, key += 8 * ZIPF_STEP) {
        unsigned undecided = draw_eight(z, key, ranks + i);
        for (; undecided != 0; undecided &= undecided - 1) {
            const unsigned lane = (unsigned)__builtin_ctz(undecided);
            ranks[i + lane] = zipf_rank(z, key + lane * ZIPF_STEP);
        }
    }
#endif
    for (; i < count; i++, key += ZIPF_STEP)
        ranks[i] = zipf_rank(z, key);
}
