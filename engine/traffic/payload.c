/* Creates the patterns and their tables. */
#include "traffic/payload.h"

#include <stdbool.h>

#include "traffic/checksum.h"
#include "traffic/crc32c.h"

static void fill(struct payload_pattern *p)
{
    uint64_t word = 0;

    for (uint32_t i = 0; i < sizeof p->bytes; i++) {
        if (i % 8 == 0) { /* splitmix64 */
            word = (i / 8 + 1ULL) * 0x9e3779b97f4a7c15ULL;
            word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ULL;
            word = (word ^ (word >> 27)) * 0x94d049bb133111ebULL;
            word ^= word >> 31;
        }
        if (p->kind == PAYLOAD_RANDOM)
            p->bytes[i] = (uint8_t)(word >> (8 * (i % 8)));
        else if (p->kind == PAYLOAD_COUNTER)
            p->bytes[i] = (uint8_t)i;
        else
            p->bytes[i] = 0;
    }
}

/* One pass over the lengths: the tables contain the results after each byte. */
static void tabulate(struct payload_pattern *p)
{
    uint32_t crc[PAYLOAD_VARIANTS] = {0};
    uint64_t sum[PAYLOAD_VARIANTS] = {0};

    for (uint32_t n = 0;; n++) {
        for (unsigned v = 0; v < PAYLOAD_VARIANTS; v++) {
            p->crc[n][v] = crc[v];
            p->sum[n][v] = sum_fold(sum[v]);
        }
        if (n == PAYLOAD_LENGTH_MAX)
            return;
        for (unsigned v = 0; v < PAYLOAD_VARIANTS; v++) {
            const uint8_t *byte = payload_section(p, v) + n;
            crc[v] = crc32c(crc[v], byte, 1);
            sum[v] += (uint64_t)*byte << (n % 2 * 8);
        }
    }
}

const struct payload_pattern *payload_pattern(enum payload_kind kind)
{
    static struct payload_pattern patterns[PAYLOAD_KINDS];
    static bool is_created[PAYLOAD_KINDS];

    if (!is_created[kind]) {
        patterns[kind].kind = kind;
        fill(&patterns[kind]);
        tabulate(&patterns[kind]);
        is_created[kind] = true;
    }
    return &patterns[kind];
}
