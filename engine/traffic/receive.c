/* Judging and counting what arrives. The burst loop and the integrity check live here in one
 * translation unit so that the compiler inlines the one into the other. */
#include "traffic/receive.h"

#include <arpa/inet.h>
#include <string.h>

static void expect_field(struct expected_frames *e, enum flow_field field, bool given,
                         uint32_t value)
{
    e->fields[field] = (struct flow_range){.base = value, .count = given ? 1 : 0};
}

/* Where the headers are, and what they say in every frame. */
static void expect_layout(struct receiver *rx, const struct frame_address *own)
{
    struct expected_frames *e = &rx->expected;

    memset(e, 0, sizeof *e);
    rx->extra_headers = frame_headers_bytes(own) - HEADERS_BYTES;
    rx->special = own->tags > 0 || own->ip6;
    e->layout.udp = HEADERS_BYTES + rx->extra_headers - 8;
    e->layout.ip = e->layout.udp - (own->ip6 ? 40 : 20);
    e->layout.ip6 = own->ip6;
    e->tags = own->tags;
    for (unsigned tag = 0; tag < own->tags; tag++)
        e->types[tag] = own->tags == 2 && tag == 0 ? WIRE_SERVICE : WIRE_VLAN;
    e->types[own->tags] = own->ip6 ? WIRE_IPV6 : WIRE_IPV4;
    e->outer_vlan = own->tags == 2 ? own->vlan[0] : 0;
    if (own->tags > 0)
        expect_field(e, FLOW_VLAN, true, own->vlan[own->tags - 1U]);
}

void receive_expect(struct receiver *rx, const struct frame_address *own, bool src_ip_given,
                    bool dst_ip_given, bool src_udp_given, bool dst_udp_given)
{
    const uint32_t ips[2] = {htonl(own->dst_ip), htonl(own->src_ip)};
    const uint32_t ip_masks[2] = {dst_ip_given ? ~0U : 0, src_ip_given ? ~0U : 0};
    const uint16_t ports[2] = {htons(own->dst_udp), htons(own->src_udp)};
    const uint16_t port_masks[2] = {dst_udp_given ? 0xffff : 0, src_udp_given ? 0xffff : 0};
    struct expected_frames *e = &rx->expected;

    memset(rx->intact, 0, sizeof rx->intact); /* were judged by other expectations */
    memcpy(&rx->addresses, ips, sizeof ips);
    memcpy(&rx->address_mask, ip_masks, sizeof ip_masks);
    memcpy(&rx->ports, ports, sizeof ports);
    memcpy(&rx->port_mask, port_masks, sizeof port_masks);

    expect_layout(rx, own);
    expect_field(e, FLOW_SRC_IP, dst_ip_given, own->dst_ip);
    expect_field(e, FLOW_DST_IP, src_ip_given, own->src_ip);
    expect_field(e, FLOW_SRC_PORT, dst_udp_given, own->dst_udp);
    expect_field(e, FLOW_DST_PORT, src_udp_given, own->src_udp);
    memcpy(e->src_prefix, own->dst_prefix, sizeof e->src_prefix);
    memcpy(e->dst_prefix, own->src_prefix, sizeof e->dst_prefix);
    e->src_prefix_given = dst_ip_given;
    e->dst_prefix_given = src_ip_given;
}

void receive_expect_flows(struct receiver *rx, const struct flow_set *own)
{
    const struct flow_set arriving = flows_swapped(own);

    for (unsigned i = 0; i < FLOW_FIELDS; i++) {
        if (arriving.fields[i].count == 0 || i == FLOW_SRC_MAC || i == FLOW_DST_MAC)
            continue;
        rx->special = true;
        if (rx->expected.fields[i].count > 0) /* given, or a tag */
            rx->expected.fields[i] = arriving.fields[i];
    }
}

void receive_begin(struct receiver *rx, uint32_t mark, uint64_t now)
{
    rx->locked = mark != 0;
    rx->mark = mark;
    rx->lock_intended = now;
    rx->tracking = true;
    rx->trial_frames = 0;
    rx->trial_bytes = 0;
    rx->run.frames = 0;
    sequence_reset(rx->tracker);
    histogram_reset(rx->from_actual);
    histogram_reset(rx->from_intended);
    variation_reset(rx->variation);
    if (rx->groups != NULL)
        flow_groups_reset(rx->groups);
}

void receive_end(struct receiver *rx)
{
    rx->tracking = false;
    rx->locked = false;
}

/* How frames are looked at. `plain` is a constant wherever this is inlined, so that the short
 * way has its offsets in the instructions. */
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

/* Is this frame in our format at all, as far as headers tell? */
INLINE bool is_ours(const struct receiver *rx, const struct io_frame *f, bool plain)
{
    const uint8_t *d = f->data;

    if (plain && rx->payload_only)
        return f->length >= STAMP_BYTES && d[0] == FRAME_MARK;
    const struct frame_layout at = layout_of(rx, plain);
    if (f->length < at.udp + 8 + STAMP_BYTES)
        return false;
    const uint8_t *ip = d + at.ip;
    if (plain ? load16(d + OFFSET_ETHERTYPE) != WIRE_IPV4 : !types_fit(&rx->expected, d))
        return false;
    if (at.ip6)
        return ip[0] >> 4 == 6 && ip[6] == 17 && d[at.udp + 8] == FRAME_MARK;
    /* version 4 without options, UDP, not a fragment */
    return ip[0] == 0x45 && ip[9] == 17 && (load16(ip + 6) & __builtin_bswap16(0x3fff)) == 0 &&
           d[at.udp + 8] == FRAME_MARK;
}

INLINE const uint8_t *payload_of(const struct receiver *rx, const struct io_frame *f, bool plain)
{
    return plain && !rx->payload_only ? f->data + HEADERS_BYTES : receive_payload(rx, f);
}

bool receive_is_ours(const struct receiver *rx, const struct io_frame *frame)
{
    return is_ours(rx, frame, !rx->special || rx->payload_only);
}

static inline bool value_fits(const struct flow_range *range, uint32_t value)
{
    return range->count == 0 || value - range->base < range->count;
}

static bool flow_fits(const struct expected_frames *e, const uint8_t *f)
{
    const uint8_t *udp = f + e->layout.udp;
    const uint8_t *tag = f + OFFSET_ETHERTYPE + 2;

    if (e->tags == 2 && (ntohs(load16(tag)) & 0xfff) != e->outer_vlan)
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

/* What the bytes behind the stamp add to the sum of an untouched frame: nothing, what the
 * pattern is known to add, or, when every byte is to be verified or the pattern is not known,
 * what they are seen to add. */
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

/* Is a touched payload right, every byte? `sum` is of all in front of it, if there is a UDP
 * checksum to verify (else the kernel has). */
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

/* Are the headers, and as far as asked the payload, of a frame in our format right? `whole`:
 * to the last byte. */
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
    if ((payload[1] >> 4 & FRAME_TOUCHED) != 0) /* nothing can be said without reading all of it */
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
        return; /* there is more to look at */
    memcpy(h->bytes, f + OFFSET_IP, sizeof h->bytes);
    h->last = load16(f + OFFSET_IP + sizeof h->bytes);
    h->filled = payload[1] >> 4 & FRAME_FILLED;
    h->sum = header_sum(f, at) +
             sum_behind_stamp(rx, payload, ntohs(load16(f + OFFSET_UDP_LENGTH)) - 8U, false);
    h->length = length;
}

/* A frame of a known shape, untouched: only checksum and stamp can differ. */
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

bool receive_is_intact(struct receiver *rx, const uint8_t *frame, uint32_t length)
{
    return is_right(rx, frame, length, !rx->special || rx->payload_only);
}

struct frame_layout receive_layout(const struct receiver *rx)
{
    return layout_of(rx, !rx->special);
}

/* Data of our stream under another mark than the trial's: the first frame, a straggler of an
 * earlier trial, or the first frame of the trial proper after such stragglers. */
static enum verdict judge_mark(struct receiver *rx, const uint8_t *payload)
{
    const uint64_t intended = stamp_intended(payload);

    if (!rx->tracking)
        return VERDICT_DATA;
    if (rx->locked && ticks_since(intended, rx->lock_intended) <= 0)
        return VERDICT_STALE;
    if (rx->locked && rx->trial_frames > 0) {
        counter_add(&rx->counters->rx_stale, rx->trial_frames);
        counter_add(&rx->counters->rx_frames, -rx->trial_frames);
        counter_add(&rx->counters->rx_bytes, -rx->trial_bytes);
    }
    if (rx->locked)
        receive_begin(rx, 0, 0);
    rx->locked = true;
    rx->mark = load32(payload);
    rx->lock_intended = intended;
    return VERDICT_DATA;
}

static bool is_addressed_to_us(const struct receiver *rx, const uint8_t *frame)
{
    static const uint8_t broadcast[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    return rx->payload_only || !rx->mac_known || memcmp(frame, rx->mac, 6) == 0 ||
           memcmp(frame, broadcast, 6) == 0;
}

/* Frames that are not this trial's data: probes, other streams, other trials, rubbish. */
static enum verdict judge_unusual(struct receiver *rx, const struct io_frame *f)
{
    const bool plain = !rx->special || rx->payload_only;

    if (!is_ours(rx, f, plain))
        return VERDICT_OTHER;
    const uint8_t *payload = receive_payload(rx, f);
    const unsigned kind = payload[1] >> 4 & 3U;

    /* Whole: a flipped bit could make a frame look touched, or of another trial. */
    if (!is_intact(rx, f->data, f->length, plain, true))
        return VERDICT_CORRUPT;
    if (load16(payload + 2) != rx->stream)
        return VERDICT_FOREIGN;
    if (kind == FRAME_PROBE)
        return is_addressed_to_us(rx, f->data) ? VERDICT_PROBE : VERDICT_FOREIGN;
    if (kind != FRAME_DATA || !(rx->payload_only || addresses_fit(rx, f->data, plain)))
        return VERDICT_CORRUPT;
    return judge_mark(rx, payload);
}

INLINE enum verdict judge(struct receiver *rx, const struct io_frame *f, bool plain)
{
    if (__builtin_expect(
            is_ours(rx, f, plain) && rx->locked && load32(payload_of(rx, f, plain)) == rx->mark, 1))
        return is_right(rx, f->data, f->length, plain) ? VERDICT_DATA : VERDICT_CORRUPT;
    return judge_unusual(rx, f);
}

enum verdict receive_judge(struct receiver *rx, const struct io_frame *f)
{
    return judge(rx, f, !rx->special || rx->payload_only);
}

static inline int64_t elapsed_ns(int64_t ticks)
{
    return ticks > 0 ? (int64_t)clock_ticks_to_ns((uint64_t)ticks) : 0;
}

static inline void end_run(struct receiver *rx)
{
    struct timed_run *run = &rx->run;

    if (run->frames == 0)
        return;
    histogram_record_times(rx->from_intended, run->intended_ns, run->frames);
    histogram_record_times(rx->from_actual, run->actual_ns, run->frames);
    variation_unchanged(rx->variation, run->unchanged);
    run->frames = 0;
}

static inline void time_frame(struct receiver *rx, const uint8_t *payload, uint32_t sequence,
                              uint64_t now)
{
    struct timed_run *run = &rx->run;
    const uint64_t stamp = load64(payload + 8);
    const uint16_t stamp_low = load16(payload + 16);

    if (run->frames > 0 && stamp == run->stamp && stamp_low == run->stamp_low) {
        run->frames++;
        run->unchanged += variation_add_same(rx->variation, sequence, run->actual_ns);
        return;
    }
    end_run(rx);
    const int64_t since = ticks_since(now, stamp_intended(payload));
    *run = (struct timed_run){
        .frames = 1,
        .stamp = stamp,
        .stamp_low = stamp_low,
        .intended_ns = elapsed_ns(since),
        .actual_ns = elapsed_ns(since - (int64_t)stamp_lateness(payload)),
    };
    variation_add(rx->variation, sequence, run->actual_ns);
}

static inline void measure(struct receiver *rx, const uint8_t *payload, uint64_t now, bool grouped)
{
    const uint32_t sequence = __builtin_bswap32(load32(payload + 4));
    const enum sequence_arrival arrival = sequence_add(rx->tracker, sequence, now);

    if (grouped)
        flow_groups_add(rx->groups, sequence, arrival);
    if (rx->latency_wanted)
        time_frame(rx, payload, sequence, now);
}

/* A frame of another stream: perhaps the companion's, which then counts it. */
static enum verdict offer_to_companion(struct receiver *rx, const struct io_frame *frame,
                                       uint64_t now)
{
    uint8_t verdict;

    receive_burst(rx->companion, frame, 1, now, &verdict);
    if (verdict == VERDICT_DATA)
        return VERDICT_BESIDE;
    return verdict == VERDICT_FOREIGN || verdict == VERDICT_PROBE ? VERDICT_FOREIGN
                                                                  : VERDICT_BESIDE_OTHER;
}

/* Compiled with and without groups, so that these cost nothing when they are off. */
INLINE unsigned take_burst(struct receiver *rx, const struct io_frame *frames, unsigned count,
                           uint64_t now, uint8_t *verdicts, bool plain, bool grouped)
{
    struct counters *c = rx->counters;
    uint64_t seen[VERDICTS] = {0};
    uint64_t bytes = 0;

    for (unsigned i = 0; i < count; i++) {
        enum verdict verdict = judge(rx, &frames[i], plain);
        if (__builtin_expect(verdict == VERDICT_FOREIGN, 0) && rx->companion != NULL)
            verdict = offer_to_companion(rx, &frames[i], now);
        seen[verdict]++;
        if (verdicts != NULL)
            verdicts[i] = (uint8_t)verdict;
        if (verdict != VERDICT_DATA)
            continue;
        const uint32_t size = receive_frame_size(rx, &frames[i]);
        bytes += size;
        rx->trial_frames++;
        rx->trial_bytes += size;
        if (rx->tracking)
            measure(rx, payload_of(rx, &frames[i], plain), now, grouped);
    }
    end_run(rx);
    counter_add(&c->rx_frames, seen[VERDICT_DATA]);
    counter_add(&c->rx_bytes, bytes);
    if (__builtin_expect(seen[VERDICT_DATA] != count, 0)) {
        counter_add(&c->rx_stale, seen[VERDICT_STALE]);
        counter_add(&c->rx_probe, seen[VERDICT_PROBE]);
        counter_add(&c->rx_foreign, seen[VERDICT_FOREIGN]);
        counter_add(&c->rx_other, seen[VERDICT_OTHER]);
        counter_add(&c->rx_corrupt, seen[VERDICT_CORRUPT]);
    }
    return (unsigned)seen[VERDICT_DATA];
}

unsigned receive_burst(struct receiver *rx, const struct io_frame *frames, unsigned count,
                       uint64_t now, uint8_t *verdicts)
{
    const bool plain = !rx->special || rx->payload_only;

    if (__builtin_expect(rx->groups != NULL, 0))
        return plain ? take_burst(rx, frames, count, now, verdicts, true, true)
                     : take_burst(rx, frames, count, now, verdicts, false, true);
    return __builtin_expect(plain, 1) ? take_burst(rx, frames, count, now, verdicts, true, false)
                                      : take_burst(rx, frames, count, now, verdicts, false, false);
}
