/* Opens the parts of a `dpdk` port: packet buffers, and devices that need no peer. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_mbuf_pool_ops.h>

#include "fail.h"
#include "io/dpdk.h"
#include "io/socket.h"

#define POOL_NAME_MAX 32
#define SMALL_PAGE_BYTES 4096 /* the smallest page size */
#define AF_XDP_ROOM_MAX 3584  /* a buffer with its header must fit a page */

/* The kernel provides ordinary pages when they are first touched: touch them now and not while
 * frames are sent. */
static void touch_pages(struct rte_mempool *pool, void *unused, struct rte_mempool_memhdr *memory,
                        unsigned index)
{
    volatile uint8_t *bytes = memory->addr;

    (void)pool, (void)unused, (void)index;
    for (size_t at = 0; at < memory->len; at += SMALL_PAGE_BYTES)
        bytes[at] = bytes[at];
}

/* On small pages DPDK places no buffer across a page boundary, unless it was set up for devices
 * that do not read it by physical addresses. Each buffer of 2 KiB would then use a whole page, and
 * the headers of all buffers would use the same lines of the nearest cache. */
static struct rte_mempool *make_dense_pool(const char *name, unsigned count, uint16_t bytes)
{
    struct rte_pktmbuf_pool_private head = {.mbuf_data_room_size = bytes};
    struct rte_mempool *pool = rte_mempool_create_empty(
        name, count, (unsigned)sizeof(struct rte_mbuf) + bytes, DPDK_POOL_CACHE, sizeof head,
        SOCKET_ID_ANY, RTE_MEMPOOL_F_NO_IOVA_CONTIG);

    if (pool == NULL)
        return NULL;
    rte_pktmbuf_pool_init(pool, &head);
    if (rte_mempool_set_ops_byname(pool, rte_mbuf_best_mempool_ops(), NULL) != 0 ||
        rte_mempool_populate_default(pool) < 0) {
        rte_mempool_free(pool);
        return NULL;
    }
    rte_mempool_mem_iter(pool, touch_pages, NULL);
    rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
    return pool;
}

/* On the NUMA node of the port, or anywhere if that node has no memory left. */
static struct rte_mempool *make_pool(const struct dpdk_queue *q, const char *name_prefix,
                                     unsigned count)
{
    const uint16_t bytes = (uint16_t)(RTE_PKTMBUF_HEADROOM + q->room_bytes);
    char name[POOL_NAME_MAX];
    struct rte_mempool *pool;

    snprintf(name, sizeof name, "%s_%u_%u", name_prefix, q->port->index, q->number);
    if (!rte_eal_has_hugepages())
        return make_dense_pool(name, count, bytes);
    pool = rte_pktmbuf_pool_create(name, count, DPDK_POOL_CACHE, 0, bytes, q->node);
    if (pool == NULL && q->node != SOCKET_ID_ANY)
        pool = rte_pktmbuf_pool_create(name, count, DPDK_POOL_CACHE, 0, bytes, SOCKET_ID_ANY);
    return pool;
}

/* The page size at an address in KiB, as the kernel reports it; 0: unknown. */
static uint32_t page_kib_at(const void *address)
{
    FILE *maps = fopen("/proc/self/smaps", "re");
    uint32_t found = 0;
    bool here = false;
    char line[512];

    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        uintptr_t from, to;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
            here = (uintptr_t)address >= from && (uintptr_t)address < to;
        else if (here && sscanf(line, "KernelPageSize: %" SCNu32, &found) == 1)
            break;
    }
    if (maps != NULL)
        fclose(maps);
    return found;
}

/* Each queue has separate buffers, so that workers share nothing. */
bool dpdk_open_buffers(struct dpdk_port *port, const struct io_config *config, char *error,
                       size_t size)
{
    const unsigned receive = dpdk_spec_receive_buffers(&port->spec, config);
    const unsigned transmit = dpdk_spec_transmit_buffers(&port->spec);
    bool done = true;

    for (unsigned i = 0; i < port->queue_count && done; i++) {
        struct dpdk_queue *queue = port->queues[i];
        queue->rx_pool = make_pool(queue, "receive", receive);
        queue->tx_pool = make_pool(queue, "transmit", transmit);
        queue->template_bytes = malloc(queue->room_bytes);
        done = queue->rx_pool != NULL && queue->tx_pool != NULL && queue->template_bytes != NULL;
    }
    if (!done)
        snprintf(error, size,
                 "no memory for packet buffers; raise --dpdk-memory-mb or lower queue-size");
    else
        port->queues[0]->base.page_kib = page_kib_at(port->queues[0]->rx_pool);
    return done;
}

/* The name of the device in DPDK and its arguments. */
static void describe(const struct dpdk_port *port, char *name, size_t name_size, char *arguments,
                     size_t size)
{
    const struct dpdk_spec *spec = &port->spec;
    const size_t length = strcspn(spec->target, ",");
    const unsigned slot_bytes = dpdk_spec_slot_bytes(port->longest);

    switch (port->kind) {
    case DPDK_AF_PACKET:
        snprintf(name, name_size, "net_af_packet%u", port->index);
        snprintf(arguments, size,
                 "iface=%s,framecnt=%u,qdisc_bypass=1,qpairs=%u,framesz=%u,blocksz=%u",
                 spec->target, spec->queue_size, port->queue_count, slot_bytes,
                 RTE_ALIGN_CEIL(slot_bytes, (unsigned)sysconf(_SC_PAGESIZE)));
        break;
    case DPDK_AF_XDP:
        snprintf(name, name_size, "net_af_xdp%u", port->index);
        snprintf(arguments, size, "iface=%s,queue_count=%u", spec->target, port->queue_count);
        break;
    case DPDK_TAP:
        snprintf(name, name_size, "net_tap%u", port->index);
        snprintf(arguments, size, "iface=%s", spec->target);
        break;
    default:
        snprintf(name, name_size, "%.*s", (int)length, spec->target);
        snprintf(arguments, size, "%s",
                 spec->target[length] == ',' ? spec->target + length + 1 : "");
    }
}

/* af-packet and af-xdp pass everything to the kernel, which drops frames that are too long for its
 * device. The driver of tap sends no frame above an MTU that cannot be changed. */
static void take_mtu(struct dpdk_port *port)
{
    char ignored[160];
    struct network_device device = {.mtu_bytes = UINT32_MAX};
    uint16_t own_bytes;

    if (port->kind == DPDK_TAP && rte_eth_dev_get_mtu(port->ethdev, &own_bytes) == 0)
        dpdk_device_limit_mtu(port, own_bytes);
    if ((port->kind == DPDK_AF_PACKET || port->kind == DPDK_AF_XDP) &&
        socket_device(port->spec.target, &device, ignored, sizeof ignored))
        dpdk_device_limit_mtu(port, device.mtu_bytes);
}

bool dpdk_open_device(struct dpdk_port *port, bool mac_given, char *error, size_t size)
{
    char name[64], arguments[384];
    uint8_t sockets[DPDK_FILES_MAX];
    struct rte_ether_addr mac;
    bool opened;

    if (port->kind == DPDK_AF_XDP && port->room_bytes > AF_XDP_ROOM_MAX)
        return fail(error, size,
                    "packet-size: a buffer of this driver takes frames of up to %u bytes with FCS; "
                    "use af_xdp:dev=%s",
                    AF_XDP_ROOM_MAX - DPDK_XDP_HEADROOM + RTE_ETHER_CRC_LEN, port->spec.target);
    describe(port, name, sizeof name, arguments, sizeof arguments);
    dpdk_eal_lock();
    dpdk_kernel_before_open(port, sockets);
    opened = dpdk_device_add(port, name, arguments) && dpdk_device_start(port);
    dpdk_kernel_after_open(port, sockets);
    dpdk_eal_unlock();
    if (!opened) {
        const char *reason = dpdk_eal_last_error();
        return fail(error, size, "DPDK cannot open it: %s",
                    *reason != '\0' ? reason : "no such device, or no driver for it in this build");
    }
    take_mtu(port);
    if (!mac_given && rte_eth_macaddr_get(port->ethdev, &mac) == 0) {
        for (unsigned i = 0; i < port->queue_count; i++)
            memcpy(port->queues[i]->base.mac, mac.addr_bytes, sizeof mac.addr_bytes);
    }
    dpdk_open_gates(port);
    return true;
}
