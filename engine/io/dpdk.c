/* The `dpdk` backend: virtio-user, vhost, memif, af-packet, af-xdp, tap, PCI and any other EAL
 * device.
 *
 * DPDK is linked statically, with the drivers that the port kinds need and the common NICs: the
 * shared build loads every driver of its plug-in directory (384 files on Debian) at each start, and
 * a container would need them all. This file opens and closes ports and their queues; dpdk_spec.c
 * parses the specification, dpdk_burst.c moves the frames. */
#include "io/io.h"

#define SUMMARY "DPDK's drivers"
#define KEYS                                                                                       \
    "one of virtio-user=PATH (with server when this side makes the socket, packed for packed "     \
    "rings, in-order=on|off, mergeable=on|off), vhost=PATH (with client when the other side "      \
    "makes the socket), memif=PATH (with role=client|server, id=N (0), for a client zero-copy), "  \
    "af-packet=DEV, af-xdp=DEV, tap=NAME, pci=ADDRESS (physical or virtual function), or "         \
    "vdev=EAL-STRING (must be last: it may contain commas); queue-size=N (a power of two: "        \
    "virtio-user 256, memif 1024, af-packet and tap 512, af-xdp 2048; not for vhost, whose peer "  \
    "chooses)"

static const struct io_variant variants[] = {
    {.name = "dpdk",
     .meaning = "DPDK: virtio-user on vhost-user, af_packet on a kernel device",
     .container = "sys_nice,net_raw,net_admin"},
    {.name = NULL},
};

#ifndef HAVE_DPDK

static const struct io_ops io_dpdk = {
    .name = "dpdk",
    .summary = SUMMARY,
    .keys = KEYS,
    .variants = variants,
    .missing = "built without libdpdk; install libdpdk-dev (22.11 or later) and rebuild",
};

IO_BACKEND(io_dpdk);

#else

#include "io/dpdk.h"
#include "io/node.h"
#include "traffic/frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_version.h>

#define FINISH_US 500000
#define RX_AT_ONCE 64
#define RX_AT_ONCE_FORWARDING                                                                      \
    32 /* the other core gets the first frames while the rest are taken                            \
        */
#define FINISH_QUIET_US 20000

static bool check(const char *arguments, char *error, size_t size)
{
    struct dpdk_spec spec;

    return dpdk_spec_parse(&spec, arguments, error, size);
}

/* The port connects later: to its peer, to itself (memif), or as an unknown driver does. */
static bool connects_later(const struct dpdk_spec *spec)
{
    return spec->kind == DPDK_MEMIF || spec->kind == DPDK_VDEV ||
           (spec->kind <= DPDK_VHOST && !spec->listens);
}

/* A device reads physical addresses, or addresses that VFIO has mapped in large pieces. The memif
 * driver passes all memory of the process to its peer, which needs memory in single files. */
static bool needs_hugepages(const struct dpdk_spec *spec)
{
    return spec->kind == DPDK_PCI || (spec->kind == DPDK_MEMIF && spec->zero_copy);
}

static unsigned capabilities_of(const char *arguments)
{
    struct dpdk_spec spec;
    char ignored[256];

    if (!dpdk_spec_parse(&spec, arguments, ignored, sizeof ignored))
        return 0;
    return (spec.kind == DPDK_AF_PACKET ? IO_NO_OUTER_TAG
            : spec.kind == DPDK_PCI     ? IO_PCI_FUNCTION
                                        : 0U) |
           (spec.kind >= DPDK_AF_PACKET ? IO_KEEPS_PRIVILEGES : 0U) |
           (spec.kind <= DPDK_AF_PACKET ? IO_OPENS_CONFINED : 0U) |
           (needs_hugepages(&spec) ? IO_HUGEPAGES_ONLY : 0U) |
           (connects_later(&spec) ? IO_CONNECTS : 0U);
}

/* The socket of the keeper. */
static bool socket_made(const char *arguments, char *path, size_t size)
{
    struct dpdk_spec spec;
    char ignored[256];

    if (!dpdk_spec_parse(&spec, arguments, ignored, sizeof ignored) || !spec.listens)
        return false;
    snprintf(path, size, "%s", spec.target);
    return true;
}

/* The driver of a device may need its privileges late, and EAL's threads keep the privileges that
 * they started with. A socket of another program needs none. */
static const char *privileges_of(const char *arguments)
{
    struct dpdk_spec spec;
    char ignored[256];

    if (!dpdk_spec_parse(&spec, arguments, ignored, sizeof ignored) || spec.kind < DPDK_AF_PACKET)
        return "";
    return spec.kind == DPDK_AF_PACKET ? "net_raw,net_admin" : "all";
}

/* Sent frames are in our memory until the peer takes them, so wait before it is unmapped; but not
 * for a peer that takes none. */
static void let_peer_finish(const struct dpdk_port *port)
{
    unsigned left = dpdk_device_in_flight(port);
    unsigned quiet_us = 0;

    for (unsigned waited_us = 0; waited_us < FINISH_US; waited_us += 100) {
        if (!atomic_load(&port->queues[0]->tx_open) || left == 0)
            return;
        usleep(100);
        const unsigned now = dpdk_device_in_flight(port);
        quiet_us = now == left ? quiet_us + 100 : 0;
        if (port->spec.packed && quiet_us >= FINISH_QUIET_US)
            return; /* if it works in order, a packed ring does not show all taken frames */
        left = now;
    }
}

static struct dpdk_queue *queue_of(struct io_port *base)
{
    return (struct dpdk_queue *)(void *)base;
}

static void close_port(struct io_port *base)
{
    struct dpdk_queue *q = queue_of(base);
    struct dpdk_port *port = q->port;

    if (q->acquired_count > 0)
        dpdk_tx_release(base, NULL, q->acquired_count);
    if (q->number > 0) /* closed together with queue 0 */
        return;
    let_peer_finish(port);
    atomic_store(&port->keeper.closing, true);
    device_link_close(&port->link);
    if (port->keeper.is_running || port->keeper.listen_fd >= 0)
        dpdk_keeper_stop(port);
    if (atomic_load(&q->rx_open)) {
        dpdk_close_gates(port);
        dpdk_eal_lock();
        dpdk_device_remove(port);
        dpdk_eal_unlock();
    }
    /* The pools stay until the process ends: their buffers may be in the ring of another port. */
    for (unsigned i = port->queue_count; i-- > 0;) {
        free(port->queues[i]->template_bytes);
        free(port->queues[i]);
    }
    free(port);
}

/* If no address is given, a device has its own and other ports get a random one, which is locally
 * administered. It does not depend on the process number, which repeats between containers. */
static void set_mac(struct dpdk_queue *q, const struct io_config *config)
{
    uint8_t random_mac[6] = {2};

    random_fill(random_mac + 1, sizeof random_mac - 1);
    memcpy(q->base.mac, config->src_mac_given ? config->address->src_mac : random_mac,
           sizeof random_mac);
}

/* Return the NUMA node of the device, or that of the queue's worker if there is no device. */
static int node_for(const struct dpdk_spec *spec, const struct io_config *config, unsigned queue)
{
    const int core = queue < config->core_count ? config->cores[queue] : config->core;
    int node = NODE_UNKNOWN;

    if (spec->kind == DPDK_PCI)
        node = node_of_function("/sys", spec->target);
    if (node == NODE_UNKNOWN && core >= 0)
        node = node_of_core("/sys", core);
    return node == NODE_UNKNOWN ? SOCKET_ID_ANY : node;
}

static struct dpdk_queue *make_queue(const struct io_config *config, struct dpdk_port *port,
                                     unsigned number)
{
    struct dpdk_queue *q = aligned_alloc(_Alignof(struct dpdk_queue), sizeof *q);

    if (q == NULL)
        return NULL;
    memset(q, 0, sizeof *q);
    q->base.ops = &io_dpdk;
    q->port = port;
    q->kind = port->kind;
    q->number = (uint16_t)number;
    q->rx_at_once = config->forwards ? RX_AT_ONCE_FORWARDING : RX_AT_ONCE;
    q->vhost_to = (uint16_t)(2 * number);
    q->vhost_from = (uint16_t)(2 * number + 1);
    snprintf(q->base.spec, sizeof q->base.spec, "%s", config->spec);
    snprintf(q->base.driver, sizeof q->base.driver, "%s", port->spec.driver);
    set_mac(q, config);
    q->node = node_for(&port->spec, config, number);
    q->room_bytes = port->room_bytes;
    q->base.mtu_bytes = port->room_bytes - RTE_ETHER_HDR_LEN;
    q->base.room = port->room_bytes;
    if (port->kind == DPDK_AF_PACKET) {
        q->base.room = dpdk_spec_slot_bytes(port->longest) - DPDK_SLOT_HEAD_SEND;
        q->cut_length = dpdk_spec_slot_bytes(port->longest) - DPDK_SLOT_HEAD_RECEIVE;
    }
    q->base.rx_ring = port->spec.queue_size;
    return q;
}

/* Make all queues at once: the keeper may serve them from the moment it starts. */
static struct dpdk_port *make_port(const struct io_config *config, const struct dpdk_spec *spec)
{
    struct dpdk_port *port = calloc(1, sizeof *port);

    if (port == NULL)
        return NULL;
    port->kind = spec->kind;
    port->spec = *spec;
    port->index = config->index;
    port->longest = dpdk_spec_longest(spec, config);
    port->room_bytes = dpdk_spec_room_bytes(spec, port->longest);
    port->keeper.listen_fd = port->keeper.stop_fd = -1;
    pthread_mutex_init(&port->vhost.lock, NULL);
    for (; port->queue_count < dpdk_queue_count(config); port->queue_count++) {
        struct dpdk_queue *queue = make_queue(config, port, port->queue_count);
        port->queues[port->queue_count] = queue;
        if (queue == NULL)
            return NULL;
    }
    return port;
}

static struct io_port *open_port(const struct io_config *config, char *error, size_t size)
{
    struct dpdk_spec spec;
    bool opened;

    if (config->queue > 0)
        return &queue_of(config->first)->port->queues[config->queue]->base;
    if (!dpdk_spec_parse(&spec, config->arguments, error, size) ||
        !dpdk_spec_fit_rings(&spec, config, error, size))
        return NULL;
    struct dpdk_port *port = make_port(config, &spec);
    if (port == NULL) {
        snprintf(error, size, "out of memory");
        return NULL;
    }
    opened = dpdk_eal_start(config, error, size) && dpdk_open_buffers(port, config, error, size);
    if (opened && port->kind <= DPDK_MEMIF)
        opened = dpdk_keeper_start(port, error, size);
    else if (opened)
        opened = dpdk_open_device(port, config->src_mac_given, error, size);
    if (opened && (port->kind == DPDK_AF_PACKET || port->kind == DPDK_AF_XDP))
        device_link_open(&port->link, port->spec.target);
    /* Nothing is freed after an error: the process ends if a port cannot be opened. */
    return opened ? &port->queues[0]->base : NULL;
}

static void leave_thread(void *unused)
{
    (void)unused;
    rte_thread_unregister();
}

/* Give the thread its buffer caches, until it ends. */
static void thread_enter(struct io_port *base)
{
    static pthread_key_t at_exit;
    static bool has_key;

    if (rte_lcore_id() != LCORE_ID_ANY)
        return;
    dpdk_eal_lock();
    if (!has_key)
        has_key = pthread_key_create(&at_exit, leave_thread) == 0;
    dpdk_eal_unlock();
    if (has_key && rte_thread_register() == 0)
        pthread_setspecific(at_exit, base);
}

/* Frames that a device dropped because it had no buffers, or that the kernel dropped in front of
 * it. The peer of a socket sees a full ring instead. A device counts for all its queues, so only
 * queue 0 reports its count. */
static uint64_t rx_drops(struct io_port *base)
{
    struct dpdk_queue *q = queue_of(base);
    struct rte_eth_stats stats = {0};

    if (q->kind <= DPDK_MEMIF || q->number > 0 || rte_eth_stats_get(q->ethdev, &stats) != 0)
        return q->rx_drops;
    return q->rx_drops + stats.imissed + stats.rx_nombuf + dpdk_kernel_drops(q->port);
}

static bool link_up(struct io_port *base)
{
    struct dpdk_queue *q = queue_of(base);

    if (q->kind <= DPDK_MEMIF)
        return atomic_load(&q->tx_open);
    /* The drivers of these two always report that the link is up. */
    if (q->kind == DPDK_AF_PACKET || q->kind == DPDK_AF_XDP)
        return device_link_check(&q->port->link, &base->links_lost);
    return dpdk_device_is_up(q->port);
}

const struct io_ops io_dpdk = {
    .name = "dpdk",
    .summary = SUMMARY,
    .keys = KEYS,
    .variants = variants,
    .queues_max = IO_QUEUES_MAX,
    .capabilities = IO_HOLDS | IO_OWN_THREADS,
    .capabilities_of = capabilities_of,
    .privileges_of = privileges_of,
    .socket_made = socket_made,
    .check = check,
    .open = open_port,
    .thread_enter = thread_enter,
    .tx_prepare = dpdk_tx_prepare,
    .tx_acquire = dpdk_tx_acquire,
    .tx_send = dpdk_tx_send,
    .tx_release = dpdk_tx_release,
    .rx_burst = dpdk_rx_burst,
    .rx_release = dpdk_rx_release,
    .forward = dpdk_forward,
    .rx_drops = rx_drops,
    .link_up = link_up,
    .version = rte_version,
    .close = close_port,
};

IO_BACKEND(io_dpdk);

#endif
