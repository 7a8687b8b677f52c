/* Building templates, and the parts of a frame's life that are not on the path of every
 * untouched frame. */
#include "traffic/frame.h"

#include <arpa/inet.h>
#include <string.h>

static void build_headers(uint8_t *f, const struct frame_address *a, uint32_t payload_length)
{
    memcpy(f, a->dst_mac, 6);
    memcpy(f + 6, a->src_mac, 6);
    store16(f + OFFSET_ETHERTYPE, htons(0x0800));
    f[OFFSET_IP] = 0x45;
    f[OFFSET_IP + 1] = 0;
    store16(f + OFFSET_IP_LENGTH, htons((uint16_t)(28 + payload_length)));
    store16(f + 18, 0);             /* identification: atomic datagrams need none (RFC 6864) */
    store16(f + 20, htons(0x4000)); /* don't fragment */
    f[22] = 64;                     /* time to live */
    f[23] = 17;                     /* UDP */
    store16(f + OFFSET_IP_CHECKSUM, 0);
    store32(f + OFFSET_IP_SRC, htonl(a->src_ip));
    store32(f + OFFSET_IP_DST, htonl(a->dst_ip));
    store16(f + OFFSET_IP_CHECKSUM, (uint16_t)~sum_fold(sum_bytes(f + OFFSET_IP, 20)));
    store16(f + OFFSET_UDP, htons(a->src_udp));
    store16(f + OFFSET_UDP + 2, htons(a->dst_udp));
    store16(f + OFFSET_UDP_LENGTH, htons((uint16_t)(8 + payload_length)));
    store16(f + OFFSET_UDP_CHECKSUM, 0);
}

void frame_template_build(struct frame_template *t, const struct frame_address *address,
                          uint32_t frame_size, uint16_t stream, unsigned kind, unsigned epoch,
                          bool payload_only)
{
    memset(t, 0, sizeof *t);
    t->payload_length = frame_size - FCS_BYTES - HEADERS_BYTES;
    t->payload = payload_only ? 0 : HEADERS_BYTES;
    t->length = t->payload + t->payload_length;
    t->touch = (kind & FRAME_TOUCHED) != 0;
    if (!payload_only)
        build_headers(t->bytes, address, t->payload_length);

    uint8_t *payload = t->bytes + t->payload;
    payload[0] = FRAME_MARK;
    payload[1] = (uint8_t)(kind << 4 | (epoch & 15));
    store16(payload + 2, htons(stream));
    if (!payload_only) {
        t->constant_sum = sum_bytes(t->bytes + OFFSET_IP_SRC, 8) + htons(17) +
                          load16(t->bytes + OFFSET_UDP_LENGTH) +
                          sum_bytes(t->bytes + OFFSET_UDP, 8) + load32(payload);
    }
    const struct frame_times never = frame_times_make(0, 0);
    frame_stamp(t, t->bytes, 0, &never);
}

struct frame_address frame_address_swapped(const struct frame_address *a)
{
    struct frame_address s;
    memcpy(s.src_mac, a->dst_mac, 6);
    memcpy(s.dst_mac, a->src_mac, 6);
    s.src_ip = a->dst_ip;
    s.dst_ip = a->src_ip;
    s.src_udp = a->dst_udp;
    s.dst_udp = a->src_udp;
    return s;
}

void frame_set_macs(uint8_t *frame, const uint8_t dst[6], const uint8_t src[6])
{
    memcpy(frame, dst, 6);
    memcpy(frame + 6, src, 6);
}

void frame_swap_addresses(uint8_t *frame)
{
    uint8_t mac[6];
    memcpy(mac, frame, 6);
    memmove(frame, frame + 6, 6);
    memcpy(frame + 6, mac, 6);

    const uint32_t src_ip = load32(frame + OFFSET_IP_SRC);
    store32(frame + OFFSET_IP_SRC, load32(frame + OFFSET_IP_DST));
    store32(frame + OFFSET_IP_DST, src_ip);

    const uint16_t src_udp = load16(frame + OFFSET_UDP);
    store16(frame + OFFSET_UDP, load16(frame + OFFSET_UDP + 2));
    store16(frame + OFFSET_UDP + 2, src_udp);
}

static bool has_digest(uint32_t payload_length)
{
    return payload_length >= STAMP_BYTES + DIGEST_BYTES;
}

void frame_touch(uint8_t *payload, uint32_t payload_length, uint32_t sequence)
{
    uint8_t *at = payload + STAMP_BYTES;
    uint32_t rest = payload_length - STAMP_BYTES;
    /* Consecutive words and consecutive frames differ in every byte position over time, so a
     * frame that a switch built from two others cannot pass. */
    uint64_t word = (sequence + 1ULL) * 0x9e3779b97f4a7c15ULL;

    if (has_digest(payload_length))
        rest -= DIGEST_BYTES;
    for (; rest >= 8; rest -= 8, at += 8, word += 0xbf58476d1ce4e5b9ULL)
        store64(at, word);
    memcpy(at, &word, rest);
    if (has_digest(payload_length)) {
        const uint32_t covered = payload_length - DIGEST_BYTES;
        store32(payload + covered, htonl(payload_digest(payload, covered)));
    }
}

bool frame_digest_is_right(const uint8_t *payload, uint32_t payload_length)
{
    if (!has_digest(payload_length))
        return true;
    const uint32_t covered = payload_length - DIGEST_BYTES;
    return load32(payload + covered) == htonl(payload_digest(payload, covered));
}
