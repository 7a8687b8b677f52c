/* DPDK ethernet devices: adds a device by its EAL string, starts it with a receive and a transmit
 * queue for each worker, and removes it. All three are administration: call them with the EAL lock
 * held. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <linux/virtio_ring.h>
#include <rte_alarm.h>
#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_memzone.h>

#include "io/dpdk.h"

#define PCI_QUEUE_SIZE 1024
#define VRING_ALIGN 4096
#define VIRTIO_TRANSMIT_QUEUE 1

bool dpdk_device_add(struct dpdk_port *port, const char *name, const char *arguments)
{
    snprintf(port->device_name, sizeof port->device_name, "%s", name);
    if (port->kind == DPDK_PCI) {
        if (rte_dev_probe(name) != 0)
            return false;
    } else if (rte_eal_hotplug_add("vdev", name, arguments) != 0) {
        return false;
    }
    return rte_eth_dev_get_port_by_name(name, &port->ethdev) == 0;
}

void dpdk_device_limit_mtu(struct dpdk_port *port, uint32_t mtu_bytes)
{
    for (unsigned i = 0; i < port->queue_count; i++) {
        struct io_port *base = &port->queues[i]->base;
        base->mtu_bytes = RTE_MIN(base->mtu_bytes, mtu_bytes);
    }
}

/* Most devices accept tags in addition to their MTU, so a device that refuses the larger MTU for
 * tags may still work. */
static bool set_mtu(struct dpdk_port *port, const struct rte_eth_dev_info *info)
{
    const uint32_t mtu = port->longest - RTE_ETHER_HDR_LEN;

    if (mtu <= RTE_ETHER_MTU)
        return true;
    if (mtu > info->max_mtu)
        dpdk_device_limit_mtu(port, info->max_mtu);
    return rte_eth_dev_set_mtu(port->ethdev, (uint16_t)RTE_MIN(mtu, info->max_mtu)) == 0 ||
           mtu <= RTE_ETHER_MTU + 2 * RTE_VLAN_HLEN;
}

/* With several queues a NIC distributes frames to them by their addresses. */
static struct rte_eth_conf configuration(const struct dpdk_port *port,
                                         const struct rte_eth_dev_info *info)
{
    struct rte_eth_conf conf = {0};

    if (port->kind == DPDK_PCI && port->queue_count > 1) {
        conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
        conf.rx_adv_conf.rss_conf.rss_hf =
            (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP) & info->flow_type_rss_offloads;
    }
    return conf;
}

static bool set_up_queues(struct dpdk_port *port, uint16_t rx_size, uint16_t tx_size)
{
    for (uint16_t i = 0; i < port->queue_count; i++) {
        const struct dpdk_queue *queue = port->queues[i];
        const unsigned node = (unsigned)queue->node;
        if (rte_eth_rx_queue_setup(port->ethdev, i, rx_size, node, NULL, queue->rx_pool) != 0 ||
            rte_eth_tx_queue_setup(port->ethdev, i, tx_size, node, NULL) != 0)
            return false;
    }
    return true;
}

bool dpdk_device_start(struct dpdk_port *port)
{
    const uint16_t queues = (uint16_t)port->queue_count;
    struct rte_eth_dev_info info;
    struct rte_eth_conf conf;
    uint16_t rx_size =
        (uint16_t)(port->spec.queue_size > 0 ? port->spec.queue_size : PCI_QUEUE_SIZE);
    uint16_t tx_size = rx_size;

    if (rte_eth_dev_info_get(port->ethdev, &info) != 0)
        return false;
    conf = configuration(port, &info);
    if (rte_eth_dev_configure(port->ethdev, queues, queues, &conf) != 0 ||
        rte_eth_dev_adjust_nb_rx_tx_desc(port->ethdev, &rx_size, &tx_size) != 0 ||
        (port->kind == DPDK_PCI && !set_mtu(port, &info)) ||
        !set_up_queues(port, rx_size, tx_size) || rte_eth_dev_start(port->ethdev) != 0)
        return false;
    if (port->kind == DPDK_PCI || port->kind == DPDK_VDEV)
        rte_eth_promiscuous_enable(port->ethdev);
    return true;
}

bool dpdk_device_is_up(const struct dpdk_port *port)
{
    struct rte_eth_link link = {0};

    return rte_eth_link_get_nowait(port->ethdev, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

static void alarm_seen(void *argument)
{
    atomic_store((_Atomic bool *)argument, true);
}

/* A driver that has lost its peer may have set an alarm that will use the device. Alarms run in
 * order of time, so after our alarm the alarm of the driver has run. */
static void let_alarms_pass(void)
{
    static _Atomic bool passed;

    atomic_store(&passed, false);
    if (rte_eal_alarm_set(1000, alarm_seen, (void *)&passed) != 0)
        return;
    while (!atomic_load(&passed))
        usleep(200);
}

void dpdk_device_remove(struct dpdk_port *port)
{
    struct rte_eth_dev_info info;

    let_alarms_pass();
    if (rte_eth_dev_info_get(port->ethdev, &info) != 0)
        return;
    rte_eth_dev_stop(port->ethdev);
    rte_eth_dev_close(port->ethdev);
    if (port->kind != DPDK_PCI)
        rte_eal_hotplug_remove("vdev", port->device_name);
}

static unsigned in_flight_split(const struct rte_memzone *zone, unsigned queue_size)
{
    struct vring ring;

    vring_init(&ring, queue_size, zone->addr, VRING_ALIGN);
    const uint16_t offered = __atomic_load_n(&ring.avail->idx, __ATOMIC_ACQUIRE);
    const uint16_t taken = __atomic_load_n(&ring.used->idx, __ATOMIC_ACQUIRE);
    return (uint16_t)(offered - taken);
}

/* The device owns a descriptor while its two flags differ. A device that works in order may return
 * several descriptors with the flags of the last one. */
static unsigned in_flight_packed(const struct rte_memzone *zone, unsigned queue_size)
{
    const struct vring_packed_desc *ring = zone->addr;
    unsigned count = 0;

    for (unsigned i = 0; i < queue_size; i++) {
        const uint16_t flags = __atomic_load_n(&ring[i].flags, __ATOMIC_ACQUIRE);
        count +=
            (flags >> VRING_PACKED_DESC_F_AVAIL & 1) != (flags >> VRING_PACKED_DESC_F_USED & 1);
    }
    return count;
}

/* The driver does not report it, but its rings are in named memory zones with the layout of the
 * virtio specification. */
unsigned dpdk_device_in_flight(const struct dpdk_port *port)
{
    unsigned count = 0;

    for (unsigned i = 0; i < port->queue_count && port->kind == DPDK_VIRTIO_USER; i++) {
        char name[32];
        snprintf(name, sizeof name, "port%u_vq%u", (unsigned)port->ethdev,
                 2 * i + VIRTIO_TRANSMIT_QUEUE);
        const struct rte_memzone *zone = rte_memzone_lookup(name);
        if (zone != NULL)
            count += port->spec.packed ? in_flight_packed(zone, port->spec.queue_size)
                                       : in_flight_split(zone, port->spec.queue_size);
    }
    return count;
}
