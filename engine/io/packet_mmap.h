/* What the files of the `packet_mmap` backend share: packet_mmap.c opens and sends,
 * packet_mmap_rx.c receives. */
#ifndef SM_IO_PACKET_MMAP_H
#define SM_IO_PACKET_MMAP_H

#include "io/device_link.h"
#include "io/io.h"

enum packet_mmap_version { RING_AUTO, RING_V2, RING_V3 };

/* The receive ring: blocks of one size, of which the kernel fills one after the other. Version 3
 * hands over whole blocks, filled or at most 1 ms old, in which frames lie packed; version 2
 * hands over every frame at once, each in a slot of one size. */
struct receive_ring {
    int fd;
    bool v3;
    bool may_block;
    uint8_t *memory;
    size_t block_bytes;
    unsigned block_count;
    uint64_t drops;

    unsigned block;      /* where the next frame is looked for */
    unsigned held_block; /* from here on, what was handed out before the last rx_burst is ours */
    unsigned held;       /* v3: blocks, v2: slots */
    unsigned left;       /* v3: frames of `block` not yet taken */
    uint8_t *next;       /* v3: the next of them */
    unsigned slot, held_slot, slots; /* v2: within the block; slots a block */
    uint32_t slot_bytes;
};

/* The send ring, version 2: slots that the kernel works off in order. */
struct send_ring {
    int fd;
    uint8_t *memory;
    size_t bytes;
    uint32_t room;  /* for a frame */
    unsigned slots; /* in all */
    unsigned next;  /* the first that is ours to fill */
    uint8_t **slot;
    bool unforced_buffers;
    struct io_buffers buffers;
};

struct packet_mmap_port {
    struct io_port base;
    struct device_link link;
    struct receive_ring rx;
    struct send_ring tx;
};

/* Open, map and bind the receive ring. `rx` is all zeros but for `v3` and `may_block`; -1 in
 * `fd` afterwards when there is nothing to close. */
bool receive_ring_open(struct receive_ring *rx, int device, unsigned megabytes, uint32_t room,
                       char *error, size_t error_size);
void receive_ring_close(struct receive_ring *rx);

unsigned packet_mmap_rx_burst(struct io_port *base, struct io_frame *frames, unsigned count);
void packet_mmap_rx_wait(struct io_port *base, uint64_t timeout_ns);
uint64_t packet_mmap_rx_drops(struct io_port *base);
#endif
