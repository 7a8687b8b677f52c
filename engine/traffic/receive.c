/* Judging and counting what arrives. The burst loop and the integrity check live here in one
 * translation unit so that the compiler inlines the one into the other. */
#include "traffic/receive.h"

#include <arpa/inet.h>
#include <string.h>

void receive_expect(struct receiver *rx, const struct frame_address *own, bool src_ip_given,
                    bool dst_ip_given, bool src_udp_given, bool dst_udp_given)
{
    const uint32_t ips[2] = {htonl(own->dst_ip), htonl(own->src_ip)};
    const uint32_t ip_masks[2] = {dst_ip_given ? ~0U : 0, src_ip_given ? ~0U : 0};
    const uint16_t ports[2] = {htons(own->dst_udp), htons(own->src_udp)};
    const uint16_t port_masks[2] = {dst_udp_given ? 0xffff : 0, src_udp_given ? 0xffff : 0};

    rx->intact.length = 0; /* was judged by other expectations */
    memcpy(&rx->addresses, ips, sizeof ips);
    memcpy(&rx->address_mask, ip_masks, sizeof ip_masks);
    memcpy(&rx->ports, ports, sizeof ports);
    memcpy(&rx->port_mask, port_masks, sizeof port_masks);
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

static bool addresses_fit(const struct receiver *rx, const uint8_t *f)
{
    return ((load64(f + OFFSET_IP_SRC) ^ rx->addresses) & rx->address_mask) == 0 &&
           ((load32(f + OFFSET_UDP) ^ rx->ports) & rx->port_mask) == 0;
}

static bool lengths_fit(const uint8_t *f, uint32_t length)
{
    const uint32_t ip_length = ntohs(load16(f + OFFSET_IP_LENGTH));
    const uint32_t udp_length = ntohs(load16(f + OFFSET_UDP_LENGTH));
    return OFFSET_IP + ip_length <= length && ip_length == udp_length + 20 &&
           udp_length >= 8 + STAMP_BYTES;
}

/* Frames that were not touched are zero behind the stamp, so the checksum can be verified
 * without reading there; touched ones are read to the last byte. */
static bool udp_checksum_fits(const uint8_t *f, bool touched)
{
    const uint16_t udp_length = load16(f + OFFSET_UDP_LENGTH);
    uint64_t sum = sum_bytes(f + OFFSET_IP_SRC, 8) + htons(17) + udp_length;

    if (touched)
        sum += sum_bytes(f + OFFSET_UDP, ntohs(udp_length));
    else
        sum += sum_bytes(f + OFFSET_UDP, 8 + STAMP_BYTES);
    return sum_fold(sum) == 0xffff && load16(f + OFFSET_UDP_CHECKSUM) != 0;
}

/* `whole`: verify touched frames to the last byte. */
static inline bool is_intact(const struct receiver *rx, const uint8_t *f, uint32_t length,
                             bool whole)
{
    const uint8_t *payload = f;
    uint32_t payload_length = length;

    if (!rx->payload_only) {
        if (!lengths_fit(f, length) || sum_fold(sum_bytes(f + OFFSET_IP, 20)) != 0xffff)
            return false;
        payload = f + HEADERS_BYTES;
        payload_length = ntohs(load16(f + OFFSET_UDP_LENGTH)) - 8U;
    }
    const bool touched = (payload[1] >> 4 & FRAME_TOUCHED) != 0;
    if (touched && !whole)
        return true; /* nothing can be said without reading all of it */
    if (!rx->payload_only && !udp_checksum_fits(f, touched))
        return false;
    return !touched || frame_digest_is_right(payload, payload_length);
}

/* The pseudo header and the UDP header without its checksum. */
static uint64_t header_sum(const uint8_t *f)
{
    return sum_bytes(f + OFFSET_IP_SRC, 8) + htons(17) + load16(f + OFFSET_UDP_LENGTH) +
           sum_bytes(f + OFFSET_UDP, 6);
}

static void remember_headers(struct intact_headers *h, const uint8_t *f, uint32_t length)
{
    memcpy(h->bytes, f + OFFSET_IP, sizeof h->bytes);
    h->last = load16(f + OFFSET_IP + sizeof h->bytes);
    h->sum = header_sum(f);
    h->length = length;
}

/* A frame of the known shape, untouched: only checksum and stamp can differ. */
static inline bool is_intact_as_before(const struct intact_headers *h, const uint8_t *f,
                                       uint32_t length)
{
    const uint8_t *ip = f + OFFSET_IP, *stamp = f + HEADERS_BYTES;
    const uint64_t first = load64(stamp), second = load64(stamp + 8);
    const uint64_t differs = (load64(ip) ^ h->bytes[0]) | (load64(ip + 8) ^ h->bytes[1]) |
                             (load64(ip + 16) ^ h->bytes[2]) | (load16(ip + 24) ^ h->last) |
                             (length ^ h->length) | (stamp[1] >> 4 & FRAME_TOUCHED);
    const uint16_t checksum = load16(f + OFFSET_UDP_CHECKSUM);
    const uint64_t sum = h->sum + (first & 0xffffffffU) + (first >> 32) + (second & 0xffffffffU) +
                         (second >> 32) + load16(stamp + 16) + checksum;
    return differs == 0 && sum_fold(sum) == 0xffff && checksum != 0;
}

bool receive_is_intact(struct receiver *rx, const uint8_t *f, uint32_t length)
{
    if (!rx->payload_only && is_intact_as_before(&rx->intact, f, length))
        return true;
    if (!is_intact(rx, f, length, rx->touch) || !(rx->payload_only || addresses_fit(rx, f)))
        return false;
    if (!rx->payload_only)
        remember_headers(&rx->intact, f, length);
    return true;
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

enum verdict receive_judge_unusual(struct receiver *rx, const struct io_frame *f)
{
    if (!receive_is_ours(rx, f))
        return VERDICT_OTHER;
    const uint8_t *payload = receive_payload(rx, f);
    const unsigned kind = payload[1] >> 4 & 3U;

    /* Whole: a flipped bit could make a frame look touched, or of another trial. */
    if (!is_intact(rx, f->data, f->length, true))
        return VERDICT_CORRUPT;
    if (load16(payload + 2) != rx->stream)
        return VERDICT_FOREIGN;
    if (kind == FRAME_PROBE)
        return is_addressed_to_us(rx, f->data) ? VERDICT_PROBE : VERDICT_FOREIGN;
    if (kind != FRAME_DATA || !(rx->payload_only || addresses_fit(rx, f->data)))
        return VERDICT_CORRUPT;
    return judge_mark(rx, payload);
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

/* Compiled once with and once without groups, so that these cost nothing when they are off. */
__attribute__((always_inline)) static inline unsigned receive_all(struct receiver *rx,
                                                                  const struct io_frame *frames,
                                                                  unsigned count, uint64_t now,
                                                                  uint8_t *verdicts, bool grouped)
{
    struct counters *c = rx->counters;
    uint64_t seen[VERDICTS] = {0};
    uint64_t bytes = 0;

    for (unsigned i = 0; i < count; i++) {
        enum verdict verdict = receive_judge(rx, &frames[i]);
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
            measure(rx, receive_payload(rx, &frames[i]), now, grouped);
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
    if (__builtin_expect(rx->groups != NULL, 0))
        return receive_all(rx, frames, count, now, verdicts, true);
    return receive_all(rx, frames, count, now, verdicts, false);
}
