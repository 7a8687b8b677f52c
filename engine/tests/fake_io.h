/* A scripted backend: what arrives is queued by the test, what is sent is kept, the port can be
 * full, accept a part, or have no buffers. Every received frame must be released or forwarded
 * exactly once; `unreleased` tells. Frames lie in buffers of exactly their length, so that a
 * sanitizer sees any access beyond. */
#ifndef SM_FAKE_IO_H
#define SM_FAKE_IO_H

#include "io/io.h"

#define FAKE_FRAMES 4096

struct fake_port {
    struct io_port base;
    unsigned accepts;    /* frames each tx_send or forward takes; UINT32_MAX: all */
    unsigned pool;       /* buffers that tx_acquire can give */
    uint32_t longest;    /* frame that tx_acquire has room for */
    unsigned refusals;   /* that many sends take nothing first */
    bool persistent;     /* tx_prepare works */
    unsigned late_from;  /* received frames from this one on come ... */
    uint64_t late_until; /* ... at this tick */
    unsigned pause_ns;   /* for so long each send is kept from its core */
    bool endless;        /* what has been received comes again */
    unsigned unreleased; /* received frames in the roles' hands */
    unsigned rx_count, rx_next, sent_count;
    uint8_t *rx[FAKE_FRAMES], *sent[FAKE_FRAMES];
    uint32_t rx_length[FAKE_FRAMES], sent_length[FAKE_FRAMES];
    uint8_t buffers[IO_BURST_MAX][2048];
};

/* A port that accepts everything. `can_forward`: has the forward call. */
struct fake_port *fake_open(bool can_forward);
void fake_queue(struct fake_port *port, const uint8_t *bytes, uint32_t length);
void fake_close(struct fake_port *port);
#endif
