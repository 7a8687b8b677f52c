/* Frames that the kernel drops in front of DPDK's drivers for kernel devices, because the ring is
 * full. The drivers do not report them (af-packet none, af-xdp some), but their sockets are among
 * the open files of this process: those that did not exist before the device was opened. */
#include <linux/if_packet.h>
#include <linux/if_xdp.h>

#include <sys/socket.h>

#include "io/dpdk.h"
#include "io/packet.h"

static int domain_of(const struct dpdk_port *port)
{
    return port->kind == DPDK_AF_PACKET ? AF_PACKET : port->kind == DPDK_AF_XDP ? AF_XDP : -1;
}

static bool is_socket_of(int fd, int domain)
{
    int found = -1;
    socklen_t length = sizeof found;

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &found, &length) == 0 && found == domain;
}

void dpdk_kernel_before_open(struct dpdk_port *port, uint8_t existing[DPDK_FILES_MAX])
{
    const int domain = domain_of(port);

    for (int fd = 0; domain >= 0 && fd < DPDK_FILES_MAX; fd++)
        existing[fd] = is_socket_of(fd, domain);
}

void dpdk_kernel_after_open(struct dpdk_port *port, const uint8_t existing[DPDK_FILES_MAX])
{
    const int domain = domain_of(port);

    for (int fd = 0; domain >= 0 && fd < DPDK_FILES_MAX; fd++) {
        if (!existing[fd] && is_socket_of(fd, domain) && port->kernel.count < IO_QUEUES_MAX)
            port->kernel.fds[port->kernel.count++] = fd;
    }
}

static uint64_t xdp_ring_full(int fd)
{
    struct xdp_statistics statistics = {0};
    socklen_t length = sizeof statistics;

    return getsockopt(fd, SOL_XDP, XDP_STATISTICS, &statistics, &length) == 0
               ? statistics.rx_ring_full
               : 0;
}

uint64_t dpdk_kernel_drops(struct dpdk_port *port)
{
    uint64_t drops = 0;

    for (unsigned i = 0; i < port->kernel.count; i++) {
        if (port->kind == DPDK_AF_PACKET)
            port->kernel.drops += packet_drops(port->kernel.fds[i]);
        else
            drops += xdp_ring_full(port->kernel.fds[i]);
    }
    return drops + port->kernel.drops;
}
