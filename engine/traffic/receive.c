/* Judging and counting what arrives. The burst loop and the integrity check (receive_check.h) are
 * one translation unit so that the compiler inlines the one into the other. */
#include "traffic/receive.h"

#include <string.h>

#include "traffic/receive_check.h"
#include "traffic/receive_follow.h"

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
    if (rx->variation != NULL)
        pdv_settle(&rx->variation->pdv);
}

bool receive_is_ours(const struct receiver *rx, const struct io_frame *frame)
{
    return is_ours(rx, frame, !rx->special || rx->payload_only);
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

/* Frames that are not this trial's data: verification frames, other streams, other trials, rubbish.
 */
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
    if (kind == FRAME_VERIFICATION)
        return is_addressed_to_us(rx, f->data) ? VERDICT_VERIFICATION : VERDICT_FOREIGN;
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
    pdv_add(&rx->variation->pdv, run->actual_ns, run->frames);
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
    int64_t since = ticks_since(now, stamp_intended(payload)), late = stamp_lateness(payload);
    if (__builtin_expect(rx->sender_clock != NULL, 0)) {
        since = sender_clock_since(rx->sender_clock, now, stamp_intended(payload));
        late = sender_clock_ours(rx->sender_clock, late);
    }
    *run = (struct timed_run){
        .frames = 1,
        .stamp = stamp,
        .stamp_low = stamp_low,
        .intended_ns = elapsed_ns(since),
        .actual_ns = elapsed_ns(since - late),
    };
    variation_add(rx->variation, sequence, run->actual_ns);
}

/* Returns whether it was a first copy with the highest number so far. */
static inline bool measure(struct receiver *rx, const uint8_t *payload, uint64_t now, bool grouped)
{
    const uint32_t sequence = __builtin_bswap32(load32(payload + 4));
    const enum sequence_arrival arrival = sequence_add(rx->tracker, sequence, now);

    if (grouped)
        flow_groups_add(rx->groups, sequence, arrival);
    if (rx->latency_wanted)
        time_frame(rx, payload, sequence, now);
    return arrival == SEQUENCE_FIRST;
}

/* Can a row of frames after one that was right be taken by follow()? Touched frames differ in more
 * than their number, and those whose every byte is verified must be read. */
INLINE bool may_be_followed(const struct receiver *rx, const uint8_t *payload)
{
    return !rx->payload_only && !rx->touch && (payload[1] >> 4 & FRAME_TOUCHED) == 0;
}

/* Frames that follow the one just measured, which came in order. */
static inline void measure_followers(struct receiver *rx, unsigned count)
{
    sequence_add_next(rx->tracker, count);
    if (rx->latency_wanted) {
        rx->run.frames += count;
        rx->run.unchanged += variation_add_next(rx->variation, count);
    }
}

/* A frame of another stream: perhaps the companion's, which then counts it. */
static enum verdict offer_to_companion(struct receiver *rx, const struct io_frame *frame,
                                       uint64_t now)
{
    uint8_t verdict;

    receive_burst(rx->companion, frame, 1, now, &verdict);
    if (verdict == VERDICT_DATA)
        return VERDICT_BESIDE;
    return verdict == VERDICT_FOREIGN || verdict == VERDICT_VERIFICATION ? VERDICT_FOREIGN
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
        const uint8_t *payload = payload_of(rx, &frames[i], plain);
        const uint32_t size = receive_frame_size(rx, &frames[i]);
        unsigned followers = 0;
        if (rx->tracking && measure(rx, payload, now, grouped) && plain && !grouped &&
            may_be_followed(rx, payload)) {
            followers = follow(&frames[i], count - i);
            measure_followers(rx, followers);
            if (verdicts != NULL)
                memset(&verdicts[i + 1], VERDICT_DATA, followers);
            seen[VERDICT_DATA] += followers;
            i += followers;
        }
        bytes += size * (1U + followers);
        rx->trial_frames += 1U + followers;
        rx->trial_bytes += size * (1U + followers);
    }
    end_run(rx);
    counter_add(&c->rx_frames, seen[VERDICT_DATA]);
    counter_add(&c->rx_bytes, bytes);
    if (__builtin_expect(seen[VERDICT_DATA] != count, 0)) {
        counter_add(&c->rx_stale, seen[VERDICT_STALE]);
        counter_add(&c->rx_verification, seen[VERDICT_VERIFICATION]);
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
