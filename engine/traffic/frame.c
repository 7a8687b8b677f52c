/* Builds templates, and has the functions that are not on the path of every untouched frame. */
#include "traffic/frame.h"

#include <arpa/inet.h>
#include <string.h>

#include "traffic/crc32c.h"

uint32_t frame_headers_bytes(const struct frame_address *a)
{
    return HEADERS_BYTES + (uint32_t)a->tags * TAG_BYTES + (a->ip6 ? 20 : 0);
}

uint32_t frame_size_min(const struct frame_address *a)
{
    const uint32_t needed = frame_headers_bytes(a) + STAMP_BYTES + FCS_BYTES;
    return needed > FRAME_SIZE_MIN ? needed : FRAME_SIZE_MIN;
}

/* Returns the offset of the IP header. */
static uint32_t build_ethernet(uint8_t *f, const struct frame_address *a)
{
    uint32_t at = OFFSET_ETHERTYPE;

    memcpy(f, a->dst_mac, 6);
    memcpy(f + 6, a->src_mac, 6);
    for (unsigned tag = 0; tag < a->tags; tag++, at += TAG_BYTES) {
        const bool outer_of_two = a->tags == 2 && tag == 0;
        store16(f + at, outer_of_two ? WIRE_SERVICE : WIRE_VLAN);
        store16(f + at + 2, htons(a->vlan[tag]));
    }
    store16(f + at, a->ip6 ? WIRE_IPV6 : WIRE_IPV4);
    return at + 2;
}

static uint8_t time_to_live(const struct frame_address *a)
{
    return a->ttl == 0 ? 64 : (uint8_t)a->ttl;
}

static void build_ipv4(uint8_t *ip, const struct frame_address *a, uint32_t payload_length)
{
    ip[0] = 0x45;
    ip[1] = (uint8_t)(a->dscp << 2);
    store16(ip + 2, htons((uint16_t)(28 + payload_length)));
    store16(ip + 4, 0);             /* identification: atomic datagrams do not use it (RFC 6864) */
    store16(ip + 6, htons(0x4000)); /* don't fragment */
    ip[8] = time_to_live(a);
    ip[9] = 17; /* UDP */
    store16(ip + 10, 0);
    store32(ip + 12, htonl(a->src_ip));
    store32(ip + 16, htonl(a->dst_ip));
    store16(ip + 10, (uint16_t)~sum_fold(sum_bytes(ip, 20)));
}

static void build_ipv6(uint8_t *ip, const struct frame_address *a, uint32_t payload_length)
{
    store32(ip, htonl(0x60000000U | (uint32_t)a->dscp << 22)); /* version 6, no flow label */
    store16(ip + 4, htons((uint16_t)(8 + payload_length)));
    ip[6] = 17;              /* UDP */
    ip[7] = time_to_live(a); /* hop limit */
    memcpy(ip + 8, a->src_prefix, 12);
    store32(ip + 20, htonl(a->src_ip));
    memcpy(ip + 24, a->dst_prefix, 12);
    store32(ip + 36, htonl(a->dst_ip));
}

static void build_headers(uint8_t *f, const struct frame_address *a, uint32_t payload_length)
{
    uint8_t *ip = f + build_ethernet(f, a), *udp = ip + (a->ip6 ? 40 : 20);

    if (a->ip6)
        build_ipv6(ip, a, payload_length);
    else
        build_ipv4(ip, a, payload_length);
    store16(udp, htons(a->src_udp));
    store16(udp + 2, htons(a->dst_udp));
    store16(udp + 4, htons((uint16_t)(8 + payload_length)));
    store16(udp + 6, 0);
}

/* The UDP checksum is 0, as RFC 7348 recommends. */
static void build_outer(uint8_t *f, const struct frame_tunnel *tunnel, uint32_t length)
{
    uint8_t *ip = f + OUTER_IP;

    memcpy(f, tunnel->dst_mac, 6);
    memcpy(f + 6, tunnel->src_mac, 6);
    store16(f + OFFSET_ETHERTYPE, WIRE_IPV4);
    ip[0] = 0x45;
    store16(ip + 6, htons(0x4000)); /* don't fragment */
    ip[8] = 64;
    ip[9] = 17;
    store16(f + OUTER_UDP + 2, htons(VXLAN_PORT));
    f[OUTER_VXLAN] = VXLAN_FLAGS;
    frame_set_tunnel(f, length, tunnel->row, 0);
}

void frame_sum_outer(uint8_t *frame)
{
    uint8_t *ip = frame + OUTER_IP;

    store16(ip + 10, 0);
    store16(ip + 10, (uint16_t)~sum_fold(sum_bytes(ip, 20)));
}

void frame_set_tunnel(uint8_t *frame, uint32_t length, const uint8_t *tunnel_row, uint32_t flow)
{
    uint8_t *udp = frame + OUTER_UDP;

    store16(frame + OUTER_IP + 2, htons((uint16_t)(length - OUTER_IP)));
    store64(frame + OUTER_ADDRESSES, load64(tunnel_row + 4));
    frame_sum_outer(frame);
    store16(udp, htons((uint16_t)(OUTER_SOURCE_PORTS + (flow * 0x9e3779b1U >> 18))));
    store16(udp + 4, htons((uint16_t)(length - OUTER_UDP)));
    store32(frame + OUTER_VXLAN + 4, htonl(ntohl(load32(tunnel_row)) << 8));
}

static uint64_t sum_headers(const uint8_t *f, const struct frame_address *a)
{
    const uint8_t *udp = f + frame_headers_bytes(a) - 8;
    const uint32_t addresses = a->ip6 ? 32 : 8; /* the addresses are right in front of it */

    return sum_bytes(udp - addresses, addresses) + htons(17) + load16(udp + 4) + sum_bytes(udp, 8);
}

void frame_template_build(struct frame_template *t, const struct frame_address *address,
                          uint32_t frame_size, uint16_t stream, unsigned kind, unsigned epoch,
                          bool payload_only)
{
    const uint32_t headers = frame_headers_bytes(address);
    const uint32_t outer = address->tunnel.used ? OUTER_BYTES : 0;

    memset(t, 0, sizeof *t);
    t->payload_length = frame_size - FCS_BYTES - headers;
    t->payload = payload_only ? 0 : outer + headers;
    t->length = t->payload + t->payload_length;
    t->beside = (int32_t)(frame_size - t->length);
    t->touch = (kind & FRAME_TOUCHED) != 0;
    t->pattern = t->touch ? payload_pattern(PAYLOAD_RANDOM) : NULL;
    if (outer > 0)
        build_outer(t->bytes, &address->tunnel, t->length);
    if (!payload_only)
        build_headers(t->bytes + outer, address, t->payload_length);

    uint8_t *payload = t->bytes + t->payload;
    payload[0] = FRAME_SIGNATURE;
    payload[1] = (uint8_t)(kind << 4 | (epoch & 15));
    store16(payload + 2, htons(stream));
    if (!payload_only)
        t->constant_sum = sum_headers(t->bytes + outer, address) + load32(payload);
    const struct frame_times never = frame_times_make(0, 0);
    frame_stamp(t, t->bytes, 0, &never);
}

/* A touched frame gets its pattern when it is stamped. Untouched frames of zeros need no pattern:
 * its tables have 3.5 MB, and hundreds of engines may start at once. */
void frame_template_fill(struct frame_template *t, enum payload_kind kind)
{
    const struct frame_times never = frame_times_make(0, 0);
    const uint32_t behind = t->payload_length - STAMP_BYTES;
    uint8_t *payload = t->bytes + t->payload;

    t->pattern = t->touch || kind != PAYLOAD_FIXED ? payload_pattern(kind) : NULL;
    if (!t->touch && kind != PAYLOAD_FIXED) {
        payload[1] |= FRAME_FILLED << 4;
        memcpy(payload + STAMP_BYTES, t->pattern->bytes, behind);
        t->constant_sum += htons(FRAME_FILLED << 4) + (uint64_t)t->pattern->sum[behind][0];
    }
    frame_stamp(t, t->bytes, 0, &never);
}

bool frame_parse(const uint8_t *f, uint32_t length, struct frame_layout *layout)
{
    uint32_t at = OFFSET_ETHERTYPE;

    for (unsigned tags = 0; tags < TAGS_MAX && at + 2 <= length; tags++, at += TAG_BYTES) {
        const uint16_t type = load16(f + at);
        if (type != WIRE_VLAN && type != WIRE_SERVICE)
            break;
    }
    layout->ip = at + 2;
    if (length < layout->ip + 28 + STAMP_BYTES)
        return false;
    const uint8_t *ip = f + layout->ip;
    layout->ip6 = load16(f + at) == WIRE_IPV6;
    layout->udp = layout->ip + (layout->ip6 ? 40 : 20);
    if (layout->ip6)
        return length >= layout->udp + 8 + STAMP_BYTES && ip[0] >> 4 == 6 && ip[6] == 17;
    return load16(f + at) == WIRE_IPV4 && ip[0] == 0x45 && ip[9] == 17 &&
           (load16(ip + 6) & htons(0x3fff)) == 0;
}

void frame_reverse_tunnel(uint8_t *tunnel_row)
{
    uint8_t row[TUNNEL_ROW_BYTES];

    memcpy(row, tunnel_row, sizeof row);
    memcpy(tunnel_row + 4, row + 8, 4);
    memcpy(tunnel_row + 8, row + 4, 4);
    memcpy(tunnel_row + TUNNEL_ROW_MACS, row + TUNNEL_ROW_MACS + 6, 6);
    memcpy(tunnel_row + TUNNEL_ROW_MACS + 6, row + TUNNEL_ROW_MACS, 6);
}

struct frame_address frame_address_swapped(const struct frame_address *a)
{
    struct frame_address s = *a;
    memcpy(s.src_mac, a->dst_mac, 6);
    memcpy(s.dst_mac, a->src_mac, 6);
    s.src_ip = a->dst_ip;
    s.dst_ip = a->src_ip;
    s.src_udp = a->dst_udp;
    s.dst_udp = a->src_udp;
    memcpy(s.src_prefix, a->dst_prefix, sizeof s.src_prefix);
    memcpy(s.dst_prefix, a->src_prefix, sizeof s.dst_prefix);
    return s;
}

static void swap(uint8_t *first, uint8_t *second, size_t bytes)
{
    uint8_t copy[16];

    memcpy(copy, first, bytes);
    memcpy(first, second, bytes);
    memcpy(second, copy, bytes);
}

void frame_swap_addresses(uint8_t *frame, const struct frame_layout *layout)
{
    uint8_t *udp = frame + layout->udp;

    swap(frame, frame + 6, 6);
    if (layout->ip6)
        swap(udp - 32, udp - 16, 16);
    else
        swap(udp - 8, udp - 4, 4);
    swap(udp, udp + 2, 2);
}

static bool has_digest(uint32_t payload_length)
{
    return payload_length >= STAMP_BYTES + DIGEST_BYTES;
}

/* The sum of bytes behind an odd number of bytes counts with swapped bytes. */
static uint64_t sum_behind(uint64_t sum, uint32_t bytes)
{
    return bytes % 2 == 0 ? sum : __builtin_bswap16(sum_fold(sum));
}

uint64_t frame_touch(const struct payload_pattern *pattern, uint8_t *payload,
                     uint32_t payload_length, uint32_t sequence)
{
    const uint32_t bytes = frame_pattern_bytes(payload_length);
    const uint32_t variant = sequence % PAYLOAD_VARIANTS;
    const uint64_t sum = pattern->sum[bytes][variant];

    memcpy(payload + STAMP_BYTES, payload_section(pattern, sequence), bytes);
    if (!has_digest(payload_length))
        return sum;
    const uint32_t digest = htonl(crc32c(pattern->crc[bytes][variant], payload, STAMP_BYTES));
    store32(payload + STAMP_BYTES + bytes, digest);
    return sum + sum_behind(digest, bytes);
}

bool frame_touched_alike(const struct payload_pattern *pattern, const uint8_t *payload,
                         uint32_t payload_length, uint64_t *sum)
{
    const uint32_t bytes = frame_pattern_bytes(payload_length);
    const uint32_t sequence = ntohl(load32(payload + 4));
    const uint32_t variant = sequence % PAYLOAD_VARIANTS;

    if (bytes > PAYLOAD_LENGTH_MAX)
        return false;
    *sum = pattern->sum[bytes][variant];
    if (memcmp(payload + STAMP_BYTES, payload_section(pattern, sequence), bytes) != 0)
        return false;
    if (!has_digest(payload_length))
        return true;
    const uint32_t digest = htonl(crc32c(pattern->crc[bytes][variant], payload, STAMP_BYTES));
    *sum += sum_behind(digest, bytes);
    return load32(payload + STAMP_BYTES + bytes) == digest;
}

bool frame_digest_is_right(const uint8_t *payload, uint32_t payload_length)
{
    const uint32_t bytes = frame_pattern_bytes(payload_length);

    if (!has_digest(payload_length))
        return true;
    const uint32_t crc = crc32c(crc32c(0, payload + STAMP_BYTES, bytes), payload, STAMP_BYTES);
    return load32(payload + STAMP_BYTES + bytes) == htonl(crc);
}
