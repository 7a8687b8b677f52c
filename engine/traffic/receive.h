/* One receiving end: says of every frame what it is, verifies ours, and feeds the sequence
 * tracker and the latency histograms. */
#ifndef SM_RECEIVE_H
#define SM_RECEIVE_H

#include "traffic/receiver.h"

/* What may arrive: frames sent to `own.src_*` from `own.dst_*`; what is not given is not
 * checked. MAC addresses of data frames never are: routers and forwarders rewrite them. */
void receive_expect(struct receiver *rx, const struct frame_address *own, bool src_ip_given,
                    bool dst_ip_given, bool src_udp_given, bool dst_udp_given);

/* `own` flows may arrive, seen from this end; to be called after receive_expect. */
void receive_expect_flows(struct receiver *rx, const struct flow_set *own);

/* Begin a trial. `mark`: wire image of the frames' first four bytes when it is known (the
 * sender is this process), else 0: the first frame teaches it. */
void receive_begin(struct receiver *rx, uint32_t mark, uint64_t now);
void receive_end(struct receiver *rx);

/* Is this frame in our format at all, as far as headers tell? */
bool receive_is_ours(const struct receiver *rx, const struct io_frame *frame);

/* Are the headers, and as far as asked the payload, of a frame in our format right? */
bool receive_is_intact(struct receiver *rx, const uint8_t *frame, uint32_t length);

/* Where the headers of frames in our format are. */
struct frame_layout receive_layout(const struct receiver *rx);

/* Count a burst; trial data is tracked. Returns how many frames were our stream's data; what
 * each frame was goes to `verdicts` unless that is NULL. */
unsigned receive_burst(struct receiver *rx, const struct io_frame *frames, unsigned count,
                       uint64_t now, uint8_t *verdicts);
#endif
