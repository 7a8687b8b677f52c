/* What the files of the `netmap` backend share: netmap.c opens ports, which it gets by
 * netmap_port.c; netmap_burst.c moves frames. */
#ifndef SM_IO_NETMAP_H
#define SM_IO_NETMAP_H

#include <net/if.h>
#include <net/netmap_user.h>

#include "io/io.h"

#define NAME_MAX_BYTES 64
#define PATH_MAX_BYTES 128

struct netmap_arguments {
    char name[NAME_MAX_BYTES];  /* what netmap calls the port: eth0, vale0:1, x{1 */
    char netns[PATH_MAX_BYTES]; /* a VALE switch belongs to a network namespace; empty: ours */
    char door[PATH_MAX_BYTES];  /* a Unix socket; empty: we open the port ourselves */
};

struct netmap_port {
    struct io_port base;
    int fd, promiscuous_fd;
    bool is_pipe; /* its transmit buffers are exchanged with the receiver's */
    uint16_t memory_id;
    void *memory;
    size_t memory_bytes;
    struct netmap_if *rings;
    struct netmap_ring *tx;
    unsigned rx_ring;         /* the ring whose frames are with the role, or next */
    uint32_t rx_next;         /* its first slot that the role has not seen */
    unsigned taken, released; /* frames given to the role, and those it is done with */
    struct netmap_slot *lent[IO_BURST_MAX]; /* transmit slots in the order they were acquired */
};

static inline struct netmap_port *port_of(struct io_port *base)
{
    return (struct netmap_port *)(void *)base;
}

/* Get the port's descriptor, and the kernel's account of the port in `request`. False: one line in
 * `error`. */
bool netmap_get_port(struct netmap_port *port, const struct netmap_arguments *arguments,
                     struct nmreq_register *request, char *error, size_t size);

bool netmap_tx_prepare(struct io_port *base, const uint8_t *bytes, uint32_t length);
unsigned netmap_tx_acquire(struct io_port *base, struct io_frame *frames, unsigned count,
                           uint32_t length);
unsigned netmap_tx_send(struct io_port *base, struct io_frame *frames, unsigned count);
unsigned netmap_rx_burst(struct io_port *base, struct io_frame *frames, unsigned count);
void netmap_rx_release(struct io_port *base, struct io_frame *frames, unsigned count);
unsigned netmap_forward(struct io_port *from, struct io_port *to, struct io_frame *frames,
                        unsigned count);
void netmap_rx_wait(struct io_port *base, uint64_t timeout_ns);
#endif
