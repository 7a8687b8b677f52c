/* The one contract between the role loops and packet I/O. Each backend is one file that
 * defines one `struct io_ops` and makes it known by IO_BACKEND. Calls are per burst, never per
 * packet: the role loops are written once, and what happens per packet is inlined in them. */
#ifndef SM_IO_H
#define SM_IO_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most frames one call moves. Larger --burst values are sent in several calls. */
#define IO_BURST_MAX 256

/* The most queues of one port, each with a worker of its own. */
#define IO_QUEUES_MAX 16

/* Send to the broadcast address (only `udp` needs to be told; elsewhere the header says it). */
#define IO_FRAME_BROADCAST 1U

struct frame_address;
struct io_port; /* each backend begins its own struct with this one */

/* One frame in a buffer that the backend owns. `data` points at the Ethernet header; `length`
 * is without FCS. `cookie` is the backend's own handle (mbuf, descriptor index). */
struct io_frame {
    uint8_t *data;
    uint32_t length;
    uint32_t flags; /* IO_FRAME_... */
    void *cookie;
};

/* Pages of the memory that DPDK keeps its packet buffers in. */
enum io_pages {
    IO_PAGES_HUGE,
    IO_PAGES_SMALL, /* the kernel's ordinary ones */
};

/* The kernel's buffers of a port's socket, as the kernel counts them: twice what it was asked for.
 */
struct io_buffers {
    uint32_t asked_bytes; /* 0: the port has no such socket */
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

    uint32_t frame_length;     /* of the configured traffic, without FCS */
    uint32_t frame_length_max; /* longest frame that will be sent or received, without FCS */
    const struct frame_address *address; /* of this port and its peer */
    bool src_mac_given, src_ip_given, dst_ip_given;
    bool tagged; /* frames may have VLAN tags, which must arrive as part of the frame */

    bool rx_may_block;     /* the role only receives, and only on this port */
    bool rx_untimed;       /* the role only counts: frames may be handed over late and together */
    bool forwards;         /* the role sends received frames from the same buffers */
    bool unforced_buffers; /* no socket buffers above the limits of an ordinary user */

    unsigned queue_count;  /* queues of this port; 0 means 1 */
    unsigned queue;        /* the queue to open; queue 0 is opened first */
    struct io_port *first; /* the port of queue 0, for all other queues */
    int core;              /* core of the worker that opens and uses the port; -1: any */
    const int *cores;      /* with several queues: the core of the worker of each queue */
    unsigned core_count;

    struct io_null_config null;
    struct io_dpdk_config dpdk;
};

/* What sets a kind of port apart from one that sends and receives whole frames on a device:
 * options are checked by these. */
enum io_capability {
    IO_DATAGRAMS = 1,         /* it hands datagrams to the kernel, which writes the headers */
    IO_NO_PEER = 2,           /* what is sent goes to nobody: no address is needed */
    IO_UNTIMED = 4,           /* when a frame arrived is not known */
    IO_ARGUMENT_QUEUES = 8,   /* one worker may take several queues: queues=N in its arguments */
    IO_NO_OUTER_TAG = 16,     /* of two VLAN tags, the outer one arrives as 802.1Q */
    IO_PCI_FUNCTION = 32,     /* it names a PCI function, the only kind that EAL then opens */
    IO_KEEPS_PRIVILEGES = 64, /* what it takes to open, it may need until it is closed */
    IO_HOLDS = 128,           /* received frames stay as they are while more are received */
    IO_OWN_THREADS = 256,     /* its library begins threads as it opens */
    IO_OPENS_CONFINED = 512,  /* opening it takes no more than confinement.h leaves */
    IO_CONNECTS = 1024,       /* it connects to a socket later, too */
    IO_OPENS_NO_FILE = 2048,  /* opening it takes no file that its user has to himself */
    IO_HUGEPAGES_ONLY = 4096, /* its driver works in no other memory */
};

/* A way to use a backend on a network device, as campaigns name it (`io: raw-mmsg`). The bench's
 * table of them is made from these rows (switchmark/model/io.py says how). */
struct io_word {
    const char *name;
    const char *meaning;   /* in a line */
    const char *arguments; /* behind "BACKEND:", DEVICE standing for the device's name; NULL: the
                              bench makes them from what it knows of the port */
    const char *timed;     /* arguments more where every frame is timed; NULL: none */
    const char *container; /* Linux capabilities that it takes in a container: "net_raw,bpf" */
};

/* What a backend is, in every build, and what it does, in those that have it. */
struct io_ops {
    const char *name;
    const char *summary;         /* one line of --help: what it is */
    const char *keys;            /* and what may stand behind "BACKEND:" */
    const struct io_word *words; /* ended by a NULL name; NULL: not for campaigns */
    const char *missing;         /* why this build lacks it, and what to do; NULL: it is here */
    unsigned queues_max;         /* queues that a port can have; 0: no choice, one */
    unsigned capabilities;       /* enum io_capability: those of every port ... */

    /* ... and those that follow from the arguments, 0 where they are not well-formed. NULL: none.
     */
    unsigned (*capabilities_of)(const char *arguments);

    /* Linux capabilities that opening such a port takes, by their names in small letters
     * ("net_raw,net_admin"; "all": whatever there is). The engine has no others from before it
     * opens its ports (privileges.h). NULL: none. */
    const char *(*privileges_of)(const char *arguments);
    const char *privileges; /* the same, whatever the arguments */

    /* The path of the socket that such a port makes, and removes in the end. False, or NULL op: it
     * makes none. */
    bool (*socket_made)(const char *arguments, char *path, size_t size);

    /* Whether the arguments (what follows "BACKEND:") are well-formed; if not, one line into
     * `error`. Asked for every port before any is opened. */
    bool (*check)(const char *arguments, char *error, size_t error_size);

    /* Parse arguments and open. On failure writes one line into `error` and returns NULL.
     * Called by the thread that will use the port, or by one that calls thread_enter later. */
    struct io_port *(*open)(const struct io_config *config, char *error, size_t error_size);

    /* Called once by a worker thread other than the opener before it uses the port (DPDK:
     * rte_thread_register). NULL: nothing to do. */
    void (*thread_enter)(struct io_port *port);

    /* Called by the main thread after it has looked into the port of another worker, which goes on
     * with it: nothing of the port may be left that only this thread can complete. NULL: nothing
     * to do. */
    void (*thread_leave)(struct io_port *port);

    /* Write `bytes` into every transmit buffer, so that from now on tx_acquire hands out
     * buffers that hold this frame (as the sender last changed it) with `length` set: then a
     * sender writes only the changing fields per packet. Called with no buffer in flight by
     * our side (all released or sent). False, or NULL op: the backend cannot promise it and
     * the sender writes whole frames. The promise ends with the next tx_acquire of another
     * length (probes) and is renewed by another call. */
    bool (*tx_prepare)(struct io_port *port, const uint8_t *bytes, uint32_t length);

    /* Up to `count` empty buffers with room for `length` bytes, `length` set in each; returns
     * how many. Buffers that are not sent stay acquired; the next tx_acquire returns them
     * first (in the same order, contents untouched). */
    unsigned (*tx_acquire)(struct io_port *port, struct io_frame *frames, unsigned count,
                           uint32_t length);

    /* Offer the first `count` acquired frames; returns how many the port accepted (a prefix).
     * The rest stay acquired and may be offered again or released with tx_release. */
    unsigned (*tx_send)(struct io_port *port, struct io_frame *frames, unsigned count);
    void (*tx_release)(struct io_port *port, struct io_frame *frames, unsigned count);

    /* Up to `count` received frames; they stay ours until rx_release. Never blocks unless the
     * port was opened blocking (then at most 20 ms). */
    unsigned (*rx_burst)(struct io_port *port, struct io_frame *frames, unsigned count);
    void (*rx_release)(struct io_port *port, struct io_frame *frames, unsigned count);

    /* Hand received frames (possibly changed in place) to a port of the same backend, maybe
     * the same port, without copying; returns how many were accepted (a prefix). The accepted
     * ones are gone, the rest stay ours (offer again or rx_release). NULL: the backend cannot,
     * and the roles copy. */
    unsigned (*forward)(struct io_port *from, struct io_port *to, struct io_frame *frames,
                        unsigned count);

    /* A trial is over: bring what was sent to where it belongs, before the result is told; what
     * cannot be done is a `failure`. NULL: nothing waits. */
    void (*flush)(struct io_port *port);

    /* Sleep until something may have arrived, at most `timeout_ns`. NULL: the caller naps. */
    void (*rx_wait)(struct io_port *port, uint64_t timeout_ns);

    /* Frames that reached this port and were dropped on our side of it before rx_burst (socket
     * buffer full, no receive buffers), since open. NULL: it cannot happen or cannot be told. */
    uint64_t (*rx_drops)(struct io_port *port);

    /* True once the peer is there and frames can pass (vhost-user, memif); NULL: always. */
    bool (*link_up)(struct io_port *port);

    /* False while the port's device is down, has gone, or has no carrier (told up to a second
     * late); a loss since the last call counts in links_lost. NULL: there is none, or nobody
     * tells. Asked once an interval. */
    bool (*device_up)(struct io_port *port);

    /* Version of the library behind the backend for `ready`; NULL op: none. */
    const char *(*version)(void);

    void (*close)(struct io_port *port);
};

struct io_port {
    const struct io_ops *ops;
    char spec[256];
    char driver[64];
    unsigned links_lost; /* how often the peer has gone, where the backend notices */
    char failure[160];   /* not empty: the port is beyond use; the engine reports it and exits 1 */
    uint8_t mac[6];
    uint32_t mtu_bytes;
    uint32_t room; /* for a frame, in what tx_acquire gives; 0: as much as the MTU allows */
    struct io_buffers buffers;
    uint32_t rx_ring; /* frames that can wait here to be received; 0: not known */
    unsigned trial;   /* number of the running trial, from 1; 0 between trials */
    bool ended;       /* nothing more will come: the file that is the port's input is at its end */
    bool untimed;     /* frames are handed over late, since none was to be timed */
    bool blocking;    /* opened blocking: where rx_burst may not block, rx_wait is used */
    bool cuts_tagged; /* of a tagged frame it hands over the Ethernet header alone */
    bool udp_payload_only; /* `udp`: data points past Ethernet/IP/UDP; kernel writes the headers */
    uint32_t page_kib;     /* size of the pages that DPDK's packet buffers lie in; 0: not of DPDK */
};

/* Counted by whichever thread notices. */
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

/* Can this port send the frame? It must have a whole header, since packet sockets refuse less; the
 * MTU must allow it, and a buffer must hold it. What a forwarder receives may be anything. */
bool io_fits(const struct io_port *port, const struct io_frame *frame);

/* Send copies of these frames; returns how many the port accepted (a prefix). */
unsigned io_send_copies(struct io_port *to, const struct io_frame *frames, unsigned count);

/* Offer acquired frames and release what the port refuses; returns how many it accepted. */
unsigned io_send_or_release(struct io_port *to, struct io_frame *frames, unsigned count);

/* For backends whose frames lie in buffers of the port's own: nothing to hand back. */
void io_release_nothing(struct io_port *port, struct io_frame *frames, unsigned count);

/* poll(2), at most so long. */
int io_poll(struct pollfd *files, unsigned count, uint64_t timeout_ns);

/* For backends that write into a row of buffers of `stride` bytes: the first `count` of them. */
static inline unsigned io_acquire_row(uint8_t *buffers, size_t stride, struct io_frame *frames,
                                      unsigned count, uint32_t length)
{
    if (length > stride)
        return 0;
    for (unsigned i = 0; i < count; i++)
        frames[i] = (struct io_frame){.data = buffers + i * stride, .length = length};
    return count;
}

/* All backends of this build, and those that it lacks; by their names, ended by NULL. */
#define IO_BACKENDS_MAX 31
extern const struct io_ops *io_backends[IO_BACKENDS_MAX + 1], *io_missing[IO_BACKENDS_MAX + 1];

/* Make a backend known, before main; a file says IO_BACKEND of its `struct io_ops`. */
void io_register(const struct io_ops *ops);
#define IO_BACKEND(ops)                                                                            \
    __attribute__((constructor)) static void make_known(void)                                      \
    {                                                                                              \
        io_register(&(ops));                                                                       \
    }                                                                                              \
    struct io_ops /* (takes the semicolon) */

/* Why this build has no such backend, or NULL when there is none of that name. */
const char *io_missing_reason(const char *name);

/* Backend of a port specification, by the name before ':', or NULL; what follows it goes to
 * `arguments` unless that is NULL. */
const struct io_ops *io_of(const char *spec, const char **arguments);

/* All capabilities (enum io_capability) of a port of this specification. */
unsigned io_capabilities(const char *spec);

/* Linux capabilities that opening it takes: names with commas, "all", or "". */
const char *io_privileges(const char *spec);

/* The path of the socket that it makes; false: it makes none. */
bool io_socket_made(const char *spec, char *path, size_t size);

/* Step through "key=value,key,key=value". Copies the next key and value (empty when there is
 * no '=') and returns the rest, or NULL at the end. `error` is set when a piece does not fit. */
const char *io_next_argument(const char *arguments, char *key, size_t key_size, char *value,
                             size_t value_size, bool *error);
#endif
