/* One's complement sums (RFC 1071) for IPv4 and UDP. The sum does not depend on byte order if loads
 * and stores use the same order, so wire bytes are loaded natively. */
#ifndef SM_CHECKSUM_H
#define SM_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t load16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint32_t load32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t load64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void store16(uint8_t *p, uint16_t v)
{
    memcpy(p, &v, sizeof v);
}

static inline void store32(uint8_t *p, uint32_t v)
{
    memcpy(p, &v, sizeof v);
}

static inline void store64(uint8_t *p, uint64_t v)
{
    memcpy(p, &v, sizeof v);
}

/* The 16-bit one's complement sum of a 64-bit accumulator of 16- or 32-bit words. A word plus
 * itself with swapped halves has the sum of both in its upper half, including the carry. */
static inline uint16_t sum_fold(uint64_t sum)
{
    sum += sum >> 32 | sum << 32;
    const uint32_t half = (uint32_t)(sum >> 32);
    return (uint16_t)((half + (half >> 16 | half << 16)) >> 16);
}

/* Unfolded sum of `length` bytes (fewer than 2^32). Compilers turn this loop into wide vector
 * additions. */
static inline uint64_t sum_bytes(const uint8_t *bytes, size_t length)
{
    uint64_t sum = 0;
    size_t i = 0;

    for (; i + 4 <= length; i += 4)
        sum += load32(bytes + i);
    if (length & 2) {
        sum += load16(bytes + i);
        i += 2;
    }
    if (length & 1) {
        const uint8_t last[2] = {bytes[i], 0}; /* as if padded with a zero byte */
        sum += load16(last);
    }
    return sum;
}

/* The UDP checksum field for a folded sum: zero is sent as all ones (RFC 768). */
static inline uint16_t udp_checksum(uint16_t folded)
{
    const uint16_t checksum = (uint16_t)~folded;
    return checksum == 0 ? 0xffff : checksum;
}
#endif
