/* CRC32C (Castagnoli), for the payload digest of touched frames. */
#ifndef SM_CRC32C_H
#define SM_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continue `crc` (start with 0) over `length` bytes. */
uint32_t crc32c(uint32_t crc, const uint8_t *bytes, size_t length);
#endif
