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
#include "traffic/expectation.h"
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
    VERDICT_DENIED, /* data of the denied stream, which the switch should have dropped */
    VERDICT_CORRUPT,
    VERDICT_WRONG_NEXT_HOP,  /* data, intact, with another destination MAC than expected */
    VERDICT_WRONG_HEADER,    /* data, intact, with other headers than expected */
    VERDICT_COMPANION,       /* data of the companion's stream, which the companion counts */
    VERDICT_COMPANION_OTHER, /* a stale or corrupt frame of the companion's stream */
    VERDICTS
};

/* The headers of the last plain frame of a length that passed every check. For a frame with the
 * same headers only the stamp and the checksum need checks. */
struct intact_headers {
    uint32_t length;   /* length of the frame; 0: no frame yet */
    uint64_t bytes[3]; /* from OFFSET_IP up to the UDP checksum, exclusive */
    uint16_t last;
    uint8_t filled; /* FRAME_FILLED or 0 */
    uint64_t sum;   /* checksum of `bytes`, pseudo header and payload behind the stamp */
};

#define INTACT_LENGTHS 8 /* a power of two */

/* Values that frames must have if they are not plain, or if there are several flows. */
struct expected_frames {
    struct frame_layout layout;
    uint16_t types[TAGS_MAX + 1];           /* EtherTypes, outer first, wire order */
    unsigned tags;                          /* number of tags among `types` */
    uint16_t outer_vlan;                    /* VLAN ID of the outer tag if there are two */
    bool any_outer_vlan;                    /* it is not compared here */
    struct flow_range fields[FLOW_FIELDS];  /* values of received frames; count 0: any value */
    uint8_t src_prefix[12], dst_prefix[12]; /* IPv6 */
    bool src_prefix_given, dst_prefix_given;
};

/* Frames that were sent together and received together: their times are computed and recorded
 * once, at the end of the burst at the latest. */
struct timed_run {
    uint64_t frames, unchanged; /* pairs of consecutive frames with equal delay */
    uint64_t stamp;             /* intended time and lateness as on the wire */
    uint16_t stamp_low;
    int64_t intended_ns, actual_ns;
};

struct receiver {
    struct io_port *port;
    struct counters *counters;
    bool touch;        /* verify every byte of touched frames */
    bool payload_only; /* the kernel has removed the headers */
    bool special;      /* frames are tagged, IPv6 or of several flows: the slow path judges them */
    uint32_t extra_headers; /* header bytes beyond HEADERS_BYTES */
    bool locked;            /* `signature` is that of the frames of the running trial */
    bool tracking; /* a trial runs: sequence numbers, and latency if requested, are measured */
    bool latency_wanted;
    const struct sender_clock *sender_clock; /* NULL: the sender uses the clock of this host */
    uint16_t stream, denied_stream;          /* wire order */
    uint32_t signature;   /* first four payload bytes of this trial's frames, as on the wire */
    bool knows_signature; /* this process sends the frames: the signature is known from the start */
    uint64_t lock_intended; /* intended time of the frame from which `signature` was learned */
    uint64_t newest_times;  /* intended time and lateness of the frame with the highest number */
    uint64_t trial_frames, trial_bytes; /* counted with `signature` */
    uint64_t early_bytes;               /* size of the last early frame */
    uint32_t early_wrong;               /* its wrong fields: bits of enum wrong_field */
    uint64_t addresses, address_mask;   /* expected IP source and destination */
    uint32_t ports, port_mask;
    uint8_t mac[6];
    bool mac_known;
    const struct payload_pattern *pattern; /* expected payload behind stamps; NULL: unknown */
    struct intact_headers intact[INTACT_LENGTHS];
    struct expected_frames expected;
    struct receiver *companion; /* receiver of a second stream on the same port, or NULL */
    struct sequence_tracker *tracker;
    struct histogram *from_actual, *from_intended; /* ns */
    struct timed_run run;
    struct variation *variation;
    struct flow_groups *groups;        /* or NULL */
    struct expectation *expectation;   /* changes that the switch must make; NULL: not checked */
    const struct opened_frame *opened; /* with an expectation: the frame that is judged now */
};

/* The stamp of a frame in our format. */
static inline const uint8_t *receive_payload(const struct receiver *rx, const struct io_frame *f)
{
    return f->data + (rx->payload_only ? 0 : HEADERS_BYTES + rx->extra_headers);
}

/* The L2 size of a received frame, with FCS. */
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
