/* One receiving end: judges every frame, verifies the frames of the engine, and updates the
 * sequence tracker and the latency histograms. */
#ifndef SM_RECEIVE_H
#define SM_RECEIVE_H

#include "traffic/receiver.h"

/* Set the expected frames: sent to `own.src_*` from `own.dst_*`; addresses that are not given are
 * not checked. MAC addresses of data frames are never checked, because routers and forwarders
 * rewrite them. */
void receive_expect(struct receiver *rx, const struct frame_address *local, bool src_ip_given,
                    bool dst_ip_given, bool src_udp_given, bool dst_udp_given);

/* Set the expected flows, seen from this end; call it after receive_expect. */
void receive_expect_flows(struct receiver *rx, const struct flow_set *local);

/* Also expect these headers, and the flows of a table; call it after receive_expect. */
void receive_expect_headers(struct receiver *rx, struct expectation *expectation);

/* Begin a trial. `signature`: the first four payload bytes of the frames as on the wire, if the
 * sender is this process; otherwise 0, and the first frame determines it. */
void receive_begin(struct receiver *rx, uint32_t signature, uint64_t now);
void receive_end(struct receiver *rx);

/* Return true if the headers of this frame have our format. */
bool receive_is_ours(const struct receiver *rx, const struct io_frame *frame);

/* Return true if the headers, and the payload as far as configured, of a frame in our format are
 * right. */
bool receive_is_intact(struct receiver *rx, const uint8_t *frame, uint32_t length);

/* Offsets of the headers of frames in our format. */
struct frame_layout receive_layout(const struct receiver *rx);

/* Count a burst, and track data of the trial. Returns the number of data frames of our stream; the
 * verdict of each frame goes to `verdicts` unless that is NULL. */
unsigned receive_burst(struct receiver *rx, const struct io_frame *frames, unsigned count,
                       uint64_t now, uint8_t *verdicts);
#endif
