/* The content behind the stamp: zeros, a counter or random bytes, with sums that are calculated in
 * advance.
 *
 * A touched frame gets one of PAYLOAD_VARIANTS sections of a pattern, by its sequence number, so
 * that every byte differs from one frame to the next. Tables contain the CRC32C and the one's
 * complement sum of every section with every length: a sender copies the section, a receiver
 * compares it, and neither calculates a sum. */
#ifndef SM_PAYLOAD_H
#define SM_PAYLOAD_H

#include <stdint.h>

#define PAYLOAD_VARIANTS 64
#define PAYLOAD_LENGTH_MAX 9000 /* more than the content of the longest frame */

enum payload_kind { PAYLOAD_FIXED, PAYLOAD_COUNTER, PAYLOAD_RANDOM, PAYLOAD_KINDS };

struct payload_pattern {
    enum payload_kind kind;
    uint8_t bytes[PAYLOAD_LENGTH_MAX + 8 * PAYLOAD_VARIANTS]; /* variant v begins at v * 8 */
    /* [length][variant] */
    uint32_t crc[PAYLOAD_LENGTH_MAX + 1][PAYLOAD_VARIANTS]; /* CRC32C, to be continued */
    uint16_t sum[PAYLOAD_LENGTH_MAX + 1][PAYLOAD_VARIANTS]; /* one's complement, folded */
};

/* The pattern, which is created at the first call (about 2 ms; not on the hot path, not from two
 * threads at once). */
const struct payload_pattern *payload_pattern(enum payload_kind kind);

static inline const uint8_t *payload_section(const struct payload_pattern *p, uint32_t sequence)
{
    return p->bytes + (uint64_t)8 * (sequence % PAYLOAD_VARIANTS);
}
#endif
