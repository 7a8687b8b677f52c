/* Shared by the files of the `dpdk` backend. A port uses one of three drivers: a DPDK ethernet
 * device (virtio-user, af-packet, PCI, any vdev), the vhost library, or memif. Ports with a peer at
 * the other end of a socket have a keeper thread (dpdk_keeper.c), which attaches the driver when
 * the peer connects and detaches it when the peer disconnects. The worker sees only two gates, open
 * or closed. */
#ifndef SM_IO_DPDK_H
#define SM_IO_DPDK_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "cache_line_bytes.h"
#include "io/device_link.h"
#include "io/dpdk_slots.h"
#include "io/io.h"

enum dpdk_kind {
    DPDK_VIRTIO_USER, /* vhost-user front end: used by applications in containers */
    DPDK_VHOST,       /* vhost-user back end: used by switches */
    DPDK_MEMIF,
    DPDK_AF_PACKET, /* this kind and the following have no peer at a socket */
    DPDK_AF_XDP,
    DPDK_TAP,
    DPDK_PCI,
    DPDK_VDEV,
};

extern const struct io_ops io_dpdk;

#define DPDK_PATH_MAX 108 /* sun_path */
#define DPDK_POOL_CACHE 256

/* A parsed port specification. */
struct dpdk_spec {
    enum dpdk_kind kind;
    const char *driver;
    char target[256];    /* socket path, device, PCI address or EAL string */
    bool listens;        /* this side creates the socket */
    bool packed;         /* virtio-user: packed rings instead of split ones */
    bool in_order;       /* virtio-user: buffers are returned in order */
    bool mergeable;      /* virtio-user: a frame may use several receive buffers */
    bool memif_server;   /* memif: server; otherwise client, which owns the memory of the rings */
    bool zero_copy;      /* memif client: the peer reads our buffers */
    unsigned memif_id;   /* memif: number of the interface at the socket */
    unsigned queue_size; /* descriptors, a power of two; 0: as the device chooses */
    bool queue_size_given;
};

/* Free space of the kernel in front of a frame in a buffer of af-xdp. */
#define DPDK_XDP_HEADROOM 256

struct dpdk_port;

/* One queue of a port, with its worker. The role loops see only `base`. */
struct dpdk_queue {
    struct io_port base; /* must be first */
    struct dpdk_port *port;
    enum dpdk_kind kind; /* kind of the port */

    /* The data path. The keeper opens and closes the two gates; tx_busy and rx_busy mean that the
     * worker is inside a burst, so that the keeper can wait until it leaves. */
    alignas(CACHE_LINE_BYTES) _Atomic bool tx_open; /* the peer is connected */
    _Atomic bool rx_open;                           /* also while frames of a lost peer are left */
    uint16_t ethdev, number;
    uint16_t vhost_to, vhost_from; /* the two rings of the queue, as the peer numbers them */
    int vhost_device;
    int node; /* NUMA node of its memory, or SOCKET_ID_ANY */
    struct rte_mempool *rx_pool;
    unsigned rx_at_once; /* a larger burst would not stay in the nearest cache */
    alignas(CACHE_LINE_BYTES) _Atomic bool rx_busy;
    _Atomic bool rx_empty; /* a receive call found no frame since tx_open became false */
    uint64_t rx_drops;
    alignas(CACHE_LINE_BYTES) _Atomic bool tx_busy;
    atomic_uint tx_calls;
    struct rte_mempool *tx_pool;
    uint32_t template_generation; /* generation of the template that the buffers should contain; 0:
                                     none */
    uint32_t template_length;
    uint8_t *template_bytes;
    unsigned acquired_count; /* acquired and not yet sent, in order */
    struct rte_mbuf *acquired[IO_BURST_MAX];
    alignas(CACHE_LINE_BYTES) uint32_t room_bytes; /* room of a buffer, without headroom */
    uint32_t cut_length; /* af-packet: the kernel may have cut frames of this length */
};

/* A port with all its queues, for the main thread and the keeper. */
struct dpdk_port {
    enum dpdk_kind kind;
    struct dpdk_spec spec;
    unsigned index;
    struct dpdk_queue *queues[IO_QUEUES_MAX];
    unsigned queue_count;
    uint32_t room_bytes;     /* room of a buffer, without headroom */
    uint32_t longest;        /* longest frame that is sent or received, without FCS */
    struct device_link link; /* link of a kernel device */
    uint16_t ethdev;
    char device_name[64];

    /* dpdk_kernel.c: sockets that the driver opened. */
    struct {
        int fds[IO_QUEUES_MAX];
        unsigned count;
        uint64_t drops; /* drops of packet sockets, whose counters are reset when they are read */
    } kernel;

    /* dpdk_keeper.c and dpdk_socket.c: the thread that waits for the peer. */
    struct {
        pthread_t thread;
        bool is_running;
        int stop_fd;          /* eventfd: readable when the keeper should end */
        _Atomic bool closing; /* no worker polls the port any more */
        int listen_fd;        /* -1 if this side connects */
        unsigned attachments;
    } keeper;

    /* dpdk_vhost.c */
    struct {
        int device;
        pthread_mutex_t lock;       /* held while gates of the device are opened */
        bool is_set_up;             /* the peer has set up the device */
        atomic_uint_fast64_t rings; /* one bit for each ring that the peer has enabled */
    } vhost;
};

static inline unsigned dpdk_queue_count(const struct io_config *config)
{
    return config->queue_count > 0 ? config->queue_count : 1;
}

/* dpdk_spec.c */
bool dpdk_spec_parse(struct dpdk_spec *spec, const char *arguments, char *error, size_t size);
/* Parse the specification of the port with this number among all ports; false if it is not a DPDK
 * port. */
bool dpdk_spec_of(const struct io_config *config, unsigned number, struct dpdk_spec *spec);
/* Packet buffers that one queue of a port needs in each direction. */
unsigned dpdk_spec_receive_buffers(const struct dpdk_spec *spec, const struct io_config *config);
unsigned dpdk_spec_transmit_buffers(const struct dpdk_spec *spec);
/* The longest frame for which a port is opened, without FCS. */
uint32_t dpdk_spec_longest(const struct dpdk_spec *spec, const struct io_config *config);
/* For frames of up to `longest` bytes without FCS: size of a slot in the rings of af-packet, and
 * room of a packet buffer. */
uint32_t dpdk_spec_slot_bytes(uint32_t longest);
uint32_t dpdk_spec_room_bytes(const struct dpdk_spec *spec, uint32_t longest);
/* Shorten the rings of af-packet to the memory that this process may lock, unless their size was
 * given. False: they need too much, one line in `error`. */
bool dpdk_spec_fit_rings(struct dpdk_spec *spec, const struct io_config *config, char *error,
                         size_t size);
/* Hugepage memory for the start of EAL in MB: 64 unless the ports need more. */
unsigned dpdk_spec_memory_mb(const struct io_config *config);

/* dpdk_open.c: buffers of all ports, and devices of the kinds without a keeper. */
bool dpdk_open_buffers(struct dpdk_port *port, const struct io_config *config, char *error,
                       size_t size);
bool dpdk_open_device(struct dpdk_port *port, bool mac_given, char *error, size_t size);

/* dpdk_kernel.c: remember the sockets that exist before a device is opened, find those that the
 * driver opened, and return how many frames the kernel has dropped in front of the driver. */
#define DPDK_FILES_MAX 1024
void dpdk_kernel_before_open(struct dpdk_port *port, uint8_t existing[DPDK_FILES_MAX]);
void dpdk_kernel_after_open(struct dpdk_port *port, const uint8_t existing[DPDK_FILES_MAX]);
uint64_t dpdk_kernel_drops(struct dpdk_port *port);

/* dpdk_eal.c: start EAL once, configured for this process. False: `error` has the reason. */
bool dpdk_eal_start(const struct io_config *config, char *error, size_t size);
/* The first error that DPDK logged since the last call, or "". */
const char *dpdk_eal_last_error(void);
/* Device and port administration in DPDK is not thread-safe: hold this lock around it. */
void dpdk_eal_lock(void);
void dpdk_eal_unlock(void);

/* dpdk_gate.c: gates by which the keeper stops the hot path. */
/* Open the gates of one queue, or of all queues of a port. */
void dpdk_open_gate(struct dpdk_queue *queue);
void dpdk_open_gates(struct dpdk_port *port);
/* The peer has disconnected: stop sending at once, and receiving when its remaining frames have
 * been taken, or after half a second. On return no burst is running on any queue and none will
 * begin. */
void dpdk_close_gates(struct dpdk_port *port);
extern bool dpdk_fence_needed;

/* dpdk_burst.c: the hot path. */
bool dpdk_tx_prepare(struct io_port *base, const uint8_t *bytes, uint32_t length);
unsigned dpdk_tx_acquire(struct io_port *base, struct io_frame *frames, unsigned count,
                         uint32_t length);
unsigned dpdk_tx_send(struct io_port *base, struct io_frame *frames, unsigned count);
void dpdk_tx_release(struct io_port *base, struct io_frame *frames, unsigned count);
unsigned dpdk_rx_burst(struct io_port *base, struct io_frame *frames, unsigned count);
void dpdk_rx_release(struct io_port *base, struct io_frame *frames, unsigned count);
unsigned dpdk_forward(struct io_port *from, struct io_port *to, struct io_frame *frames,
                      unsigned count);

/* dpdk_device.c: ethernet devices by EAL string. Call it with the EAL lock held. */
bool dpdk_device_add(struct dpdk_port *port, const char *name, const char *arguments);
bool dpdk_device_start(struct dpdk_port *port);
void dpdk_device_remove(struct dpdk_port *port);
/* Lower the port's MTU to this value if it is higher. */
void dpdk_device_limit_mtu(struct dpdk_port *port, uint32_t mtu_bytes);
/* State of the link as the driver reports it; called without the lock, like the next function. */
bool dpdk_device_is_up(const struct dpdk_port *port);
/* Frames that a virtio-user port has sent and its peer has not yet taken. */
unsigned dpdk_device_in_flight(const struct dpdk_port *port);

/* dpdk_socket.c: one peer over a UNIX socket, which either side may have created. */
bool dpdk_socket_listen(struct dpdk_port *port, char *error, size_t size);
int dpdk_socket_wait_peer(struct dpdk_port *port); /* -1: the keeper should stop */
/* Return true if the peer disconnected or the keeper should stop, false after `timeout_ms` (-1:
 * never). */
bool dpdk_socket_wait_hangup(struct dpdk_port *port, int fd, int timeout_ms);
bool dpdk_socket_stopping(struct dpdk_port *port, int wait_ms);
/* From now on wait only shortly for a reply of the peer. */
void dpdk_socket_hurry(int fd);
/* Pass this connected socket to the next connect() of this thread inside DPDK. */
void dpdk_socket_hand_over(int fd);
/* Relay control messages and file descriptors between the peer and the driver until either
 * disconnects or the keeper should stop; returns true after `timeout_ms` (-1: never). */
bool dpdk_socket_relay(struct dpdk_port *port, int peer_fd, int driver_fd, int timeout_ms);

/* dpdk_vhost.c */
bool dpdk_vhost_attach(struct dpdk_port *port, int fd);
/* Open the gates of the queues whose rings the peer has enabled; true if these are all queues. */
bool dpdk_vhost_open_gates(struct dpdk_port *port);
void dpdk_vhost_detach(struct dpdk_port *port);

/* dpdk_keeper.c */
bool dpdk_keeper_start(struct dpdk_port *port, char *error, size_t size);
void dpdk_keeper_stop(struct dpdk_port *port);

#endif
