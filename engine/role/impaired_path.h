/* One direction of the `reference` role: applies the configured faults to each frame. */
#ifndef SM_IMPAIRED_PATH_H
#define SM_IMPAIRED_PATH_H

#include "role/delay_line.h"
#include "role/faults.h"
#include "trial/loop.h"

struct impaired_path {
    struct end *from, *to;
    struct delay_line line;
    unsigned direction;
    uint32_t room;          /* longest frame */
    uint8_t *waiting_frame; /* a frame that waits for its follower */
    uint32_t waiting_length;
    unsigned waiting_faults;
    uint64_t waiting_since,
        waiting_due; /* ticks: begin of waiting, and the time when it would leave otherwise */
    bool has_waiting;
    uint64_t frames, data_frames; /* received frames; the numbers of faults count them */
    double tokens;
    uint64_t refilled; /* tick */
};

/* False: not enough memory. */
bool impaired_path_open(struct impaired_path *path, struct trial *trial, unsigned direction);
void impaired_path_close(struct impaired_path *path);

/* Memory of the queue of this direction when it is full. */
uint64_t impaired_path_bytes(const struct trial *trial, unsigned direction);

/* Add tokens for the elapsed time. Frames that wait in the port after this process was not running
 * arrived in the meantime, so all tokens count. Only a poll that finds no frame (`paused`) proves a
 * pause; then the tokens are limited to the configured depth. So the number of passed frames never
 * exceeds rate * time + depth. */
void impaired_path_refill(struct impaired_path *path, const struct reference *r, uint64_t now,
                          bool paused);

/* Put a frame that arrived at tick `now` into the line, possibly duplicated, damaged, behind its
 * follower, or not at all. The frame itself is unchanged afterwards. */
void impaired_path_take(struct impaired_path *path, const struct reference *r,
                        struct io_frame *frame, uint64_t now);

/* The first `count` ready frames were sent: count the faults that were applied to them. */
void impaired_path_sent(struct impaired_path *path, unsigned count);

/* A frame whose follower does not arrive leaves without it. */
void impaired_path_release_late(struct impaired_path *path, uint64_t now);

/* Count a frame as dropped, also in the counter `why`. */
void impaired_path_drop(struct impaired_path *path, uint64_t *why);

/* Frames that have neither left nor been dropped. */
uint64_t impaired_path_waiting(const struct impaired_path *path);
#endif
