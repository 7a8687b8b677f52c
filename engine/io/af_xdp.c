/* af_xdp: moves frames between a device and our memory, past the kernel's network stack. The port
 * owns the receiving side of its queues: while it is open, no frame that arrives there reaches the
 * kernel. Sent frames go to the device as from any other socket, so a bridge or a veth peer needs
 * no change.
 *
 * If the driver supports zero-copy, the device reads and writes our memory; otherwise (veth) the
 * kernel copies frames into our memory at the earliest point of the driver. */
#include "io/io.h"

#define SUMMARY "AF_XDP sockets, which take the device's receive queues"
#define KEYS                                                                                       \
    "dev=NAME, queues=N (the first N receive queues, 1 to 16, default 1) or queue=I (that one), "  \
    "mode=auto|zerocopy|copy, busy-poll, block"

static const struct io_variant variants[] = {
    {.name = "af-xdp",
     .meaning = "AF_XDP sockets: past the kernel's network stack, of a kernel device",
     .arguments = "dev=DEVICE",
     .container = "net_raw,net_admin,bpf,ipc_lock"},
    {.name = NULL},
};

#ifndef HAVE_AF_XDP

static const struct io_ops io_af_xdp = {
    .name = "af_xdp",
    .summary = SUMMARY,
    .keys = KEYS,
    .variants = variants,
    .missing = "built without the kernel's headers for it; install linux-libc-dev 5.11 or later "
               "and rebuild",
};

IO_BACKEND(io_af_xdp);

#else

#include "io/af_xdp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fail.h"
#include "io/packet.h"
#include "io/socket.h"

#define COLORS 8 /* number of different cache lines in which frames begin in their slots */
#define SPREAD_BYTES (64U * (COLORS - 1))

static struct xdp_memory *shared; /* memory of the ports of this process */

/* The number of queues of all ports of this process that could share memory. */
static unsigned count_queues(const struct io_config *config)
{
    unsigned queues = 0;

    for (unsigned i = 0; i < config->spec_count; i++) {
        struct xdp_arguments arguments;
        char ignored[256];
        const char *text;
        if (io_of(config->specs[i], &text) == &io_af_xdp &&
            xdp_parse(text, &arguments, ignored, sizeof ignored))
            queues += arguments.queues;
    }
    return queues > 0 ? queues : 1;
}

/* The room for a frame in a slot: the configured size. For a forwarder it is the MTU with two VLAN
 * tags, as far as the slots can still begin in different cache lines. */
static uint32_t room_in_slots(const struct xdp_memory *memory, const struct io_config *config,
                              uint32_t mtu_bytes)
{
    const uint32_t most = memory->slot_chunks * memory->chunk_bytes - SPREAD_BYTES;
    const uint32_t received = mtu_bytes + 22 < most ? mtu_bytes + 22 : most;

    return received > config->frame_length_max ? received : config->frame_length_max;
}

static void fill_slots(struct xdp_port *port)
{
    const struct xdp_queue *q = &port->queues[0];
    const struct xdp_memory *memory = q->memory;
    const uint64_t slot_bytes = (uint64_t)memory->slot_chunks * memory->chunk_bytes;
    const uint64_t first = q->first + (uint64_t)XDP_RX_FRAMES * memory->chunk_bytes;
    const bool has_colors =
        memory->slot_chunks == 1 && slot_bytes >= port->slot_room + SPREAD_BYTES;

    for (unsigned i = 0; i < XDP_TX_SLOTS; i++)
        port->free_slots[i] = first + i * slot_bytes + (has_colors ? i % COLORS * 64 : 0);
    port->free_count = XDP_TX_SLOTS;
}

static void close_queues(struct xdp_port *port)
{
    for (unsigned i = 0; i < port->queue_count; i++)
        xdp_queue_close(&port->queues[i]);
    port->queue_count = 0;
}

static bool open_queues(struct xdp_port *port, struct xdp_memory *memory,
                        const struct xdp_arguments *arguments, char *error, size_t size)
{
    const unsigned used = memory->used;

    port->several = memory->several;
    for (; port->queue_count < arguments->queues; port->queue_count++) {
        struct xdp_queue *q = &port->queues[port->queue_count];
        if (xdp_queue_open(q, port, memory, arguments->queue + port->queue_count, arguments, error,
                           size))
            continue;
        xdp_queue_close(q);
        close_queues(port);
        memory->references -= memory->used - used;
        memory->used = used;
        if (used == 0)
            memory->fd = -1;
        return false;
    }
    return true;
}

/* Open the queues in the memory of the process. If the kernel does not share it (between a device
 * with zero-copy and a device without), use separate memory for the port. */
static bool open_in_memory(struct xdp_port *port, const struct xdp_arguments *arguments,
                           const struct io_config *config, char *error, size_t size)
{
    const bool shares = shared != NULL && shared->used + arguments->queues <= shared->regions;
    struct xdp_memory *memory = shares ? shared : NULL;

    if (shares && open_queues(port, memory, arguments, error, size))
        return true;
    memory = xdp_memory_make(shared == NULL ? count_queues(config) : arguments->queues,
                             config->frame_length_max, error, size);
    if (memory == NULL)
        return false;
    if (!open_queues(port, memory, arguments, error, size)) {
        xdp_memory_leave(memory);
        return false;
    }
    if (shared == NULL)
        shared = memory;
    return true;
}

static void port_close(struct io_port *base)
{
    struct xdp_port *port = (struct xdp_port *)(void *)base;
    struct xdp_memory *memory = port->queue_count > 0 ? port->queues[0].memory : NULL;
    const unsigned queues = port->queue_count;

    device_link_close(&port->link);
    if (port->link_fd >= 0)
        close(port->link_fd);
    if (port->map_fd >= 0)
        close(port->map_fd);
    if (port->promiscuous_fd >= 0)
        close(port->promiscuous_fd);
    close_queues(port);
    if (memory != NULL) {
        memory->references -= queues;
        if (memory->references == 0 && memory == shared)
            shared = NULL;
        xdp_memory_leave(memory);
    }
    free(port->assembled);
    free(port);
}

static bool open_all(struct xdp_port *port, const struct xdp_arguments *arguments,
                     const struct io_config *config, char *error, size_t size)
{
    if (!open_in_memory(port, arguments, config, error, size) ||
        !xdp_program_attach(port, arguments->mode == XDP_MODE_ZEROCOPY, error, size))
        return false;
    for (unsigned i = 0; i < port->queue_count; i++) {
        if (!xdp_program_add(port, &port->queues[i], error, size))
            return false;
    }
    port->promiscuous_fd = packet_socket(port->device, PACKET_QDISC_PAST, error, size);
    if (port->several && port->promiscuous_fd >= 0) {
        port->assembled = malloc((size_t)IO_BURST_MAX * XDP_LONGEST);
        if (port->assembled == NULL)
            snprintf(error, size, "out of memory");
    }
    return port->promiscuous_fd >= 0 && port->several == (port->assembled != NULL);
}

static struct io_port *port_open(const struct io_config *config, char *error, size_t size)
{
    struct xdp_arguments arguments;
    struct network_device device = {0};

    if (!xdp_parse(config->arguments, &arguments, error, size) ||
        !socket_device(arguments.device, &device, error, size))
        return NULL;
    struct xdp_port *port = calloc(1, sizeof *port);
    if (port == NULL) {
        snprintf(error, size, "out of memory");
        return NULL;
    }
    port->device = device.index;
    port->link_fd = port->map_fd = port->promiscuous_fd = -1;
    device_link_open(&port->link, arguments.device);
    port->busy_poll = arguments.busy_poll;
    port->unforced_buffers = config->unforced_buffers;
    port->may_block = arguments.block && config->rx_may_block;
    port->base.blocking = arguments.block;
    if (!open_all(port, &arguments, config, error, size)) {
        port_close(&port->base);
        return NULL;
    }
    port->slot_room = room_in_slots(port->queues[0].memory, config, device.mtu_bytes);
    port->base.room = port->slot_room;
    fill_slots(port);
    socket_describe(&port->base, &device, config);
    snprintf(port->base.driver, sizeof port->base.driver, "af_xdp %s%s%s%s",
             port->zero_copy ? "zero-copy" : "copy", port->native ? "" : " generic",
             arguments.busy_poll ? " busy-poll" : "", arguments.block ? " blocking" : "");
    return &port->base;
}

static uint64_t rx_drops(struct io_port *base)
{
    struct xdp_port *port = (struct xdp_port *)(void *)base;
    uint64_t drops = 0;

    for (unsigned i = 0; i < port->queue_count; i++) {
        struct xdp_statistics statistics = {0};
        socklen_t length = sizeof statistics;
        if (getsockopt(port->queues[i].fd, SOL_XDP, XDP_STATISTICS, &statistics, &length) == 0)
            drops += statistics.rx_dropped + statistics.rx_ring_full;
        /* Frames are received without a system call, and only a system call reports a missing
         * device. */
        if (recvfrom(port->queues[i].fd, NULL, 0, MSG_DONTWAIT, NULL, NULL) < 0)
            xdp_note_failure(port, "receive", errno);
    }
    return drops;
}

static bool device_up(struct io_port *base)
{
    struct xdp_port *port = (struct xdp_port *)(void *)base;
    return device_link_check(&port->link, &base->links_lost);
}

const struct io_ops io_af_xdp = {
    .name = "af_xdp",
    .summary = SUMMARY,
    .keys = KEYS,
    .variants = variants,
    .privileges = "net_raw,net_admin,bpf,ipc_lock",
    .capabilities = IO_ARGUMENT_QUEUES | IO_OPENS_NO_FILE,
    .check = xdp_check,
    .open = port_open,
    .tx_prepare = xdp_tx_prepare,
    .tx_acquire = xdp_tx_acquire,
    .tx_send = xdp_tx_send,
    .tx_release = xdp_tx_release,
    .rx_burst = xdp_rx_burst,
    .rx_release = xdp_rx_release,
    .forward = xdp_forward,
    .rx_wait = xdp_rx_wait,
    .rx_drops = rx_drops,
    .device_up = device_up,
    .close = port_close,
};

IO_BACKEND(io_af_xdp);

#endif
