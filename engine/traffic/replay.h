/* Frames from a pcap file to send: at the times of the file, at a given rate, or as fast as the
 * port accepts them; once, several times, or until the trial ends. They leave unchanged, or with
 * the engine's stamp in place of their payload, so that a receiver can measure them. */
#ifndef SM_REPLAY_H
#define SM_REPLAY_H

#include "io/io.h"
#include "traffic/frame.h"

struct replay_frame {
    uint64_t time_ns;   /* time since the first frame; at least that of the previous frame */
    uint64_t stamp_sum; /* sum of everything in the UDP checksum except the changing parts of the
                           stamp */
    uint32_t offset;    /* offset in the bytes of the replay */
    uint32_t length;
    uint32_t payload; /* offset of the stamp in the frame; 0: no stamp */
};

struct replay {
    uint8_t *bytes;
    struct replay_frame *frames;
    uint64_t count;
    uint64_t total_bytes; /* with FCS, each frame with at least the minimum size */
    uint64_t length_ns;   /* time from one round to the next, at the times of the file */
    uint32_t longest;     /* without FCS */
    uint32_t mtu_bytes;   /* required MTU of a device; one 802.1Q tag is not included */
    uint64_t mtu_frame;   /* number of the first frame that needs it, from 1 */
};

/* Open a file to load it; -1 and one line in `error`. */
int replay_open(const char *path, char *error, size_t error_size);

/* Read the opened file of this name, and close it; false and one line in `error`, which names the
 * file, if it is unusable. Prints a warning on standard error if the file ends inside a frame. */
bool replay_load(struct replay *replay, int fd, const char *path, char *error, size_t error_size);

/* Write the engine's stamp into every frame, for this stream. False: a frame has no room for it, or
 * is of another kind (tags, IP version) than the first. Prints the VLANs of the frames on standard
 * error. */
bool replay_stamp_all(struct replay *replay, uint16_t stream, char *error, size_t error_size);

/* Return true if it can be repeated so often (0: without end) at its times. False: one line in
 * `error`. */
bool replay_repeats(const struct replay *replay, uint64_t loops, char *error, size_t error_size);

/* Set the epoch of the trial that begins. */
void replay_set_epoch(struct replay *replay, unsigned epoch);

/* Number of frames due before `time_ns`, with endless rounds. */
uint64_t replay_before(const struct replay *replay, uint64_t time_ns);
uint64_t replay_time_ns(const struct replay *replay, uint64_t index);

double replay_mean_frame_bytes(const struct replay *replay);
void replay_free(struct replay *replay);

/* Write frames from number `index` on into acquired buffers. */
void replay_fill(const struct replay *replay, struct io_frame *frames, unsigned count,
                 uint64_t index, uint32_t sequence, const struct frame_times *times);
#endif
