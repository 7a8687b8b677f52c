/* io_uring: a packet or UDP socket, opened like that of `raw` or `udp`, which sends and receives
 * through a ring shared with the kernel.
 *
 * One multishot request receives as long as it lives: every frame uses a registered buffer, and its
 * completion names the buffer. A burst is sent with one system call, with a send request per frame.
 * A write from registered memory would take the kernel a tenth longer, because the frame is copied
 * into a packet in both cases. Requests belong to the thread that made them, so a worker that takes
 * over the port makes its own requests. */
#include "io/io.h"

#define SUMMARY "a packet or UDP socket through io_uring"
#define KEYS "dev=NAME, socket=raw|udp (udp needs --dst-ip), qdisc=bypass|queue, block"

static const struct io_variant variants[] = {
    {.name = "io-uring",
     .meaning = "a packet socket through io_uring",
     .arguments = "dev=DEVICE",
     .container = "net_raw"},
    {.name = NULL},
};

#ifndef HAVE_LIBURING

static const struct io_ops io_uring = {
    .name = "io_uring",
    .summary = SUMMARY,
    .keys = KEYS,
    .variants = variants,
    .missing = "built without liburing; install liburing-dev (2.3 or later) and rebuild",
};

IO_BACKEND(io_uring);

#else

#include "io/io_uring.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fail.h"
#include "io/arguments.h"
#include "io/packet.h"

#define COMPLETIONS 4096U

struct arguments {
    char device[IFNAMSIZ];
    unsigned socket; /* index in socket_names */
    unsigned qdisc;
    bool block;
};

static const char *const socket_names[] = {"raw", "udp", NULL};

#define AT(field) offsetof(struct arguments, field)
static const struct io_key keys[] = {
    {.name = "dev", .kind = IO_KEY_DEVICE, .offset = AT(device)},
    {.name = "socket", .kind = IO_KEY_CHOICE, .offset = AT(socket), .choices = socket_names},
    {.name = "qdisc", .kind = IO_KEY_CHOICE, .offset = AT(qdisc), .choices = packet_qdisc_names},
    {.name = "block", .kind = IO_KEY_FLAG, .offset = AT(block)},
};

static bool parse(const char *text, struct arguments *arguments, char *error, size_t size)
{
    *arguments = (struct arguments){0};
    if (!io_parse("io_uring", keys, sizeof keys / sizeof keys[0], text, arguments, error, size))
        return false;
    const bool udp = arguments->socket == 1;
    if (udp && arguments->qdisc != 0)
        snprintf(error, size, "qdisc is for socket=raw; UDP always passes the qdisc");
    else if (!udp && arguments->device[0] == '\0')
        snprintf(error, size, "io_uring needs dev=NAME (or socket=udp)");
    else
        return true;
    return false;
}

static bool check(const char *text, char *error, size_t size)
{
    struct arguments arguments;
    return parse(text, &arguments, error, size);
}

static unsigned capabilities_of(const char *text)
{
    struct arguments arguments;
    char ignored[256];
    const bool udp = parse(text, &arguments, ignored, sizeof ignored) && arguments.socket == 1;

    return udp ? IO_DATAGRAMS : 0;
}

static bool open_socket(struct uring_port *port, const struct arguments *arguments,
                        const struct io_config *config, char *error, size_t size)
{
    struct io_config plain = *config;
    char text[64] = "";

    if (arguments->device[0] != '\0')
        snprintf(text, sizeof text, "dev=%s%s", arguments->device,
                 arguments->qdisc == PACKET_QDISC_THROUGH ? ",qdisc=queue" : "");
    plain.arguments = text;
    plain.rx_may_block = false;
    port->kind = arguments->socket == 1 ? &io_udp : &io_raw;
    if (arguments->socket == 1 && !config->dst_ip_given)
        return fail(error, size, "socket=udp needs --dst-ip: the address of the one peer");
    port->socket = (struct socket_port *)(void *)port->kind->open(&plain, error, size);
    if (port->socket == NULL)
        return false;
    memcpy(port->base.mac, port->socket->base.mac, sizeof port->base.mac);
    port->base.mtu_bytes = port->socket->base.mtu_bytes;
    port->base.room = port->socket->base.room;
    port->base.buffers = port->socket->base.buffers;
    port->base.udp_payload_only = port->socket->base.udp_payload_only;
    port->base.cuts_tagged = port->socket->base.cuts_tagged;
    return fcntl(port->socket->fd, F_SETFL, O_NONBLOCK) == 0;
}

bool uring_fail(const char *call, int result, char *error, size_t size)
{
    const char *hint = "";

    if (result == -EPERM || result == -ENOSYS)
        hint = " (is it off by kernel.io_uring_disabled, or by a container's seccomp profile?)";
    else if (result == -EINVAL)
        hint = " (Linux 6.0 or later is needed)";
    return fail(error, size, "%s: %s%s", call, strerror(-result), hint);
}

static bool open_ring(struct uring_port *port, char *error, size_t size)
{
    struct io_uring_params parameters = {
        .flags = IORING_SETUP_CQSIZE | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
        .cq_entries = COMPLETIONS,
    };
    const int files[FILES] = {port->socket->fd, port->socket->broadcast_fd};
    int result = io_uring_queue_init_params(2 * IO_BURST_MAX, &port->ring, &parameters);

    if (result != 0)
        return uring_fail("io_uring", result, error, size);
    port->has_ring = true;
    result = io_uring_register_files(&port->ring, files, FILES);
    if (result < 0)
        return uring_fail("register sockets", result, error, size);
    return true;
}

static bool provide_buffers(struct uring_port *port, char *error, size_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct io_uring_buf_reg request = {.ring_entries = URING_BUFFERS, .bgid = URING_GROUP};

    const uint32_t room = port->socket->stride + (port->socket->tags ? URING_BESIDE_BYTES : 0);
    port->stride = (room / 64 | 1) * 64; /* spreads the buffers over the sets of the cache */
    port->message.msg_controllen = CMSG_SPACE(sizeof(struct tpacket_auxdata));
    port->provided_bytes = URING_BUFFERS * sizeof(struct io_uring_buf);
    port->provided = aligned_alloc(page, port->provided_bytes);
    port->buffers = aligned_alloc(64, (size_t)URING_BUFFERS * port->stride);
    if (port->provided == NULL || port->buffers == NULL)
        return fail(error, size, "out of memory");
    memset(port->provided, 0, port->provided_bytes);
    memset(port->buffers, 0, (size_t)URING_BUFFERS * port->stride);
    request.ring_addr = (uint64_t)(uintptr_t)port->provided;
    const int result = io_uring_register_buf_ring(&port->ring, &request, 0);
    if (result != 0)
        return uring_fail("provide buffers", result, error, size);
    io_uring_buf_ring_init(port->provided);
    for (unsigned i = 0; i < URING_BUFFERS; i++)
        uring_provide(port, (uint16_t)i, i);
    io_uring_buf_ring_advance(port->provided, URING_BUFFERS);
    return true;
}

static void port_close(struct io_port *base)
{
    struct uring_port *port = (struct uring_port *)(void *)base;

    if (port->has_ring)
        io_uring_queue_exit(&port->ring);
    if (port->socket != NULL)
        socket_close(&port->socket->base);
    free(port->provided);
    free(port->buffers);
    free(port);
}

static struct io_port *port_open(const struct io_config *config, char *error, size_t size)
{
    struct arguments arguments;

    if (!parse(config->arguments, &arguments, error, size))
        return NULL;
    struct uring_port *port = calloc(1, sizeof *port);
    if (port == NULL) {
        snprintf(error, size, "out of memory");
        return NULL;
    }
    port->may_block = arguments.block && config->rx_may_block;
    port->base.blocking = arguments.block;
    if (!open_socket(port, &arguments, config, error, size) || !open_ring(port, error, size) ||
        !provide_buffers(port, error, size)) {
        port_close(&port->base);
        return NULL;
    }
    snprintf(port->base.driver, sizeof port->base.driver, "io_uring %s%s%s",
             socket_names[arguments.socket], arguments.block ? " blocking" : "",
             arguments.qdisc == PACKET_QDISC_THROUGH ? " qdisc" : "");
    return &port->base;
}

static bool device_up(struct io_port *base)
{
    struct socket_port *socket = ((struct uring_port *)(void *)base)->socket;
    return device_link_check(&socket->link, &base->links_lost);
}

static const struct io_ops io_uring = {
    .name = "io_uring",
    .summary = SUMMARY,
    .keys = KEYS,
    .variants = variants,
    .privileges = "net_raw,net_admin",
    .capabilities_of = capabilities_of,
    .check = check,
    .open = port_open,
    .thread_enter = uring_change_thread,
    .thread_leave = uring_change_thread,
    .tx_prepare = uring_tx_prepare,
    .tx_acquire = uring_tx_acquire,
    .tx_send = uring_tx_send,
    .tx_release = io_release_nothing,
    .rx_burst = uring_rx_burst,
    .rx_release = io_release_nothing, /* the next rx_burst gives them back */
    .rx_wait = uring_rx_wait,
    .rx_drops = uring_rx_drops,
    .device_up = device_up,
    .close = port_close,
};

IO_BACKEND(io_uring);

#endif
