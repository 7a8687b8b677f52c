/* One receiving end: says of every frame what it is, verifies ours, and feeds the sequence
 * tracker and the latency histograms. */
#ifndef SM_RECEIVE_H
#define SM_RECEIVE_H

#include "io/io.h"
#include "measure/clock.h"
#include "measure/counters.h"
#include "measure/flow_groups.h"
#include "measure/histogram.h"
#include "measure/sequence.h"
#include "measure/variation.h"
#include "traffic/frame.h"

enum verdict {
    VERDICT_DATA,
    VERDICT_STALE,
    VERDICT_PROBE,
    VERDICT_FOREIGN,
    VERDICT_OTHER,
    VERDICT_CORRUPT,
    VERDICT_BESIDE,       /* data of the companion's stream, counted there */
    VERDICT_BESIDE_OTHER, /* the same, but stale or corrupt */
    VERDICTS
};

/* The last frame that passed every check: one with the same length and headers passes all but
 * the checks of the payload without being looked at again. */
struct intact_headers {
    uint32_t length;   /* of the frame; 0: none yet */
    uint64_t bytes[3]; /* from OFFSET_IP to the UDP checksum, which is not part of it */
    uint16_t last;
    uint64_t sum; /* what they and the pseudo header contribute to the UDP checksum */
};

/* Frames received together that were also sent together: their times are computed and recorded
 * once, at the latest when the burst ends. */
struct timed_run {
    uint64_t frames, unchanged; /* pairs in it; their delay is the same */
    uint64_t stamp;             /* wire image of intended time and lateness */
    uint16_t stamp_low;
    int64_t intended_ns, actual_ns;
};

struct receiver {
    struct io_port *port;
    struct counters *counters;
    bool touch;        /* verify every byte of touched frames */
    bool payload_only; /* the kernel has taken the headers off */
    bool locked;       /* `mark` is that of the running trial's frames */
    bool tracking;     /* a trial runs: sequence and, if wanted, latency */
    bool latency_wanted;
    uint16_t stream;        /* wire order */
    uint32_t mark;          /* first four payload bytes of this trial's frames, wire image */
    uint64_t lock_intended; /* when the frame was intended by which `mark` was learnt */
    uint64_t trial_frames, trial_bytes; /* counted under `mark` */
    uint64_t addresses, address_mask;   /* IP source and destination that must arrive */
    uint32_t ports, port_mask;
    uint8_t mac[6];
    bool mac_known;
    struct intact_headers intact;
    struct receiver *companion; /* for a second stream on the same port, or NULL */
    struct sequence_tracker *tracker;
    struct histogram *from_actual, *from_intended; /* ns */
    struct timed_run run;
    struct variation *variation;
    struct flow_groups *groups; /* or NULL */
};

/* What may arrive: frames sent to `own.src_*` from `own.dst_*`; what is not given is not
 * checked. MAC addresses of data frames never are: routers and forwarders rewrite them. */
void receive_expect(struct receiver *rx, const struct frame_address *own, bool src_ip_given,
                    bool dst_ip_given, bool src_udp_given, bool dst_udp_given);

/* Begin a trial. `mark`: wire image of the frames' first four bytes when it is known (the
 * sender is this process), else 0: the first frame teaches it. */
void receive_begin(struct receiver *rx, uint32_t mark, uint64_t now);
void receive_end(struct receiver *rx);

/* Frames that are not this trial's data: probes, other streams, other trials, rubbish. */
enum verdict receive_judge_unusual(struct receiver *rx, const struct io_frame *frame);

/* Are the headers, and as far as asked the payload, of a frame in our format right? */
bool receive_is_intact(struct receiver *rx, const uint8_t *frame, uint32_t length);

/* Count a burst; trial data is tracked. Returns how many frames were our stream's data; what
 * each frame was goes to `verdicts` unless that is NULL. */
unsigned receive_burst(struct receiver *rx, const struct io_frame *frames, unsigned count,
                       uint64_t now, uint8_t *verdicts);

/* Is this frame in our format at all, as far as headers tell? */
static inline bool receive_is_ours(const struct receiver *rx, const struct io_frame *f)
{
    const uint8_t *d = f->data;

    if (rx->payload_only)
        return f->length >= STAMP_BYTES && d[0] == FRAME_MARK;
    /* version 4 without options, UDP, not a fragment */
    return f->length >= HEADERS_BYTES + STAMP_BYTES &&
           load16(d + OFFSET_ETHERTYPE) == __builtin_bswap16(0x0800) && d[OFFSET_IP] == 0x45 &&
           d[23] == 17 && (load16(d + 20) & __builtin_bswap16(0x3fff)) == 0 &&
           d[HEADERS_BYTES] == FRAME_MARK;
}

static inline const uint8_t *receive_payload(const struct receiver *rx, const struct io_frame *f)
{
    return f->data + (rx->payload_only ? 0 : HEADERS_BYTES);
}

/* The L2 size with FCS of what arrived. */
static inline uint32_t receive_frame_size(const struct receiver *rx, const struct io_frame *f)
{
    return f->length + FCS_BYTES + (rx->payload_only ? HEADERS_BYTES : 0);
}

static inline enum verdict receive_judge(struct receiver *rx, const struct io_frame *f)
{
    if (__builtin_expect(
            receive_is_ours(rx, f) && rx->locked && load32(receive_payload(rx, f)) == rx->mark, 1))
        return receive_is_intact(rx, f->data, f->length) ? VERDICT_DATA : VERDICT_CORRUPT;
    return receive_judge_unusual(rx, f);
}

/* Signed distance in ticks from a 48-bit stamp to now. */
static inline int64_t ticks_since(uint64_t now, uint64_t stamp48)
{
    return (int64_t)((now - stamp48) << 16) >> 16;
}

static inline uint64_t stamp_intended(const uint8_t *payload)
{
    return __builtin_bswap64(load64(payload + 8)) >> 16;
}

static inline uint32_t stamp_lateness(const uint8_t *payload)
{
    return __builtin_bswap32(load32(payload + 14));
}
#endif
