/* A scripted backend: the test queues received frames, sent frames are recorded, and the port can
 * be full, accept a part, or have no buffers. Every received frame must be released or forwarded
 * exactly once; `unreleased` counts them. Frames are in buffers of exactly their length, so that a
 * sanitizer finds any access beyond them. */
#ifndef SM_FAKE_IO_H
#define SM_FAKE_IO_H

#include "io/io.h"

#define FAKE_FRAMES 4096

struct fake_port {
    struct io_port base;
    unsigned accepts;    /* frames that each tx_send or forward accepts; UINT32_MAX: all */
    unsigned pool;       /* number of buffers for tx_acquire */
    uint32_t longest;    /* longest frame for which tx_acquire has room */
    unsigned refusals;   /* number of sends that accept nothing first */
    bool persistent;     /* tx_prepare works */
    unsigned late_from;  /* received frames from this number on arrive later */
    uint64_t late_until; /* tick at which they arrive */
    unsigned pause_ns;   /* duration for which each send has no core */
    bool endless;        /* received frames are repeated */
    unsigned unreleased; /* received frames that the role has not released */
    unsigned rx_count, rx_next, sent_count;
    uint8_t *rx[FAKE_FRAMES], *sent[FAKE_FRAMES];
    uint32_t rx_length[FAKE_FRAMES], sent_length[FAKE_FRAMES];
    uint8_t buffers[IO_BURST_MAX][2048];
};

/* A port that accepts everything. `can_forward`: it has the forward call. */
struct fake_port *fake_open(bool can_forward);
void fake_queue(struct fake_port *port, const uint8_t *bytes, uint32_t length);
void fake_close(struct fake_port *port);
#endif
