/* The one contract between the role loops and packet I/O. Each backend is one file that
 * defines one `struct io_ops` and is listed in io.c. Calls are per burst, never per packet:
 * the role loops are written once, and what happens per packet is inlined in them. */
#ifndef SM_IO_H
#define SM_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most frames one call moves. Larger --burst values are sent in several calls. */
#define IO_BURST_MAX 256

struct io_port; /* each backend begins its own struct with this one */

/* One frame in a buffer that the backend owns. `data` points at the Ethernet header; `length`
 * is without FCS. `cookie` is the backend's own handle (mbuf, descriptor index). */
struct io_frame {
    uint8_t *data;
    uint32_t length;
    uint32_t flags; /* IO_FRAME_... */
    void *cookie;
};

struct io_config {
    const char *arguments;     /* what follows "BACKEND:" in the port specification */
    unsigned index;            /* which --port this is, from 0 */
    uint32_t frame_length_max; /* longest frame without FCS that will be sent */
    uint8_t src_mac[6], dst_mac[6];
    uint32_t src_ip, dst_ip; /* host byte order */
    uint16_t src_udp, dst_udp;
    bool src_mac_given;
};

struct io_ops {
    const char *name;
    const char *summary; /* one line of --help */

    /* Parse arguments and open. On failure writes one line into `error` and returns NULL. */
    struct io_port *(*open)(const struct io_config *config, char *error, size_t error_size);

    /* Up to `count` empty buffers with room for `length` bytes; returns how many. Buffers come
     * back with their old contents where the backend can promise it (`tx_persistent`): then a
     * sender writes the template once and only the changing fields per packet. Buffers that are
     * not sent stay acquired; the next tx_acquire returns them first. */
    unsigned (*tx_acquire)(struct io_port *port, struct io_frame *frames, unsigned count,
                           uint32_t length);

    /* Offer the first `count` acquired frames; returns how many the port accepted (a prefix).
     * The rest stay acquired and may be offered again or released with tx_release. */
    unsigned (*tx_send)(struct io_port *port, struct io_frame *frames, unsigned count);
    void (*tx_release)(struct io_port *port, struct io_frame *frames, unsigned count);

    /* Up to `count` received frames; they stay ours until rx_release. Never blocks unless the
     * port was opened blocking. */
    unsigned (*rx_burst)(struct io_port *port, struct io_frame *frames, unsigned count);
    void (*rx_release)(struct io_port *port, struct io_frame *frames, unsigned count);

    /* Hand received frames (possibly changed in place) to another port of the same backend
     * without copying; NULL where the backend cannot (the forwarder then copies). */
    unsigned (*forward)(struct io_port *from, struct io_port *to, struct io_frame *frames,
                        unsigned count);

    /* True once the peer is there and frames can pass (vhost-user, memif); NULL: always. */
    bool (*link_up)(struct io_port *port);

    void (*close)(struct io_port *port);
};

struct io_port {
    const struct io_ops *ops;
    char spec[256];
    char driver[64];
    uint8_t mac[6];
    uint32_t mtu_bytes;
    bool tx_persistent;  /* tx buffers keep their contents between uses */
    bool udp_payload_only; /* `udp`: data points past Ethernet/IP/UDP; kernel writes the headers */
};

extern const struct io_ops io_null, io_udp, io_raw, io_dpdk;

/* Backend by the name before ':' in a port specification, or NULL. */
const struct io_ops *io_find(const char *name, size_t length);
#endif
