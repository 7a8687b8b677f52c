/* The pcap parser and a replay of its frames, from arbitrary files: parsed frames are inside the
 * file, and replayed frames fit their buffers, with and without stamps. */
#include "fuzz.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "traffic/pcap.h"
#include "traffic/replay.h"

#define BURST 8

/* Returns true if the file ends at the end of a frame. */
static bool read_frames(const uint8_t *data, size_t size)
{
    uint8_t *bytes = malloc(size + (size == 0)); /* exactly as long as the file */
    struct pcap_reader reader;
    struct pcap_frame frame;
    enum pcap_state state = PCAP_BAD;
    char error[256] = "";

    must(bytes != NULL);
    if (size > 0)
        memcpy(bytes, data, size);
    if (pcap_begin(&reader, bytes, size, error, sizeof error)) {
        while ((state = pcap_next(&reader, &frame, error, sizeof error)) == PCAP_FRAME) {
            must(frame.data >= bytes && frame.length <= size);
            must((size_t)(frame.data - bytes) + frame.length <= size);
            must(frame.length <= frame.wire_length);
        }
        must(state == pcap_next(&reader, &frame, error, sizeof error)); /* the result is final */
    } else {
        must(error[0] != '\0');
    }
    free(bytes);
    return state != PCAP_CUT;
}

static void send_again(struct replay *replay)
{
    const struct frame_times times = frame_times_make(1, 2);
    struct io_frame frames[BURST];

    must(replay->count > 0);
    for (unsigned i = 0; i < BURST; i++) {
        frames[i] = (struct io_frame){.data = malloc(replay->longest)};
        must(frames[i].data != NULL);
    }
    replay_set_epoch(replay, 3);
    replay_fill(replay, frames, BURST, 0, 0, &times);
    replay_fill(replay, frames, BURST, replay->count - 1, 7, &times);
    replay_before(replay, replay_time_ns(replay, replay->count));
    for (unsigned i = 0; i < BURST; i++)
        free(frames[i].data);
}

static void replay_file(const uint8_t *data, size_t size)
{
    struct replay replay = {0};
    char error[512] = "";
    const int fd = memfd_create("replay", MFD_CLOEXEC);

    must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    must(lseek(fd, 0, SEEK_SET) == 0);
    if (!replay_load(&replay, fd, "replay", error, sizeof error)) {
        must(error[0] != '\0');
    } else {
        send_again(&replay);
        if (replay_stamp_all(&replay, 7, error, sizeof error))
            send_again(&replay);
    }
    replay_free(&replay);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (read_frames(data, size)) /* otherwise the loader prints a warning, each time */
        replay_file(data, size);
    return 0;
}
