/* loop: frames sent on a port arrive on it, in memory. docs/extending-backend.md explains it. */
#include "io/io.h"

#include <stdio.h>
#include <stdlib.h>

#define SLOTS 1024U /* a power of two */

struct loop_port {
    struct io_port base;
    uint8_t *slots; /* buffers of `stride` bytes; those from `tail` up to `head` wait */
    size_t stride;
    uint32_t lengths[SLOTS];
    unsigned head, tail;
};

static uint8_t *slot(const struct loop_port *port, unsigned number)
{
    return port->slots + number % SLOTS * port->stride;
}

static bool check(const char *arguments, char *error, size_t size)
{
    if (arguments[0] == '\0')
        return true;
    snprintf(error, size, "'%s': loop takes no arguments", arguments);
    return false;
}

static void close_port(struct io_port *base)
{
    struct loop_port *port = (struct loop_port *)base;

    free(port->slots);
    free(port);
}

static struct io_port *open_port(const struct io_config *config, char *error, size_t size)
{
    struct loop_port *port = calloc(1, sizeof *port);

    if (port != NULL) {
        port->stride = (config->frame_length_max + 127U) / 64 * 64;
        port->slots = aligned_alloc(64, SLOTS * port->stride);
    }
    if (port == NULL || port->slots == NULL) {
        free(port);
        snprintf(error, size, "out of memory");
        return NULL;
    }
    port->base.mtu_bytes = config->frame_length_max;
    port->base.rx_ring = SLOTS;
    return &port->base;
}

static unsigned tx_acquire(struct io_port *base, struct io_frame *frames, unsigned count,
                           uint32_t length)
{
    const struct loop_port *port = (const struct loop_port *)base;
    unsigned got = 0;

    for (; got < count && port->head + got - port->tail < SLOTS; got++)
        frames[got] = (struct io_frame){.data = slot(port, port->head + got), .length = length};
    return got;
}

static unsigned tx_send(struct io_port *base, struct io_frame *frames, unsigned count)
{
    struct loop_port *port = (struct loop_port *)base;

    for (unsigned i = 0; i < count; i++)
        port->lengths[port->head++ % SLOTS] = frames[i].length;
    return count;
}

static unsigned rx_burst(struct io_port *base, struct io_frame *frames, unsigned count)
{
    const struct loop_port *port = (const struct loop_port *)base;
    unsigned got = 0;

    for (unsigned at = port->tail; got < count && at != port->head; at++)
        frames[got++] =
            (struct io_frame){.data = slot(port, at), .length = port->lengths[at % SLOTS]};
    return got;
}

static void rx_release(struct io_port *base, struct io_frame *frames, unsigned count)
{
    (void)frames;
    ((struct loop_port *)base)->tail += count;
}

static const struct io_variant variants[] = {
    {.name = "loop", .meaning = "memory, without any device", .arguments = "", .container = ""},
    {.name = NULL},
};

static const struct io_ops loop = {
    .name = "loop",
    .summary = "memory: frames sent on a port arrive on it",
    .keys = "nothing",
    .variants = variants,
    .check = check,
    .open = open_port,
    .tx_acquire = tx_acquire,
    .tx_send = tx_send,
    .tx_release = io_release_nothing,
    .rx_burst = rx_burst,
    .rx_release = rx_release,
    .close = close_port,
};

IO_BACKEND(loop);
