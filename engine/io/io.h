/* The contract between the role loops and packet I/O. Each backend is one file that defines one
 * `struct io_ops` and registers it with IO_BACKEND. Calls are per burst, never per packet: the role
 * loops exist once, and the work per packet is inlined in them. */
#ifndef SM_IO_H
#define SM_IO_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The maximum number of frames per call. Larger --burst values need several calls. */
#define IO_BURST_MAX 256

/* The maximum number of queues of one port, each with its worker. */
#define IO_QUEUES_MAX 16

/* Send to the broadcast address. Only `udp` needs this flag; other backends send the header as it
 * is. */
#define IO_FRAME_BROADCAST 1U

struct frame_address;
struct io_port; /* the structs of backends begin with this struct */

/* One frame in a buffer of the backend. `data` points to the Ethernet header; `length` is without
 * FCS. `cookie` belongs to the backend (mbuf, descriptor index). */
struct io_frame {
    uint8_t *data;
    uint32_t length;
    uint32_t flags; /* IO_FRAME_... */
    void *cookie;
};

/* Page size of the memory with DPDK's packet buffers. */
enum io_pages {
    IO_PAGES_HUGE,
    IO_PAGES_SMALL, /* ordinary pages of the kernel */
};

/* The kernel buffers of a port's socket, as the kernel counts them: twice the requested size. */
struct io_buffers {
    uint32_t asked_bytes; /* requested size; 0: the port has no such socket */
    uint32_t receive_bytes, send_bytes;
    bool busy_poll; /* the socket prefers busy polling */
};

/* For `null`, which generates received frames. */
struct io_null_config {
    uint16_t stream;
    unsigned kind; /* FRAME_... */
};

/* For `dpdk`, which is set up once for all ports of the process. */
struct io_dpdk_config {
    unsigned memory_mb; /* 0: the default of the backend */
    enum io_pages pages;
    const char *const *eal_arguments;
    unsigned eal_argument_count;
};

struct io_config {
    const char *spec;         /* the whole port specification, for messages and `ready` */
    const char *arguments;    /* the part of the specification behind "BACKEND:" */
    unsigned index;           /* number of the --port, from 0 */
    const char *const *specs; /* every --port of this process */
    unsigned spec_count;

    uint32_t frame_length;     /* size of the configured frames, without FCS */
    uint32_t frame_length_max; /* longest frame that will be sent or received, without FCS */
    const struct frame_address *address; /* addresses of this port and its peer */
    bool src_mac_given, src_ip_given, dst_ip_given;
    bool tagged; /* frames may have VLAN tags, which must arrive as part of the frame */

    bool only_sends;       /* the role measures no received frames */
    bool only_receives;    /* the role sends no frames in a trial */
    bool rx_may_block;     /* the role only receives, and only on this port */
    bool rx_untimed;       /* the role only counts: frames may be handed over late and together */
    bool forwards;         /* the role sends received frames from the same buffers */
    bool unforced_buffers; /* no socket buffers above the limits of an ordinary user */

    unsigned queue_count;  /* number of queues of this port; 0 means 1 */
    unsigned queue;        /* the queue to open; queue 0 is opened first */
    struct io_port *first; /* the port of queue 0, for all other queues */
    int core;              /* core of the worker that opens and uses the port; -1: any */
    const int *cores;      /* with several queues: the core of the worker of each queue */
    unsigned core_count;

    struct io_null_config null;
    struct io_dpdk_config dpdk;
};

/* Properties in which a kind of port differs from a port that sends and receives whole frames on a
 * device. The checks of options use them. */
enum io_capability {
    IO_DATAGRAMS = 1,         /* sends datagrams, for which the kernel writes the headers */
    IO_NO_PEER = 2,           /* sent frames have no receiver: no address is needed */
    IO_UNTIMED = 4,           /* the arrival time of frames is unknown */
    IO_ARGUMENT_QUEUES = 8,   /* one worker can use several queues: queues=N in the arguments */
    IO_NO_OUTER_TAG = 16,     /* the outer of two VLAN tags arrives as 802.1Q */
    IO_PCI_FUNCTION = 32,     /* names a PCI function; EAL then opens only named functions */
    IO_KEEPS_PRIVILEGES = 64, /* the privileges for opening may be needed until it is closed */
    IO_HOLDS = 128,           /* received frames stay valid while more frames are received */
    IO_OWN_THREADS = 256,     /* its library starts threads while it opens */
    IO_OPENS_CONFINED = 512,  /* opening it needs no more rights than landlock.h leaves */
    IO_CONNECTS = 1024,       /* it also connects to a socket later */
    IO_OPENS_NO_FILE = 2048,  /* opening it needs no file with restricted permissions */
    IO_HUGEPAGES_ONLY = 4096, /* its driver needs hugepages */
};

/* An I/O of campaigns that uses a backend on a network device (`io: raw-mmsg`). The table of the
 * bench is generated from these rows (see switchmark/model/io.py). */
struct io_variant {
    const char *name;
    const char *meaning;   /* description in one line */
    const char *arguments; /* arguments behind "BACKEND:", with DEVICE for the name of the device;
                              NULL: the bench makes them from its data about the port */
    const char *timed;     /* further arguments if every frame is timed; NULL: none */
    const char *container; /* Linux capabilities that it needs in a container: "net_raw,bpf" */
};

/* A backend. Builds without it have only the description. */
struct io_ops {
    const char *name;
    const char *summary;               /* description in one line of --help */
    const char *keys;                  /* keys of the arguments behind "BACKEND:" */
    const struct io_variant *variants; /* ended by a NULL name; NULL: not for campaigns */
    const char
        *missing; /* why this build does not have it, and the remedy; NULL: this build has it */
    unsigned queues_max;   /* maximum number of queues per port; 0: always one */
    unsigned capabilities; /* enum io_capability: capabilities of every port */

    /* Further capabilities that depend on the arguments; 0 if the arguments are not well-formed.
     * NULL: none. */
    unsigned (*capabilities_of)(const char *arguments);

    /* Linux capabilities that opening such a port needs, by their names in small letters
     * ("net_raw,net_admin"; "all": all). The engine gives up all others before it opens its ports
     * (privileges.h). NULL: none. */
    const char *(*privileges_of)(const char *arguments);
    const char *privileges; /* the same, for all arguments */

    /* The path of the socket that such a port creates and removes when it is closed. False, or NULL
     * op: it creates none. */
    bool (*socket_made)(const char *arguments, char *path, size_t size);

    /* Return true if the arguments (the text behind "BACKEND:") are well-formed; otherwise one line
     * in `error`. It is called for every port before any port is opened. */
    bool (*check)(const char *arguments, char *error, size_t error_size);

    /* Parse the arguments and open the port. On failure write one line into `error` and return
     * NULL. Called by the thread that will use the port, or by a thread that calls thread_enter
     * later. */
    struct io_port *(*open)(const struct io_config *config, char *error, size_t error_size);

    /* Called once by a worker thread that did not open the port, before it uses the port (DPDK:
     * rte_thread_register). NULL: nothing to do. */
    void (*thread_enter)(struct io_port *port);

    /* Called by the main thread after it has polled the port of another worker, which then
     * continues: nothing may remain that only the main thread can complete. NULL: nothing to do. */
    void (*thread_leave)(struct io_port *port);

    /* Write `bytes` into every transmit buffer. From then on tx_acquire returns buffers that
     * contain this frame (as the sender last changed it) with `length` set, so that a sender writes
     * only the changing fields per packet. It is called when no buffer is in use by a role (all are
     * released or sent). False, or NULL op: the backend does not support it, and the sender writes
     * whole frames. It ends with the next tx_acquire of another length (probes), and another call
     * renews it. */
    bool (*tx_prepare)(struct io_port *port, const uint8_t *bytes, uint32_t length);

    /* Get up to `count` empty buffers with room for `length` bytes, with `length` set in each;
     * returns their number. Buffers that are not sent stay acquired; the next tx_acquire returns
     * them first, in the same order and with unchanged content. */
    unsigned (*tx_acquire)(struct io_port *port, struct io_frame *frames, unsigned count,
                           uint32_t length);

    /* Offer the first `count` acquired frames; returns how many the port accepted (a prefix). The
     * others stay acquired and may be offered again, or released with tx_release. */
    unsigned (*tx_send)(struct io_port *port, struct io_frame *frames, unsigned count);
    void (*tx_release)(struct io_port *port, struct io_frame *frames, unsigned count);

    /* Get up to `count` received frames; they are valid until rx_release. Never blocks, unless the
     * port was opened blocking (then at most 20 ms). */
    unsigned (*rx_burst)(struct io_port *port, struct io_frame *frames, unsigned count);
    void (*rx_release)(struct io_port *port, struct io_frame *frames, unsigned count);

    /* Pass received frames, possibly changed in place, to a port of the same backend, possibly the
     * same port, without a copy; returns how many were accepted (a prefix). The accepted frames
     * belong to the other port; the others can be offered again or released with rx_release. NULL:
     * the backend does not support it, and the roles copy. */
    unsigned (*forward)(struct io_port *from, struct io_port *to, struct io_frame *frames,
                        unsigned count);

    /* A trial is over: complete what was sent, for example write a file to disk, before the result
     * is printed; an error is a `failure`. NULL: nothing to complete. */
    void (*flush)(struct io_port *port);

    /* Sleep until a frame may have arrived, at most `timeout_ns`. NULL: the caller sleeps. */
    void (*rx_wait)(struct io_port *port, uint64_t timeout_ns);

    /* Frames that reached this port and were dropped before rx_burst (socket buffer full, no
     * receive buffers), since open. NULL: impossible or unknown. */
    uint64_t (*rx_drops)(struct io_port *port);

    /* Return true if the peer is connected and frames can pass (vhost-user, memif); NULL: always.
     */
    bool (*link_up)(struct io_port *port);

    /* Return false while the device of the port is down, removed or without a carrier (up to a
     * second late); a loss since the last call counts in links_lost. NULL: no device, or its state
     * is unknown. Called once per interval. */
    bool (*device_up)(struct io_port *port);

    /* Version of the library of the backend, for `ready`; NULL op: none. */
    const char *(*version)(void);

    void (*close)(struct io_port *port);
};

struct io_port {
    const struct io_ops *ops;
    char spec[256];
    char driver[64];
    unsigned links_lost; /* changes whenever the backend notices that peer or device was lost */
    char failure[160]; /* not empty: the port is unusable; the engine reports it and exits with 1 */
    uint8_t mac[6];
    uint32_t mtu_bytes;
    uint32_t room; /* longest frame of a buffer of tx_acquire; 0: limited only by the MTU */
    struct io_buffers buffers;
    uint32_t rx_ring;      /* frames that can wait here until they are received; 0: unknown */
    unsigned trial;        /* number of the running trial, from 1; 0 between trials */
    bool ended;            /* no further frame can come: the input file of the port is at its end */
    bool untimed;          /* frames are handed over late, because none is timed */
    bool blocking;         /* opened blocking; rx_wait is used if rx_burst may not block */
    bool cuts_tagged;      /* hands over only the Ethernet header of a tagged frame */
    bool udp_payload_only; /* `udp`: data points behind Ethernet/IP/UDP; the kernel writes the
                              headers */
    uint32_t page_kib;     /* page size of DPDK's packet buffers; 0: not a DPDK port */
};

/* Any thread that notices a loss counts it. */
static inline void io_lost_link(unsigned *links_lost)
{
    __atomic_fetch_add(links_lost, 1, __ATOMIC_RELAXED);
}

static inline unsigned io_links_lost(const struct io_port *port)
{
    return __atomic_load_n(&port->links_lost, __ATOMIC_RELAXED);
}

static inline bool io_has_room(const struct io_port *port, uint32_t length)
{
    return port->room == 0 || length <= port->room;
}

/* The MTU rule. A device does not count the Ethernet header against its MTU, nor an 802.1Q tag
 * right behind the addresses. Linux counts every other tag (802.1ad, or a second tag): a packet
 * socket refuses such a frame, and the kernel silently drops it if a DPDK driver sends it. */
#define IO_HEADER_BYTES 14
#define IO_HEADER_BYTES_MAX 22 /* with two tags */

static inline uint32_t io_bytes_outside_mtu(bool begins_with_8021q)
{
    return begins_with_8021q ? IO_HEADER_BYTES + 4 : IO_HEADER_BYTES;
}

/* A frame with this many bytes behind its Ethernet header fits the port, whatever its tags are. */
static inline bool io_fits_behind_header(const struct io_port *port, uint32_t bytes)
{
    return bytes <= port->mtu_bytes && io_has_room(port, bytes + IO_HEADER_BYTES);
}

/* Return true if this port can send the frame. A forwarder receives frames of any kind: the frame
 * must have a whole header, because packet sockets refuse less; the MTU must allow it; and a buffer
 * must have room for it. */
bool io_fits(const struct io_port *port, const struct io_frame *frame);

/* Send copies of these frames; returns how many the port accepted (a prefix). */
unsigned io_send_copies(struct io_port *to, const struct io_frame *frames, unsigned count);

/* Offer acquired frames and release those that the port does not accept; returns how many it
 * accepted. */
unsigned io_send_or_release(struct io_port *to, struct io_frame *frames, unsigned count);

/* For backends with frames in permanent buffers: nothing to return. */
void io_release_nothing(struct io_port *port, struct io_frame *frames, unsigned count);

/* poll(2) with a timeout. */
int io_poll(struct pollfd *files, unsigned count, uint64_t timeout_ns);

/* For backends with a row of buffers of `stride` bytes: return the first `count` buffers. */
static inline unsigned io_acquire_row(uint8_t *buffers, size_t stride, struct io_frame *frames,
                                      unsigned count, uint32_t length)
{
    if (length > stride)
        return 0;
    for (unsigned i = 0; i < count; i++)
        frames[i] = (struct io_frame){.data = buffers + i * stride, .length = length};
    return count;
}

/* All backends of this build, and those that it does not have; by their names, ended by NULL. */
#define IO_BACKENDS_MAX 31
extern const struct io_ops *io_backends[IO_BACKENDS_MAX + 1], *io_missing[IO_BACKENDS_MAX + 1];

/* Register a backend before main; a file uses IO_BACKEND for its `struct io_ops`. */
void io_register(const struct io_ops *ops);
#define IO_BACKEND(ops)                                                                            \
    __attribute__((constructor)) static void make_known(void)                                      \
    {                                                                                              \
        io_register(&(ops));                                                                       \
    }                                                                                              \
    struct io_ops /* takes the semicolon */

/* Why this build does not have a backend, or NULL if no backend has that name. */
const char *io_missing_reason(const char *name);

/* The backend of a port specification, by the name before ':', or NULL; the text behind it goes to
 * `arguments` unless that is NULL. */
const struct io_ops *io_of(const char *spec, const char **arguments);

/* All capabilities (enum io_capability) of a port of this specification. */
unsigned io_capabilities(const char *spec);

/* Linux capabilities that opening it needs: names with commas, "all", or "". */
const char *io_privileges(const char *spec);

/* The path of the socket that it creates; false: it creates none. */
bool io_socket_made(const char *spec, char *path, size_t size);

/* Step through "key=value,key,key=value". Copies the next key and value (empty if there is no '=')
 * and returns the rest, or NULL at the end. `error` is set if a part is too long. */
const char *io_next_argument(const char *arguments, char *key, size_t key_size, char *value,
                             size_t value_size, bool *error);
#endif
