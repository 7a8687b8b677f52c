/* netmap: rings of a NIC, a VALE port or a pipe, shared with the kernel. Transmit buffers are the
 * slots of the ring; received frames stay in their slots until they are released. Frames are
 * forwarded by exchanging buffers if both ports share netmap's memory, otherwise copied. */
#include "io/io.h"

#define SUMMARY "netmap"
#define KEYS                                                                                       \
    "NAME, as netmap calls the port: a NIC (eth0), a VALE port (vale0:1), an end of a pipe (x{1, " \
    "x}1); netns=PATH opens it in that network namespace; door=SOCKET gets the open port from "    \
    "the program that listens at this socket"

static const struct io_variant variants[] = {
    {.name = "netmap",
     .meaning = "netmap: a VALE port, or a kernel device in netmap mode",
     .container = "net_raw"},
    {.name = NULL},
};

#ifndef HAVE_NETMAP

static const struct io_ops io_netmap = {
    .name = "netmap",
    .summary = SUMMARY,
    .keys = KEYS,
    .variants = variants,
    .missing = "built without netmap's headers; rebuild with -Dnetmap_headers=FOLDER",
};

IO_BACKEND(io_netmap);

#else

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <linux/if_packet.h>

#include "fail.h"
#include "io/netmap.h"
#include "io/socket.h"
#include "traffic/frame.h"

static bool parse(const char *text, struct netmap_arguments *parsed, char *error, size_t size)
{
    char key[NAME_MAX_BYTES], value[PATH_MAX_BYTES];
    bool bad = false;

    memset(parsed, 0, sizeof *parsed);
    while ((text = io_next_argument(text, key, sizeof key, value, sizeof value, &bad))) {
        if (strcmp(key, "netns") == 0 && value[0] != '\0') {
            memcpy(parsed->netns, value, sizeof value);
        } else if (strcmp(key, "door") == 0 && value[0] != '\0') {
            memcpy(parsed->door, value, sizeof value);
        } else if (value[0] == '\0' && parsed->name[0] == '\0' && key[0] != '\0') {
            memcpy(parsed->name, key, sizeof key);
        } else {
            return fail(error, size,
                        "'%s': netmap takes NAME (eth0, vale0:1, x{1), netns=PATH or door=SOCKET",
                        key);
        }
    }
    if (bad || parsed->name[0] == '\0')
        return fail(error, size, "netmap needs the NAME of a port (eth0, vale0:1, x{1)");
    if (parsed->netns[0] != '\0' && parsed->door[0] != '\0')
        return fail(
            error, size,
            "netmap: with door= the program at that socket opens the port; leave netns= out");
    if (strlen(parsed->door) >= sizeof((struct sockaddr_un *)NULL)->sun_path)
        return fail(error, size, "door=%s: too long for a Unix socket", parsed->door);
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

static bool map_rings(struct netmap_port *port, const struct nmreq_register *request, char *error,
                      size_t size)
{
    port->memory_bytes = request->nr_memsize;
    port->memory_id = request->nr_mem_id;
    port->memory = mmap(NULL, port->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, port->fd, 0);
    if (port->memory == MAP_FAILED) {
        port->memory = NULL;
        return fail(error, size, "netmap memory: %s", strerror(errno));
    }
    port->rings = NETMAP_IF(port->memory, request->nr_offset);
    if (port->rings->ni_tx_rings == 0 || port->rings->ni_rx_rings == 0)
        return fail(error, size, "netmap port has no rings");
    port->tx = NETMAP_TXRING(port->rings, 0);
    port->rx_next = NETMAP_RXRING(port->rings, 0)->head;
    return true;
}

/* Make a NIC receive all addresses while the socket is open. An error is ignored. */
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
    struct network_device device = {.mtu_bytes = room - 14};

    if (config->frame_length_max > room)
        return fail(error, size, "frames of %u bytes do not fit netmap's buffers of %u (buf_size)",
                    config->frame_length_max, room);
    memcpy(device.mac, config->address->src_mac, 6);
    if (if_nametoindex(arguments->name) != 0) {
        if (!socket_device(arguments->name, &device, error, size))
            return false;
        port->promiscuous_fd = hear_everything(device.index);
    }
    socket_describe(&port->base, &device, config);
    port->base.room = room;
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
    if (!netmap_get_port(port, &arguments, &request, error, size) ||
        !map_rings(port, &request, error, size) ||
        !describe(port, &arguments, config, error, size)) {
        netmap_close(&port->base);
        return NULL;
    }
    return &port->base;
}

static const char *privileges_of(const char *text)
{
    struct netmap_arguments arguments;
    char error[256];

    if (!parse(text, &arguments, error, sizeof error) || arguments.door[0] != '\0')
        return "";
    return arguments.netns[0] != '\0' ? "net_raw,net_admin,sys_admin" : "net_raw,net_admin";
}

static const struct io_ops io_netmap = {
    .name = "netmap",
    .summary = SUMMARY,
    .keys = KEYS,
    .variants = variants,
    .privileges_of = privileges_of,
    .check = netmap_check,
    .open = netmap_open,
    .tx_prepare = netmap_tx_prepare,
    .tx_acquire = netmap_tx_acquire,
    .tx_send = netmap_tx_send,
    .tx_release = io_release_nothing, /* slots that were not sent are again the next slots */
    .rx_burst = netmap_rx_burst,
    .rx_release = netmap_rx_release,
    .forward = netmap_forward,
    .rx_wait = netmap_rx_wait,
    .close = netmap_close,
};

IO_BACKEND(io_netmap);

#endif
