/* Frames that wait until they are due: copies in a fixed number of slots, in a heap ordered by due
 * tick, so that a frame with a shorter delay leaves before an earlier frame with a longer delay.
 * Frames with equal ticks leave in the order of arrival. Due frames wait in `ready`, in order,
 * until the port accepts them. */
#ifndef SM_DELAY_LINE_H
#define SM_DELAY_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/io.h"

struct delayed {
    uint64_t due;   /* tick */
    uint64_t order; /* number of the arrival */
    uint8_t *bytes;
    uint32_t length;
    unsigned faults; /* faults applied to the frame, one bit each */
};

struct delay_line {
    struct delayed *heap; /* [0] leaves next; free slots follow after `count` */
    uint8_t *memory;
    uint64_t slots, count, arrived;
    struct delayed ready[IO_BURST_MAX];
    unsigned ready_count;
};

/* Memory of a full line. */
uint64_t delay_line_bytes(uint64_t slots, size_t room);

bool delay_line_open(struct delay_line *line, uint64_t slots, size_t room);
void delay_line_close(struct delay_line *line);

/* Copy a frame into the line; false if the line is full. */
bool delay_line_add(struct delay_line *line, const uint8_t *bytes, uint32_t length, uint64_t due,
                    unsigned faults);

/* Move due frames to `ready`; returns the number of frames there, at most IO_BURST_MAX. */
unsigned delay_line_ready(struct delay_line *line, uint64_t now);
/* Remove the first `count` frames of `ready`. */
void delay_line_sent(struct delay_line *line, unsigned count);

/* When the next frame is due; UINT64_MAX: the line is empty. */
uint64_t delay_line_next(const struct delay_line *line);
#endif
