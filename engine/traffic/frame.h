/* The frames of the engine: Ethernet, IPv4, UDP and a payload that begins with a stamp of 18
 * bytes, so that it fits a 64-byte frame (60 without FCS).
 *
 *   offset  bytes  field (network byte order)
 *        0      1  0x53, the mark of this protocol
 *        1      1  bits 7-4: kind (FRAME_...), bits 3-0: epoch, which tells trials apart
 *        2      2  stream
 *        4      4  sequence, low 32 bits (the receiver extends it)
 *        8      6  intended send time, low 48 bits of clock ticks
 *       14      4  lateness: ticks from intended to actual send time, saturated
 *       18      .  zeros; in touched frames a pattern that differs from frame to frame
 *   last 4      4  touched frames with 22 bytes of payload and more: payload_digest
 *
 * The epoch and the sender's own times let a receiver tell stragglers of an earlier trial. */
#ifndef SM_FRAME_H
#define SM_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "traffic/checksum.h"
#include "traffic/crc32c.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "stamps are written with byte swaps for little-endian machines"
#endif

#define FCS_BYTES 4
#define HEADERS_BYTES 42 /* Ethernet 14, IPv4 20, UDP 8 */
#define STAMP_BYTES 18
#define DIGEST_BYTES 4
#define FRAME_SIZE_MIN 64 /* with FCS */
#define FRAME_SIZE_MAX 9018
#define FRAME_LENGTH_MAX (FRAME_SIZE_MAX - FCS_BYTES)

#define FRAME_MARK 0x53
#define FRAME_DATA 1    /* kind */
#define FRAME_PROBE 2   /* kind: teaches and verifies, is never measured */
#define FRAME_TOUCHED 4 /* flag in the kind: the digest is there (or had no room) */

#define OFFSET_ETHERTYPE 12
#define OFFSET_IP 14
#define OFFSET_IP_LENGTH 16
#define OFFSET_IP_CHECKSUM 24
#define OFFSET_IP_SRC 26
#define OFFSET_IP_DST 30
#define OFFSET_UDP 34
#define OFFSET_UDP_LENGTH 38
#define OFFSET_UDP_CHECKSUM 40

struct frame_address {
    uint8_t src_mac[6], dst_mac[6];
    uint32_t src_ip, dst_ip; /* host byte order */
    uint16_t src_udp, dst_udp;
};

/* A frame to be sent many times: its bytes, and the sum of everything that does not change. */
struct frame_template {
    uint32_t length;  /* what is handed to the port: without FCS, or the payload alone */
    uint32_t payload; /* offset of the stamp in it: 42, or 0 when the kernel writes headers */
    uint32_t payload_length;
    uint64_t constant_sum; /* pseudo header, UDP header, mark and stream */
    bool touch;
    uint8_t bytes[FRAME_LENGTH_MAX] __attribute__((aligned(64)));
};

/* What one burst shares: the two times, and their part of the checksum. */
struct frame_times {
    uint64_t intended_lateness; /* wire image of bytes 8..15 */
    uint16_t lateness_low;      /* wire image of bytes 16..17 */
    uint64_t sum;
};

/* Build the template for `frame_size` bytes with FCS. `payload_only`: without headers. */
void frame_template_build(struct frame_template *t, const struct frame_address *address,
                          uint32_t frame_size, uint16_t stream, unsigned kind, unsigned epoch,
                          bool payload_only);

/* The same address seen from the other end. */
struct frame_address frame_address_swapped(const struct frame_address *address);

/* Overwrite the two MAC addresses of an Ethernet frame. */
void frame_set_macs(uint8_t *frame, const uint8_t dst[6], const uint8_t src[6]);

/* Exchange MAC, IP and UDP addresses in place, as an echo does. Neither checksum changes. */
void frame_swap_addresses(uint8_t *frame);

/* Fill the payload behind the stamp with the pattern of this sequence, and the digest. */
void frame_touch(uint8_t *payload, uint32_t payload_length, uint32_t sequence);

/* True when the digest at the end of a touched payload is right (or there is no room). */
bool frame_digest_is_right(const uint8_t *payload, uint32_t payload_length);

static inline struct frame_times frame_times_make(uint64_t intended, uint64_t actual)
{
    const uint64_t late64 = actual > intended ? actual - intended : 0;
    const uint32_t late = late64 > UINT32_MAX ? UINT32_MAX : (uint32_t)late64;
    struct frame_times times;

    times.intended_lateness = __builtin_bswap64(intended << 16 | late >> 16);
    times.lateness_low = __builtin_bswap16((uint16_t)late);
    times.sum = (times.intended_lateness & 0xffffffffU) + (times.intended_lateness >> 32) +
                times.lateness_low;
    return times;
}

/* Write what differs from frame to frame into `frame`, which holds the template, and bring
 * the UDP checksum up to date from the constant sum. */
static inline void frame_stamp(const struct frame_template *t, uint8_t *frame, uint32_t sequence,
                               const struct frame_times *times)
{
    uint8_t *payload = frame + t->payload;
    const uint32_t wire_sequence = __builtin_bswap32(sequence);

    store32(payload + 4, wire_sequence);
    store64(payload + 8, times->intended_lateness);
    store16(payload + 16, times->lateness_low);
    if (t->touch)
        frame_touch(payload, t->payload_length, sequence);
    if (t->payload != 0) {
        uint64_t sum = t->constant_sum + wire_sequence + times->sum;
        if (t->touch)
            sum += sum_bytes(payload + STAMP_BYTES, t->payload_length - STAMP_BYTES);
        store16(frame + OFFSET_UDP_CHECKSUM, udp_checksum(sum_fold(sum)));
    }
}
#endif
