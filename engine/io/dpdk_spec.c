/* Parses the specification of a `dpdk` port, and calculates how many packet buffers it needs. It
 * calls nothing of DPDK, because EAL must know the memory before it starts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/resource.h>

#include <rte_version.h>

#include "fail.h"
#include "io/dpdk.h"
#include "io/socket.h"
#include "traffic/frame.h"

#define QUEUE_SIZE_MIN 32
#define QUEUE_SIZE_MAX 32768
#define DEVICE_QUEUE 1024 /* descriptors of devices without a default */
#define AF_XDP_RINGS 4096 /* its fill and completion rings also contain receive buffers */
#define BUFFER_OVERHEAD 512
#define ROOM_BYTES_MIN 2048
#define BASE_MB 12 /* tables, rings and queues of DPDK */
#define MEMORY_MB 64

static const struct {
    const char *key;
    enum dpdk_kind kind;
    const char *driver;
    unsigned queue_size; /* default; 0: as the device chooses */
} kinds[] = {
    {"virtio-user", DPDK_VIRTIO_USER, "net_virtio_user", 256},
    {"vhost", DPDK_VHOST, "vhost", 0},
    {"memif", DPDK_MEMIF, "net_memif", 1024},
    {"af-packet", DPDK_AF_PACKET, "net_af_packet", 512},
    {"af-xdp", DPDK_AF_XDP, "net_af_xdp", 2048},
    {"tap", DPDK_TAP, "net_tap", 512},
    {"pci", DPDK_PCI, "pci", 0},
    {"vdev", DPDK_VDEV, "vdev", 0},
};

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
    return parse_number(value, QUEUE_SIZE_MAX, queue_size) && *queue_size >= QUEUE_SIZE_MIN &&
           (*queue_size & (*queue_size - 1)) == 0;
}

static bool parse_switch(const char *value, bool *on)
{
    *on = strcmp(value, "on") == 0;
    return *on || strcmp(value, "off") == 0;
}

static bool parse_virtio_option(struct dpdk_spec *spec, const char *key, const char *value)
{
    if (strcmp(key, "server") == 0 && *value == '\0')
        return spec->listens = true;
    if (strcmp(key, "packed") == 0 && *value == '\0')
        return spec->packed = true;
    if (strcmp(key, "in-order") == 0)
        return parse_switch(value, &spec->in_order);
    return strcmp(key, "mergeable") == 0 && parse_switch(value, &spec->mergeable);
}

static bool parse_memif_option(struct dpdk_spec *spec, const char *key, const char *value)
{
    if (strcmp(key, "role") == 0) {
        spec->memif_server = spec->listens = strcmp(value, "server") == 0;
        return spec->memif_server || strcmp(value, "client") == 0;
    }
    if (strcmp(key, "zero-copy") == 0 && *value == '\0')
        return spec->zero_copy = true;
    return strcmp(key, "id") == 0 && parse_number(value, UINT32_MAX - 1U, &spec->memif_id);
}

/* The keys after the first; each is valid for some kinds only. */
static bool parse_option(struct dpdk_spec *spec, const char *key, const char *value)
{
    if (strcmp(key, "queue-size") == 0 && spec->kind != DPDK_VHOST)
        return spec->queue_size_given = parse_queue_size(value, &spec->queue_size);
    if (spec->kind == DPDK_VIRTIO_USER)
        return parse_virtio_option(spec, key, value);
    if (spec->kind == DPDK_MEMIF)
        return parse_memif_option(spec, key, value);
    if (strcmp(key, "client") == 0 && spec->kind == DPDK_VHOST && *value == '\0') {
        spec->listens = false;
        return true;
    }
    return false;
}

static bool parse_kind(struct dpdk_spec *spec, const char *key)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].key, key) != 0)
            continue;
        spec->kind = kinds[i].kind;
        spec->driver = kinds[i].driver;
        spec->queue_size = kinds[i].queue_size;
        spec->listens = spec->kind == DPDK_VHOST || spec->kind == DPDK_MEMIF;
        spec->memif_server = spec->kind == DPDK_MEMIF;
        spec->in_order = spec->mergeable = true;
        return true;
    }
    return false;
}

/* "0000:03:00.1" or "03:00.1", physical or virtual function. */
static bool is_pci_address(const char *text)
{
    unsigned domain = 0, bus, device, function;
    int used = 0;

    if (sscanf(text, "%4x:%2x:%2x.%1u%n", &domain, &bus, &device, &function, &used) != 4 &&
        sscanf(text, "%2x:%2x.%1u%n", &bus, &device, &function, &used) != 3)
        return false;
    return text[used] == '\0' && device < 32 && function < 8;
}

/* Before it was fixed, the driver refilled a zero-copy ring in one piece beyond the end of the
 * ring: after frames had arrived it wrote outside its array ("net/memif: fix buffer overflow in
 * zero copy Rx"). With 23.11.0 a receiver lost one frame in ten, and none after only that fix was
 * applied to its driver. */
static bool memif_overflows(void)
{
#if RTE_VERSION >= RTE_VERSION_NUM(24, 11, 0, 0)
    return false;
#elif RTE_VERSION >= RTE_VERSION_NUM(23, 11, 0, 0) && RTE_VERSION < RTE_VERSION_NUM(24, 0, 0, 0)
    return RTE_VERSION < RTE_VERSION_NUM(23, 11, 3, 0);
#elif RTE_VERSION < RTE_VERSION_NUM(23, 0, 0, 0)
    return RTE_VERSION < RTE_VERSION_NUM(22, 11, 7, 0);
#else
    return true;
#endif
}

static bool check_whole(const struct dpdk_spec *spec, char *error, size_t size)
{
    if (spec->kind == DPDK_PCI && !is_pci_address(spec->target))
        return fail(error, size, "'%s' is not a PCI address such as 0000:03:00.1", spec->target);
    if (spec->zero_copy && spec->memif_server)
        return fail(error, size, "zero-copy is the client's: add role=client");
    if (spec->zero_copy && memif_overflows())
        return fail(error, size,
                    "zero-copy: the memif driver of %s writes beyond its ring (fixed in 22.11.7, "
                    "23.11.3 and 24.11): leave zero-copy out, or build with one of those",
                    rte_version());
    return true;
}

bool dpdk_spec_parse(struct dpdk_spec *spec, const char *arguments, char *error, size_t size)
{
    char key[16], value[DPDK_PATH_MAX];
    bool bad = false;
    const char *rest = arguments;

    memset(spec, 0, sizeof *spec);
    if (strncmp(rest, "vdev=", 5) == 0) { /* an EAL string contains commas */
        parse_kind(spec, "vdev");
        snprintf(spec->target, sizeof spec->target, "%s", rest + 5);
        return true;
    }
    rest = io_next_argument(rest, key, sizeof key, value, sizeof value, &bad);
    if (rest == NULL || !parse_kind(spec, key) || *value == '\0')
        return fail(error, size,
                    "begins with none of virtio-user=PATH, vhost=PATH, memif=PATH, af-packet=DEV, "
                    "af-xdp=DEV, tap=NAME, pci=ADDRESS, vdev=STRING (paths below %d bytes)",
                    DPDK_PATH_MAX);
    snprintf(spec->target, sizeof spec->target, "%s", value);
    while ((rest = io_next_argument(rest, key, sizeof key, value, sizeof value, &bad)) != NULL) {
        if (!parse_option(spec, key, value))
            return fail(error, size, "'%s%s%s' does not fit here; see --help for the keys", key,
                        *value != '\0' ? "=" : "", value);
    }
    if (bad)
        snprintf(error, size, "a key or value is too long");
    return !bad && check_whole(spec, error, size);
}

static unsigned device_queue(const struct dpdk_spec *spec)
{
    return spec->queue_size > 0 ? spec->queue_size : DEVICE_QUEUE;
}

/* Buffers that wait in the device for frames. */
static unsigned receive_ring(const struct dpdk_spec *spec)
{
    switch (spec->kind) {
    case DPDK_VHOST:
    case DPDK_AF_PACKET:
        return 0; /* frames are copied into a buffer when they are received */
    case DPDK_MEMIF:
        return spec->zero_copy ? spec->queue_size : 0;
    case DPDK_AF_XDP:
        return device_queue(spec) + AF_XDP_RINGS;
    default:
        return device_queue(spec);
    }
}

/* Buffers that the device has until they are sent. */
static unsigned transmit_ring(const struct dpdk_spec *spec)
{
    switch (spec->kind) {
    case DPDK_VHOST:
    case DPDK_AF_PACKET:
    case DPDK_TAP:
        return 0;
    case DPDK_MEMIF:
        return spec->zero_copy ? spec->queue_size : 0;
    default:
        return device_queue(spec);
    }
}

/* In addition to the rings: buffers of the worker, buffers that it may leave in the cache of the
 * pool (one and a half times its size), and one spare burst. */
#define WORKING_BUFFERS (2 * IO_BURST_MAX + DPDK_POOL_CACHE * 3 / 2)

unsigned dpdk_spec_transmit_buffers(const struct dpdk_spec *spec)
{
    return WORKING_BUFFERS + transmit_ring(spec);
}

bool dpdk_spec_of(const struct io_config *config, unsigned number, struct dpdk_spec *spec)
{
    const char *arguments;
    char ignored[256];

    return io_of(config->specs[number], &arguments) == &io_dpdk &&
           dpdk_spec_parse(spec, arguments, ignored, sizeof ignored);
}

unsigned dpdk_spec_receive_buffers(const struct dpdk_spec *spec, const struct io_config *config)
{
    unsigned elsewhere = 0; /* forwarded frames wait in the ring of another port */

    for (unsigned i = 0; config->forwards && i < config->spec_count; i++) {
        struct dpdk_spec other;
        if (dpdk_spec_of(config, i, &other))
            elsewhere = RTE_MAX(elsewhere, transmit_ring(&other));
    }
    return WORKING_BUFFERS + receive_ring(spec) + elsewhere;
}

/* A forwarder receives every frame that the device of an af-packet port accepts, with two VLAN
 * tags. */
uint32_t dpdk_spec_longest(const struct dpdk_spec *spec, const struct io_config *config)
{
    struct network_device device;
    char ignored[160];

    if (spec->kind != DPDK_AF_PACKET || !config->forwards ||
        !socket_device(spec->target, &device, ignored, sizeof ignored))
        return config->frame_length_max;
    /* Nested, RTE_MAX and RTE_MIN of DPDK 24.11 declare variables of the same name. */
    uint32_t accepted = RTE_MIN(device.mtu_bytes + IO_HEADER_BYTES_MAX, (uint32_t)FRAME_LENGTH_MAX);
    return RTE_MAX(config->frame_length_max, accepted);
}

uint32_t dpdk_spec_slot_bytes(uint32_t longest)
{
    return dpdk_slot_bytes(longest, (uint32_t)sysconf(_SC_PAGESIZE));
}

/* The driver of af-packet refuses buffers that are smaller than the room of its slots; in the
 * buffers of af-xdp the kernel leaves room for an XDP program in front of received frames. */
uint32_t dpdk_spec_room_bytes(const struct dpdk_spec *spec, uint32_t longest)
{
    uint32_t room = longest;

    if (spec->kind == DPDK_AF_PACKET)
        room = dpdk_spec_slot_bytes(longest);
    else if (spec->kind == DPDK_AF_XDP)
        room = longest + DPDK_XDP_HEADROOM;
    return RTE_MAX(RTE_ALIGN_CEIL(room, 64U), (uint32_t)ROOM_BYTES_MIN);
}

/* One ring per direction and queue of every such port. */
static unsigned locked_rings(const struct io_config *config)
{
    unsigned rings = 0;

    for (unsigned i = 0; i < config->spec_count; i++) {
        struct dpdk_spec spec;
        if (dpdk_spec_of(config, i, &spec) && spec.kind == DPDK_AF_PACKET)
            rings += 2 * dpdk_queue_count(config);
    }
    return rings;
}

/* The driver locks its rings in memory, and a process without privileges may lock little. */
bool dpdk_spec_fit_rings(struct dpdk_spec *spec, const struct io_config *config, char *error,
                         size_t size)
{
    const uint64_t slot_bytes = dpdk_spec_slot_bytes(dpdk_spec_longest(spec, config));
    const uint64_t slots_bytes = slot_bytes * locked_rings(config);
    struct rlimit limit;

    if (spec->kind != DPDK_AF_PACKET || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
        limit.rlim_cur == RLIM_INFINITY)
        return true;
    while (!spec->queue_size_given && spec->queue_size > QUEUE_SIZE_MIN &&
           spec->queue_size * slots_bytes > limit.rlim_cur)
        spec->queue_size /= 2;
    if (spec->queue_size * slots_bytes <= limit.rlim_cur)
        return true;
    return fail(error, size,
                "queue-size: %u slots of %u bytes in %u rings need %llu kB of locked memory, this "
                "process may lock %llu; lower queue-size or packet-size, or raise ulimit -l",
                spec->queue_size, (unsigned)slot_bytes, locked_rings(config),
                (unsigned long long)(spec->queue_size * slots_bytes >> 10),
                (unsigned long long)limit.rlim_cur >> 10);
}

static uint64_t buffer_bytes(const struct io_config *config)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < config->spec_count; i++) {
        struct dpdk_spec spec;
        if (!dpdk_spec_of(config, i, &spec))
            continue;
        const uint64_t buffers =
            dpdk_spec_transmit_buffers(&spec) + dpdk_spec_receive_buffers(&spec, config);
        const uint32_t longest = dpdk_spec_longest(&spec, config);
        bytes += buffers * (dpdk_spec_room_bytes(&spec, longest) + BUFFER_OVERHEAD);
    }
    return bytes * dpdk_queue_count(config);
}

unsigned dpdk_spec_memory_mb(const struct io_config *config)
{
    const unsigned needed_mb = BASE_MB + (unsigned)(buffer_bytes(config) >> 20);

    if (config->dpdk.memory_mb > 0)
        return config->dpdk.memory_mb;
    return needed_mb < MEMORY_MB ? MEMORY_MB : RTE_ALIGN_CEIL(needed_mb, 2U);
}
