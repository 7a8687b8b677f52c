/* Frames from a pcap file, to be sent again: at the times of the file, at a set rate, or as fast
 * as the port takes them; once, several times, or until the trial ends. They leave as they are,
 * or with the engine's stamp in the place of their payload, so that a receiver can say what
 * became of them. */
#ifndef SM_REPLAY_H
#define SM_REPLAY_H

#include "io/io.h"
#include "traffic/frame.h"

struct replay_frame {
    uint64_t time_ns;   /* since the first frame; never less than that of the one before */
    uint64_t stamp_sum; /* of everything that the UDP checksum covers but the stamp's changes */
    uint32_t offset;    /* in the replay's bytes */
    uint32_t length;
    uint32_t payload; /* offset of the stamp in the frame; 0: not stamped */
};

struct replay {
    uint8_t *bytes;
    struct replay_frame *frames;
    uint64_t count;
    uint64_t total_bytes; /* with FCS, none below the smallest frame of a wire */
    uint64_t length_ns;   /* from one round to the next, at the times of the file */
    uint32_t longest;     /* without FCS */
    uint32_t mtu_bytes;   /* that a device must have to send all: it takes one 802.1Q tag beside */
    uint64_t mtu_frame;   /* number of the first frame that needs it, from 1 */
};

/* Open a file to load it; -1 and one line in `error`. */
int replay_open(const char *path, char *error, size_t error_size);

/* Read the file of this name that was opened, and close it; false and one line in `error` (which
 * names the file) when it is unfit. Says on standard error when the file ends inside a frame. */
bool replay_load(struct replay *replay, int fd, const char *path, char *error, size_t error_size);

/* Put the engine's stamp into every frame, for this stream. False: one has no room for it, or is of
 * another kind (tags, IP version) than the first. Says on standard error which VLANs they have. */
bool replay_stamp_all(struct replay *replay, uint16_t stream, char *error, size_t error_size);

/* Can it be sent so often (0: without end) at its own times? False: one line in `error`. */
bool replay_repeats(const struct replay *replay, uint64_t loops, char *error, size_t error_size);

/* The epoch of the trial that begins. */
void replay_set_epoch(struct replay *replay, unsigned epoch);

/* Frames that are due before `time_ns`, in rounds without end. */
uint64_t replay_before(const struct replay *replay, uint64_t time_ns);
uint64_t replay_time_ns(const struct replay *replay, uint64_t index);

double replay_mean_frame_bytes(const struct replay *replay);
void replay_free(struct replay *replay);

/* Write frames from number `index` on into acquired buffers. */
void replay_fill(const struct replay *replay, struct io_frame *frames, unsigned count,
                 uint64_t index, uint32_t sequence, const struct frame_times *times);
#endif
