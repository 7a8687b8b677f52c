/* Frame memory (UMEM) and sockets of `af_xdp`: registers memory, maps the four rings, binds.
 *
 * At first all receive chunks of a queue are in its fill ring, which has room for all of them. So
 * returning a chunk never fails. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fail.h"
#include "io/af_xdp.h"
#include "io/socket.h"

#ifndef SO_PREFER_BUSY_POLL
#define SO_PREFER_BUSY_POLL 69
#define SO_BUSY_POLL_BUDGET 70
#endif
#ifndef XDP_MAX_TX_SKB_BUDGET /* Linux 6.18: frames that one system call sends in copy mode */
#define XDP_MAX_TX_SKB_BUDGET 9
#endif

/* The kernel releases a queue some time after its socket was closed, in a kernel thread. */
#define RELEASE_LONGEST_MS 1000

struct xdp_memory *xdp_memory_make(unsigned regions, uint32_t frame_bytes, char *error, size_t size)
{
    struct xdp_memory *memory = calloc(1, sizeof *memory);

    if (memory == NULL || regions > sizeof memory->owner / sizeof memory->owner[0]) {
        snprintf(error, size, memory == NULL ? "out of memory" : "more than 64 queues");
        free(memory);
        return NULL;
    }
    memory->fd = -1;
    memory->regions = regions;
    memory->chunk_bytes = frame_bytes + XDP_HEADROOM <= 2048 ? 2048 : XDP_CHUNK_MAX;
    memory->several = frame_bytes + XDP_HEADROOM > memory->chunk_bytes;
    memory->slot_chunks = (frame_bytes + memory->chunk_bytes - 1) / memory->chunk_bytes;
    memory->region_bytes =
        (size_t)(XDP_RX_FRAMES + XDP_TX_SLOTS * memory->slot_chunks) * memory->chunk_bytes;
    memory->bytes = memory->region_bytes * regions;
    memory->area = mmap(NULL, memory->bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory->area == MAP_FAILED) {
        snprintf(error, size, "no memory for %zu MiB of frames", memory->bytes >> 20);
        free(memory);
        return NULL;
    }
    return memory;
}

void xdp_memory_leave(struct xdp_memory *memory)
{
    if (memory->references > 0)
        return;
    munmap(memory->area, memory->bytes);
    free(memory);
}

static bool set(int fd, int option, const void *value, socklen_t length, const char *call,
                char *error, size_t size)
{
    if (setsockopt(fd, SOL_XDP, option, value, length) == 0)
        return true;
    return fail(error, size, "%s: %s%s", call, strerror(errno),
                errno == ENOBUFS ? " (raise the limit of locked memory: ulimit -l)" : "");
}

static bool map_ring(struct xdp_ring *ring, int fd, uint32_t entries, size_t entry_bytes,
                     const struct xdp_ring_offset *offset, uint64_t page_offset, char *error,
                     size_t size)
{
    ring->map_bytes = offset->desc + entries * entry_bytes;
    uint8_t *map = mmap(NULL, ring->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                        fd, (off_t)page_offset);
    if (map == MAP_FAILED)
        return fail(error, size, "map an XDP ring: %s", strerror(errno));
    ring->map = map;
    ring->producer = (uint32_t *)(void *)(map + offset->producer);
    ring->consumer = (uint32_t *)(void *)(map + offset->consumer);
    ring->flags = (uint32_t *)(void *)(map + offset->flags);
    ring->entries = map + offset->desc;
    ring->mask = entries - 1;
    return true;
}

static bool make_rings(struct xdp_queue *q, char *error, size_t size)
{
    const uint32_t receive = XDP_RX_FRAMES, send = XDP_TX_ENTRIES;
    struct xdp_mmap_offsets at;
    socklen_t length = sizeof at;

    if (!set(q->fd, XDP_UMEM_FILL_RING, &receive, sizeof receive, "fill ring", error, size) ||
        !set(q->fd, XDP_UMEM_COMPLETION_RING, &send, sizeof send, "completion ring", error, size) ||
        !set(q->fd, XDP_RX_RING, &receive, sizeof receive, "receive ring", error, size) ||
        !set(q->fd, XDP_TX_RING, &send, sizeof send, "send ring", error, size))
        return false;
    if (getsockopt(q->fd, SOL_XDP, XDP_MMAP_OFFSETS, &at, &length) != 0 || length != sizeof at)
        return fail(error, size,
                    "this kernel's XDP rings are too old; Linux 5.11 or later is needed");
    const size_t address = sizeof(uint64_t), descriptor = sizeof(struct xdp_desc);
    return map_ring(&q->fill, q->fd, receive, address, &at.fr, XDP_UMEM_PGOFF_FILL_RING, error,
                    size) &&
           map_ring(&q->done, q->fd, send, address, &at.cr, XDP_UMEM_PGOFF_COMPLETION_RING, error,
                    size) &&
           map_ring(&q->rx, q->fd, receive, descriptor, &at.rx, XDP_PGOFF_RX_RING, error, size) &&
           map_ring(&q->tx, q->fd, send, descriptor, &at.tx, XDP_PGOFF_TX_RING, error, size);
}

static bool register_memory(struct xdp_queue *q, char *error, size_t size)
{
    struct xdp_memory *memory = q->memory;
    const struct xdp_umem_reg request = {.addr = (uint64_t)(uintptr_t)memory->area,
                                         .len = memory->bytes,
                                         .chunk_size = memory->chunk_bytes};

    return memory->fd >= 0 ||
           set(q->fd, XDP_UMEM_REG, &request, sizeof request, "frame memory", error, size);
}

static void fill_first(struct xdp_queue *q)
{
    uint64_t *entries = q->fill.entries;

    for (uint32_t i = 0; i < XDP_RX_FRAMES; i++)
        entries[i] = q->first + (uint64_t)i * q->memory->chunk_bytes;
    q->fill.index = XDP_RX_FRAMES;
    __atomic_store_n(q->fill.producer, q->fill.index, __ATOMIC_RELEASE);
}

static void explain_bind(const struct xdp_queue *q, bool zero_copy_only, char *error, size_t size)
{
    const int reason = errno;
    const char *hint = "";

    if (reason == EINVAL && q->port->several)
        hint = " (frames in several buffers need Linux 6.6, and a driver that can)";
    else if (reason == EINVAL)
        hint = " (has the device so many queues?)";
    else if (reason == EBUSY)
        hint = " (another process uses that queue)";
    else if (reason == EOPNOTSUPP && zero_copy_only)
        hint = " (its driver has no zero-copy; use mode=copy or mode=auto)";
    snprintf(error, size, "bind to queue %u: %s%s", q->id, strerror(reason), hint);
}

static bool bind_queue(struct xdp_queue *q, unsigned mode, char *error, size_t size)
{
    struct xdp_memory *memory = q->memory;
    struct sockaddr_xdp address = {
        .sxdp_family = AF_XDP, .sxdp_ifindex = (uint32_t)q->port->device, .sxdp_queue_id = q->id};

    if (memory->fd >= 0) { /* everything else is as at the first socket */
        address.sxdp_flags = XDP_SHARED_UMEM;
        address.sxdp_shared_umem_fd = (uint32_t)memory->fd;
    } else {
        address.sxdp_flags = (uint16_t)(XDP_USE_NEED_WAKEUP | (q->port->several ? XDP_USE_SG : 0) |
                                        (mode == XDP_MODE_COPY ? XDP_COPY : 0) |
                                        (mode == XDP_MODE_ZEROCOPY ? XDP_ZEROCOPY : 0));
    }
    for (unsigned waited_ms = 0; waited_ms < RELEASE_LONGEST_MS; waited_ms++) {
        if (bind(q->fd, (const struct sockaddr *)&address, sizeof address) == 0)
            return true;
        if (errno != EBUSY)
            break;
        usleep(1000);
        errno = EBUSY;
    }
    explain_bind(q, mode == XDP_MODE_ZEROCOPY, error, size);
    return false;
}

static bool set_busy_poll(int fd, char *error, size_t size)
{
    const int on = 1, microseconds = 20, budget = 64;

    if (setsockopt(fd, SOL_SOCKET, SO_PREFER_BUSY_POLL, &on, sizeof on) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL, &microseconds, sizeof microseconds) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL_BUDGET, &budget, sizeof budget) == 0)
        return true;
    return fail(error, size, "busy-poll: %s (Linux 5.11 and CAP_NET_ADMIN are needed)",
                strerror(errno));
}

static void tune(struct xdp_queue *q)
{
    const int burst = IO_BURST_MAX;

    q->port->base.buffers = socket_tune(q->fd, false, q->port->unforced_buffers);
    /* Older kernels send 32 frames per call and are called more often. */
    setsockopt(q->fd, SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &burst, sizeof burst);
}

static bool is_zero_copy(int fd)
{
    struct xdp_options options = {0};
    socklen_t length = sizeof options;

    return getsockopt(fd, SOL_XDP, XDP_OPTIONS, &options, &length) == 0 &&
           (options.flags & XDP_OPTIONS_ZEROCOPY) != 0;
}

bool xdp_queue_open(struct xdp_queue *q, struct xdp_port *port, struct xdp_memory *memory,
                    unsigned id, const struct xdp_arguments *arguments, char *error, size_t size)
{
    *q = (struct xdp_queue){.port = port, .memory = memory, .id = id};
    q->fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (q->fd < 0)
        return fail(error, size, "XDP socket: %s%s", strerror(errno),
                    errno == EPERM          ? " (run as root or with CAP_NET_RAW)"
                    : errno == EAFNOSUPPORT ? " (this kernel has no AF_XDP)"
                                            : "");
    tune(q);
    q->first = memory->used * memory->region_bytes;
    if (!register_memory(q, error, size) || !make_rings(q, error, size) ||
        (arguments->busy_poll && !set_busy_poll(q->fd, error, size)))
        return false;
    port->base.buffers.busy_poll = arguments->busy_poll;
    fill_first(q);
    if (!bind_queue(q, arguments->mode, error, size))
        return false;
    if (memory->fd < 0)
        memory->fd = q->fd;
    memory->owner[memory->used++] = q;
    memory->references++;
    port->zero_copy = is_zero_copy(q->fd);
    return true;
}

static void unmap(struct xdp_ring *ring)
{
    if (ring->map != NULL)
        munmap(ring->map, ring->map_bytes);
}

void xdp_queue_close(struct xdp_queue *q)
{
    unmap(&q->rx);
    unmap(&q->tx);
    unmap(&q->fill);
    unmap(&q->done);
    if (q->fd >= 0)
        close(q->fd);
}

void xdp_note_failure(struct xdp_port *port, const char *call, int error)
{
    if (socket_error_passes(error) ||
        ((error == ENETDOWN || error == EBUSY) &&
         device_link_is_only_down(&port->link, &port->base.links_lost)))
        return;
    snprintf(port->base.failure, sizeof port->base.failure, "%s: %s", call, strerror(error));
}
