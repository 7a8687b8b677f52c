/* The arrival of one frame at a receiver. The frame is in a buffer of exactly its length, so that a
 * sanitizer finds any access beyond it. */
#ifndef SM_TEST_ARRIVAL_H
#define SM_TEST_ARRIVAL_H

#include "traffic/receive.h"

#include <stdlib.h>
#include <string.h>

static inline void arrive_at(struct receiver *rx, const uint8_t *bytes, uint32_t length,
                             uint64_t now)
{
    uint8_t *exact = malloc(length > 0 ? length : 1);
    memcpy(exact, bytes, length);
    const struct io_frame frame = {.data = exact, .length = length};
    receive_burst(rx, &frame, 1, now, NULL);
    free(exact);
}
#endif
