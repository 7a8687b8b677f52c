/* Shared by `udp` and `raw`: buffers, send/recv and sendmmsg/recvmmsg, blocking or not. */
#ifndef SM_IO_SOCKET_H
#define SM_IO_SOCKET_H

#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "io/device_link.h"
#include "io/io.h"

#define SOCKET_TAG_BYTES                                                                           \
    4 /* size of a VLAN tag; with `tags` there is room for one in front of each frame */

union socket_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

struct socket_port {
    struct io_port base;
    int fd;
    struct device_link link; /* link of the device `dev` */
    int broadcast_fd;        /* udp only, otherwise -1: sends and receives broadcasts */
    bool mmsg, block;
    bool rx_block; /* receive calls may block */
    bool tags;     /* raw: VLAN tags that the kernel removed are put back into frames */
    uint32_t stride;
    unsigned tx_first; /* the next buffer of tx_acquire */
    unsigned tx_held;  /* acquired and not sent, as far as known: a release does not reduce it */
    uint64_t drops;
    socklen_t address_bytes; /* udp: size of the addresses below */
    union socket_address broadcast;
    uint8_t *tx_buffers, *rx_buffers; /* IO_BURST_MAX of `stride` bytes */
    struct mmsghdr tx_messages[IO_BURST_MAX], rx_messages[IO_BURST_MAX];
    unsigned rx_used; /* used messages of rx_messages in the last call; at first all, so that they
                         are prepared */
    struct iovec tx_vectors[IO_BURST_MAX], rx_vectors[IO_BURST_MAX];
    union socket_address rx_from[IO_BURST_MAX]; /* udp without a known peer: addresses for echoes */
    struct socket_control {
        _Alignas(8) uint8_t bytes[64];
    } * rx_control; /* with `tags`: data of the kernel about each frame */
};

/* Used by `io_uring` to open its sockets. */
extern const struct io_ops io_udp, io_raw;

struct socket_arguments {
    char device[IFNAMSIZ]; /* empty: not given */
    bool mmsg, block;
    unsigned qdisc; /* enum packet_qdisc; `raw` only */
};

/* `has_qdisc`: the backend has packet sockets, which may bypass the queueing discipline of the
 * device. */
bool socket_parse(const char *backend, bool has_qdisc, const char *arguments,
                  struct socket_arguments *parsed, char *error, size_t error_size);

/* Make a port with buffers of at least `frame_room` bytes; it owns `fd` from now on. */
struct socket_port *socket_port_make(int fd, const struct socket_arguments *arguments,
                                     const struct io_config *config, uint32_t frame_room,
                                     char *error, size_t error_size);

/* Make the kernel report the VLAN tag that it removed from each frame, and put the tag back: a
 * packet socket returns frames without their outer tag. Call it before the first receive call. */
bool socket_keep_tags(struct socket_port *port);

/* Return the frame with the tag of this control message, if there is a tag (NULL: no message); the
 * four bytes in front of the frame must be usable. */
struct io_frame socket_with_tag(struct io_frame frame, const struct cmsghdr *control);

/* Set large buffers, beyond the limits of the machine unless `unforced` and if the kernel permits,
 * and the longest wait of blocking sockets. Returns the buffers that the kernel granted. */
struct io_buffers socket_tune(int fd, bool block, bool unforced);

/* A kernel network device at the time of the query. */
struct network_device {
    int index;
    uint8_t mac[6];
    uint32_t mtu_bytes;
};

/* False with a message if no device has that name. Values that the kernel does not report stay
 * unchanged. */
bool socket_device(const char *name, struct network_device *device, char *error, size_t error_size);

/* Set the MTU of the port to that of the device, and its MAC address if none is given. */
void socket_describe(struct io_port *port, const struct network_device *device,
                     const struct io_config *config);

/* Bytes that the port of a packet socket needs per frame: for frames that the device may receive,
 * and for frames that will be sent. */
uint32_t socket_frame_room(const struct network_device *device, const struct io_config *config);

/* Return true for temporary errors: full queues, and on UDP errors that the host of the peer sent
 * for an earlier datagram. After any other error the port cannot send or receive. */
bool socket_error_passes(int error);

/* Mark the port as unusable, with the name of the failed call, unless the error is temporary or its
 * device is only down: that counts as a lost link. */
void socket_note_failure(struct socket_port *port, const char *call, int error);

bool socket_tx_prepare(struct io_port *base, const uint8_t *bytes, uint32_t length);
unsigned socket_tx_acquire(struct io_port *base, struct io_frame *frames, unsigned count,
                           uint32_t length);

/* The kernel has copied the first `sent` buffers. If no buffer is acquired, the first buffers are
 * used again, because they are still in the nearest cache, which cannot hold all buffers. */
static inline void socket_tx_sent(struct socket_port *port, unsigned sent)
{
    port->tx_held -= sent < port->tx_held ? sent : port->tx_held;
    port->tx_first = port->tx_held == 0 ? 0 : (port->tx_first + sent) % IO_BURST_MAX;
}

unsigned socket_tx_send(struct io_port *base, struct io_frame *frames, unsigned count);
unsigned socket_rx_burst(struct io_port *base, struct io_frame *frames, unsigned count);
void socket_rx_wait(struct io_port *base, uint64_t timeout_ns);
bool socket_device_up(struct io_port *base);
void socket_close(struct io_port *base);

/* Send frames from any buffers; returns how many the kernel accepted (a prefix). */
unsigned socket_send_frames(struct socket_port *port, const struct io_frame *frames,
                            unsigned count);
#endif
