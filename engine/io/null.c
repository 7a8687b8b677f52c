/* The backend without I/O, which shows the maximum speed of the engine itself: transmit discards
 * frames; receive generates frames of the configured stream (`rx-rate=max`) or none (the default).
 */
#include "io/io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "measure/clock.h"
#include "traffic/frame.h"

struct null_port {
    struct io_port base;
    uint8_t *tx_buffers, *rx_buffers; /* IO_BURST_MAX of `stride` bytes */
    size_t stride;
    bool invents;
    uint32_t rx_sequence;
    struct frame_template invented;
};

static bool parse(struct null_port *port, const char *arguments, char *error, size_t error_size)
{
    char key[32], value[32];
    bool bad = false;

    while ((arguments = io_next_argument(arguments, key, sizeof key, value, sizeof value, &bad))) {
        if (strcmp(key, "rx-rate") == 0 && strcmp(value, "max") == 0) {
            port->invents = true;
        } else if (strcmp(key, "rx-rate") == 0 && strcmp(value, "0") == 0) {
            port->invents = false;
        } else {
            return fail(error, error_size, "'%s': null takes rx-rate=max or rx-rate=0", key);
        }
    }
    if (bad)
        snprintf(error, error_size, "null takes rx-rate=max or rx-rate=0");
    return !bad;
}

static bool null_check(const char *arguments, char *error, size_t error_size)
{
    struct null_port parsed;
    return parse(&parsed, arguments, error, error_size);
}

static void null_close(struct io_port *base)
{
    struct null_port *port = (struct null_port *)base;
    free(port->tx_buffers);
    free(port->rx_buffers);
    free(port);
}

/* Prepare the frames that the peer of this port would send: with our addresses swapped. */
static void invent(struct null_port *port, const struct io_config *config)
{
    const struct frame_address peer = frame_address_swapped(config->address);
    const uint32_t configured = config->frame_length + FCS_BYTES, smallest = frame_size_min(&peer);
    frame_template_build(&port->invented, &peer, configured > smallest ? configured : smallest,
                         config->null.stream, config->null.kind, 0, false);
    for (unsigned i = 0; i < IO_BURST_MAX; i++)
        memcpy(port->rx_buffers + i * port->stride, port->invented.bytes, port->invented.length);
}

static struct io_port *null_open(const struct io_config *config, char *error, size_t error_size)
{
    struct null_port *port = aligned_alloc(64, sizeof *port);

    if (port == NULL) {
        snprintf(error, error_size, "out of memory");
        return NULL;
    }
    memset(port, 0, sizeof *port);
    port->stride = (config->frame_length_max + 127U) / 64 * 64;
    port->tx_buffers = aligned_alloc(64, IO_BURST_MAX * port->stride);
    port->rx_buffers = aligned_alloc(64, IO_BURST_MAX * port->stride);
    if (port->tx_buffers == NULL || port->rx_buffers == NULL) {
        snprintf(error, error_size, "out of memory");
        null_close(&port->base);
        return NULL;
    }
    if (!parse(port, config->arguments, error, error_size)) {
        null_close(&port->base);
        return NULL;
    }
    snprintf(port->base.driver, sizeof port->base.driver, "null");
    memcpy(port->base.mac, config->address->src_mac, 6);
    port->base.mtu_bytes = FRAME_SIZE_MAX - 18;
    port->base.room = (uint32_t)port->stride;
    invent(port, config);
    return &port->base;
}

static bool null_tx_prepare(struct io_port *base, const uint8_t *bytes, uint32_t length)
{
    struct null_port *port = (struct null_port *)base;

    if (length > port->stride)
        return false;
    for (unsigned i = 0; i < IO_BURST_MAX; i++)
        memcpy(port->tx_buffers + i * port->stride, bytes, length);
    return true;
}

static unsigned null_tx_acquire(struct io_port *base, struct io_frame *frames, unsigned count,
                                uint32_t length)
{
    const struct null_port *port = (const struct null_port *)base;
    return io_acquire_row(port->tx_buffers, port->stride, frames, count, length);
}

static unsigned null_tx_send(struct io_port *base, struct io_frame *frames, unsigned count)
{
    (void)base;
    (void)frames;
    return count;
}

static unsigned null_rx_burst(struct io_port *base, struct io_frame *frames, unsigned count)
{
    struct null_port *port = (struct null_port *)base;

    if (!port->invents)
        return 0;
    const uint64_t now = clock_ticks();
    const struct frame_times times = frame_times_make(now, now);
    for (unsigned i = 0; i < count; i++) {
        uint8_t *data = port->rx_buffers + i * port->stride;
        frame_stamp(&port->invented, data, port->rx_sequence++, &times);
        frames[i] = (struct io_frame){.data = data, .length = port->invented.length};
    }
    return count;
}

static const struct io_ops io_null = {
    .name = "null",
    .queues_max = IO_QUEUES_MAX,
    .capabilities = IO_NO_PEER | IO_OPENS_NO_FILE,
    .summary = "no I/O, for the maximum rate of the engine itself",
    .keys = "rx-rate=0|max: transmit discards, receive generates nothing, or frames of the "
            "configured stream",
    .check = null_check,
    .open = null_open,
    .tx_prepare = null_tx_prepare,
    .tx_acquire = null_tx_acquire,
    .tx_send = null_tx_send,
    .tx_release = io_release_nothing,
    .rx_burst = null_rx_burst,
    .rx_release = io_release_nothing,
    .close = null_close,
};

IO_BACKEND(io_null);
