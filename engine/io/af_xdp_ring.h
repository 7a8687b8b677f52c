/* The rings that `af_xdp` shares with the kernel, and the memory chunks that circulate in them. */
#ifndef SM_IO_AF_XDP_RING_H
#define SM_IO_AF_XDP_RING_H

#include "io/af_xdp.h"

static inline struct xdp_port *port_of(struct io_port *base)
{
    return (struct xdp_port *)(void *)base;
}

static inline uint32_t load(const uint32_t *index)
{
    return __atomic_load_n(index, __ATOMIC_ACQUIRE);
}

static inline void publish(uint32_t *index, uint32_t value)
{
    __atomic_store_n(index, value, __ATOMIC_RELEASE);
}

static inline bool wants_wakeup(const struct xdp_ring *ring)
{
    return (__atomic_load_n(ring->flags, __ATOMIC_RELAXED) & XDP_RING_NEED_WAKEUP) != 0;
}

static inline struct xdp_queue *owner_of(struct xdp_queue *q, uint64_t address)
{
    if (__builtin_expect(address - q->first < q->memory->region_bytes, 1))
        return q;
    return q->memory->owner[address / q->memory->region_bytes];
}

static inline uint64_t receive_bytes(const struct xdp_queue *q)
{
    return (uint64_t)XDP_RX_FRAMES * q->memory->chunk_bytes;
}

static inline void put_chunk(struct xdp_queue *q, uint64_t address)
{
    ((uint64_t *)q->fill.entries)[q->fill.index++ & q->fill.mask] =
        address & ~(uint64_t)(q->memory->chunk_bytes - 1);
}
#endif
