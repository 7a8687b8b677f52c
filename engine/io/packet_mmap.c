/* packet_mmap: AF_PACKET with rings that are shared with the kernel. Received frames are read in
 * place and sent frames are written in place; a burst is sent with one system call.
 *
 * There are two sockets, each with the better ring version: version 3 for receiving (or 2, which
 * hands over every frame at once, for roles that time frames), version 2 for sending, because its
 * header is 16 bytes shorter and the kernel sends frame by frame in both versions.
 *
 * The kernel would send a frame by reference to its slot, and free the slot as soon as the
 * receiving socket has taken the frame, although that socket may read it later: frames would change
 * on their way. Therefore each slot has a virtio header which declares the whole frame as header,
 * so that the kernel copies it. This is also faster for frames of one page. */
#include "io/packet_mmap.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fail.h"
#include "io/arguments.h"
#include "io/packet.h"
#include "io/socket.h"

#define SEND_BLOCK_BYTES (128U << 10)
#define SEND_SLOTS_MIN (2U * IO_BURST_MAX)
#define SEND_HEADER ((uint32_t)TPACKET_ALIGN(sizeof(struct tpacket2_hdr)))
#define VIRTIO_HEADER ((uint32_t)sizeof(struct virtio_net_hdr))
#define FRAME_OFFSET (SEND_HEADER + VIRTIO_HEADER)

struct arguments {
    char device[IFNAMSIZ];
    bool block;
    unsigned ring; /* enum packet_mmap_version */
    unsigned ring_mb;
    unsigned qdisc;
};

static const char *const ring_names[] = {"auto", "v2", "v3", NULL};

#define AT(field) offsetof(struct arguments, field)
static const struct io_key keys[] = {
    {.name = "dev", .kind = IO_KEY_DEVICE, .offset = AT(device)},
    {.name = "ring", .kind = IO_KEY_CHOICE, .offset = AT(ring), .choices = ring_names},
    {.name = "ring-mb", .kind = IO_KEY_NUMBER, .offset = AT(ring_mb), .min = 1, .max = 1024},
    {.name = "qdisc", .kind = IO_KEY_CHOICE, .offset = AT(qdisc), .choices = packet_qdisc_names},
    {.name = "block", .kind = IO_KEY_FLAG, .offset = AT(block)},
};

static bool parse(const char *text, struct arguments *arguments, char *error, size_t size)
{
    *arguments = (struct arguments){.ring_mb = 32};
    if (!io_parse("packet_mmap", keys, sizeof keys / sizeof keys[0], text, arguments, error, size))
        return false;
    if (arguments->device[0] == '\0')
        snprintf(error, size, "packet_mmap needs dev=NAME");
    return arguments->device[0] != '\0';
}

static bool check(const char *text, char *error, size_t size)
{
    struct arguments arguments;
    return parse(text, &arguments, error, size);
}

static void send_ring_close(struct send_ring *tx)
{
    if (tx->memory != NULL)
        munmap(tx->memory, tx->bytes);
    if (tx->fd >= 0)
        close(tx->fd);
    free(tx->slot);
}

/* Request the ring from the kernel, and map it. */
static bool make_ring(struct send_ring *tx, const struct tpacket_req *request, char *error,
                      size_t size)
{
    const int version = TPACKET_V2, on = 1;

    if (setsockopt(tx->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version) != 0 ||
        setsockopt(tx->fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) != 0 ||
        setsockopt(tx->fd, SOL_PACKET, PACKET_TX_RING, request, sizeof *request) != 0)
        return fail(error, size, "send ring of %u KiB: %s", (unsigned)(tx->bytes >> 10),
                    strerror(errno));
    void *memory =
        mmap(NULL, tx->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, tx->fd, 0);
    if (memory == MAP_FAILED)
        return fail(error, size, "map the send ring: %s", strerror(errno));
    tx->memory = memory;
    return true;
}

static bool send_ring_open(struct send_ring *tx, int device, unsigned qdisc, uint32_t room,
                           char *error, size_t size)
{
    /* An odd number of cache lines, so that the slots do not all use the same cache sets. */
    const uint32_t slot_bytes = ((FRAME_OFFSET + room + 63) / 64 | 1) * 64;
    const unsigned a_block = SEND_BLOCK_BYTES / slot_bytes;
    const unsigned blocks = (SEND_SLOTS_MIN + a_block - 1) / a_block;
    const struct tpacket_req request = {
        .tp_block_size = SEND_BLOCK_BYTES,
        .tp_block_nr = blocks,
        .tp_frame_size = slot_bytes,
        .tp_frame_nr = a_block * blocks,
    };

    tx->room = slot_bytes - FRAME_OFFSET;
    tx->slots = request.tp_frame_nr;
    tx->bytes = (size_t)SEND_BLOCK_BYTES * blocks;
    tx->slot = calloc(tx->slots, sizeof *tx->slot);
    tx->fd = packet_socket(device, qdisc, error, size);
    if (tx->fd < 0 || tx->slot == NULL || !make_ring(tx, &request, error, size))
        return false;
    for (unsigned i = 0; i < tx->slots; i++) {
        tx->slot[i] = tx->memory + (size_t)(i / a_block) * SEND_BLOCK_BYTES +
                      (size_t)(i % a_block) * slot_bytes;
        memset(tx->slot[i] + SEND_HEADER, 0, VIRTIO_HEADER);
    }
    tx->buffers = socket_tune(tx->fd, false, tx->unforced_buffers);
    if (packet_bind(tx->fd, device, false, error, size))
        return true;
    tx->fd = -1;
    return false;
}

static void port_close(struct io_port *base)
{
    struct packet_mmap_port *port = (struct packet_mmap_port *)base;

    device_link_close(&port->link);
    receive_ring_close(&port->rx);
    send_ring_close(&port->tx);
    free(port);
}

static struct io_port *port_open(const struct io_config *config, char *error, size_t size)
{
    struct arguments arguments;
    struct network_device device = {0};

    if (!parse(config->arguments, &arguments, error, size) ||
        !socket_device(arguments.device, &device, error, size))
        return NULL;
    struct packet_mmap_port *port = calloc(1, sizeof *port);
    if (port == NULL) {
        snprintf(error, size, "out of memory");
        return NULL;
    }
    const uint32_t room = socket_frame_room(&device, config);
    port->tx.fd = port->rx.fd = -1;
    device_link_open(&port->link, arguments.device);
    port->tx.unforced_buffers = config->unforced_buffers;
    port->rx.may_block = arguments.block && config->rx_may_block;
    port->base.untimed = arguments.ring == RING_AUTO && config->rx_untimed;
    port->rx.v3 = arguments.ring == RING_V3 || port->base.untimed;
    port->base.blocking = arguments.block;
    if (!send_ring_open(&port->tx, device.index, arguments.qdisc, room, error, size) ||
        !receive_ring_open(&port->rx, device.index, arguments.ring_mb, room, error, size)) {
        port_close(&port->base);
        return NULL;
    }
    port->base.room = port->tx.room;
    port->base.buffers = port->tx.buffers;
    socket_describe(&port->base, &device, config);
    snprintf(port->base.driver, sizeof port->base.driver, "af_packet rings rx-v%d tx-v2%s%s",
             port->rx.v3 ? 3 : 2, arguments.block ? " blocking" : "",
             arguments.qdisc == PACKET_QDISC_THROUGH ? " qdisc" : "");
    return &port->base;
}

void packet_mmap_note_failure(struct packet_mmap_port *port, const char *call, int error)
{
    if (socket_error_passes(error) ||
        (error == ENETDOWN && device_link_is_only_down(&port->link, &port->base.links_lost)))
        return;
    snprintf(port->base.failure, sizeof port->base.failure, "%s: %s", call, strerror(error));
}

static struct tpacket2_hdr *header_at(const struct send_ring *tx, unsigned ahead)
{
    const unsigned index = tx->next + ahead;
    return (struct tpacket2_hdr *)(void *)tx->slot[index < tx->slots ? index : index - tx->slots];
}

/* A slot that the kernel has not yet freed may be written nevertheless: see above. */
static bool tx_prepare(struct io_port *base, const uint8_t *bytes, uint32_t length)
{
    const struct send_ring *tx = &((struct packet_mmap_port *)base)->tx;

    if (length > tx->room)
        return false;
    for (unsigned i = 0; i < tx->slots; i++)
        memcpy(tx->slot[i] + FRAME_OFFSET, bytes, length);
    return true;
}

static unsigned tx_acquire(struct io_port *base, struct io_frame *frames, unsigned count,
                           uint32_t length)
{
    const struct send_ring *tx = &((struct packet_mmap_port *)base)->tx;

    if (length > tx->room)
        return 0;
    for (unsigned i = 0; i < count; i++) {
        struct tpacket2_hdr *header = header_at(tx, i);
        if (__atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE) != TP_STATUS_AVAILABLE)
            return i;
        frames[i] = (struct io_frame){.data = (uint8_t *)header + FRAME_OFFSET, .length = length};
    }
    return count;
}

static void fill_header(struct tpacket2_hdr *header, uint32_t length)
{
    struct virtio_net_hdr *virtio = (struct virtio_net_hdr *)((uint8_t *)header + SEND_HEADER);

    virtio->hdr_len = (uint16_t)length;
    header->tp_len = VIRTIO_HEADER + length;
    __atomic_store_n(&header->tp_status, TP_STATUS_SEND_REQUEST, __ATOMIC_RELEASE);
}

/* How many of the offered frames the kernel has accepted; the others can be used again. */
static unsigned take_back(struct packet_mmap_port *port, unsigned count, int error)
{
    unsigned taken = 0;

    while (taken < count) {
        const uint32_t status =
            __atomic_load_n(&header_at(&port->tx, taken)->tp_status, __ATOMIC_ACQUIRE);
        if (status & TP_STATUS_WRONG_FORMAT && !socket_error_passes(error))
            snprintf(port->base.failure, sizeof port->base.failure,
                     "send ring: the kernel refused a frame of %u bytes: %s",
                     header_at(&port->tx, taken)->tp_len - VIRTIO_HEADER, strerror(error));
        if (status & (TP_STATUS_SEND_REQUEST | TP_STATUS_WRONG_FORMAT))
            break;
        taken++;
    }
    for (unsigned i = taken; i < count; i++)
        __atomic_store_n(&header_at(&port->tx, i)->tp_status, TP_STATUS_AVAILABLE,
                         __ATOMIC_RELEASE);
    return taken;
}

static unsigned tx_send(struct io_port *base, struct io_frame *frames, unsigned count)
{
    struct packet_mmap_port *port = (struct packet_mmap_port *)base;
    struct send_ring *tx = &port->tx;
    ssize_t bytes = 0;

    for (unsigned i = 0; i < count; i++) {
        fill_header(header_at(tx, i), frames[i].length);
        bytes += frames[i].length;
    }
    const ssize_t sent = send(tx->fd, NULL, 0, MSG_DONTWAIT);
    unsigned taken = count;
    if (__builtin_expect(sent != bytes, 0)) {
        const int error = sent < 0 ? errno : 0;
        if (sent < 0)
            packet_mmap_note_failure(port, "send", error);
        taken = take_back(port, count, error);
    }
    tx->next = tx->next + taken < tx->slots ? tx->next + taken : tx->next + taken - tx->slots;
    return taken;
}

static bool device_up(struct io_port *base)
{
    struct packet_mmap_port *port = (struct packet_mmap_port *)base;
    return device_link_check(&port->link, &base->links_lost);
}

static const struct io_variant variants[] = {
    {.name = "packet-mmap",
     .meaning = "a packet socket with rings shared with the kernel",
     .arguments = "dev=DEVICE",
     .timed = "ring=v2", /* frames must not be handed over late, as by the other ring */
     .container = "net_raw"},
    {.name = NULL},
};

static const struct io_ops io_packet_mmap = {
    .name = "packet_mmap",
    .summary = "packet sockets (AF_PACKET) with rings shared with the kernel",
    .keys = "dev=NAME, ring=auto|v2|v3 (receive ring), ring-mb=N (1 to 1024, default 32), "
            "qdisc=bypass|queue, block",
    .variants = variants,
    .privileges = "net_raw,net_admin",
    .capabilities = IO_OPENS_NO_FILE,
    .check = check,
    .open = port_open,
    .tx_prepare = tx_prepare,
    .tx_acquire = tx_acquire,
    .tx_send = tx_send,
    .tx_release = io_release_nothing,
    .rx_burst = packet_mmap_rx_burst,
    .rx_release = io_release_nothing, /* the next rx_burst returns them */
    .rx_wait = packet_mmap_rx_wait,
    .rx_drops = packet_mmap_rx_drops,
    .device_up = device_up,
    .close = port_close,
};

IO_BACKEND(io_packet_mmap);
