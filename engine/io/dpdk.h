/* What the files of the `dpdk` backend share. A port is served by one of three drivers: a DPDK
 * ethernet device (virtio-user, af-packet, PCI, any vdev), the vhost library, or memif. Those
 * that have a peer at the other end of a socket are looked after by a keeper thread
 * (dpdk_keeper.c), which attaches the driver when the peer is there and detaches it when the
 * peer goes; the worker sees
 * only two gates, open or closed. */
#ifndef SM_IO_DPDK_H
#define SM_IO_DPDK_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "io/io.h"

enum dpdk_kind {
    DPDK_VIRTIO_USER, /* vhost-user front end: what an application in a container uses */
    DPDK_VHOST,       /* vhost-user back end: what a switch uses */
    DPDK_MEMIF,
    DPDK_AF_PACKET,
    DPDK_PCI,
    DPDK_VDEV,
};

#define DPDK_PATH_MAX 108 /* sun_path */

struct dpdk_port {
    struct io_port base; /* first: the role loops see only this */
    enum dpdk_kind kind;

    /* The data path. The keeper opens and closes the two gates; tx_busy and rx_busy say that
     * the worker is inside a burst, so that the keeper can wait for it to leave. */
    alignas(64) _Atomic bool tx_open; /* the peer is there */
    _Atomic bool rx_open;             /* or it has left frames behind */
    uint16_t ethdev;
    int vhost_device;
    struct rte_mempool *rx_pool;
    alignas(64) _Atomic bool rx_busy;
    _Atomic bool rx_empty; /* a receive call came back empty since tx_open went false */
    uint64_t rx_drops;
    alignas(64) _Atomic bool tx_busy;
    atomic_uint tx_calls;
    struct rte_mempool *tx_pool;
    uint32_t template_mark; /* which template the buffers should hold; 0: none */
    uint32_t template_length;
    uint8_t *template_bytes;
    unsigned held_count; /* acquired and not yet sent, in order */
    struct rte_mbuf *held[IO_BURST_MAX];

    /* The specification. */
    alignas(64) char target[256]; /* socket path, device, PCI address or EAL string */
    bool listens;                 /* this side makes the socket */
    bool memif_server;
    unsigned memif_id;
    unsigned queue_size; /* descriptors, a power of two */
    unsigned index;
    uint32_t room_bytes; /* of a buffer, without headroom */

    /* The keeper. */
    pthread_t keeper;
    bool has_keeper;
    int stop_fd;   /* eventfd: readable when the keeper should end */
    int listen_fd; /* -1 when this side connects */
    int relay_fd;  /* memif: our end of the driver's control channel */
    unsigned attachments;
    char device_name[64];
};

/* dpdk_eal.c: start EAL once, made for this process's needs. False: `error` says why. */
bool dpdk_eal_start(const struct io_config *config, uint32_t room_bytes, char *error, size_t size);
/* The first error that DPDK logged since the last call, or "". */
const char *dpdk_eal_last_error(void);
/* Device and port administration in DPDK is not thread safe: hold this around it. */
void dpdk_eal_lock(void);
void dpdk_eal_unlock(void);

/* dpdk_burst.c: the hot path, and the gate that lets the keeper stop it. */
void dpdk_gate_init(void);
void dpdk_open_gates(struct dpdk_port *port);
/* The peer has gone: stop sending at once, receiving when what it left has been taken (or
 * after half a second); on return no burst is under way and none will be. */
void dpdk_close_gates(struct dpdk_port *port);
bool dpdk_tx_prepare(struct io_port *base, const uint8_t *bytes, uint32_t length);
unsigned dpdk_tx_acquire(struct io_port *base, struct io_frame *frames, unsigned count,
                         uint32_t length);
unsigned dpdk_tx_send(struct io_port *base, struct io_frame *frames, unsigned count);
void dpdk_tx_release(struct io_port *base, struct io_frame *frames, unsigned count);
unsigned dpdk_rx_burst(struct io_port *base, struct io_frame *frames, unsigned count);
void dpdk_rx_release(struct io_port *base, struct io_frame *frames, unsigned count);
unsigned dpdk_forward(struct io_port *from, struct io_port *to, struct io_frame *frames,
                      unsigned count);

/* dpdk_device.c: ethernet devices by EAL string. Call with the EAL lock held. */
bool dpdk_device_add(struct dpdk_port *port, const char *name, const char *arguments);
bool dpdk_device_start(struct dpdk_port *port);
void dpdk_device_remove(struct dpdk_port *port);
/* Frames that a virtio-user port has sent and its peer has not taken yet. */
unsigned dpdk_device_in_flight(const struct dpdk_port *port);

/* dpdk_socket.c: one peer over a UNIX socket, whichever side made it. */
bool dpdk_socket_listen(struct dpdk_port *port, char *error, size_t size);
int dpdk_socket_wait_peer(struct dpdk_port *port);            /* -1: asked to stop */
void dpdk_socket_wait_hangup(struct dpdk_port *port, int fd); /* or asked to stop */
bool dpdk_socket_stopping(struct dpdk_port *port, int wait_ms);
/* The next connect() of this thread inside DPDK gets this connected socket instead. */
void dpdk_socket_hand_over(int fd);
/* Pass control messages and file descriptors between the peer and the driver's end until
 * either hangs up or the keeper should stop; returns after `timeout_ms` (-1: none) with true. */
bool dpdk_socket_relay(struct dpdk_port *port, int peer_fd, int driver_fd, int timeout_ms);

/* dpdk_vhost.c */
bool dpdk_vhost_attach(struct dpdk_port *port, int fd);
void dpdk_vhost_detach(struct dpdk_port *port);

/* dpdk_keeper.c */
bool dpdk_keeper_start(struct dpdk_port *port, char *error, size_t size);
void dpdk_keeper_stop(struct dpdk_port *port);

#endif
