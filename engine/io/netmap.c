/* netmap: rings of a NIC, a VALE port or a pipe, shared with the kernel. Transmit buffers are the
 * ring's own slots; received frames stay in their slots until they are released. Frames are
 * forwarded by exchanging buffers where both ports share netmap's memory, else copied. */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/if_packet.h>
#include <net/netmap_user.h>

#include "io/socket.h"

#define NAME_MAX_BYTES 64
#define PATH_MAX_BYTES 128
#define DRAIN_TRIES 2000
#define OWN_NETNS "/proc/thread-self/ns/net"

struct netmap_arguments {
    char name[NAME_MAX_BYTES];  /* what netmap calls the port: eth0, vale0:1, x{1 */
    char netns[PATH_MAX_BYTES]; /* a VALE switch belongs to a network namespace; empty: ours */
};

struct netmap_port {
    struct io_port base;
    int fd, promiscuous_fd;
    bool is_pipe; /* its transmit buffers are exchanged with the receiver's */
    uint16_t memory_id;
    void *memory;
    size_t memory_bytes;
    struct netmap_if *rings;
    struct netmap_ring *tx;
    unsigned rx_ring;         /* the ring whose frames are with the role, or next */
    uint32_t rx_next;         /* its first slot that the role has not seen */
    unsigned taken, released; /* frames given to the role, and those it is done with */
    struct netmap_slot *lent[IO_BURST_MAX]; /* transmit slots in the order they were acquired */
};

static struct netmap_port *port_of(struct io_port *base)
{
    return (struct netmap_port *)(void *)base;
}

static bool parse(const char *text, struct netmap_arguments *parsed, char *error, size_t size)
{
    char key[NAME_MAX_BYTES], value[PATH_MAX_BYTES];
    bool bad = false;

    memset(parsed, 0, sizeof *parsed);
    while ((text = io_next_argument(text, key, sizeof key, value, sizeof value, &bad))) {
        if (strcmp(key, "netns") == 0 && value[0] != '\0') {
            memcpy(parsed->netns, value, sizeof value);
        } else if (value[0] == '\0' && parsed->name[0] == '\0' && key[0] != '\0') {
            memcpy(parsed->name, key, sizeof key);
        } else {
            snprintf(error, size, "'%s': netmap takes NAME (eth0, vale0:1, x{1) and netns=PATH",
                     key);
            return false;
        }
    }
    if (bad || parsed->name[0] == '\0') {
        snprintf(error, size, "netmap needs the NAME of a port (eth0, vale0:1, x{1)");
        return false;
    }
    return true;
}

static bool netmap_check(const char *text, char *error, size_t size)
{
    struct netmap_arguments arguments;
    return parse(text, &arguments, error, size);
}

static void netmap_close(struct io_port *base)
{
    struct netmap_port *port = port_of(base);

    if (port->memory != NULL)
        munmap(port->memory, port->memory_bytes);
    if (port->promiscuous_fd >= 0)
        close(port->promiscuous_fd);
    if (port->fd >= 0)
        close(port->fd);
    free(port);
}

/* Bind a descriptor to the port. The kernel looks names up in the caller's network namespace. */
static bool bind_port(struct netmap_port *port, const struct netmap_arguments *arguments,
                      struct nmreq_register *request, char *error, size_t size)
{
    struct nmreq_header header = {.nr_version = NETMAP_API, .nr_reqtype = NETMAP_REQ_REGISTER};

    port->fd = open(NETMAP_DEVICE_NAME, O_RDWR | O_CLOEXEC);
    if (port->fd < 0) {
        snprintf(error, size, "%s: %s%s", NETMAP_DEVICE_NAME, strerror(errno),
                 errno == ENOENT ? " (load netmap.ko)" : "");
        return false;
    }
    memcpy(header.nr_name, arguments->name, sizeof arguments->name);
    header.nr_body = (uintptr_t)request;
    request->nr_mode = NR_REG_ALL_NIC;
    request->nr_flags = NR_NO_TX_POLL;
    if (ioctl(port->fd, NIOCCTRL, &header) != 0) {
        snprintf(error, size, "netmap does not open '%s': %s", arguments->name, strerror(errno));
        return false;
    }
    return true;
}

static bool enter_netns(const char *path, char *error, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) {
        snprintf(error, size, "netns=%s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    close(fd);
    return true;
}

static bool bind_in_netns(struct netmap_port *port, const struct netmap_arguments *arguments,
                          struct nmreq_register *request, char *error, size_t size)
{
    if (arguments->netns[0] == '\0')
        return bind_port(port, arguments, request, error, size);
    const int home = open(OWN_NETNS, O_RDONLY | O_CLOEXEC);
    bool bound = false;

    if (home < 0) {
        snprintf(error, size, "%s: %s", OWN_NETNS, strerror(errno));
        return false;
    }
    if (enter_netns(arguments->netns, error, size)) {
        bound = bind_port(port, arguments, request, error, size);
        if (setns(home, CLONE_NEWNET) != 0) {
            snprintf(error, size, "back from netns=%s: %s", arguments->netns, strerror(errno));
            bound = false;
        }
    }
    close(home);
    return bound;
}

static bool map_rings(struct netmap_port *port, const struct nmreq_register *request, char *error,
                      size_t size)
{
    port->memory_bytes = request->nr_memsize;
    port->memory_id = request->nr_mem_id;
    port->memory = mmap(NULL, port->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, port->fd, 0);
    if (port->memory == MAP_FAILED) {
        port->memory = NULL;
        snprintf(error, size, "netmap memory: %s", strerror(errno));
        return false;
    }
    port->rings = NETMAP_IF(port->memory, request->nr_offset);
    if (port->rings->ni_tx_rings == 0 || port->rings->ni_rx_rings == 0) {
        snprintf(error, size, "netmap port has no rings");
        return false;
    }
    port->tx = NETMAP_TXRING(port->rings, 0);
    port->rx_next = NETMAP_RXRING(port->rings, 0)->head;
    return true;
}

/* A NIC is told to hear all addresses, as long as we have the socket. Best effort. */
static int hear_everything(int index)
{
    const struct packet_mreq all = {.mr_ifindex = index, .mr_type = PACKET_MR_PROMISC};
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

    if (fd >= 0)
        setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all);
    return fd;
}

static bool describe(struct netmap_port *port, const struct netmap_arguments *arguments,
                     const struct io_config *config, char *error, size_t size)
{
    const uint32_t room = port->tx->nr_buf_size;
    uint8_t mac[6];
    int index = 0;

    if (config->frame_length_max > room) {
        snprintf(error, size, "frames of %u bytes do not fit netmap's buffers of %u (buf_size)",
                 config->frame_length_max, room);
        return false;
    }
    memcpy(mac, config->src_mac, 6);
    port->base.mtu_bytes = room - 14;
    if (if_nametoindex(arguments->name) != 0) {
        if (!socket_device(arguments->name, &index, mac, &port->base.mtu_bytes, error, size))
            return false;
        port->promiscuous_fd = hear_everything(index);
    }
    memcpy(port->base.mac, config->src_mac_given ? config->src_mac : mac, 6);
    port->is_pipe = strpbrk(arguments->name, "{}") != NULL;
    snprintf(port->base.driver, sizeof port->base.driver, "netmap API %d, %u+%u slots", NETMAP_API,
             port->tx->num_slots, NETMAP_RXRING(port->rings, 0)->num_slots);
    return true;
}

static struct io_port *netmap_open(const struct io_config *config, char *error, size_t size)
{
    struct netmap_arguments arguments;
    struct nmreq_register request = {0};

    if (!parse(config->arguments, &arguments, error, size))
        return NULL;
    struct netmap_port *port = calloc(1, sizeof *port);
    if (port == NULL) {
        snprintf(error, size, "out of memory");
        return NULL;
    }
    port->fd = port->promiscuous_fd = -1;
    if (!bind_in_netns(port, &arguments, &request, error, size) ||
        !map_rings(port, &request, error, size) ||
        !describe(port, &arguments, config, error, size)) {
        netmap_close(&port->base);
        return NULL;
    }
    return &port->base;
}

static uint8_t *slot_bytes(struct netmap_ring *ring, const struct netmap_slot *slot)
{
    return (uint8_t *)NETMAP_BUF(ring, slot->buf_idx);
}

/* Slots keep their buffers, except on a pipe, and the kernel copies out of them or has sent them
 * when it gives them back: so each needs the template once. */
static bool netmap_tx_prepare(struct io_port *base, const uint8_t *bytes, uint32_t length)
{
    struct netmap_port *port = port_of(base);
    struct netmap_ring *ring = port->tx;

    if (port->is_pipe || length > ring->nr_buf_size)
        return false;
    for (unsigned tries = 0; nm_tx_pending(ring); tries++) {
        if (tries == DRAIN_TRIES)
            return false;
        ioctl(port->fd, NIOCTXSYNC, NULL);
        usleep(50);
    }
    for (uint32_t i = 0; i < ring->num_slots; i++)
        memcpy(slot_bytes(ring, &ring->slot[i]), bytes, length);
    return true;
}

static unsigned netmap_tx_acquire(struct io_port *base, struct io_frame *frames, unsigned count,
                                  uint32_t length)
{
    struct netmap_port *port = port_of(base);
    struct netmap_ring *ring = port->tx;
    uint32_t next = ring->head;

    if (length > ring->nr_buf_size)
        return 0;
    if (nm_ring_space(ring) < count)
        ioctl(port->fd, NIOCTXSYNC, NULL);
    if (nm_ring_space(ring) < count)
        count = nm_ring_space(ring);
    for (unsigned i = 0; i < count; i++) {
        struct netmap_slot *slot = &ring->slot[next];
        frames[i] = (struct io_frame){.data = slot_bytes(ring, slot), .length = length};
        port->lent[i] = slot;
        next = nm_ring_next(ring, next);
    }
    return count;
}

static void publish(struct netmap_port *port, uint32_t head)
{
    port->tx->head = port->tx->cur = head;
    ioctl(port->fd, NIOCTXSYNC, NULL);
}

static unsigned netmap_tx_send(struct io_port *base, struct io_frame *frames, unsigned count)
{
    struct netmap_port *port = port_of(base);
    uint32_t head = port->tx->head;

    for (unsigned i = 0; i < count; i++) { /* the acquired frames are the lent slots, in order */
        port->lent[i]->len = (uint16_t)frames[i].length;
        port->lent[i]->flags = 0;
        head = nm_ring_next(port->tx, head);
    }
    publish(port, head);
    return count;
}

static void netmap_tx_release(struct io_port *base, struct io_frame *frames, unsigned count)
{
    (void)base; /* slots that were not sent are still the next ones */
    (void)frames;
    (void)count;
}

/* The ring to take frames from: the present one while the role holds frames of it, else the
 * next that has some. */
static struct netmap_ring *filled_ring(struct netmap_port *port)
{
    struct netmap_ring *ring = NETMAP_RXRING(port->rings, port->rx_ring);

    if (port->rx_next != ring->tail || port->taken != port->released)
        return ring;
    ioctl(port->fd, NIOCRXSYNC, NULL);
    for (unsigned tried = 0; port->rx_next == ring->tail; tried++) {
        if (tried == port->rings->ni_rx_rings)
            break;
        port->rx_ring = port->rx_ring + 1 == port->rings->ni_rx_rings ? 0 : port->rx_ring + 1;
        ring = NETMAP_RXRING(port->rings, port->rx_ring);
        port->rx_next = ring->head;
    }
    return ring;
}

static unsigned netmap_rx_burst(struct io_port *base, struct io_frame *frames, unsigned count)
{
    struct netmap_port *port = port_of(base);
    struct netmap_ring *ring = filled_ring(port);
    unsigned received = 0;

    while (received < count && port->rx_next != ring->tail) {
        struct netmap_slot *slot = &ring->slot[port->rx_next];
        frames[received++] =
            (struct io_frame){.data = slot_bytes(ring, slot), .length = slot->len, .cookie = slot};
        port->rx_next = nm_ring_next(ring, port->rx_next);
    }
    port->taken += received;
    return received;
}

/* Slots go back in the ring's order, so all of them together, when the last one is done with. */
static void give_back(struct netmap_port *port, unsigned count)
{
    port->released += count;
    if (port->released != port->taken)
        return;
    struct netmap_ring *ring = NETMAP_RXRING(port->rings, port->rx_ring);
    ring->head = ring->cur = port->rx_next;
    port->released = port->taken = 0;
}

static void netmap_rx_release(struct io_port *base, struct io_frame *frames, unsigned count)
{
    (void)frames;
    give_back(port_of(base), count);
}

static void exchange_buffers(struct netmap_slot *in, struct netmap_slot *out)
{
    const uint32_t spare = out->buf_idx;

    out->buf_idx = in->buf_idx;
    in->buf_idx = spare;
    in->flags |= NS_BUF_CHANGED;
    out->flags = NS_BUF_CHANGED;
}

static unsigned netmap_forward(struct io_port *from, struct io_port *to, struct io_frame *frames,
                               unsigned count)
{
    struct netmap_port *in = port_of(from), *out = port_of(to);
    struct netmap_ring *ring = out->tx;
    uint32_t head = ring->head;

    if (nm_ring_space(ring) < count)
        ioctl(out->fd, NIOCTXSYNC, NULL);
    if (nm_ring_space(ring) < count)
        count = nm_ring_space(ring);
    for (unsigned i = 0; i < count; i++) {
        struct netmap_slot *slot = &ring->slot[head];
        if (in->memory_id == out->memory_id) {
            exchange_buffers(frames[i].cookie, slot);
        } else {
            memcpy(slot_bytes(ring, slot), frames[i].data, frames[i].length);
            slot->flags = 0;
        }
        slot->len = (uint16_t)frames[i].length;
        head = nm_ring_next(ring, head);
    }
    if (count > 0)
        publish(out, head);
    give_back(in, count);
    return count;
}

static void netmap_rx_wait(struct io_port *base, uint64_t timeout_ns)
{
    struct pollfd waiting = {.fd = port_of(base)->fd, .events = POLLIN};
    const struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000U),
                                     .tv_nsec = (long)(timeout_ns % 1000000000U)};
    ppoll(&waiting, 1, &timeout, NULL);
}

const struct io_ops io_netmap = {
    .name = "netmap",
    .summary = "netmap: NAME of a NIC (eth0), VALE port (vale0:1) or pipe (x{1), netns=PATH",
    .check = netmap_check,
    .open = netmap_open,
    .tx_prepare = netmap_tx_prepare,
    .tx_acquire = netmap_tx_acquire,
    .tx_send = netmap_tx_send,
    .tx_release = netmap_tx_release,
    .rx_burst = netmap_rx_burst,
    .rx_release = netmap_rx_release,
    .forward = netmap_forward,
    .rx_wait = netmap_rx_wait,
    .close = netmap_close,
};
