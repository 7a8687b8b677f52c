/* One end: its sending and receiving halves, connected with a port and prepared for a trial. The
 * ends of the load and of its probe stream use the same functions. */
#ifndef SM_ENDS_END_H
#define SM_ENDS_END_H

#include "trial/state.h"

/* The command line from the point of view of an end: ports 0, 2, ... send from --src-... to
 * --dst-..., the other ports send in the opposite direction. */
struct end_view {
    unsigned port_index; /* number of the --port */
    struct frame_address address;
    struct flow_set flows;
    bool src_mac_given, src_ip_given, dst_ip_given, src_udp_given, dst_udp_given;
};

struct end_view end_view_of(const struct options *options, unsigned end);

/* Connect both halves of an end with its port, for frames of `stream`. */
void end_join(struct trial *trial, struct end *end, unsigned index, uint16_t stream);

/* Set the expected frames of an end, also after the table of flows has changed. */
void end_expect(struct trial *trial, struct end *end, unsigned index);

/* The address of frames that an end sends. If tunnels have arrived, it has the MAC addresses and,
 * with --encap, the outer header of the first of them. A receiver, whose tunnels are those of
 * arriving frames, sends the other way. */
struct frame_address end_sent_address(const struct trial *trial, const struct end *end,
                                      unsigned index);

/* Prepare sending for a trial, at the port with this index. Buffers and replay must be set before.
 */
void end_begin_sending(struct trial *trial, struct end *end, unsigned index, uint16_t stream);

/* Prepare receiving, after end_begin_sending; `timed`: the latency of frames is measured. */
void end_begin_receiving(struct trial *trial, struct end *end, bool timed);

/* Set the schedule, after the times of the trial were set. */
void end_set_times(struct trial *trial, struct end *end, const struct schedule_plan *plan,
                   uint32_t burst, unsigned seed_index);
#endif
