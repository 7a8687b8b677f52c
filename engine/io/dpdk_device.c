/* DPDK ethernet devices: add one by its EAL string, start it with one receive and one transmit
 * queue, remove it. All three are administration: call them with the EAL lock held. */
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

static bool set_mtu(struct dpdk_port *port, const struct rte_eth_dev_info *info)
{
    const uint32_t mtu = port->room_bytes - RTE_ETHER_HDR_LEN;

    if (mtu <= 2048)
        return true; /* the standard MTU will do */
    return rte_eth_dev_set_mtu(port->ethdev, (uint16_t)RTE_MIN(mtu, info->max_mtu)) == 0;
}

bool dpdk_device_start(struct dpdk_port *port)
{
    const struct rte_eth_conf conf = {0};
    struct rte_eth_dev_info info;
    uint16_t rx_size = (uint16_t)(port->queue_size > 0 ? port->queue_size : PCI_QUEUE_SIZE);
    uint16_t tx_size = rx_size;

    if (rte_eth_dev_info_get(port->ethdev, &info) != 0 ||
        rte_eth_dev_configure(port->ethdev, 1, 1, &conf) != 0 ||
        rte_eth_dev_adjust_nb_rx_tx_desc(port->ethdev, &rx_size, &tx_size) != 0 ||
        (port->kind == DPDK_PCI && !set_mtu(port, &info)) ||
        rte_eth_rx_queue_setup(port->ethdev, 0, rx_size, (unsigned)SOCKET_ID_ANY, NULL,
                               port->rx_pool) != 0 ||
        rte_eth_tx_queue_setup(port->ethdev, 0, tx_size, (unsigned)SOCKET_ID_ANY, NULL) != 0 ||
        rte_eth_dev_start(port->ethdev) != 0)
        return false;
    if (port->kind == DPDK_PCI || port->kind == DPDK_VDEV)
        rte_eth_promiscuous_enable(port->ethdev);
    return true;
}

static void alarm_seen(void *argument)
{
    atomic_store((_Atomic bool *)argument, true);
}

/* A driver that has seen its peer go may have set an alarm that will touch the device. Alarms
 * run in order of time, so when ours has run, the driver's has. */
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

/* The driver does not tell, but its ring lies in a named memory zone in the layout that the
 * virtio specification prescribes. */
unsigned dpdk_device_in_flight(const struct dpdk_port *port)
{
    const struct rte_memzone *zone;
    struct vring ring;
    char name[32];

    if (port->kind != DPDK_VIRTIO_USER)
        return 0;
    snprintf(name, sizeof name, "port%u_vq%u", (unsigned)port->ethdev, VIRTIO_TRANSMIT_QUEUE);
    zone = rte_memzone_lookup(name);
    if (zone == NULL)
        return 0;
    vring_init(&ring, port->queue_size, zone->addr, VRING_ALIGN);
    const uint16_t offered = __atomic_load_n(&ring.avail->idx, __ATOMIC_ACQUIRE);
    const uint16_t taken = __atomic_load_n(&ring.used->idx, __ATOMIC_ACQUIRE);
    return (uint16_t)(offered - taken);
}
