/* The `dpdk` backend: virtio-user, vhost, memif, af-packet, af-xdp, tap, PCI and any other EAL
 * device.
 *
 * DPDK is linked statically, with the drivers that the port kinds need and the common NICs: the
 * shared build loads every driver of its plug-in folder (384 files on Debian) in each start, and
 * a container would have to carry them. This file opens and closes ports and their queues;
 * dpdk_spec.c reads the specification, dpdk_burst.c moves the frames. */
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

static const struct io_word words[] = {
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
    .words = words,
    .missing = "built without libdpdk; install libdpdk-dev (22.11 or later) and rebuild",
};

IO_BACKEND(io_dpdk);

#else

#include "io/dpdk.h"
#include "io/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_version.h>

#define FINISH_US 500000
#define RX_AT_ONCE 64
#define RX_AT_ONCE_FORWARDING 32 /* the other core has the first ones while the rest are taken */
#define FINISH_QUIET_US 20000

static bool check(const char *arguments, char *error, size_t size)
{
    struct dpdk_spec spec;

    return dpdk_spec_parse(&spec, arguments, error, size);
}

/* To its peer, to itself (memif), or as a driver that is not known here does. */
static bool connects_later(const struct dpdk_spec *spec)
{
    return spec->kind == DPDK_MEMIF || spec->kind == DPDK_VDEV ||
           (spec->kind <= DPDK_VHOST && !spec->listens);
}

/* A device reads physical addresses, or those that VFIO has mapped in large pieces; the memif
 * driver hands its peer all memory of the process, which it can only if EAL keeps it in single
 * files. */
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

/* The socket of its keeper. */
static bool socket_made(const char *arguments, char *path, size_t size)
{
    struct dpdk_spec spec;
    char ignored[256];

    if (!dpdk_spec_parse(&spec, arguments, ignored, sizeof ignored) || !spec.listens)
        return false;
    snprintf(path, size, "%s", spec.target);
    return true;
}

/* A driver of a device may want its privileges late, and EAL's threads keep what they began with; a
 * socket of another program's needs none. */
static const char *privileges_of(const char *arguments)
{
    struct dpdk_spec spec;
    char ignored[256];

    if (!dpdk_spec_parse(&spec, arguments, ignored, sizeof ignored) || spec.kind < DPDK_AF_PACKET)
        return "";
    return spec.kind == DPDK_AF_PACKET ? "net_raw,net_admin" : "all";
}

/* What was sent lies in our memory until the peer takes it: do not pull it away. A peer that
 * takes nothing is not waited for. */
static void let_peer_finish(const struct dpdk_port *port)
{
    unsigned left = dpdk_device_in_flight(port);
    unsigned quiet_us = 0;

    for (unsigned waited_us = 0; waited_us < FINISH_US; waited_us += 100) {
        if (!atomic_load(&port->tx_open) || left == 0)
            return;
        usleep(100);
        const unsigned now = dpdk_device_in_flight(port);
        quiet_us = now == left ? quiet_us + 100 : 0;
        if (port->spec.packed && quiet_us >= FINISH_QUIET_US)
            return; /* in order, a packed ring does not show all that was taken */
        left = now;
    }
}

static void close_port(struct io_port *base)
{
    struct dpdk_port *port = (struct dpdk_port *)(void *)base;

    if (port->held_count > 0)
        dpdk_tx_release(base, NULL, port->held_count);
    if (port->queue > 0) /* goes with the first */
        return;
    let_peer_finish(port);
    atomic_store(&port->closing, true);
    device_link_close(&port->link);
    if (port->has_keeper || port->listen_fd >= 0)
        dpdk_keeper_stop(port);
    if (atomic_load(&port->rx_open)) {
        dpdk_close_gates(port);
        dpdk_eal_lock();
        dpdk_device_remove(port);
        dpdk_eal_unlock();
    }
    /* The pools stay until the process ends: buffers of ours may be in another port's ring. */
    for (unsigned i = port->queue_count; i-- > 0;) {
        free(port->queues[i]->template_bytes);
        free(port->queues[i]);
    }
}

/* A port that is given no address gets a random one, locally administered; a device has its own.
 * Process numbers repeat between containers. */
static void set_mac(struct dpdk_port *port, const struct io_config *config)
{
    uint8_t made[6] = {2};

    random_fill(made + 1, sizeof made - 1);
    memcpy(port->base.mac, config->src_mac_given ? config->src_mac : made, sizeof made);
}

/* The NUMA node of the device, or else of the queue's worker. */
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

static struct dpdk_port *make_queue(const struct io_config *config, const struct dpdk_spec *spec,
                                    unsigned queue)
{
    struct dpdk_port *port = aligned_alloc(_Alignof(struct dpdk_port), sizeof *port);

    if (port == NULL)
        return NULL;
    memset(port, 0, sizeof *port);
    port->base.ops = &io_dpdk;
    port->kind = spec->kind;
    port->spec = *spec;
    port->index = config->index;
    port->queue = (uint16_t)queue;
    port->rx_at_once = config->forwards ? RX_AT_ONCE_FORWARDING : RX_AT_ONCE;
    port->vhost_to = (uint16_t)(2 * queue);
    port->vhost_from = (uint16_t)(2 * queue + 1);
    port->listen_fd = port->stop_fd = -1;
    pthread_mutex_init(&port->vhost_lock, NULL);
    snprintf(port->base.spec, sizeof port->base.spec, "%s", config->spec);
    snprintf(port->base.driver, sizeof port->base.driver, "%s", spec->driver);
    set_mac(port, config);
    port->node = node_for(spec, config, queue);
    port->longest = dpdk_spec_longest(spec, config);
    port->room_bytes = dpdk_spec_room_bytes(spec, port->longest);
    port->base.mtu_bytes = port->room_bytes - RTE_ETHER_HDR_LEN;
    port->base.room = port->room_bytes;
    if (spec->kind == DPDK_AF_PACKET) {
        port->base.room = dpdk_spec_slot_bytes(port->longest) - DPDK_SLOT_HEAD_SEND;
        port->cut_length = dpdk_spec_slot_bytes(port->longest) - DPDK_SLOT_HEAD_RECEIVE;
    }
    port->base.rx_ring = spec->queue_size;
    return port;
}

/* All queues at once: the keeper may serve them from the moment it starts. */
static struct dpdk_port *make_port(const struct io_config *config, const struct dpdk_spec *spec)
{
    struct dpdk_port *port = make_queue(config, spec, 0);
    const unsigned count = dpdk_queue_count(config);

    if (port == NULL)
        return NULL;
    port->queues[0] = port;
    for (port->queue_count = 1; port->queue_count < count; port->queue_count++) {
        struct dpdk_port *queue = make_queue(config, spec, port->queue_count);
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
        return &((struct dpdk_port *)(void *)config->first)->queues[config->queue]->base;
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
    return opened ? &port->base : NULL; /* (the process ends when a port cannot be opened) */
}

static void leave_thread(void *unused)
{
    (void)unused;
    rte_thread_unregister();
}

/* Gives the thread its own buffer caches, until it ends. */
static void thread_enter(struct io_port *base)
{
    static pthread_key_t at_exit;
    static bool made;

    if (rte_lcore_id() != LCORE_ID_ANY)
        return;
    dpdk_eal_lock();
    if (!made)
        made = pthread_key_create(&at_exit, leave_thread) == 0;
    dpdk_eal_unlock();
    if (made && rte_thread_register() == 0)
        pthread_setspecific(at_exit, base);
}

/* What a device dropped for want of buffers, or the kernel in front of it; sockets' peers see a
 * full ring. The device counts for all its queues, so the first reports it. */
static uint64_t rx_drops(struct io_port *base)
{
    struct dpdk_port *port = (struct dpdk_port *)(void *)base;
    struct rte_eth_stats stats = {0};

    if (port->kind <= DPDK_MEMIF || port->queue > 0 || rte_eth_stats_get(port->ethdev, &stats) != 0)
        return port->rx_drops;
    return port->rx_drops + stats.imissed + stats.rx_nombuf + dpdk_kernel_drops(port);
}

static bool link_up(struct io_port *base)
{
    struct dpdk_port *port = (struct dpdk_port *)(void *)base;

    if (port->kind <= DPDK_MEMIF)
        return atomic_load(&port->tx_open);
    /* Their drivers always say yes. */
    if (port->kind == DPDK_AF_PACKET || port->kind == DPDK_AF_XDP)
        return device_link_look(&port->link, &base->links_lost);
    return dpdk_device_is_up(port);
}

const struct io_ops io_dpdk = {
    .name = "dpdk",
    .summary = SUMMARY,
    .keys = KEYS,
    .words = words,
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
