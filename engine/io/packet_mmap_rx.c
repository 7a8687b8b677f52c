/* The receive ring of `packet_mmap`: frames are read where the kernel has written them, and return
 * to the kernel at the next receive call. There is no system call per frame. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fail.h"
#include "io/packet.h"
#include "io/packet_mmap.h"

#define BLOCK_BYTES (64U << 10) /* about 450 frames of 64 bytes, or 42 of 1518 */
#define RETIRE_MS 1             /* time after which a block is handed over that is not full */
#define BLOCK_LONGEST_NS 20000000U
#define V2_DATA_OFFSET 66 /* offset of the frame in its slot: header, address, alignment */

static bool set_up(struct receive_ring *rx, uint32_t room, char *error, size_t size)
{
    const int version = rx->v3 ? TPACKET_V3 : TPACKET_V2;
    /* An odd number of cache lines, so that the slots do not all use the same cache sets. */
    const uint32_t lines = (V2_DATA_OFFSET + room + 63) / 64 | 1;
    struct tpacket_req3 request = {
        .tp_block_size = (unsigned)rx->block_bytes,
        .tp_block_nr = rx->block_count,
        .tp_frame_size = rx->v3 ? 2048 : lines * 64,
        .tp_retire_blk_tov = RETIRE_MS,
    };

    rx->slot_bytes = request.tp_frame_size;
    rx->slots = request.tp_block_size / request.tp_frame_size;
    request.tp_frame_nr = rx->slots * request.tp_block_nr;
    if (setsockopt(rx->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version) == 0 &&
        setsockopt(rx->fd, SOL_PACKET, PACKET_RX_RING, &request,
                   rx->v3 ? sizeof request : sizeof(struct tpacket_req)) == 0)
        return true;
    return fail(error, size, "receive ring of %zu MiB: %s; lower ring-mb",
                (rx->block_bytes * rx->block_count) >> 20, strerror(errno));
}

bool receive_ring_open(struct receive_ring *rx, int device, unsigned megabytes, uint32_t room,
                       char *error, size_t size)
{
    rx->block_bytes = BLOCK_BYTES;
    rx->block_count = (unsigned)(((size_t)megabytes << 20) / BLOCK_BYTES);
    rx->fd = packet_socket(device, PACKET_QDISC_PAST, error, size);
    if (rx->fd < 0)
        return false;
    if (!set_up(rx, room, error, size)) {
        receive_ring_close(rx);
        return false;
    }
    void *memory = mmap(NULL, rx->block_bytes * rx->block_count, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_POPULATE, rx->fd, 0);
    if (memory == MAP_FAILED) {
        snprintf(error, size, "map the receive ring: %s", strerror(errno));
        receive_ring_close(rx);
        return false;
    }
    rx->memory = memory;
    if (!packet_bind(rx->fd, device, true, error, size)) {
        rx->fd = -1;
        receive_ring_close(rx);
        return false;
    }
    return true;
}

void receive_ring_close(struct receive_ring *rx)
{
    if (rx->memory != NULL)
        munmap(rx->memory, rx->block_bytes * rx->block_count);
    if (rx->fd >= 0)
        close(rx->fd);
    rx->memory = NULL;
    rx->fd = -1;
}

/* The kernel has removed the VLAN tag and stored it separately: put it back into the frame. */
static struct io_frame with_tag(struct io_frame frame, uint16_t tci, uint16_t tpid)
{
    const uint16_t tag[2] = {htons(tpid), htons(tci)};

    memmove(frame.data - sizeof tag, frame.data, 12);
    frame.data -= sizeof tag;
    frame.length += sizeof tag;
    memcpy(frame.data + 12, tag, sizeof tag);
    return frame;
}

static struct tpacket_block_desc *block_at(const struct receive_ring *rx, unsigned block)
{
    return (struct tpacket_block_desc *)(void *)(rx->memory + block * rx->block_bytes);
}

static void give_back_blocks(struct receive_ring *rx)
{
    for (; rx->return_count > 0; rx->return_count--) {
        __atomic_store_n(&block_at(rx, rx->return_block)->hdr.bh1.block_status, TP_STATUS_KERNEL,
                         __ATOMIC_RELEASE);
        rx->return_block = rx->return_block + 1 == rx->block_count ? 0 : rx->return_block + 1;
    }
}

static bool open_block(struct receive_ring *rx)
{
    struct tpacket_block_desc *block = block_at(rx, rx->block);

    if (!(__atomic_load_n(&block->hdr.bh1.block_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
        return false;
    rx->left = block->hdr.bh1.num_pkts;
    rx->next = (uint8_t *)block + block->hdr.bh1.offset_to_first_pkt;
    return true;
}

static unsigned take_packed(struct receive_ring *rx, struct io_frame *frames, unsigned count)
{
    unsigned taken = 0;

    give_back_blocks(rx);
    while (taken < count && (rx->left > 0 || open_block(rx))) {
        for (; taken < count && rx->left > 0; taken++, rx->left--) {
            const struct tpacket3_hdr *h = (const struct tpacket3_hdr *)(void *)rx->next;
            frames[taken] =
                (struct io_frame){.data = rx->next + h->tp_mac, .length = h->tp_snaplen};
            if (__builtin_expect((h->tp_status & TP_STATUS_VLAN_VALID) != 0, 0))
                frames[taken] = with_tag(frames[taken], (uint16_t)h->hv1.tp_vlan_tci,
                                         (uint16_t)h->hv1.tp_vlan_tpid);
            rx->next += h->tp_next_offset;
            __builtin_prefetch(rx->next + h->tp_mac);
        }
        if (rx->left == 0) {
            rx->block = rx->block + 1 == rx->block_count ? 0 : rx->block + 1;
            rx->return_count++;
            if (rx->return_count == rx->block_count)
                break;
        }
    }
    return taken;
}

static struct tpacket2_hdr *slot_at(const struct receive_ring *rx, unsigned block, unsigned slot)
{
    return (struct tpacket2_hdr *)(void *)(rx->memory + block * rx->block_bytes +
                                           (size_t)slot * rx->slot_bytes);
}

static void step(const struct receive_ring *rx, unsigned *block, unsigned *slot)
{
    if (++*slot == rx->slots) {
        *slot = 0;
        *block = *block + 1 == rx->block_count ? 0 : *block + 1;
    }
}

static unsigned take_slots(struct receive_ring *rx, struct io_frame *frames, unsigned count)
{
    unsigned taken = 0;

    for (; rx->return_count > 0; rx->return_count--) {
        __atomic_store_n(&slot_at(rx, rx->return_block, rx->return_slot)->tp_status,
                         TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        step(rx, &rx->return_block, &rx->return_slot);
    }
    for (; taken < count; taken++) {
        struct tpacket2_hdr *h = slot_at(rx, rx->block, rx->slot);
        const uint32_t status = __atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE);
        if (!(status & TP_STATUS_USER))
            break;
        frames[taken] =
            (struct io_frame){.data = (uint8_t *)h + h->tp_mac, .length = h->tp_snaplen};
        if (__builtin_expect((status & TP_STATUS_VLAN_VALID) != 0, 0))
            frames[taken] = with_tag(frames[taken], h->tp_vlan_tci, h->tp_vlan_tpid);
        step(rx, &rx->block, &rx->slot);
    }
    rx->return_count = taken;
    return taken;
}

/* Frames are received without a system call, and only a system call reports a missing device. */
static void check_device(struct packet_mmap_port *port)
{
    int error = 0;
    socklen_t length = sizeof error;

    if (getsockopt(port->rx.fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error != 0)
        packet_mmap_note_failure(port, "receive ring", error);
}

void packet_mmap_rx_wait(struct io_port *base, uint64_t timeout_ns)
{
    struct packet_mmap_port *port = (struct packet_mmap_port *)base;
    struct pollfd fd = {.fd = port->rx.fd, .events = POLLIN};

    if (io_poll(&fd, 1, timeout_ns) > 0 && fd.revents & POLLERR)
        check_device(port);
}

unsigned packet_mmap_rx_burst(struct io_port *base, struct io_frame *frames, unsigned count)
{
    struct packet_mmap_port *port = (struct packet_mmap_port *)base;
    struct receive_ring *rx = &port->rx;
    unsigned taken = rx->v3 ? take_packed(rx, frames, count) : take_slots(rx, frames, count);

    if (taken == 0 && rx->may_block) {
        packet_mmap_rx_wait(base, BLOCK_LONGEST_NS);
        taken = rx->v3 ? take_packed(rx, frames, count) : take_slots(rx, frames, count);
    }
    return taken;
}

uint64_t packet_mmap_rx_drops(struct io_port *base)
{
    struct packet_mmap_port *port = (struct packet_mmap_port *)base;

    check_device(port);
    port->rx.drops += packet_drops(port->rx.fd);
    return port->rx.drops;
}
