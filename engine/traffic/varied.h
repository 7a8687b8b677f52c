/* Frames of one trial that differ in size or flow: the fields written into each in addition to its
 * stamp.
 *
 * The template is the longest frame. Every frame gets its lengths and the fields of its flow, and
 * both checksums are the sum of the template without the varying fields, plus the written values:
 * no byte is summed twice. A burst is filled field by field, so that each loop is short and has no
 * branches. The usual case of flows, which vary an address, a port or both, is written and stamped
 * in one pass. */
#ifndef SM_VARIED_H
#define SM_VARIED_H

#include "io/io.h"
#include "traffic/flows.h"
#include "traffic/frame.h"
#include "traffic/modifiers.h"
#include "traffic/row_table.h"
#include "traffic/sizes.h"
#include "traffic/zipf.h"

struct varied_field {
    enum flow_field field;
    uint32_t offset; /* offset in the frame */
    uint32_t at;     /* place of the next frame in the order of the range */
    uint32_t left;   /* frames that still have this value; used if range.every is above 1 */
    struct flow_range range;
};

struct varied {
    bool used;                           /* otherwise all frames are equal to the template */
    const struct sizes *sizes;           /* NULL: all frames have the size of the template */
    const struct zipf *zipf;             /* NULL: round-robin */
    const struct row_table *table;       /* addresses and ports of the flows; NULL: `fields` */
    const struct row_table *tunnels;     /* MAC addresses, and outer headers of VXLAN; or NULL */
    const struct field_writes *modified; /* fields that modifiers set, or NULL */
    bool modifies_outer;                 /* some of them are in the outer header */
    uint32_t value_at[2 * MODIFIERS_MAX], write_offset[2 * MODIFIERS_MAX]; /* for each write */
    uint32_t outer;  /* bytes of the outer header */
    bool whole_rows; /* nothing but the rows of an IPv4 table, and MACs, vary */
    uint32_t flows;
    uint64_t seed;
    uint64_t sequence; /* number of the frame for which the following state is valid */
    unsigned cycle_at;
    unsigned field_count;
    struct varied_field fields[FLOW_FIELDS];
    bool usual;        /* at most the next two fields vary */
    int address, port; /* indices of the fields of IPv4 and UDP; -1: does not vary */
    uint32_t headers;  /* bytes of headers; 0: the kernel writes them */
    uint32_t beside;   /* difference between frame size with FCS and payload length */
    bool ip6;
    bool ip_sum_varies; /* the checksum of the IPv4 header varies */
    uint64_t sum;       /* sum of everything in the UDP checksum that never varies */
    uint64_t ip_sum;    /* the same for the IPv4 header */
};

/* Prepare for a trial with frames of this template, which has the largest of `sizes`. `flows` must
 * be bound; NULL, or one flow: no field varies. `zipf` is used if `flows` requires it. */
void varied_begin(struct varied *v, const struct frame_template *t,
                  const struct frame_address *address, const struct sizes *sizes,
                  const struct flow_set *flows, const struct zipf *zipf);

/* Take addresses and ports from a complete table instead of flows; call it after varied_begin. */
void varied_use_table(struct varied *v, const struct frame_template *t,
                      const struct row_table *table);

/* Also choose the MAC addresses of each frame and, with --encap, its outer header; call it after
 * varied_use_table. */
void varied_use_tunnels(struct varied *v, const struct row_table *tunnels);

/* Also set the fields of modifiers; call it last. */
void varied_use_modifiers(struct varied *v, const struct frame_template *t,
                          const struct field_writes *modified);

/* Fill frames[0..count-1] as those with number `sequence` and the following numbers. `prepared`:
 * they contain the template, as an earlier fill may have changed it. */
void varied_fill(struct varied *v, const struct frame_template *t, struct io_frame *frames,
                 unsigned count, uint64_t sequence, const struct frame_times *times, bool prepared);

/* Sum of the content behind the stamp of an untouched frame with this payload. */
static inline uint64_t varied_pattern_sum(const struct frame_template *t, uint32_t payload_length)
{
    if (t->touch || t->pattern == NULL)
        return 0;
    return t->pattern->sum[payload_length - STAMP_BYTES][0];
}

/* The flow of frame number `sequence`. */
uint32_t varied_flow(const struct varied *v, uint64_t sequence);
#endif
