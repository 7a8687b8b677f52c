/* Headers that a switch must have changed in the frames that arrive. A router sets the MAC
 * addresses of the next hop and lowers the TTL, another function changes tags. A frame of the
 * stream with a wrong field has arrived, so it is not lost, but it does not count as right.
 *
 * Only receivers with such an expectation use this file; they judge every frame on the slow path.
 */
#ifndef SM_EXPECTATION_H
#define SM_EXPECTATION_H

#include "io/io.h"
#include "traffic/frame.h"
#include "traffic/modifiers.h"
#include "traffic/row_table.h"

#define NEXT_HOPS_MAX 64

/* The options, as they were given. */
struct expected_headers {
    uint8_t next_hops[NEXT_HOPS_MAX][6];
    uint32_t next_hop_count; /* 0: any destination */
    uint8_t src_mac[6];
    bool src_mac_given;
    uint64_t ttl, dscp;
    bool ttl_given, dscp_given;
    uint64_t vlan; /* 0: no tag */
    bool vlan_given;
    bool decap; /* frames arrive in VXLAN, and the inner frame is checked */
};

struct expectation {
    const struct expected_headers *headers;
    const struct row_table *table;     /* NULL: no table */
    const struct row_table *tunnels;   /* MACs, and outer headers with --decap; NULL: any */
    bool reversed;                     /* rows describe sent frames; these go the other way */
    const struct field_writes *fields; /* fields that modifiers of the sender set */
    bool used;               /* a header, the content of a table or modified fields are expected */
    uint64_t prepared_first; /* number of the first prepared frame */
    uint32_t prepared;       /* number of such frames */
    uint32_t flows[IO_BURST_MAX];       /* their flows */
    uint64_t wrong[WRONG_FIELDS_COUNT]; /* number of frames of the trial with this field wrong */
    uint8_t sample[256];                /* the first bytes of the first wrong frame */
    uint32_t sample_length;             /* 0: no frame was wrong */
};

/* A received frame with its outer header and its tags removed. */
struct opened_frame {
    struct io_frame frame;   /* the EtherType of its IP header is where an untagged frame has it */
    const uint8_t *ethernet; /* its Ethernet header */
    const uint8_t *outer;    /* the outer header of VXLAN, or NULL */
    uint32_t counted;        /* length with tags, and without an outer header */
    uint32_t wrong;          /* bits of enum wrong_field */
};

static inline bool expected_headers_are_given(const struct expected_headers *h)
{
    return h->next_hop_count > 0 || h->src_mac_given || h->ttl_given || h->dscp_given ||
           h->vlan_given || h->decap;
}

/* Begin a trial. */
void expectation_reset(struct expectation *e);

/* The next frames probably have these numbers: choose their flows together, and fetch their rows.
 */
void expectation_prepare(struct expectation *e, uint64_t sequence, unsigned count);

/* Remove the outer header and the tags of a frame, if they are expected. */
struct opened_frame expectation_open(const struct expectation *e, const struct io_frame *frame);

/* Compare the headers of an intact frame of the stream, with this extended sequence number; returns
 * bits of enum wrong_field. */
uint32_t expectation_check(const struct expectation *e, const struct opened_frame *opened,
                           const struct frame_layout *layout, uint64_t sequence);

/* Count a wrong frame by its fields. */
void expectation_note(struct expectation *e, uint32_t wrong, const struct io_frame *frame);
#endif
