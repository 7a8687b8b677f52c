/* Sets of values for the encoding of histograms: none, a few with the edges, many. */
#ifndef SM_TEST_VALUES_H
#define SM_TEST_VALUES_H

#include <stdint.h>

static inline unsigned test_value_count(unsigned set)
{
    return set == 0 ? 0 : set == 1 ? 6 : 20000;
}

static inline uint64_t test_value(unsigned set, unsigned i)
{
    static const uint64_t few[] = {1, 2047, 2048, 100, 99999999999ULL, 100000000000ULL};
    if (set == 1)
        return few[i];
    return 100 + (i * 2654435761ULL) % 1000003 * (i % 100 == 0 ? 50021 : 1);
}
#endif
