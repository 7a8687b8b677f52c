/* One end: what sends and receives there, connected with its port and prepared for a trial. The
 * ends of the load and those of its probe stream are made alike. */
#ifndef SM_ENDS_END_H
#define SM_ENDS_END_H

#include "trial/state.h"

/* The command line as an end sees it: the ports 0, 2, ... send from --src-... to --dst-..., the
 * others the other way round. */
struct end_view {
    unsigned port_index; /* of the --port */
    struct frame_address address;
    struct flow_set flows;
    bool src_mac_given, src_ip_given, dst_ip_given, src_udp_given, dst_udp_given;
};

struct end_view end_view_of(const struct options *options, unsigned end);

/* Connect what sends and receives at an end with its port, for frames of `stream`. */
void end_join(struct end *end, const struct options *options, unsigned index, uint16_t stream);

/* Prepare sending for a trial, at the port of this index; its buffers and its replay are chosen. */
void end_begin(struct trial *trial, struct end *end, unsigned index, uint16_t stream);

/* Prepare receiving, then; `timed`: frames are to be timed. */
void end_listen(struct trial *trial, struct end *end, bool timed);

/* Set the schedule, when the trial's times are known. */
void end_set_times(struct trial *trial, struct end *end, const struct schedule_plan *plan,
                   uint32_t burst, unsigned seed_index);
#endif
