/* Common mixes of frame sizes: the simple IMIX and the genomes of RFC 6985. */
#ifndef SM_IMIX_H
#define SM_IMIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Simple IMIX: 64, 570 and 1518 bytes as 7:4:1, well mixed. */
#define IMIX_SIMPLE "64+570+64+64+570+64+1518+64+570+64+570+64"

/* Parse an RFC 6985 genome, "aaafag", "3afag" or "aaAB:A=300:B=70:z=1500": one letter per frame, a
 * to i for 64, 128, 256, 512, 1024, 1280, 1518, 2112, 9000 bytes; capital letters, and z for the
 * frame of the MTU, have the sizes given after the genome; a number in front of a letter repeats it
 * (run-length encoding, section 6.1). Returns the number of frames, at most `max`; 0: `error` has
 * the reason. */
unsigned imix_parse_genome(const char *text, uint16_t *sizes, unsigned max, char *error,
                           size_t error_size);
#endif
