/* What the files of the `io_uring` backend share: io_uring.c opens ports, io_uring_burst.c moves
 * frames. */
#ifndef SM_IO_URING_H
#define SM_IO_URING_H

#include <liburing.h>

#include "io/socket.h"

#define URING_GROUP 1         /* of the provided buffers */
#define URING_BESIDE_BYTES 64 /* in front of a frame whose tag is asked for, at most */
#define URING_BUFFERS 1024U   /* provided ones; what does not fit waits in the socket */

/* What a completion belongs to: the upper half is the index or the generation. */
enum uring_request { REQUEST_SEND, REQUEST_RECEIVE, REQUEST_RECEIVE_BROADCAST };
enum { FILE_MAIN, FILE_BROADCAST, FILES };

struct uring_arrival {
    uint16_t buffer;
    uint16_t length;
};

struct uring_port {
    struct io_port base;
    const struct io_ops *kind;  /* io_raw or io_udp */
    struct socket_port *socket; /* frames are sent from its buffers */
    bool may_block;
    bool has_ring;
    struct io_uring ring;

    struct io_uring_buf_ring *provided;
    size_t provided_bytes;
    uint8_t *buffers;
    uint32_t stride;
    struct msghdr message; /* with VLAN tags: what a receive request asks for beside the frame */
    uint32_t generation;   /* of the receive requests that count */
    bool receiving[FILES]; /* such a request lives */
    struct uring_arrival arrived[URING_BUFFERS];
    unsigned arrived_first, arrived_count;
    uint16_t handed_out[IO_BURST_MAX];
    unsigned handed_count;

    unsigned sending;  /* completions to come */
    unsigned unlooked; /* bursts sent since the last look at what has arrived */
    int results[IO_BURST_MAX];
};

/* One line in `error`; always false. */
bool uring_fail(const char *what, int result, char *error, size_t error_size);

/* Make a buffer the kernel's again, `place` places behind its last; published by an advance. */
static inline void uring_provide(struct uring_port *port, uint16_t buffer, unsigned place)
{
    io_uring_buf_ring_add(port->provided, port->buffers + (size_t)buffer * port->stride,
                          port->stride, buffer, io_uring_buf_ring_mask(URING_BUFFERS), (int)place);
}

/* Make the receive requests that do not live. */
void uring_receive(struct uring_port *port);

void uring_change_thread(struct io_port *base);
bool uring_tx_prepare(struct io_port *base, const uint8_t *bytes, uint32_t length);
unsigned uring_tx_acquire(struct io_port *base, struct io_frame *frames, unsigned count,
                          uint32_t length);
unsigned uring_tx_send(struct io_port *base, struct io_frame *frames, unsigned count);
unsigned uring_rx_burst(struct io_port *base, struct io_frame *frames, unsigned count);
void uring_rx_wait(struct io_port *base, uint64_t timeout_ns);
uint64_t uring_rx_drops(struct io_port *base);
#endif
