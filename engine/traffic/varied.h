/* Frames of one trial that differ in size or flow: what is written into each beside its stamp.
 *
 * The template is the longest frame; every frame gets its lengths and the fields of its flow,
 * and both checksums are made from the template's sum without what varies, plus what was
 * written: no byte is summed twice. A burst is filled field by field, so that each loop is
 * short and without branches; what flows nearly always are, an address, a port or both, is written
 * and stamped in one pass. */
#ifndef SM_VARIED_H
#define SM_VARIED_H

#include "io/io.h"
#include "traffic/flows.h"
#include "traffic/frame.h"
#include "traffic/sizes.h"
#include "traffic/zipf.h"

struct varied_field {
    enum flow_field field;
    uint32_t offset; /* in the frame */
    uint32_t at;     /* of the next frame: place in the range's order */
    uint32_t left;   /* frames that still have it; used where range.every is above 1 */
    struct flow_range range;
};

struct varied {
    bool used;                 /* else all frames are as the template */
    const struct sizes *sizes; /* NULL: all have the template's */
    const struct zipf *zipf;   /* NULL: round-robin */
    uint32_t flows;
    uint64_t seed;
    uint64_t sequence; /* of the frame that the state below stands at */
    unsigned cycle_at;
    unsigned field_count;
    struct varied_field fields[FLOW_FIELDS];
    bool usual;        /* the fields are the next two or one of them, and nothing else varies */
    int address, port; /* indices of those of IPv4 and UDP; -1: does not vary */
    uint32_t headers;  /* bytes; 0: the kernel writes them */
    uint32_t beside;   /* from frame size with FCS to payload length */
    bool ip6;
    bool ip_sum_varies; /* the IPv4 header's checksum */
    uint64_t sum;       /* of what the UDP checksum covers and never varies */
    uint64_t ip_sum;    /* the same of the IPv4 header's */
};

/* Prepare for a trial whose frames have this template (the largest of `sizes`). `flows` must be
 * bound; NULL, or one flow: no field varies. `zipf` is used when `flows` says so. */
void varied_begin(struct varied *v, const struct frame_template *t,
                  const struct frame_address *address, const struct sizes *sizes,
                  const struct flow_set *flows, const struct zipf *zipf);

/* Make frames[0..count-1] those of `sequence` and on. `prepared`: they hold the template, as
 * an earlier fill may have changed it. */
void varied_fill(struct varied *v, const struct frame_template *t, struct io_frame *frames,
                 unsigned count, uint64_t sequence, const struct frame_times *times, bool prepared);

/* What lies behind the stamp of an untouched frame with this payload. */
static inline uint64_t varied_pattern_sum(const struct frame_template *t, uint32_t payload_length)
{
    if (t->touch || t->pattern == NULL)
        return 0;
    return t->pattern->sum[payload_length - STAMP_BYTES][0];
}

/* The flow of frame number `sequence`. */
uint32_t varied_flow(const struct varied *v, uint64_t sequence);
#endif
