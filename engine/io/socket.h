/* What `udp` and `raw` share: buffers, send/recv and sendmmsg/recvmmsg, blocking or not. */
#ifndef SM_IO_SOCKET_H
#define SM_IO_SOCKET_H

#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "io/device_link.h"
#include "io/io.h"

#define SOCKET_TAG_BYTES 4 /* of a VLAN tag; room for one is in front of each frame with `tags` */

union socket_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

struct socket_port {
    struct io_port base;
    int fd;
    struct device_link link; /* of `dev` */
    int broadcast_fd;        /* udp only, else -1: sends to and receives what is for all */
    bool mmsg, block;
    bool rx_block; /* receive calls may block */
    bool tags;     /* raw: frames get back the VLAN tag that the kernel has taken off */
    uint32_t stride;
    unsigned tx_first; /* the buffer that tx_acquire hands out next */
    unsigned tx_held;  /* acquired and not sent, as far as known (a release does not tell) */
    uint64_t drops;
    socklen_t address_bytes; /* udp: of the addresses below */
    union socket_address broadcast;
    uint8_t *tx_buffers, *rx_buffers; /* IO_BURST_MAX of `stride` bytes */
    struct mmsghdr tx_messages[IO_BURST_MAX], rx_messages[IO_BURST_MAX];
    unsigned rx_used; /* of rx_messages, by the last call; at first all, to be prepared once */
    struct iovec tx_vectors[IO_BURST_MAX], rx_vectors[IO_BURST_MAX];
    union socket_address rx_from[IO_BURST_MAX]; /* udp without a known peer: whom to answer */
    struct socket_control {
        _Alignas(8) uint8_t bytes[64];
    } * rx_control; /* with `tags`: what the kernel says of each frame */
};

/* What `io_uring` opens its sockets by. */
extern const struct io_ops io_udp, io_raw;

struct socket_arguments {
    char device[IFNAMSIZ]; /* empty: not given */
    bool mmsg, block;
    unsigned qdisc; /* enum packet_qdisc; `raw` only */
};

/* `has_qdisc`: the backend has packet sockets, which may pass the device's queueing discipline. */
bool socket_parse(const char *backend, bool has_qdisc, const char *arguments,
                  struct socket_arguments *parsed, char *error, size_t error_size);

/* A port with buffers of at least `frame_room` bytes and `fd`, which it owns from now on. */
struct socket_port *socket_port_make(int fd, const struct socket_arguments *arguments,
                                     const struct io_config *config, uint32_t frame_room,
                                     char *error, size_t error_size);

/* Have the kernel say which VLAN tag it took off each frame, and put it back: a packet socket
 * gives frames without their outer tag. Before the first receive call. */
bool socket_keep_tags(struct socket_port *port);

/* The frame with the tag that came beside it in this control message, if one did (NULL: none came);
 * the four bytes in front of the frame must be ours. */
struct io_frame socket_with_tag(struct io_frame frame, const struct cmsghdr *control);

/* Set large buffers, past the machine's limits unless `unforced` and if the kernel permits, and for
 * blocking sockets the longest wait. Returns the buffers that the kernel granted. */
struct io_buffers socket_tune(int fd, bool block, bool unforced);

/* A kernel's network device, as it was when it was looked up. */
struct network_device {
    int index;
    uint8_t mac[6];
    uint32_t mtu_bytes;
};

/* False with a message when there is none of that name. What the kernel does not tell of it stays.
 */
bool socket_device(const char *name, struct network_device *device, char *error, size_t error_size);

/* The port has the device's MTU, and its MAC where none is given. */
void socket_describe(struct io_port *port, const struct network_device *device,
                     const struct io_config *config);

/* Bytes that a packet socket's port needs for a frame: for what the device may receive, and for
 * what will be sent. */
uint32_t socket_frame_room(const struct network_device *device, const struct io_config *config);

/* Refusals that time may heal: full queues, and on UDP what the peer's host said of an earlier
 * datagram. Anything else means that this port cannot send or receive. */
bool socket_error_passes(int error);

/* The port is beyond use, unless the error passes: say which call failed. */
void socket_note_failure(struct socket_port *port, const char *call, int error);

bool socket_tx_prepare(struct io_port *base, const uint8_t *bytes, uint32_t length);
unsigned socket_tx_acquire(struct io_port *base, struct io_frame *frames, unsigned count,
                           uint32_t length);

/* The kernel has copied the first `sent` buffers. When none is held the first ones are taken again,
 * which still lie in the nearest cache: all of them together do not fit there. */
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

/* Send frames that lie in any buffers; returns how many the kernel took (a prefix). */
unsigned socket_send_frames(struct socket_port *port, const struct io_frame *frames,
                            unsigned count);
#endif
