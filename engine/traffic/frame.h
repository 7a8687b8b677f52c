/* The frames of the engine: Ethernet with up to two VLAN tags, IPv4 or IPv6, UDP, and a payload
 * that begins with a stamp of 18 bytes. So it fits a 64-byte frame (60 without FCS) if that is
 * plain, that is, untagged IPv4. A tag needs 4 more bytes, IPv6 20.
 *
 *   offset  bytes  field (network byte order)
 *        0      1  0x53, the first byte of the signature
 *        1      1  bits 7-4: kind (FRAME_...), bits 3-0: epoch, the number of the trial modulo 16
 *        2      2  stream
 *        4      4  sequence, low 32 bits (the receiver extends it)
 *        8      6  intended send time, low 48 bits of clock ticks
 *       14      4  lateness: ticks from intended to actual send time; with the highest bit
 *                  set, in units of 65536 ticks, for a sender that may catch up with more than
 *                  half a second
 *       18      .  zeros, or a pattern (payload.h); in touched frames it may differ from frame
 *                  to frame
 *   last 4      4  touched frames with 22 bytes of payload and more: the digest, CRC32C of the
 *                  bytes between stamp and digest followed by the stamp
 *
 * The first four bytes are the signature of the frames of a trial. With the epoch and the times of
 * the sender a receiver recognises late frames of an earlier trial. */
#ifndef SM_FRAME_H
#define SM_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "traffic/checksum.h"
#include "traffic/payload.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "stamps are written with byte swaps for little-endian machines"
#endif

#define FCS_BYTES 4
#define HEADERS_BYTES 42 /* headers of a plain frame: Ethernet 14, IPv4 20, UDP 8 */
#define TAG_BYTES 4
#define TAGS_MAX 2
#define STAMP_BYTES 18
#define DIGEST_BYTES 4
#define FRAME_SIZE_MIN 64 /* with FCS */
#define FRAME_SIZE_MAX 9018
#define FRAME_LENGTH_MAX (FRAME_SIZE_MAX - FCS_BYTES)

#define FRAME_SIGNATURE 0x53
#define FRAME_DATA 1         /* kind */
#define FRAME_VERIFICATION 2 /* kind: teaches addresses and verifies paths, is never measured */
#define FRAME_TOUCHED 4      /* flag in the kind: the frame has a digest, or no room for it */
#define FRAME_FILLED 8       /* flag in the kind: not touched, with a pattern in place of zeros */

/* EtherTypes as they are on the wire, loaded natively */
#define WIRE_IPV4 0x0008
#define WIRE_IPV6 0xdd86
#define WIRE_VLAN 0x0081    /* 802.1Q */
#define WIRE_SERVICE 0xa888 /* 802.1ad, the outer of two tags */

#define ORDINARY_FRAME_LENGTH                                                                      \
    1514 /* the longest frame that is not a jumbo frame, without FCS and tags */

static inline bool frame_is_tag(uint16_t wire_type)
{
    return wire_type == WIRE_VLAN || wire_type == WIRE_SERVICE;
}

#define OFFSET_ETHERTYPE 12
#define OFFSET_IP 14 /* these two offsets are those of a plain frame */
#define OFFSET_IP_SRC 26
#define OFFSET_UDP 34
#define OFFSET_UDP_LENGTH 38
#define OFFSET_UDP_CHECKSUM 40

/* Addresses and headers of frames. If everything except the addresses is zero, frames are plain. */
struct frame_address {
    uint8_t src_mac[6], dst_mac[6];
    uint32_t src_ip, dst_ip; /* host byte order; for IPv6 addresses the last four bytes */
    uint16_t src_udp, dst_udp;
    bool ip6;
    uint8_t tags;                           /* 0, 1 (802.1Q), 2 (802.1ad outside, 802.1Q inside) */
    uint16_t vlan[TAGS_MAX];                /* VLAN IDs, the outer first */
    uint8_t src_prefix[12], dst_prefix[12]; /* IPv6: the first twelve bytes */
    uint64_t ttl, dscp;                     /* TTL or hop limit (0: 64); DSCP */
    struct frame_tunnel {
        bool used;
        uint8_t src_mac[6], dst_mac[6];
        uint8_t row[24]; /* the row in the table of tunnels */
    } tunnel;            /* the outer header of a VXLAN frame, in front of the frame */
};

/* The outer header of VXLAN (RFC 7348): Ethernet, IPv4, UDP, VXLAN; and the offsets in it. A row of
 * the table of tunnels has the VNI, the outer source and the outer destination address (4 bytes
 * each), and the destination and the source MAC address of the inner frames (6 bytes each). */
#define OUTER_BYTES 50
#define OUTER_IP 14
#define OUTER_ADDRESSES 26
#define OUTER_UDP 34
#define OUTER_VXLAN 42
#define VXLAN_PORT 4789
#define VXLAN_FLAGS 0x08 /* the VNI is valid */
#define TUNNEL_ROW_BYTES 24
#define TUNNEL_ROW_MACS 12        /* offset of the MAC addresses, in the order of a frame */
#define OUTER_SOURCE_PORTS 49152U /* the first of 16384 */

/* Offsets in a frame. */
struct frame_layout {
    uint32_t ip;  /* offset of the IP header */
    uint32_t udp; /* offset of the UDP header; the payload begins 8 bytes later */
    bool ip6;
};

/* A frame that is sent many times: its bytes, and the sum of everything that does not change. */
struct frame_template {
    uint32_t length;  /* bytes passed to the port: without FCS, or only the payload */
    uint32_t payload; /* offset of the stamp in it; 0 if the kernel writes the headers */
    uint32_t payload_length;
    int32_t beside; /* bytes of the L2 frame that are not passed to the port: FCS, headers; an outer
                       header is not part of the L2 frame */
    uint64_t constant_sum; /* sum of pseudo header, UDP header, signature, stream, and bytes that
                              are never rewritten */
    bool touch;
    const struct payload_pattern *pattern; /* content behind the stamp; NULL: zeros */
    uint8_t bytes[FRAME_LENGTH_MAX] __attribute__((aligned(64)));
};

/* Common values of one burst: the two times, and their part of the checksum. */
struct frame_times {
    uint64_t intended_lateness; /* bytes 8..15 as on the wire */
    uint16_t lateness_low;      /* bytes 16..17 as on the wire */
    uint64_t sum;
};

/* Total bytes of the headers in front of the payload. */
uint32_t frame_headers_bytes(const struct frame_address *address);

/* The smallest frame of this kind that has room for the stamp, with FCS. */
uint32_t frame_size_min(const struct frame_address *address);

/* Build the template for `frame_size` bytes with FCS. `payload_only`: without headers. The content
 * behind the stamp is zeros, or in touched frames the random pattern. */
void frame_template_build(struct frame_template *t, const struct frame_address *address,
                          uint32_t frame_size, uint16_t stream, unsigned kind, unsigned epoch,
                          bool payload_only);

/* Write the fields of the outer header that follow from the tunnel, the flow and the length of the
 * frame (with outer header, without FCS) into a frame that has a template. */
void frame_set_tunnel(uint8_t *frame, uint32_t length, const uint8_t *tunnel_row, uint32_t flow);

/* Write the checksum of the outer IPv4 header. */
void frame_sum_outer(uint8_t *frame);

/* Turn a row of the table of tunnels into the row of frames that go the other way. */
void frame_reverse_tunnel(uint8_t *tunnel_row);

/* Put another pattern behind the stamp. */
void frame_template_fill(struct frame_template *t, enum payload_kind kind);

/* Find the headers of a frame of the engine: at most two tags, IPv4 without options or IPv6 without
 * extension headers, UDP, no fragment. False: another kind of frame, or too short for a stamp. */
bool frame_parse(const uint8_t *frame, uint32_t length, struct frame_layout *layout);

/* The same addresses from the point of view of the other end. */
struct frame_address frame_address_swapped(const struct frame_address *address);

/* Swap MAC, IP and UDP addresses in place, for an echo. No checksum changes. */
void frame_swap_addresses(uint8_t *frame, const struct frame_layout *layout);

/* Fill in the payload behind the stamp, which must be complete, with the variant of the pattern for
 * this sequence number, and the digest. Returns the sum of these bytes in the UDP checksum. */
uint64_t frame_touch(const struct payload_pattern *pattern, uint8_t *payload,
                     uint32_t payload_length, uint32_t sequence);

/* A touched frame is written as a whole. If another core has read the last frame from the same
 * buffer, every cache line must be fetched from that core, one after the other. So the lines of a
 * frame some places ahead are prefetched while this frame is written; on vhost-user that is more
 * than twice as fast. */
#define FRAMES_FETCHED_AHEAD 4

static inline void frame_fetch(const uint8_t *frame, uint32_t length)
{
    for (uint32_t at = 0; at < length; at += 64) {
#ifdef __x86_64__ /* GCC's builtin prefetches only for reading, unless the CPU of the build has    \
                     the instruction */
        __asm__ volatile("prefetchw %0" : : "m"(frame[at]));
#else
        __builtin_prefetch(frame + at, 1);
#endif
    }
}

/* Return true if the bytes behind the stamp are those that frame_touch would write. `sum` gets
 * their sum. */
bool frame_touched_alike(const struct payload_pattern *pattern, const uint8_t *payload,
                         uint32_t payload_length, uint64_t *sum);

/* Return true if the digest at the end of a touched payload is right, or if there is no room for
 * it. */
bool frame_digest_is_right(const uint8_t *payload, uint32_t payload_length);

/* Bytes of the pattern behind the stamp of a touched payload: all except the digest. */
static inline uint32_t frame_pattern_bytes(uint32_t payload_length)
{
    const uint32_t behind = payload_length - STAMP_BYTES;
    return behind >= DIGEST_BYTES ? behind - DIGEST_BYTES : behind;
}

#define LATENESS_COARSE 0x80000000U
#define LATENESS_UNIT 65536

static inline uint32_t lateness_encode(uint64_t ticks)
{
    if (__builtin_expect(ticks < LATENESS_COARSE, 1))
        return (uint32_t)ticks;
    const uint64_t units = ticks / LATENESS_UNIT;
    return LATENESS_COARSE | (units < LATENESS_COARSE ? (uint32_t)units : LATENESS_COARSE - 1);
}

static inline int64_t lateness_decode(uint32_t late)
{
    const int64_t ticks = late & (LATENESS_COARSE - 1);
    return __builtin_expect(late < LATENESS_COARSE, 1) ? ticks : ticks * LATENESS_UNIT;
}

static inline struct frame_times frame_times_make(uint64_t intended, uint64_t actual)
{
    const uint32_t late = lateness_encode(actual > intended ? actual - intended : 0);
    struct frame_times times;

    times.intended_lateness = __builtin_bswap64(intended << 16 | late >> 16);
    times.lateness_low = __builtin_bswap16((uint16_t)late);
    times.sum = (times.intended_lateness & 0xffffffffU) + (times.intended_lateness >> 32) +
                times.lateness_low;
    return times;
}

/* Write the fields that differ from frame to frame, and the UDP checksum, into `frame`, which
 * contains the template, possibly with another `payload_length`. `sum`: sum of everything else in
 * the checksum. */
static inline void frame_stamp_sum(const struct frame_template *t, uint8_t *frame,
                                   uint32_t payload_length, uint32_t sequence,
                                   const struct frame_times *times, uint64_t sum)
{
    uint8_t *payload = frame + t->payload;
    const uint32_t wire_sequence = __builtin_bswap32(sequence);

    store32(payload + 4, wire_sequence);
    store64(payload + 8, times->intended_lateness);
    store16(payload + 16, times->lateness_low);
    sum += wire_sequence + times->sum;
    if (t->touch)
        sum += frame_touch(t->pattern, payload, payload_length, sequence);
    if (t->payload != 0)
        store16(payload - 2, udp_checksum(sum_fold(sum)));
}

/* The same for a frame as long as the template. */
static inline void frame_stamp(const struct frame_template *t, uint8_t *frame, uint32_t sequence,
                               const struct frame_times *times)
{
    frame_stamp_sum(t, frame, t->payload_length, sequence, times, t->constant_sum);
}
#endif
