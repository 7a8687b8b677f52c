/* CRC32C (Castagnoli) for the payload digest of touched frames. `crc32c` is the standard
 * function; `payload_digest` runs three independent CRC32C lanes over thirds of the payload,
 * because one CRC instruction has a latency of three cycles, and then digests the lanes. */
#ifndef SM_CRC32C_H
#define SM_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continue `crc` (start with 0) over `length` bytes. */
uint32_t crc32c(uint32_t crc, const uint8_t *bytes, size_t length);

/* Digest of `length` bytes: the CRC32C of (CRC32C of each third in whole 8-byte words, little
 * endian, and the bytes left over). */
uint32_t payload_digest(const uint8_t *bytes, size_t length);
#endif
