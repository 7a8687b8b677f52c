/* The `dpdk` backend: virtio-user, vhost, memif, af-packet, PCI and any other EAL device.
 *
 * DPDK is linked statically, with the drivers that the port kinds need and the common NICs: the
 * shared build loads every driver of its plug-in folder (384 files on Debian) in each start, and
 * a container would have to carry them. This file reads the port specification, makes the
 * buffer pools and opens the port; dpdk_burst.c moves the frames. */
#include "io/dpdk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_version.h>

#define ROOM_BYTES_MIN 2048
#define QUEUE_SIZE_MAX 32768
#define POOL_CACHE 256
#define POOL_NAME_MAX 32
#define FINISH_US 500000

static const struct {
    const char *key;
    enum dpdk_kind kind;
    const char *driver;
    unsigned queue_size; /* default; 0: the device's */
} kinds[] = {
    {"virtio-user", DPDK_VIRTIO_USER, "net_virtio_user", 256},
    {"vhost", DPDK_VHOST, "vhost", 0},
    {"memif", DPDK_MEMIF, "net_memif", 1024},
    {"af-packet", DPDK_AF_PACKET, "net_af_packet", 512},
    {"pci", DPDK_PCI, "pci", 0},
    {"vdev", DPDK_VDEV, "vdev", 0},
};

/* --- port specification --- */

static bool parse_number(const char *text, unsigned maximum, unsigned *number)
{
    char *end;
    const unsigned long value = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0' || value > maximum)
        return false;
    *number = (unsigned)value;
    return true;
}

static bool parse_queue_size(const char *value, unsigned *queue_size)
{
    return parse_number(value, QUEUE_SIZE_MAX, queue_size) && *queue_size >= 32 &&
           (*queue_size & (*queue_size - 1)) == 0;
}

/* The keys that may follow the first; each belongs to some kinds only. */
static bool parse_option(struct dpdk_port *port, const char *key, const char *value)
{
    if (strcmp(key, "queue-size") == 0 && port->kind != DPDK_VHOST)
        return parse_queue_size(value, &port->queue_size);
    if (strcmp(key, "server") == 0 && port->kind == DPDK_VIRTIO_USER && *value == '\0')
        return port->listens = true;
    if (strcmp(key, "client") == 0 && port->kind == DPDK_VHOST && *value == '\0') {
        port->listens = false;
        return true;
    }
    if (port->kind != DPDK_MEMIF)
        return false;
    if (strcmp(key, "role") == 0) {
        port->memif_server = port->listens = strcmp(value, "server") == 0;
        return port->memif_server || strcmp(value, "client") == 0;
    }
    return strcmp(key, "id") == 0 && parse_number(value, UINT32_MAX - 1U, &port->memif_id);
}

static bool parse_kind(struct dpdk_port *port, const char *key)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].key, key) != 0)
            continue;
        port->kind = kinds[i].kind;
        port->queue_size = kinds[i].queue_size;
        port->listens = port->kind == DPDK_VHOST || port->kind == DPDK_MEMIF;
        port->memif_server = port->kind == DPDK_MEMIF;
        snprintf(port->base.driver, sizeof port->base.driver, "%s", kinds[i].driver);
        return true;
    }
    return false;
}

static bool parse(struct dpdk_port *port, const char *arguments, char *error, size_t size)
{
    char key[16], value[DPDK_PATH_MAX];
    bool bad = false;
    const char *rest = arguments;

    if (strncmp(rest, "vdev=", 5) == 0) { /* an EAL string has commas of its own */
        parse_kind(port, "vdev");
        snprintf(port->target, sizeof port->target, "%s", rest + 5);
        return true;
    }
    rest = io_next_argument(rest, key, sizeof key, value, sizeof value, &bad);
    if (rest == NULL || !parse_kind(port, key) || *value == '\0') {
        snprintf(error, size,
                 "begins with none of virtio-user=PATH, vhost=PATH, memif=PATH, af-packet=DEV, "
                 "pci=ADDRESS, vdev=STRING (paths below %d bytes)",
                 DPDK_PATH_MAX);
        return false;
    }
    snprintf(port->target, sizeof port->target, "%s", value);
    while ((rest = io_next_argument(rest, key, sizeof key, value, sizeof value, &bad)) != NULL) {
        if (strcmp(key, "vdev") == 0)
            break;
        if (!parse_option(port, key, value)) {
            snprintf(error, size, "'%s%s%s' does not fit here; see --help for the keys", key,
                     *value != '\0' ? "=" : "", value);
            return false;
        }
    }
    if (bad)
        snprintf(error, size, "a key or value is too long");
    return !bad;
}

static bool check(const char *arguments, char *error, size_t size)
{
    struct dpdk_port *parsed = aligned_alloc(64, sizeof *parsed); /* large: not on the stack */
    bool fits;

    if (parsed == NULL) {
        snprintf(error, size, "out of memory");
        return false;
    }
    memset(parsed, 0, sizeof *parsed);
    fits = parse(parsed, arguments, error, size);
    free(parsed);
    return fits;
}

/* Receive buffers: the device's ring full, another port's ring full of what was forwarded, and
 * what the worker and the pool's caches hold. Transmit: one ring and the same. */
static struct rte_mempool *make_pool(const struct dpdk_port *port, const char *what, unsigned rings)
{
    char name[POOL_NAME_MAX];
    const unsigned ring = port->queue_size > 0 ? port->queue_size : 1024;

    snprintf(name, sizeof name, "%s_%u", what, port->index);
    return rte_pktmbuf_pool_create(name, rings * ring + 4 * IO_BURST_MAX, POOL_CACHE, 0,
                                   (uint16_t)(RTE_PKTMBUF_HEADROOM + port->room_bytes),
                                   SOCKET_ID_ANY);
}

static bool make_buffers(struct dpdk_port *port, char *error, size_t size)
{
    port->rx_pool = make_pool(port, "receive", 4);
    port->tx_pool = make_pool(port, "transmit", 2);
    port->template_bytes = malloc(port->room_bytes);
    if (port->rx_pool != NULL && port->tx_pool != NULL && port->template_bytes != NULL)
        return true;
    snprintf(error, size,
             "no memory for packet buffers; raise --dpdk-memory-mb or lower queue-size");
    return false;
}

static bool open_device(struct dpdk_port *port, bool mac_given, char *error, size_t size)
{
    char name[64], arguments[320];
    struct rte_ether_addr mac;
    bool opened;

    if (port->kind == DPDK_AF_PACKET) {
        snprintf(name, sizeof name, "net_af_packet%u", port->index);
        snprintf(arguments, sizeof arguments, "iface=%s,framecnt=%u,qdisc_bypass=1", port->target,
                 port->queue_size);
        if (port->room_bytes > ROOM_BYTES_MIN)
            snprintf(arguments + strlen(arguments), sizeof arguments - strlen(arguments),
                     ",framesz=16384,blocksz=65536");
    } else {
        const size_t length = strcspn(port->target, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, port->target);
        snprintf(arguments, sizeof arguments, "%s",
                 port->target[length] == ',' ? port->target + length + 1 : "");
    }
    dpdk_eal_lock();
    opened = dpdk_device_add(port, name, arguments) && dpdk_device_start(port);
    dpdk_eal_unlock();
    if (!opened) {
        const char *reason = dpdk_eal_last_error();
        snprintf(error, size, "DPDK cannot open it: %s",
                 *reason != '\0' ? reason : "no such device, or no driver for it in this build");
        return false;
    }
    if (!mac_given && rte_eth_macaddr_get(port->ethdev, &mac) == 0)
        memcpy(port->base.mac, mac.addr_bytes, sizeof mac.addr_bytes);
    dpdk_open_gates(port);
    return true;
}

/* What was sent lies in our memory until the peer takes it: do not pull it away. */
static void let_peer_finish(const struct dpdk_port *port)
{
    for (unsigned waited_us = 0; waited_us < FINISH_US; waited_us += 100) {
        if (!atomic_load(&port->tx_open) || dpdk_device_in_flight(port) == 0)
            return;
        usleep(100);
    }
}

static void close_port(struct io_port *base)
{
    struct dpdk_port *port = (struct dpdk_port *)(void *)base;

    if (port->held_count > 0)
        dpdk_tx_release(base, NULL, port->held_count);
    let_peer_finish(port);
    if (port->has_keeper || port->listen_fd >= 0)
        dpdk_keeper_stop(port);
    if (atomic_load(&port->rx_open)) {
        dpdk_close_gates(port);
        dpdk_eal_lock();
        dpdk_device_remove(port);
        dpdk_eal_unlock();
    }
    /* The pools stay until the process ends: buffers of ours may be in another port's ring. */
    free(port->template_bytes);
    free(port);
}

/* A port that is given no address gets a locally administered one; a device has its own. */
static void set_mac(struct dpdk_port *port, const struct io_config *config)
{
    const uint32_t pid = (uint32_t)getpid();
    const uint8_t made[6] = {2,
                             (uint8_t)(pid >> 24),
                             (uint8_t)(pid >> 16),
                             (uint8_t)(pid >> 8),
                             (uint8_t)pid,
                             (uint8_t)config->index};

    memcpy(port->base.mac, config->src_mac_given ? config->src_mac : made, sizeof made);
}

static struct io_port *open_port(const struct io_config *config, char *error, size_t size)
{
    struct dpdk_port *port = aligned_alloc(64, sizeof *port);
    bool opened;

    if (port == NULL) {
        snprintf(error, size, "out of memory");
        return NULL;
    }
    memset(port, 0, sizeof *port);
    port->base.ops = &io_dpdk;
    port->index = config->index;
    port->listen_fd = port->stop_fd = -1;
    snprintf(port->base.spec, sizeof port->base.spec, "%s", config->spec);
    set_mac(port, config);
    port->room_bytes =
        RTE_MAX(RTE_ALIGN_CEIL(config->frame_length_max, 64U), (uint32_t)ROOM_BYTES_MIN);
    port->base.mtu_bytes = port->room_bytes - RTE_ETHER_HDR_LEN;
    opened = parse(port, config->arguments, error, size) &&
             dpdk_eal_start(config, port->room_bytes, error, size) &&
             make_buffers(port, error, size);
    if (opened && port->kind <= DPDK_MEMIF)
        opened = dpdk_keeper_start(port, error, size);
    else if (opened)
        opened = open_device(port, config->src_mac_given, error, size);
    if (opened)
        return &port->base;
    free(port->template_bytes);
    free(port);
    return NULL;
}

static void leave_thread(void *unused)
{
    (void)unused;
    rte_thread_unregister();
}

/* Gives the thread its own buffer caches, until it ends. */
static void thread_enter(struct io_port *base)
{
    static pthread_key_t at_exit;
    static bool made;

    if (rte_lcore_id() != LCORE_ID_ANY)
        return;
    if (!made)
        made = pthread_key_create(&at_exit, leave_thread) == 0;
    if (made && rte_thread_register() == 0)
        pthread_setspecific(at_exit, base);
}

/* What a PCI or virtual device dropped for want of buffers; sockets' peers see a full ring. */
static uint64_t rx_drops(struct io_port *base)
{
    struct dpdk_port *port = (struct dpdk_port *)(void *)base;
    struct rte_eth_stats stats = {0};

    if (port->kind > DPDK_MEMIF && rte_eth_stats_get(port->ethdev, &stats) != 0)
        return port->rx_drops;
    return port->rx_drops + stats.imissed + stats.rx_nombuf;
}

static bool link_up(struct io_port *base)
{
    struct dpdk_port *port = (struct dpdk_port *)(void *)base;
    struct rte_eth_link link = {0};

    if (port->kind <= DPDK_MEMIF)
        return atomic_load(&port->tx_open);
    return rte_eth_link_get_nowait(port->ethdev, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

const struct io_ops io_dpdk = {
    .name = "dpdk",
    .summary = "virtio-user=PATH[,server] | vhost=PATH[,client] | memif=PATH,role=server|client,"
               "id=N | af-packet=DEV | pci=ADDRESS | vdev=EAL-STRING; queue-size=N",
    .check = check,
    .open = open_port,
    .thread_enter = thread_enter,
    .tx_prepare = dpdk_tx_prepare,
    .tx_acquire = dpdk_tx_acquire,
    .tx_send = dpdk_tx_send,
    .tx_release = dpdk_tx_release,
    .rx_burst = dpdk_rx_burst,
    .rx_release = dpdk_rx_release,
    .forward = dpdk_forward,
    .rx_drops = rx_drops,
    .link_up = link_up,
    .version = rte_version,
    .close = close_port,
};
