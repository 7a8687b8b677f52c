/* The time of the kernel alone for a frame: loops that only make the system call. No sender with
 * the same system calls can be faster. bench/engine/plain.py compiles it, kernel.py runs it; the
 * device at the other end counts the frames.
 *
 *   floor af_xdp DEVICE BYTES BURST      always the same descriptors, all of them for one frame
 *                                        that is never written; copy mode
 *   floor io_uring DEVICE BYTES BURST    always the same requests, for one frame
 *   floor io_uring-nop - - BURST         requests that do nothing; prints their ns each second */
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#ifdef HAVE_LIBURING
#include <liburing.h>
#endif

#define RING 512 /* entries: both rings stay in the nearest cache */
#define CHUNK 2048

/* Ethernet, IPv4, UDP, like the frames of the engine: a packet socket looks for the UDP header. */
static void fill(unsigned char *frame, unsigned bytes)
{
    static const unsigned char head[] = {2,   0,    0, 0, 0,   11, 2, 0, 0,  0,   0,  10, 8,
                                         0,   0x45, 0, 0, 0,   0,  0, 0, 0,  64,  17, 0,  0,
                                         198, 18,   0, 1, 198, 18, 0, 2, 19, 136, 19, 136};
    const uint16_t ip = htons((uint16_t)(bytes - 14)), udp = htons((uint16_t)(bytes - 34));

    memcpy(frame, head, sizeof head);
    memcpy(frame + 16, &ip, 2);
    memcpy(frame + 38, &udp, 2);
}

static int fail(const char *call)
{
    perror(call);
    return 1;
}

static uint8_t *map(int fd, const struct xdp_ring_offset *at, size_t entry, uint64_t offset)
{
    return mmap(NULL, at->desc + RING * entry, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                fd, (off_t)offset);
}

static int kick_af_xdp(const char *device, uint32_t bytes, unsigned burst)
{
    const int fd = socket(AF_XDP, SOCK_RAW, 0), entries = RING;
    uint8_t *area =
        mmap(NULL, CHUNK * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const struct xdp_umem_reg memory = {
        .addr = (uint64_t)(uintptr_t)area, .len = CHUNK * 2, .chunk_size = CHUNK};
    const struct sockaddr_xdp address = {
        .sxdp_family = AF_XDP, .sxdp_flags = XDP_COPY, .sxdp_ifindex = if_nametoindex(device)};
    struct xdp_mmap_offsets at;
    socklen_t length = sizeof at;

    if (fd < 0 || setsockopt(fd, SOL_XDP, XDP_UMEM_REG, &memory, sizeof memory) != 0 ||
        setsockopt(fd, SOL_XDP, XDP_UMEM_FILL_RING, &entries, sizeof entries) != 0 ||
        setsockopt(fd, SOL_XDP, XDP_UMEM_COMPLETION_RING, &entries, sizeof entries) != 0 ||
        setsockopt(fd, SOL_XDP, XDP_TX_RING, &entries, sizeof entries) != 0 ||
        getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, &at, &length) != 0)
        return fail("XDP socket");
    uint8_t *tx = map(fd, &at.tx, sizeof(struct xdp_desc), XDP_PGOFF_TX_RING);
    uint8_t *done = map(fd, &at.cr, sizeof(uint64_t), XDP_UMEM_PGOFF_COMPLETION_RING);
    if (tx == MAP_FAILED || done == MAP_FAILED ||
        bind(fd, (const struct sockaddr *)&address, sizeof address) != 0)
        return fail("XDP rings");
    fill(area, bytes);
    for (unsigned i = 0; i < RING; i++)
        ((struct xdp_desc *)(void *)(tx + at.tx.desc))[i] = (struct xdp_desc){0, bytes, 0};

    uint32_t *producer = (uint32_t *)(void *)(tx + at.tx.producer);
    const uint32_t *consumer = (uint32_t *)(void *)(tx + at.tx.consumer);
    const uint32_t *sent = (uint32_t *)(void *)(done + at.cr.producer);
    uint32_t *taken = (uint32_t *)(void *)(done + at.cr.consumer);
    for (uint32_t next = burst;; next += burst) {
        __atomic_store_n(producer, next, __ATOMIC_RELEASE);
        while (__atomic_load_n(consumer, __ATOMIC_ACQUIRE) != next)
            sendto(fd, NULL, 0, MSG_DONTWAIT, NULL, 0);
        __atomic_store_n(taken, __atomic_load_n(sent, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
    }
}

#ifdef HAVE_LIBURING
static int open_raw(const char *device)
{
    const struct sockaddr_ll address = {.sll_family = AF_PACKET,
                                        .sll_ifindex = (int)if_nametoindex(device)};
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0), on = 1;

    if (fd >= 0)
        setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on);
    return fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof address) == 0 ? fd : -1;
}

static void report(uint64_t *count, struct timespec *last, unsigned burst)
{
    struct timespec now;

    if ((*count += burst) % (burst * 65536U) != 0)
        return;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    printf("%.2f ns a request\n",
           ((double)(now.tv_sec - last->tv_sec) * 1e9 + (double)(now.tv_nsec - last->tv_nsec)) /
               (burst * 65536U));
    fflush(stdout);
    *last = now;
}

static int submit_io_uring(const char *device, uint32_t bytes, unsigned burst, int nop)
{
    static unsigned char frame[9018];
    struct io_uring_params parameters = {.flags = IORING_SETUP_SINGLE_ISSUER |
                                                  IORING_SETUP_DEFER_TASKRUN};
    const int fd = nop ? -1 : open_raw(device);
    struct timespec last = {0};
    struct io_uring ring;
    uint64_t count = 0;

    fill(frame, bytes);
    if ((fd < 0 && !nop) || io_uring_queue_init_params(RING, &ring, &parameters) != 0 ||
        (!nop && io_uring_register_files(&ring, &fd, 1) != 0))
        return fail("io_uring");
    for (;;) {
        for (unsigned i = 0; i < burst; i++) {
            struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
            if (nop) {
                io_uring_prep_nop(sqe);
                continue;
            }
            io_uring_prep_send(sqe, 0, frame, bytes, 0);
            sqe->flags = IOSQE_FIXED_FILE | (i + 1 < burst ? IOSQE_CQE_SKIP_SUCCESS : 0);
        }
        io_uring_submit(&ring);
        io_uring_cq_advance(&ring, io_uring_cq_ready(&ring));
        if (nop)
            report(&count, &last, burst);
    }
}
#endif

int main(int argc, char **argv)
{
    const unsigned burst = argc == 5 ? (unsigned)atoi(argv[4]) : 0;

    if (burst == 0 || burst > RING / 2)
        return 2;
    if (strcmp(argv[1], "af_xdp") == 0)
        return kick_af_xdp(argv[2], (uint32_t)atoi(argv[3]), burst);
#ifdef HAVE_LIBURING
    return submit_io_uring(argv[2], (uint32_t)atoi(argv[3]), burst,
                           strcmp(argv[1], "io_uring-nop") == 0);
#else
    return 2;
#endif
}
