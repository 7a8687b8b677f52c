/* Frames that wait for their time: copies in a fixed number of slots, in a heap by due tick, so
 * that a frame with a shorter delay leaves before one that came earlier. Equal ticks leave in
 * the order they came. What is due stands ready, in order, until its port has taken it. */
#ifndef SM_DELAY_LINE_H
#define SM_DELAY_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/io.h"

struct delayed {
    uint64_t due;   /* tick */
    uint64_t order; /* of arrival */
    uint8_t *bytes;
    uint32_t length;
    unsigned faults; /* that were done to it, a bit each */
};

struct delay_line {
    struct delayed *heap; /* [0] leaves next; behind `count` the free slots' buffers */
    uint8_t *memory;
    uint64_t slots, count, arrived;
    struct delayed ready[IO_BURST_MAX];
    unsigned ready_count;
};

/* Bytes that it takes when it is full. */
uint64_t delay_line_bytes(uint64_t slots, size_t room);

bool delay_line_open(struct delay_line *line, uint64_t slots, size_t room);
void delay_line_close(struct delay_line *line);

/* Copy a frame into the line. False: it is full. */
bool delay_line_add(struct delay_line *line, const uint8_t *bytes, uint32_t length, uint64_t due,
                    unsigned faults);

/* How many frames stand in `ready`, due at `now`, at most IO_BURST_MAX. */
unsigned delay_line_ready(struct delay_line *line, uint64_t now);
/* The first `count` of them are gone. */
void delay_line_sent(struct delay_line *line, unsigned count);

/* When the next frame is due; UINT64_MAX: there is none. */
uint64_t delay_line_next(const struct delay_line *line);
#endif
