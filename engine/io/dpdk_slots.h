/* Slots of the rings of `dpdk:af-packet`. */
#ifndef SM_IO_DPDK_SLOTS_H
#define SM_IO_DPDK_SLOTS_H

#include <stdint.h>

/* Bytes that the kernel and the driver of af-packet put in front of a frame in a slot. */
#define DPDK_SLOT_HEAD_SEND 32
#define DPDK_SLOT_HEAD_RECEIVE 66
#define DPDK_SLOT_BYTES_MIN 2048

static inline uint32_t dpdk_slot_round_up(uint32_t bytes, uint32_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* Bytes of a slot for frames of this length at most: a divisor of its block, which is of whole
 * pages. The smallest slot is the driver's own, of two to a page of 4 KiB; on larger pages (16 or
 * 64 KiB, on ARM) slots are a power of two, so that several share a block. */
static inline uint32_t dpdk_slot_bytes(uint32_t longest, uint32_t page_bytes)
{
    const uint32_t needed = longest + DPDK_SLOT_HEAD_RECEIVE + 1;
    uint32_t slot = DPDK_SLOT_BYTES_MIN;

    while (slot < needed && slot < page_bytes)
        slot *= 2;
    return slot < needed ? dpdk_slot_round_up(needed, page_bytes) : slot;
}
#endif
