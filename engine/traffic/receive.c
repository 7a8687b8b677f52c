/* Judges and counts received frames. The burst loop and the integrity check (receive_check.h) are
 * one translation unit so that the compiler can inline the check. */
#include "traffic/receive.h"

#include <string.h>

#include "traffic/receive_check.h"
#include "traffic/receive_follow.h"

static void reset_delays(struct receiver *rx)
{
    rx->run.frames = 0;
    histogram_reset(rx->from_actual);
    histogram_reset(rx->from_intended);
    variation_reset(rx->variation);
}

void receive_begin(struct receiver *rx, uint32_t signature, uint64_t now)
{
    rx->locked = rx->knows_signature = signature != 0;
    rx->signature = signature;
    rx->lock_intended = now;
    rx->tracking = true;
    rx->trial_frames = 0;
    rx->trial_bytes = 0;
    sequence_reset(rx->tracker);
    reset_delays(rx);
    if (rx->groups != NULL)
        flow_groups_reset(rx->groups);
    if (rx->expectation != NULL)
        expectation_reset(rx->expectation);
}

void receive_end(struct receiver *rx)
{
    rx->tracking = false;
    rx->locked = false;
    if (rx->variation != NULL)
        pdv_finish(&rx->variation->pdv);
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

/* Frames received so far with this signature do not belong to the trial: move them to another
 * counter. */
static void take_back(struct receiver *rx, uint64_t *counter)
{
    counter_add(counter, rx->trial_frames);
    counter_add(&rx->counters->rx_frames, -rx->trial_frames);
    counter_add(&rx->counters->rx_bytes, -rx->trial_bytes);
    rx->trial_frames = 0;
    rx->trial_bytes = 0;
}

/* A sender restarts with this frame: earlier frames belong to an earlier trial. */
static void begin_anew(struct receiver *rx, const uint8_t *payload)
{
    if (rx->locked) {
        take_back(rx, &rx->counters->rx_stale);
        receive_begin(rx, 0, 0);
    }
    rx->locked = true;
    rx->signature = load32(payload);
    rx->lock_intended = stamp_intended(payload);
}

/* Judge data of our stream with a signature that is not that of the trial: the first frame, a late
 * frame of an earlier trial, or the first frame of the trial after such late frames. */
static enum verdict judge_signature(struct receiver *rx, const uint8_t *payload)
{
    if (!rx->tracking)
        return VERDICT_DATA;
    if (rx->knows_signature ||
        (rx->locked && ticks_since(stamp_intended(payload), rx->lock_intended) <= 0))
        return VERDICT_STALE;
    begin_anew(rx, payload);
    return VERDICT_DATA;
}

/* Judge data with the signature of the trial, but without the next number. Signatures repeat,
 * because the epoch has four bits. The numbers and times of a sender rise together; if they do not,
 * the frame belongs to another run: an earlier run, or a sender that restarts. */
static enum verdict judge_order(struct receiver *rx, const uint8_t *payload, uint32_t sequence)
{
    const struct sequence_tracker *t = rx->tracker;
    const int32_t ahead = (int32_t)(sequence - (uint32_t)t->next);

    if (!t->started)
        return VERDICT_DATA;
    const uint64_t intended = stamp_intended(payload);
    const int64_t later = ticks_since(intended, __builtin_bswap64(rx->newest_times) >> 16);
    if (ahead >= 0)
        return later < 0 ? VERDICT_STALE : VERDICT_DATA;
    if (later > 0 && rx->knows_signature)
        return VERDICT_STALE;
    if (later > 0 && sequence < SEQUENCE_WINDOW) { /* otherwise 2^31 numbers or more were lost */
        begin_anew(rx, payload);
        return VERDICT_DATA;
    }
    const bool after_first = t->next + (uint64_t)(int64_t)ahead >= t->first;
    const bool older = ticks_since(intended, rx->lock_intended) < 0;
    return older && (after_first || rx->knows_signature) ? VERDICT_STALE : VERDICT_DATA;
}

static bool is_addressed_to_us(const struct receiver *rx, const uint8_t *frame)
{
    static const uint8_t broadcast[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    return rx->payload_only || !rx->mac_known || memcmp(frame, rx->mac, 6) == 0 ||
           memcmp(frame, broadcast, 6) == 0;
}

/* Count a frame of another kind by its length or tag. Sizes are those of IEEE 802.3, where a tag
 * adds four bytes; for `udp` the kernel removes the headers. */
static void count_other(const struct receiver *rx, const struct io_frame *f)
{
    struct counters *c = rx->counters;
    unsigned tags = 0;

    if (rx->payload_only)
        return;
    if (f->length == IO_HEADER_BYTES && rx->port != NULL && rx->port->cuts_tagged) {
        counter_add(&c->rx_tagged, 1);
        return;
    }
    if (f->length < FRAME_SIZE_MIN - FCS_BYTES) {
        counter_add(&c->rx_runts, 1);
        return;
    }
    while (tags < TAGS_MAX && frame_is_tag(load16(f->data + OFFSET_ETHERTYPE + TAG_BYTES * tags)))
        tags++;
    if (f->length > ORDINARY_FRAME_LENGTH + TAG_BYTES * tags)
        counter_add(&c->rx_jumbos, 1);
    else if (tags > 0)
        counter_add(&c->rx_tagged, 1);
}

/* Judge frames that are not data of this trial: verification frames, other streams, other trials,
 * foreign frames. */
static enum verdict judge_unusual(struct receiver *rx, const struct io_frame *f)
{
    const bool plain = !rx->special || rx->payload_only;

    if (!is_ours(rx, f, plain)) {
        count_other(rx, f);
        return VERDICT_OTHER;
    }
    const uint8_t *payload = receive_payload(rx, f);
    const unsigned kind = payload[1] >> 4 & 3U;

    /* Verify all of it: a flipped bit could make a frame look touched, or like one of another
     * trial. */
    if (!is_intact(rx, f->data, f->length, plain, true))
        return VERDICT_CORRUPT;
    if (load16(payload + 2) != rx->stream)
        return kind == FRAME_DATA && load16(payload + 2) == rx->denied_stream ? VERDICT_DENIED
                                                                              : VERDICT_FOREIGN;
    if (kind == FRAME_VERIFICATION) {
        const uint8_t *ethernet = rx->expectation != NULL ? rx->opened->ethernet : f->data;
        return is_addressed_to_us(rx, ethernet) ? VERDICT_VERIFICATION : VERDICT_FOREIGN;
    }
    if (kind != FRAME_DATA || !(rx->payload_only || addresses_fit(rx, f->data, plain)))
        return VERDICT_CORRUPT;
    return judge_signature(rx, payload);
}

INLINE enum verdict judge(struct receiver *rx, const struct io_frame *f, bool plain)
{
    if (__builtin_expect(is_ours(rx, f, plain) && rx->locked &&
                             load32(payload_of(rx, f, plain)) == rx->signature,
                         1))
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

/* Return the counter of a frame with these wrong fields. */
static uint64_t *counter_of(const struct receiver *rx, uint32_t wrong)
{
    struct counters *c = rx->counters;

    if (wrong == 0)
        return &c->rx_frames;
    return (wrong & 1U << WRONG_next_hop) != 0 ? &c->rx_wrong_next_hop : &c->rx_wrong_header;
}

/* Decide what an arrival far from all others means for earlier frames and for itself. */
static enum verdict settle_distant(struct receiver *rx, enum sequence_arrival arrival,
                                   const uint8_t *payload)
{
    struct counters *c = rx->counters;

    switch (arrival) {
    case SEQUENCE_BEYOND:
        return VERDICT_BEYOND;
    case SEQUENCE_EARLY:
        return VERDICT_EARLY;
    case SEQUENCE_CONFIRMS:
        counter_add(&c->rx_early, -1ULL);
        counter_add(counter_of(rx, rx->early_wrong), 1);
        if (rx->early_wrong != 0)
            return VERDICT_DATA;
        counter_add(&c->rx_bytes, rx->early_bytes);
        rx->trial_frames++;
        rx->trial_bytes += rx->early_bytes;
        return VERDICT_DATA;
    default:
        take_back(rx, &c->rx_early);
        reset_delays(rx);
        rx->lock_intended = stamp_intended(payload);
        return VERDICT_DATA;
    }
}

/* The same for groups of flows: each number counts in its group. */
static void group_distant(struct receiver *rx, enum sequence_arrival arrival, uint32_t sequence,
                          uint64_t early)
{
    if (arrival == SEQUENCE_RESTARTS)
        flow_groups_reset(rx->groups);
    if (arrival == SEQUENCE_CONFIRMS)
        flow_groups_add(rx->groups, (uint32_t)early, SEQUENCE_FIRST);
    if (arrival >= SEQUENCE_ARRIVALS)
        arrival = sequence == (uint32_t)(rx->tracker->next - 1) ? SEQUENCE_FIRST : SEQUENCE_LATE;
    flow_groups_add(rx->groups, sequence, arrival);
}

/* Measure a frame without the next number; `first` is set if it is the first copy with the highest
 * number. */
static __attribute__((noinline)) enum verdict measure_disorder(struct receiver *rx,
                                                               const struct io_frame *frame,
                                                               const uint8_t *payload, uint64_t now,
                                                               bool *first)
{
    const uint32_t sequence = __builtin_bswap32(load32(payload + 4));
    enum verdict verdict = judge_order(rx, payload, sequence);

    if (verdict != VERDICT_DATA)
        return verdict;
    const enum sequence_arrival arrival = sequence_add(rx->tracker, sequence, now);
    if (rx->groups != NULL)
        group_distant(rx, arrival, sequence, rx->tracker->early_number);
    if (arrival > SEQUENCE_AGAIN)
        verdict = settle_distant(rx, arrival, payload);
    if (arrival == SEQUENCE_EARLY) {
        rx->early_bytes = receive_frame_size(rx, frame);
        rx->early_wrong = 0;
    }
    *first = verdict == VERDICT_DATA && sequence == (uint32_t)(rx->tracker->next - 1) &&
             arrival != SEQUENCE_AGAIN;
    if (*first)
        rx->newest_times = load64(payload + 8);
    if (verdict == VERDICT_DATA && rx->latency_wanted)
        time_frame(rx, payload, sequence, now);
    return verdict;
}

/* Measure a data frame of our stream; `first` is set if it is the first copy with the highest
 * number. */
static inline enum verdict measure(struct receiver *rx, const struct io_frame *frame,
                                   const uint8_t *payload, uint64_t now, bool grouped, bool *first)
{
    const uint32_t sequence = __builtin_bswap32(load32(payload + 4));

    if (__builtin_expect(!sequence_is_next(rx->tracker, sequence), 0))
        return measure_disorder(rx, frame, payload, now, first);
    sequence_advance(rx->tracker);
    rx->newest_times = load64(payload + 8);
    *first = true;
    if (grouped)
        flow_groups_add(rx->groups, sequence, SEQUENCE_FIRST);
    if (rx->latency_wanted)
        time_frame(rx, payload, sequence, now);
    return VERDICT_DATA;
}

/* Measure a data frame whose headers are also compared with the expectation. A wrong frame keeps
 * its place in the sequence, so it does not count as lost. */
static enum verdict measure_expected(struct receiver *rx, const struct io_frame *frame,
                                     const uint8_t *payload, uint64_t now, bool grouped)
{
    const struct frame_layout layout = layout_of(rx, false);
    const struct opened_frame *opened = rx->opened;
    const uint64_t sequence =
        sequence_extended(rx->tracker, __builtin_bswap32(load32(payload + 4)));
    const uint32_t wrong = expectation_check(rx->expectation, opened, &layout, sequence);
    bool first = false;
    const enum verdict verdict = measure(rx, &opened->frame, payload, now, grouped, &first);

    if (verdict == VERDICT_EARLY) {
        rx->early_bytes = opened->counted + FCS_BYTES;
        rx->early_wrong = wrong;
    }
    if (wrong == 0 || (verdict != VERDICT_DATA && verdict != VERDICT_EARLY))
        return verdict;
    expectation_note(rx->expectation, wrong, frame);
    if (verdict == VERDICT_EARLY)
        return verdict;
    return (wrong & 1U << WRONG_next_hop) != 0 ? VERDICT_WRONG_NEXT_HOP : VERDICT_WRONG_HEADER;
}

/* Return true if follow() may process the frames after this one. Touched frames differ in more than
 * their number, and if every byte is verified, every frame must be read. */
INLINE bool may_be_followed(const struct receiver *rx, const uint8_t *payload)
{
    return !rx->payload_only && !rx->touch && (payload[1] >> 4 & FRAME_TOUCHED) == 0;
}

/* Measure frames that follow the frame just measured, in order. */
static inline void measure_followers(struct receiver *rx, unsigned count)
{
    sequence_add_next(rx->tracker, count);
    if (rx->latency_wanted) {
        rx->run.frames += count;
        rx->run.unchanged += variation_add_next(rx->variation, count);
    }
}

/* Offer a frame of another stream to the companion, which counts it if it is the companion's
 * stream. */
static enum verdict offer_to_companion(struct receiver *rx, const struct io_frame *frame,
                                       uint64_t now)
{
    uint8_t verdict;

    receive_burst(rx->companion, frame, 1, now, &verdict);
    if (verdict == VERDICT_DATA)
        return VERDICT_COMPANION;
    return verdict == VERDICT_FOREIGN || verdict == VERDICT_VERIFICATION ? VERDICT_FOREIGN
                                                                         : VERDICT_COMPANION_OTHER;
}

/* Compiled with and without groups and an expectation, so that these cost nothing if they are off.
 */
INLINE unsigned take_burst(struct receiver *rx, const struct io_frame *frames, unsigned count,
                           uint64_t now, uint8_t *verdicts, bool plain, bool grouped, bool expects)
{
    struct counters *c = rx->counters;
    uint64_t counts[VERDICTS] = {0};
    uint64_t bytes = 0;

    if (expects && rx->tracking)
        expectation_prepare(rx->expectation,
                            sequence_extended(rx->tracker, (uint32_t)rx->tracker->next), count);
    for (unsigned i = 0; i < count; i++) {
        struct opened_frame opened;
        const struct io_frame *frame = &frames[i];
        if (expects) {
            opened = expectation_open(rx->expectation, frame);
            rx->opened = &opened;
            frame = &opened.frame;
        }
        enum verdict verdict = judge(rx, frame, plain);
        if (__builtin_expect(verdict == VERDICT_FOREIGN, 0) && rx->companion != NULL)
            verdict = offer_to_companion(rx, &frames[i], now);
        const uint8_t *payload = payload_of(rx, frame, plain);
        bool first = false;
        if (verdict == VERDICT_DATA && rx->tracking)
            verdict = expects ? measure_expected(rx, &frames[i], payload, now, grouped)
                              : measure(rx, frame, payload, now, grouped, &first);
        counts[verdict]++;
        if (verdicts != NULL)
            verdicts[i] = (uint8_t)verdict;
        if (verdict != VERDICT_DATA)
            continue;
        const uint32_t size =
            expects ? opened.counted + FCS_BYTES : receive_frame_size(rx, &frames[i]);
        unsigned followers = 0;
        if (first && plain && !grouped && may_be_followed(rx, payload)) {
            followers = follow(&frames[i], count - i);
            measure_followers(rx, followers);
            if (verdicts != NULL)
                memset(&verdicts[i + 1], VERDICT_DATA, followers);
            counts[VERDICT_DATA] += followers;
            i += followers;
        }
        bytes += size * (1U + followers);
        rx->trial_frames += 1U + followers;
        rx->trial_bytes += size * (1U + followers);
    }
    end_run(rx);
    counter_add(&c->rx_frames, counts[VERDICT_DATA]);
    counter_add(&c->rx_bytes, bytes);
    if (__builtin_expect(counts[VERDICT_DATA] != count, 0)) {
        counter_add(&c->rx_stale, counts[VERDICT_STALE]);
        counter_add(&c->rx_verification, counts[VERDICT_VERIFICATION]);
        counter_add(&c->rx_foreign, counts[VERDICT_FOREIGN]);
        counter_add(&c->rx_other, counts[VERDICT_OTHER]);
        counter_add(&c->rx_denied, counts[VERDICT_DENIED]);
        counter_add(&c->rx_corrupt, counts[VERDICT_CORRUPT]);
        counter_add(&c->rx_wrong_next_hop, counts[VERDICT_WRONG_NEXT_HOP]);
        counter_add(&c->rx_wrong_header, counts[VERDICT_WRONG_HEADER]);
        counter_add(&c->rx_beyond_window, counts[VERDICT_BEYOND]);
        counter_add(&c->rx_early, counts[VERDICT_EARLY]);
    }
    return (unsigned)counts[VERDICT_DATA];
}

/* Receivers with an expectation judge every frame on the slow path, which is out of line, so that
 * the code of all other receivers is as if it did not exist. */
static __attribute__((noinline)) unsigned take_expected(struct receiver *rx,
                                                        const struct io_frame *frames,
                                                        unsigned count, uint64_t now,
                                                        uint8_t *verdicts)
{
    return rx->groups != NULL ? take_burst(rx, frames, count, now, verdicts, false, true, true)
                              : take_burst(rx, frames, count, now, verdicts, false, false, true);
}

unsigned receive_burst(struct receiver *rx, const struct io_frame *frames, unsigned count,
                       uint64_t now, uint8_t *verdicts)
{
    const bool plain = !rx->special || rx->payload_only;

    if (__builtin_expect(rx->expectation != NULL, 0))
        return take_expected(rx, frames, count, now, verdicts);
    if (__builtin_expect(rx->groups != NULL, 0))
        return plain ? take_burst(rx, frames, count, now, verdicts, true, true, false)
                     : take_burst(rx, frames, count, now, verdicts, false, true, false);
    if (__builtin_expect(plain, 1))
        return take_burst(rx, frames, count, now, verdicts, true, false, false);
    return take_burst(rx, frames, count, now, verdicts, false, false, false);
}
