/* One direction of the `reference` role: what becomes of each frame, as the faults are set. */
#ifndef SM_IMPAIRED_PATH_H
#define SM_IMPAIRED_PATH_H

#include "role/delay_line.h"
#include "role/faults.h"
#include "trial/loop.h"

struct impaired_path {
    struct end *from, *to;
    struct delay_line line;
    unsigned direction;
    uint32_t room; /* for a frame */
    uint8_t *held; /* a frame that waits for its follower */
    uint32_t held_length;
    unsigned held_faults;
    uint64_t held_since, held_due; /* ticks: since when, and when it would leave otherwise */
    bool holds;
    uint64_t frames, data_frames; /* seen, the faults count by them */
    double tokens;
    uint64_t refilled; /* tick */
};

/* False: no memory. */
bool impaired_path_open(struct impaired_path *path, struct trial *trial, unsigned direction);
void impaired_path_close(struct impaired_path *path);

/* Bytes that this direction's queue takes when it is full. */
uint64_t impaired_path_bytes(const struct trial *trial, unsigned direction);

/* Tokens come with time, all of them: what waits in the port after this process was kept from
 * running arrived meanwhile. Only a look that finds nothing (`paused`) proves a pause, and what was
 * saved up in it is cut to the set depth. So never more passes than rate * time + depth. */
void impaired_path_refill(struct impaired_path *path, const struct reference *r, uint64_t now,
                          bool paused);

/* Put a frame that came at tick `now` into the line, twice, damaged, behind its follower or not at
 * all. The frame is as it was afterwards. */
void impaired_path_take(struct impaired_path *path, const struct reference *r,
                        struct io_frame *frame, uint64_t now);

/* The first `count` frames that are ready were sent: count the faults that were done to them. */
void impaired_path_sent(struct impaired_path *path, unsigned count);

/* A frame whose follower does not come goes without it. */
void impaired_path_lose_patience(struct impaired_path *path, uint64_t now);

/* Count a frame as dropped, for this reason. */
void impaired_path_drop(struct impaired_path *path, uint64_t *why);

/* Frames that have neither left nor been dropped. */
uint64_t impaired_path_waiting(const struct impaired_path *path);
#endif
