/* Shared by the files of the `packet_mmap` backend: packet_mmap.c opens and sends, packet_mmap_rx.c
 * receives. */
#ifndef SM_IO_PACKET_MMAP_H
#define SM_IO_PACKET_MMAP_H

#include "io/device_link.h"
#include "io/io.h"

enum packet_mmap_version { RING_AUTO, RING_V2, RING_V3 };

/* The receive ring: blocks of equal size, which the kernel fills in turn. Version 3 hands over
 * whole blocks, full or at most 1 ms old, with packed frames; version 2 hands over every frame at
 * once, each in a slot of fixed size. */
struct receive_ring {
    int fd;
    bool v3;
    bool may_block;
    uint8_t *memory;
    size_t block_bytes;
    unsigned block_count;
    uint64_t drops;

    unsigned block;        /* block of the next frame */
    unsigned return_block; /* first block that was handed out before the last rx_burst */
    unsigned return_count; /* v3: number of blocks, v2: number of slots to return */
    unsigned left;         /* v3: remaining frames of `block` */
    uint8_t *next;         /* v3: next frame of `block` */
    unsigned slot, return_slot, slots; /* v2: slot within the block; number of slots per block */
    uint32_t slot_bytes;
};

/* The send ring, version 2: slots that the kernel processes in order. */
struct send_ring {
    int fd;
    uint8_t *memory;
    size_t bytes;
    uint32_t room;  /* longest frame */
    unsigned slots; /* number of slots */
    unsigned next;  /* first slot to fill */
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

/* Open, map and bind the receive ring. `rx` is zero except for `v3` and `may_block`; afterwards
 * `fd` is -1 if there is nothing to close. */
bool receive_ring_open(struct receive_ring *rx, int device, unsigned megabytes, uint32_t room,
                       char *error, size_t error_size);
void receive_ring_close(struct receive_ring *rx);

unsigned packet_mmap_rx_burst(struct io_port *base, struct io_frame *frames, unsigned count);
void packet_mmap_rx_wait(struct io_port *base, uint64_t timeout_ns);
uint64_t packet_mmap_rx_drops(struct io_port *base);

/* As socket_note_failure. */
void packet_mmap_note_failure(struct packet_mmap_port *port, const char *call, int error);
#endif
