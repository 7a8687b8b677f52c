/* Shared by the files of the `af_xdp` backend: af_xdp.c opens ports, af_xdp_arguments.c parses
 * their arguments, af_xdp_queue.c allocates memory and sockets, af_xdp_program.c directs the frames
 * of the device into them, af_xdp_send.c and af_xdp_receive.c move frames. It uses only system
 * calls, so that a container needs no library for it. */
#ifndef SM_IO_AF_XDP_H
#define SM_IO_AF_XDP_H

#include <linux/if_xdp.h>

#include "io/af_xdp_arguments.h"
#include "io/device_link.h"
#include "io/io.h"

extern const struct io_ops io_af_xdp;

#ifndef XDP_USE_SG /* Linux 6.6 */
#define XDP_USE_SG (1 << 4)
#define XDP_PKT_CONTD (1 << 0)
#endif

#define XDP_RX_FRAMES                                                                              \
    8192U /* frames that can wait while the worker has no core; also the size of the rings */
#define XDP_TX_SLOTS 1024U
#define XDP_TX_ENTRIES 4096U /* our slots, and frames that other ports forward */
#define XDP_HEADROOM 256U    /* the kernel leaves it free in front of received frames */
#define XDP_CHUNK_MAX 4096U
#define XDP_LONGEST 16384U

/* A ring that is shared with the kernel. Producers and consumers keep their index here and publish
 * it once per burst. */
struct xdp_ring {
    uint32_t *producer, *consumer, *flags;
    void *entries;
    uint32_t mask;
    uint32_t index;        /* our index, published or not */
    uint32_t kernel_index; /* index of the kernel when it was last read */
    void *map;
    size_t map_bytes;
};

/* Frame memory, one region per queue: chunks for receiving, then slots for sending. Ports of one
 * process share it if the kernel permits, so that a frame can be forwarded without a copy. */
struct xdp_memory {
    uint8_t *area;
    size_t bytes, region_bytes;
    uint32_t chunk_bytes;
    uint32_t slot_chunks; /* chunks of a slot: 1, or more for frames larger than a chunk */
    bool several;         /* a received frame may need several chunks */
    unsigned regions, used;
    unsigned references;
    int fd; /* the socket that registered the memory; -1: not registered */
    struct xdp_queue *owner[64];
};

struct xdp_queue {
    struct xdp_port *port;
    struct xdp_memory *memory;
    int fd;
    unsigned id;
    uint64_t first; /* address of the region */
    struct xdp_ring rx, tx, fill, done;
};

struct xdp_port {
    struct io_port base;
    struct xdp_queue queues[XDP_QUEUES_MAX];
    unsigned queue_count;
    unsigned next_queue; /* the next poll begins with this queue */
    bool may_block, busy_poll, unforced_buffers;
    bool zero_copy, native;
    bool several; /* a frame may need several chunks */
    struct device_link link;
    int device, link_fd, map_fd, promiscuous_fd;

    /* Addresses of the slots for sending. `acquired` are not yet sent, in order. */
    unsigned free_count, acquired_count;
    uint64_t free_slots[XDP_TX_SLOTS], acquired[IO_BURST_MAX];
    uint32_t slot_room;               /* bytes for a frame */
    uint8_t last_chunk[XDP_TX_SLOTS]; /* number of the last sent chunk of each slot */
    uint8_t *assembled;               /* frames that were assembled from several chunks */
};

/* af_xdp_queue.c. False: one line in `error`. */
struct xdp_memory *xdp_memory_make(unsigned regions, uint32_t frame_bytes, char *error,
                                   size_t error_size);
void xdp_memory_leave(struct xdp_memory *memory);
/* Open queue `id` of the port's device. `memory` must have a region left. */
bool xdp_queue_open(struct xdp_queue *queue, struct xdp_port *port, struct xdp_memory *memory,
                    unsigned id, const struct xdp_arguments *arguments, char *error,
                    size_t error_size);
void xdp_queue_close(struct xdp_queue *queue);
/* Store the error of a system call as the port's failure, unless the error is temporary, or the
 * device or its peer is only down (ENETDOWN; EBUSY: it drops what it should send), which counts as
 * a lost link. */
void xdp_note_failure(struct xdp_port *port, const char *call, int error);

/* af_xdp_program.c: attach the program to the device; frames of queues that are not added continue
 * to the kernel. Closing the two descriptors in the port detaches it. */
bool xdp_program_attach(struct xdp_port *port, bool native_only, char *error, size_t error_size);
bool xdp_program_add(const struct xdp_port *port, const struct xdp_queue *queue, char *error,
                     size_t error_size);

/* af_xdp_send.c */
bool xdp_tx_prepare(struct io_port *base, const uint8_t *bytes, uint32_t length);
unsigned xdp_tx_acquire(struct io_port *base, struct io_frame *frames, unsigned count,
                        uint32_t length);
unsigned xdp_tx_send(struct io_port *base, struct io_frame *frames, unsigned count);
void xdp_tx_release(struct io_port *base, struct io_frame *frames, unsigned count);
unsigned xdp_forward(struct io_port *from, struct io_port *to, struct io_frame *frames,
                     unsigned count);

/* af_xdp_receive.c */
unsigned xdp_rx_burst(struct io_port *base, struct io_frame *frames, unsigned count);
void xdp_rx_release(struct io_port *base, struct io_frame *frames, unsigned count);
void xdp_rx_wait(struct io_port *base, uint64_t timeout_ns);
#endif
