/* vhost-user back end (the side of the switch), with DPDK's vhost library and not its ethernet
 * driver: it has no per-packet statistics and VLAN handling, and finds the peer at once (see
 * dpdk_socket.c). */
#include <string.h>

#include <linux/virtio_net.h>
#include <rte_vhost.h>

#include "io/dpdk.h"

#define ATTACHED_MAX 64

static struct dpdk_port *attached[ATTACHED_MAX];
static pthread_mutex_t attached_lock = PTHREAD_MUTEX_INITIALIZER;

static struct dpdk_port *port_of_device(int device)
{
    char path[DPDK_PATH_MAX];
    struct dpdk_port *found = NULL;

    if (rte_vhost_get_ifname(device, path, sizeof path) != 0)
        return NULL;
    pthread_mutex_lock(&attached_lock);
    for (unsigned i = 0; i < ATTACHED_MAX && found == NULL; i++) {
        if (attached[i] != NULL && strcmp(attached[i]->spec.target, path) == 0)
            found = attached[i];
    }
    pthread_mutex_unlock(&attached_lock);
    return found;
}

static bool rings_are_enabled(struct dpdk_port *port, unsigned queue)
{
    return (atomic_load(&port->vhost.rings) >> (2 * queue) & 3) == 3;
}

/* Call it with the lock held. The worker polls, so the front end need not notify it. */
static void open_queue(struct dpdk_port *port, unsigned index)
{
    struct dpdk_queue *queue = port->queues[index];

    rte_vhost_enable_guest_notification(port->vhost.device, queue->vhost_to, 0);
    rte_vhost_enable_guest_notification(port->vhost.device, queue->vhost_from, 0);
    queue->vhost_device = port->vhost.device;
    dpdk_open_gate(queue);
}

/* The front end has set up its first queue pair; other pairs may follow. */
static int new_device(int device)
{
    struct dpdk_port *port = port_of_device(device);

    if (port == NULL || atomic_load(&port->queues[0]->rx_open))
        return -1;
    pthread_mutex_lock(&port->vhost.lock);
    port->vhost.device = device;
    port->vhost.is_set_up = true;
    open_queue(port, 0);
    pthread_mutex_unlock(&port->vhost.lock);
    return 0;
}

/* The library unmaps the memory after this function returns. */
static void destroy_device(int device)
{
    struct dpdk_port *port = port_of_device(device);

    if (port == NULL || port->vhost.device != device)
        return;
    pthread_mutex_lock(&port->vhost.lock);
    port->vhost.is_set_up = false;
    atomic_store(&port->vhost.rings, 0);
    dpdk_close_gates(port);
    pthread_mutex_unlock(&port->vhost.lock);
}

/* The library holds its locks here, so the keeper does the rest. */
static int ring_changed(int device, uint16_t ring, int enabled)
{
    struct dpdk_port *port = port_of_device(device);

    if (port == NULL || ring >= 2 * IO_QUEUES_MAX)
        return 0;
    if (enabled)
        atomic_fetch_or(&port->vhost.rings, 1ULL << ring);
    else
        atomic_fetch_and(&port->vhost.rings, ~(1ULL << ring));
    return 0;
}

bool dpdk_vhost_open_gates(struct dpdk_port *port)
{
    unsigned open = 0;

    pthread_mutex_lock(&port->vhost.lock);
    for (unsigned i = 0; i < port->queue_count && port->vhost.is_set_up; i++) {
        if (!atomic_load(&port->queues[i]->rx_open) && rings_are_enabled(port, i))
            open_queue(port, i);
        open += atomic_load(&port->queues[i]->rx_open);
    }
    pthread_mutex_unlock(&port->vhost.lock);
    return open == port->queue_count;
}

static const struct rte_vhost_device_ops device_ops = {
    .new_device = new_device,
    .destroy_device = destroy_device,
    .vring_state_changed = ring_changed,
};

static bool set_attached(struct dpdk_port *old, struct dpdk_port *new)
{
    bool found = false;

    pthread_mutex_lock(&attached_lock);
    for (unsigned i = 0; i < ATTACHED_MAX && !found; i++) {
        found = attached[i] == old;
        if (found)
            attached[i] = new;
    }
    pthread_mutex_unlock(&attached_lock);
    return found;
}

bool dpdk_vhost_attach(struct dpdk_port *port, int fd)
{
    /* Frames must pass unchanged: no offloads that leave checksums or segmentation to us. */
    const uint64_t offloads = 1ULL << VIRTIO_NET_F_CSUM | 1ULL << VIRTIO_NET_F_GUEST_CSUM |
                              1ULL << VIRTIO_NET_F_HOST_TSO4 | 1ULL << VIRTIO_NET_F_HOST_TSO6 |
                              1ULL << VIRTIO_NET_F_HOST_UFO | 1ULL << VIRTIO_NET_F_HOST_ECN |
                              1ULL << VIRTIO_NET_F_GUEST_TSO4 | 1ULL << VIRTIO_NET_F_GUEST_TSO6 |
                              1ULL << VIRTIO_NET_F_GUEST_UFO | 1ULL << VIRTIO_NET_F_GUEST_ECN;
    const uint64_t flags =
        RTE_VHOST_USER_CLIENT | RTE_VHOST_USER_NO_RECONNECT | RTE_VHOST_USER_LINEARBUF_SUPPORT;
    int result = -1;

    if (!set_attached(NULL, port))
        return false;
    dpdk_eal_lock();
    if (rte_vhost_driver_register(port->spec.target, flags) == 0) {
        dpdk_socket_hand_over(fd);
        if (rte_vhost_driver_disable_features(port->spec.target, offloads) == 0 &&
            rte_vhost_driver_callback_register(port->spec.target, &device_ops) == 0)
            result = rte_vhost_driver_start(port->spec.target);
        dpdk_socket_hand_over(-1);
        if (result != 0)
            rte_vhost_driver_unregister(port->spec.target);
    }
    dpdk_eal_unlock();
    if (result != 0)
        set_attached(port, NULL);
    return result == 0;
}

void dpdk_vhost_detach(struct dpdk_port *port)
{
    dpdk_eal_lock();
    rte_vhost_driver_unregister(port->spec.target);
    dpdk_eal_unlock();
    set_attached(port, NULL);
}
