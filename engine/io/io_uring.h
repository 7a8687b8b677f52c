/* Shared by the files of the `io_uring` backend: io_uring.c opens ports, io_uring_burst.c moves
 * frames. */
#ifndef SM_IO_URING_H
#define SM_IO_URING_H

#include <liburing.h>

#include "io/socket.h"

#define URING_GROUP 1         /* group of the provided buffers */
#define URING_BESIDE_BYTES 64 /* maximum size of the data in front of a frame with tags */
#define URING_BUFFERS 1024U   /* provided buffers; further frames wait in the socket */

/* Kind of request that a completion belongs to: the upper half is the index or the generation. */
enum uring_request { REQUEST_SEND, REQUEST_RECEIVE, REQUEST_RECEIVE_BROADCAST };
enum { FILE_MAIN, FILE_BROADCAST, FILES };

struct uring_arrival {
    uint16_t buffer;
    uint16_t length;
};

struct uring_port {
    struct io_port base;
    const struct io_ops *kind;  /* io_raw or io_udp */
    struct socket_port *socket; /* its buffers are used for sending */
    bool may_block;
    bool has_ring;
    struct io_uring ring;

    struct io_uring_buf_ring *provided;
    size_t provided_bytes;
    uint8_t *buffers;
    uint32_t stride;
    struct msghdr message; /* with VLAN tags: data that a receive request returns with the frame */
    uint32_t generation;   /* generation of the current receive requests */
    bool receiving[FILES]; /* such a request exists */
    struct uring_arrival arrived[URING_BUFFERS];
    unsigned arrived_first, arrived_count;
    uint16_t handed_out[IO_BURST_MAX];
    unsigned handed_count;

    unsigned sending;           /* pending completions */
    unsigned bursts_since_poll; /* bursts sent since the last check for received frames */
    int results[IO_BURST_MAX];
};

/* One line in `error`; always false. */
bool uring_fail(const char *call, int result, char *error, size_t error_size);

/* Return a buffer to the kernel, `place` places behind its last; an advance publishes it. */
static inline void uring_provide(struct uring_port *port, uint16_t buffer, unsigned place)
{
    io_uring_buf_ring_add(port->provided, port->buffers + (size_t)buffer * port->stride,
                          port->stride, buffer, io_uring_buf_ring_mask(URING_BUFFERS), (int)place);
}

/* Make the receive requests that do not exist. */
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
