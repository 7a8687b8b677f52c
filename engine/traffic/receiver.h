/* The state of one receiving end: the expected frames, the stream that it follows, and where it
 * counts. receive.h has the functions. */
#ifndef SM_RECEIVER_H
#define SM_RECEIVER_H

#include "io/io.h"
#include "measure/clock.h"
#include "measure/counters.h"
#include "measure/flow_groups.h"
#include "measure/histogram.h"
#include "measure/sender_clock.h"
#include "measure/sequence.h"
#include "measure/variation.h"
#include "traffic/flows.h"
#include "traffic/frame.h"

enum verdict {
    VERDICT_DATA,
    VERDICT_STALE,
    VERDICT_BEYOND, /* data, 2^20 numbers late or more (measure/sequence.h) */
    VERDICT_EARLY,  /* data, far ahead of all others */
    VERDICT_VERIFICATION,
    VERDICT_FOREIGN,
    VERDICT_OTHER,
    VERDICT_CORRUPT,
    VERDICT_BESIDE,       /* data of the companion's stream, counted there */
    VERDICT_BESIDE_OTHER, /* the same, but stale or corrupt */
    VERDICTS
};

/* The last plain frame of its length that passed every check: one with the same headers passes
 * all but the checks of the stamp without being looked at again. */
struct intact_headers {
    uint32_t length;   /* of the frame; 0: none yet */
    uint64_t bytes[3]; /* from OFFSET_IP to the UDP checksum, which is not part of it */
    uint16_t last;
    uint8_t filled; /* FRAME_FILLED or 0 */
    uint64_t sum;   /* what they, the pseudo header and the payload behind the stamp contribute */
};

#define INTACT_LENGTHS 8 /* a power of two */

/* What must arrive in frames that are not plain, or of more than one flow. */
struct expected_frames {
    struct frame_layout layout;
    uint16_t types[TAGS_MAX + 1];           /* EtherTypes, outer first, wire order */
    unsigned tags;                          /* how many of them are tags */
    uint16_t outer_vlan;                    /* of two tags */
    struct flow_range fields[FLOW_FIELDS];  /* of what arrives; count 0: anything */
    uint8_t src_prefix[12], dst_prefix[12]; /* IPv6 */
    bool src_prefix_given, dst_prefix_given;
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
    bool touch;             /* verify every byte of touched frames */
    bool payload_only;      /* the kernel has taken the headers off */
    bool special;           /* not only untagged IPv4 of one flow: the longer way of judging */
    uint32_t extra_headers; /* bytes more than HEADERS_BYTES, whoever takes them off */
    bool locked;            /* `mark` is that of the running trial's frames */
    bool tracking;          /* a trial runs: sequence and, if wanted, latency */
    bool latency_wanted;
    const struct sender_clock *sender_clock; /* NULL: the sender goes by our clock */
    uint16_t stream;                         /* wire order */
    uint32_t mark;          /* first four payload bytes of this trial's frames, wire image */
    bool knows_mark;        /* it is our own: no frame teaches another */
    uint64_t lock_intended; /* when the frame was intended by which `mark` was learnt */
    uint64_t newest_times;  /* wire image of intended time and lateness, of the highest number */
    uint64_t trial_frames, trial_bytes; /* counted under `mark` */
    uint64_t early_bytes;               /* of the last early frame */
    uint64_t addresses, address_mask;   /* IP source and destination that must arrive */
    uint32_t ports, port_mask;
    uint8_t mac[6];
    bool mac_known;
    const struct payload_pattern *pattern; /* expected behind stamps; NULL: unknown */
    struct intact_headers intact[INTACT_LENGTHS];
    struct expected_frames expected;
    struct receiver *companion; /* for a second stream on the same port, or NULL */
    struct sequence_tracker *tracker;
    struct histogram *from_actual, *from_intended; /* ns */
    struct timed_run run;
    struct variation *variation;
    struct flow_groups *groups; /* or NULL */
};

/* The stamp of a frame in our format. */
static inline const uint8_t *receive_payload(const struct receiver *rx, const struct io_frame *f)
{
    return f->data + (rx->payload_only ? 0 : HEADERS_BYTES + rx->extra_headers);
}

/* The L2 size with FCS of what arrived. */
static inline uint32_t receive_frame_size(const struct receiver *rx, const struct io_frame *f)
{
    return f->length + FCS_BYTES + (rx->payload_only ? HEADERS_BYTES + rx->extra_headers : 0);
}

static inline uint64_t stamp_intended(const uint8_t *payload)
{
    return __builtin_bswap64(load64(payload + 8)) >> 16;
}

static inline int64_t stamp_lateness(const uint8_t *payload)
{
    return lateness_decode(__builtin_bswap32(load32(payload + 14)));
}
#endif
