/* Checks whether a frame has our format and is right. Only for receive.c: functions in a header, so
 * that the compiler inlines them into its burst loop. */
#ifndef SM_RECEIVE_CHECK_H
#define SM_RECEIVE_CHECK_H

#include <arpa/inet.h>
#include <string.h>

#include "traffic/receiver.h"

/* `plain` is a constant wherever a function is inlined, so that the fast path has constant offsets.
 */
#define INLINE static inline __attribute__((always_inline))

INLINE struct frame_layout layout_of(const struct receiver *rx, bool plain)
{
    const struct frame_layout plain_layout = {.ip = OFFSET_IP, .udp = OFFSET_UDP, .ip6 = false};
    return plain ? plain_layout : rx->expected.layout;
}

static bool types_fit(const struct expected_frames *e, const uint8_t *f)
{
    for (unsigned i = 0; i <= e->tags; i++) {
        if (load16(f + OFFSET_ETHERTYPE + TAG_BYTES * i) != e->types[i])
            return false;
    }
    return true;
}

/* Return true if the headers of this frame have our format. */
INLINE bool is_ours(const struct receiver *rx, const struct io_frame *f, bool plain)
{
    const uint8_t *d = f->data;

    if (plain && rx->payload_only)
        return f->length >= STAMP_BYTES && d[0] == FRAME_SIGNATURE;
    const struct frame_layout at = layout_of(rx, plain);
    if (f->length < at.udp + 8 + STAMP_BYTES)
        return false;
    const uint8_t *ip = d + at.ip;
    if (plain ? load16(d + OFFSET_ETHERTYPE) != WIRE_IPV4 : !types_fit(&rx->expected, d))
        return false;
    if (at.ip6)
        return ip[0] >> 4 == 6 && ip[6] == 17 && d[at.udp + 8] == FRAME_SIGNATURE;
    /* version 4 without options, UDP, not a fragment */
    return ip[0] == 0x45 && ip[9] == 17 && (load16(ip + 6) & __builtin_bswap16(0x3fff)) == 0 &&
           d[at.udp + 8] == FRAME_SIGNATURE;
}

INLINE const uint8_t *payload_of(const struct receiver *rx, const struct io_frame *f, bool plain)
{
    return plain && !rx->payload_only ? f->data + HEADERS_BYTES : receive_payload(rx, f);
}

static inline bool value_fits(const struct flow_range *range, uint32_t value)
{
    return range->count == 0 || value - range->base < range->count;
}

static bool flow_fits(const struct expected_frames *e, const uint8_t *f)
{
    const uint8_t *udp = f + e->layout.udp;
    const uint8_t *tag = f + OFFSET_ETHERTYPE + 2;

    if (e->tags == 2 && !e->any_outer_vlan && (ntohs(load16(tag)) & 0xfff) != e->outer_vlan)
        return false;
    if (e->tags > 0 &&
        !value_fits(&e->fields[FLOW_VLAN], ntohs(load16(tag + TAG_BYTES * (e->tags - 1))) & 0xfffU))
        return false;
    if (e->layout.ip6 && ((e->src_prefix_given && memcmp(udp - 32, e->src_prefix, 12) != 0) ||
                          (e->dst_prefix_given && memcmp(udp - 16, e->dst_prefix, 12) != 0)))
        return false;
    return value_fits(&e->fields[FLOW_SRC_IP], ntohl(load32(udp - (e->layout.ip6 ? 20 : 8)))) &&
           value_fits(&e->fields[FLOW_DST_IP], ntohl(load32(udp - 4))) &&
           value_fits(&e->fields[FLOW_SRC_PORT], ntohs(load16(udp))) &&
           value_fits(&e->fields[FLOW_DST_PORT], ntohs(load16(udp + 2)));
}

INLINE bool addresses_fit(const struct receiver *rx, const uint8_t *f, bool plain)
{
    if (!plain)
        return flow_fits(&rx->expected, f);
    return ((load64(f + OFFSET_IP_SRC) ^ rx->addresses) & rx->address_mask) == 0 &&
           ((load32(f + OFFSET_UDP) ^ rx->ports) & rx->port_mask) == 0;
}

INLINE bool lengths_fit(const uint8_t *f, uint32_t length, struct frame_layout at)
{
    const uint32_t ip_length = ntohs(load16(f + at.ip + (at.ip6 ? 4 : 2)));
    const uint32_t udp_length = ntohs(load16(f + at.udp + 4));
    return at.udp + udp_length <= length && ip_length == udp_length + (at.ip6 ? 0 : 20) &&
           udp_length >= 8 + STAMP_BYTES;
}

/* The pseudo header and the UDP header without its checksum. */
INLINE uint64_t header_sum(const uint8_t *f, struct frame_layout at)
{
    const uint32_t addresses = at.ip6 ? 32 : 8;
    return sum_bytes(f + at.udp - addresses, addresses) + htons(17) + load16(f + at.udp + 4) +
           sum_bytes(f + at.udp, 6);
}

static inline bool sum_fits(uint64_t sum, uint16_t checksum)
{
    return sum_fold(sum + checksum) == 0xffff && checksum != 0;
}

/* The sum of the bytes behind the stamp of an untouched frame: 0 for zeros, or the known sum of the
 * pattern. If every byte is verified, or the pattern is unknown, it is calculated. */
static uint64_t sum_behind_stamp(const struct receiver *rx, const uint8_t *payload,
                                 uint32_t payload_length, bool whole)
{
    const uint32_t behind = payload_length - STAMP_BYTES;
    const bool filled = (payload[1] >> 4 & FRAME_FILLED) != 0;

    if (!whole && !filled)
        return 0;
    if (!whole && rx->pattern != NULL && behind <= PAYLOAD_LENGTH_MAX)
        return rx->pattern->sum[behind][0];
    return sum_bytes(payload + STAMP_BYTES, behind);
}

/* Return true if every byte of a touched payload is right. `sum` is the sum of everything in front
 * of it, if there is a UDP checksum to verify; otherwise the kernel has verified it. */
static bool touched_fits(const struct receiver *rx, const uint8_t *payload, uint32_t payload_length,
                         bool has_checksum, uint64_t sum)
{
    uint64_t behind = 0;

    if (rx->pattern != NULL && frame_touched_alike(rx->pattern, payload, payload_length, &behind))
        return !has_checksum ||
               sum_fits(sum + sum_bytes(payload, STAMP_BYTES) + behind, load16(payload - 2));
    return (!has_checksum ||
            sum_fits(sum + sum_bytes(payload, payload_length), load16(payload - 2))) &&
           frame_digest_is_right(payload, payload_length);
}

/* Return true if the headers, and the payload as far as configured, of a frame in our format are
 * right. `whole`: verify every byte. */
INLINE bool is_intact(const struct receiver *rx, const uint8_t *f, uint32_t length, bool plain,
                      bool whole)
{
    if (plain && rx->payload_only)
        return (f[1] >> 4 & FRAME_TOUCHED) == 0 || !whole || touched_fits(rx, f, length, false, 0);
    const struct frame_layout at = layout_of(rx, plain);
    if (!lengths_fit(f, length, at) || (!at.ip6 && sum_fold(sum_bytes(f + at.ip, 20)) != 0xffff))
        return false;
    const uint8_t *payload = f + at.udp + 8;
    const uint32_t payload_length = ntohs(load16(f + at.udp + 4)) - 8U;
    const uint64_t sum = header_sum(f, at);
    if ((payload[1] >> 4 & FRAME_TOUCHED) != 0) /* the sum depends on every byte */
        return !whole || touched_fits(rx, payload, payload_length, true, sum);
    return sum_fits(sum + sum_bytes(payload, STAMP_BYTES) +
                        sum_behind_stamp(rx, payload, payload_length, whole),
                    load16(payload - 2));
}

static inline struct intact_headers *intact_of(struct receiver *rx, uint32_t length)
{
    return &rx->intact[(length * 0x9e3779b1U) >> 29];
}

static void remember_headers(struct receiver *rx, const uint8_t *f, uint32_t length)
{
    const struct frame_layout at = layout_of(rx, true);
    const uint8_t *payload = f + HEADERS_BYTES;
    struct intact_headers *h = intact_of(rx, length);

    if (rx->touch || (payload[1] >> 4 & FRAME_TOUCHED) != 0)
        return; /* such frames need further checks */
    memcpy(h->bytes, f + OFFSET_IP, sizeof h->bytes);
    h->last = load16(f + OFFSET_IP + sizeof h->bytes);
    h->filled = payload[1] >> 4 & FRAME_FILLED;
    h->sum = header_sum(f, at) +
             sum_behind_stamp(rx, payload, ntohs(load16(f + OFFSET_UDP_LENGTH)) - 8U, false);
    h->length = length;
}

/* Check an untouched frame with known headers: only checksum and stamp can differ. */
static inline bool is_intact_as_before(const struct intact_headers *h, const uint8_t *f,
                                       uint32_t length)
{
    const uint8_t *ip = f + OFFSET_IP, *stamp = f + HEADERS_BYTES;
    const uint64_t first = load64(stamp), second = load64(stamp + 8);
    const uint64_t differs = (load64(ip) ^ h->bytes[0]) | (load64(ip + 8) ^ h->bytes[1]) |
                             (load64(ip + 16) ^ h->bytes[2]) | (load16(ip + 24) ^ h->last) |
                             (length ^ h->length) |
                             ((stamp[1] >> 4 & (FRAME_TOUCHED | FRAME_FILLED)) ^ h->filled);
    const uint16_t checksum = load16(f + OFFSET_UDP_CHECKSUM);
    const uint64_t sum = h->sum + (first & 0xffffffffU) + (first >> 32) + (second & 0xffffffffU) +
                         (second >> 32) + load16(stamp + 16) + checksum;
    return differs == 0 && sum_fold(sum) == 0xffff && checksum != 0;
}

INLINE bool is_right(struct receiver *rx, const uint8_t *f, uint32_t length, bool plain)
{
    if (!plain)
        return is_intact(rx, f, length, false, rx->touch) && addresses_fit(rx, f, false);
    if (!rx->payload_only && is_intact_as_before(intact_of(rx, length), f, length))
        return true;
    if (!is_intact(rx, f, length, true, rx->touch) ||
        !(rx->payload_only || addresses_fit(rx, f, true)))
        return false;
    if (!rx->payload_only)
        remember_headers(rx, f, length);
    return true;
}
#endif
