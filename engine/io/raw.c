/* raw: whole Ethernet frames through AF_PACKET on one device, past the queueing discipline of the
 * device or, with qdisc=queue, through it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "io/packet.h"
#include "io/socket.h"

static int open_socket(int index, unsigned qdisc, bool tagged, char *error, size_t size)
{
    /* It is bound last, so that no frame of another device arrives before the options are set. */
    const int fd = packet_socket(index, qdisc, error, size);
    if (fd >= 0 && !tagged && !packet_cut_tagged(fd, error, size))
        return -1;
    return fd >= 0 && packet_bind(fd, index, true, error, size) ? fd : -1;
}

static bool raw_check(const char *text, char *error, size_t size)
{
    struct socket_arguments arguments;
    return socket_parse("raw", true, text, &arguments, error, size);
}

static struct io_port *raw_open(const struct io_config *config, char *error, size_t size)
{
    struct socket_arguments arguments;
    struct network_device device = {0};

    if (!socket_parse("raw", true, config->arguments, &arguments, error, size))
        return NULL;
    if (arguments.device[0] == '\0') {
        snprintf(error, size, "raw needs dev=NAME");
        return NULL;
    }
    if (!socket_device(arguments.device, &device, error, size))
        return NULL;
    const int fd = open_socket(device.index, arguments.qdisc, config->tagged, error, size);
    if (fd < 0)
        return NULL;
    const struct io_buffers buffers = socket_tune(fd, arguments.block, config->unforced_buffers);
    struct socket_port *port =
        socket_port_make(fd, &arguments, config, socket_frame_room(&device, config), error, size);
    if (port == NULL)
        return NULL;
    if (config->tagged && !socket_keep_tags(port)) {
        snprintf(error, size, "PACKET_AUXDATA: %s", strerror(errno));
        socket_close(&port->base);
        return NULL;
    }
    port->base.buffers = buffers;
    port->base.cuts_tagged = !config->tagged;
    socket_describe(&port->base, &device, config);
    snprintf(port->base.driver, sizeof port->base.driver, "af_packet%s%s%s",
             arguments.mmsg ? " mmsg" : "", arguments.block ? " blocking" : "",
             arguments.qdisc == PACKET_QDISC_THROUGH ? " qdisc" : "");
    return &port->base;
}

static unsigned raw_forward(struct io_port *from, struct io_port *to, struct io_frame *frames,
                            unsigned count)
{
    (void)from; /* its buffers stay valid until its next receive call */
    return socket_send_frames((struct socket_port *)to, frames, count);
}

static uint64_t raw_rx_drops(struct io_port *base)
{
    struct socket_port *port = (struct socket_port *)base;

    port->drops += packet_drops(port->fd);
    return port->drops;
}

static const struct io_variant variants[] = {
    {.name = "raw",
     .meaning = "a packet socket, send and recv",
     .arguments = "dev=DEVICE",
     .container = "net_raw"},
    {.name = "raw-mmsg",
     .meaning = "a packet socket, sendmmsg and recvmmsg",
     .arguments = "dev=DEVICE,mmsg",
     .container = "net_raw"},
    {.name = NULL},
};

const struct io_ops io_raw = {
    .name = "raw",
    .summary = "packet sockets (AF_PACKET)",
    .keys = "dev=NAME, mmsg (sendmmsg/recvmmsg; default send/recv), block, qdisc=bypass|queue "
            "(past the device's queueing discipline, or through it)",
    .variants = variants,
    .privileges = "net_raw,net_admin",
    .capabilities = IO_OPENS_NO_FILE,
    .check = raw_check,
    .open = raw_open,
    .tx_prepare = socket_tx_prepare,
    .tx_acquire = socket_tx_acquire,
    .tx_send = socket_tx_send,
    .tx_release = io_release_nothing,
    .rx_burst = socket_rx_burst,
    .rx_release = io_release_nothing,
    .forward = raw_forward,
    .rx_wait = socket_rx_wait,
    .rx_drops = raw_rx_drops,
    .device_up = socket_device_up,
    .close = socket_close,
};

IO_BACKEND(io_raw);
