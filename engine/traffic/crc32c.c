/* CRC32C with the instruction of SSE4.2 or of ARM if the build's CPU has it, otherwise four bits at
 * a time from a table. */
#include "traffic/crc32c.h"

#include "traffic/checksum.h"

#if defined(__SSE4_2__)
#include <nmmintrin.h>

static inline uint32_t step8(uint32_t crc, const uint8_t *bytes)
{
    return (uint32_t)_mm_crc32_u64(crc, load64(bytes));
}

static inline uint32_t step1(uint32_t crc, uint8_t byte)
{
    return _mm_crc32_u8(crc, byte);
}
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>

static inline uint32_t step8(uint32_t crc, const uint8_t *bytes)
{
    return __crc32cd(crc, load64(bytes));
}

static inline uint32_t step1(uint32_t crc, uint8_t byte)
{
    return __crc32cb(crc, byte);
}
#else
static const uint32_t nibble_table[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
    0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

static inline uint32_t step1(uint32_t crc, uint8_t byte)
{
    crc ^= byte;
    crc = (crc >> 4) ^ nibble_table[crc & 15];
    return (crc >> 4) ^ nibble_table[crc & 15];
}

static inline uint32_t step8(uint32_t crc, const uint8_t *bytes)
{
    for (unsigned i = 0; i < 8; i++)
        crc = step1(crc, bytes[i]);
    return crc;
}
#endif

uint32_t crc32c(uint32_t crc, const uint8_t *bytes, size_t length)
{
    crc = ~crc;
    for (; length >= 8; length -= 8, bytes += 8)
        crc = step8(crc, bytes);
    for (; length > 0; length--, bytes++)
        crc = step1(crc, *bytes);
    return ~crc;
}
