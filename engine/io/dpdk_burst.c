/* The hot path of the `dpdk` backend: transmit, receive and forward bursts.
 *
 * Transmit buffers come from a pool of the port that nothing else writes to, so a buffer returns
 * from the ring with its last frame: the template is copied once into each buffer, not once per
 * packet. A buffer is in the pool only after the device has returned it, so a frame in flight is
 * never overwritten. */
#include <string.h>

#include <rte_prefetch.h>
#include <rte_vhost.h>

#include "io/dpdk.h"

#define VHOST_BURST_MAX 32 /* maximum of the vhost library per call */

/* See dpdk_gate.c. */
static inline bool gate_enter(_Atomic bool *gate, _Atomic bool *busy)
{
    atomic_store_explicit(busy, true, memory_order_relaxed);
    if (unlikely(dpdk_fence_needed))
        atomic_thread_fence(memory_order_seq_cst);
    else
        atomic_signal_fence(memory_order_seq_cst);
    if (likely(atomic_load_explicit(gate, memory_order_acquire)))
        return true;
    atomic_store_explicit(busy, false, memory_order_release);
    return false;
}

static inline void gate_leave(_Atomic bool *busy)
{
    atomic_store_explicit(busy, false, memory_order_release);
}

static inline struct dpdk_queue *queue_of(struct io_port *base)
{
    return (struct dpdk_queue *)(void *)base;
}

/* Offer mbufs to the port; the accepted mbufs belong to the port. */
static inline unsigned transmit(struct dpdk_queue *q, struct rte_mbuf **mbufs, unsigned count)
{
    unsigned sent = 0;

    if (unlikely(!gate_enter(&q->tx_open, &q->tx_busy))) {
        atomic_fetch_add_explicit(&q->tx_calls, 1, memory_order_relaxed);
        return 0;
    }
    if (q->kind == DPDK_VHOST) {
        unsigned moved;
        do {
            moved = rte_vhost_enqueue_burst(q->vhost_device, q->vhost_to, mbufs + sent,
                                            (uint16_t)(count - sent));
            sent += moved;
        } while (moved == VHOST_BURST_MAX && sent < count);
        /* The library has copied the frames; the buffers are free. */
        if (sent > 0)
            rte_pktmbuf_free_bulk(mbufs, sent);
    } else {
        sent = rte_eth_tx_burst(q->ethdev, q->number, mbufs, (uint16_t)count);
    }
    gate_leave(&q->tx_busy);
    return sent;
}

bool dpdk_tx_prepare(struct io_port *base, const uint8_t *bytes, uint32_t length)
{
    struct dpdk_queue *q = queue_of(base);

    if (length > q->room_bytes)
        return false;
    memcpy(q->template_bytes, bytes, length);
    q->template_length = length;
    q->template_generation++;
    if (q->template_generation == 0)
        q->template_generation = 1;
    return true;
}

/* While a role has a transmit buffer, hash.rss is unused, and drivers do not change it. */
static inline void take_buffer(const struct dpdk_queue *q, struct rte_mbuf *mbuf, uint32_t length,
                               uint32_t generation)
{
    mbuf->data_off = RTE_PKTMBUF_HEADROOM;
    if (unlikely(mbuf->hash.rss != generation)) {
        mbuf->hash.rss = generation;
        if (generation != 0)
            memcpy(rte_pktmbuf_mtod(mbuf, uint8_t *), q->template_bytes, length);
    }
}

unsigned dpdk_tx_acquire(struct io_port *base, struct io_frame *frames, unsigned count,
                         uint32_t length)
{
    struct dpdk_queue *q = queue_of(base);
    const uint32_t generation = length == q->template_length ? q->template_generation : 0;

    if (unlikely(length > q->room_bytes))
        return 0;
    if (q->acquired_count < count) {
        void **free_slots = (void **)&q->acquired[q->acquired_count];
        if (likely(rte_mempool_get_bulk(q->tx_pool, free_slots, count - q->acquired_count) == 0))
            q->acquired_count = count;
        else
            count = q->acquired_count;
    }
    for (unsigned i = 0; i < count; i++) {
        struct rte_mbuf *mbuf = q->acquired[i];
        take_buffer(q, mbuf, length, generation);
        frames[i].data = rte_pktmbuf_mtod(mbuf, uint8_t *);
        frames[i].length = length;
        frames[i].flags = 0;
        frames[i].cookie = mbuf;
    }
    return count;
}

unsigned dpdk_tx_send(struct io_port *base, struct io_frame *frames, unsigned count)
{
    struct dpdk_queue *q = queue_of(base);

    for (unsigned i = 0; i < count; i++) { /* the acquired frames, in order */
        q->acquired[i]->data_len = (uint16_t)frames[i].length;
        q->acquired[i]->pkt_len = frames[i].length;
    }
    const unsigned sent = transmit(q, q->acquired, count);
    q->acquired_count -= sent;
    if (unlikely(q->acquired_count > 0 && sent > 0))
        memmove(q->acquired, q->acquired + sent, q->acquired_count * sizeof q->acquired[0]);
    return sent;
}

void dpdk_tx_release(struct io_port *base, struct io_frame *frames, unsigned count)
{
    struct dpdk_queue *q = queue_of(base);

    (void)frames;
    q->acquired_count -= count;
    rte_mempool_put_bulk(q->tx_pool, (void **)&q->acquired[q->acquired_count], count);
}

/* Frames in several segments come only from peers with smaller buffers. */
static bool make_linear(struct dpdk_queue *q, struct rte_mbuf *mbuf)
{
    if (mbuf->nb_segs == 1 || rte_pktmbuf_linearize(mbuf) == 0)
        return true;
    rte_pktmbuf_free(mbuf);
    q->rx_drops++;
    return false;
}

/* The kernel cuts a frame that is longer than a slot, and the driver passes its beginning on. */
static __attribute__((noinline)) unsigned drop_cut(struct dpdk_queue *q, struct rte_mbuf **mbufs,
                                                   unsigned count)
{
    unsigned whole = 0;

    for (unsigned i = 0; i < count; i++) {
        const uint32_t tag = mbufs[i]->ol_flags & RTE_MBUF_F_RX_VLAN ? RTE_VLAN_HLEN : 0;
        if (mbufs[i]->pkt_len - tag < q->cut_length) {
            mbufs[whole++] = mbufs[i];
            continue;
        }
        rte_pktmbuf_free(mbufs[i]);
        q->rx_drops++;
    }
    return whole;
}

static inline unsigned receive(struct dpdk_queue *q, struct rte_mbuf **mbufs, unsigned count)
{
    unsigned received = 0;

    if (q->kind == DPDK_VHOST) {
        unsigned moved;
        do {
            moved = rte_vhost_dequeue_burst(q->vhost_device, q->vhost_from, q->rx_pool,
                                            mbufs + received, (uint16_t)(count - received));
            received += moved;
        } while (moved == VHOST_BURST_MAX && received < count);
    } else {
        received = rte_eth_rx_burst(q->ethdev, q->number, mbufs, (uint16_t)count);
        if (unlikely(q->cut_length > 0))
            received = drop_cut(q, mbufs, received);
    }
    return received;
}

unsigned dpdk_rx_burst(struct io_port *base, struct io_frame *frames, unsigned count)
{
    struct dpdk_queue *q = queue_of(base);
    struct rte_mbuf *mbufs[IO_BURST_MAX];
    /* The driver of virtio-user prefetches frames itself; vhost and memif have just copied them. */
    const bool cold = q->kind >= DPDK_AF_PACKET;
    unsigned received, kept = 0;

    if (unlikely(!gate_enter(&q->rx_open, &q->rx_busy)))
        return 0;
    received = receive(q, mbufs, RTE_MIN(count, q->rx_at_once));
    if (received == 0 && unlikely(!atomic_load_explicit(&q->tx_open, memory_order_relaxed)))
        atomic_store_explicit(&q->rx_empty, true, memory_order_relaxed);
    gate_leave(&q->rx_busy);
    for (unsigned i = 0; i < received; i++) {
        struct rte_mbuf *mbuf = mbufs[i];
        if (unlikely(mbuf->nb_segs != 1) && !make_linear(q, mbuf))
            continue;
        frames[kept].data = rte_pktmbuf_mtod(mbuf, uint8_t *);
        frames[kept].length = mbuf->data_len;
        frames[kept].flags = 0;
        frames[kept].cookie = mbuf;
        if (cold)
            rte_prefetch0(frames[kept].data);
        kept++;
    }
    return kept;
}

void dpdk_rx_release(struct io_port *base, struct io_frame *frames, unsigned count)
{
    struct dpdk_queue *q = queue_of(base);
    struct rte_mbuf *mbufs[IO_BURST_MAX];
    bool plain = true;

    for (unsigned i = 0; i < count; i++) {
        mbufs[i] = frames[i].cookie;
        plain &= mbufs[i]->pool == q->rx_pool && mbufs[i]->nb_segs == 1 &&
                 rte_mbuf_refcnt_read(mbufs[i]) == 1;
    }
    if (likely(plain))
        rte_mempool_put_bulk(q->rx_pool, (void **)mbufs, count);
    else
        rte_pktmbuf_free_bulk(mbufs, count);
}

unsigned dpdk_forward(struct io_port *from, struct io_port *to, struct io_frame *frames,
                      unsigned count)
{
    struct rte_mbuf *mbufs[IO_BURST_MAX];

    (void)from;
    for (unsigned i = 0; i < count; i++)
        mbufs[i] = frames[i].cookie;
    return transmit(queue_of(to), mbufs, count);
}
