/* Shared by the files of the `netmap` backend: netmap.c opens ports, which netmap_port.c gets;
 * netmap_burst.c moves frames. */
#ifndef SM_IO_NETMAP_H
#define SM_IO_NETMAP_H

#include <net/if.h>
#include <net/netmap_user.h>

#include "io/io.h"

#define NAME_MAX_BYTES 64
#define PATH_MAX_BYTES 128

struct netmap_arguments {
    char name[NAME_MAX_BYTES];  /* netmap's name of the port: eth0, vale0:1, x{1 */
    char netns[PATH_MAX_BYTES]; /* network namespace of a VALE switch; empty: ours */
    char door[PATH_MAX_BYTES]; /* a Unix socket that passes the open port; empty: the port is opened
                                  here */
};

struct netmap_port {
    struct io_port base;
    int fd, promiscuous_fd;
    bool is_pipe; /* its transmit buffers are exchanged with those of the receiver */
    uint16_t memory_id;
    void *memory;
    size_t memory_bytes;
    struct netmap_if *rings;
    struct netmap_ring *tx;
    unsigned rx_ring;         /* the ring whose frames the role has, or the next ring */
    uint32_t rx_next;         /* first slot that the role has not yet received */
    unsigned taken, released; /* frames passed to the role, and frames that it has released */
    struct netmap_slot *acquired[IO_BURST_MAX]; /* transmit slots in the order they were acquired */
};

static inline struct netmap_port *port_of(struct io_port *base)
{
    return (struct netmap_port *)(void *)base;
}

/* Get the port's descriptor, and the kernel's description of the port in `request`. False: one line
 * in `error`. */
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
