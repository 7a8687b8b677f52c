/* The probe stream beside a load stream: few time-stamped frames inside untimed traffic, which
 * is how latency under load is measured. It is an end of its own on the same port, with its own
 * stream ID, sequence numbers, counters and histograms, so that no figure mixes the two.
 *
 * Sending ends have a probe end when --probe-rate is given, receiving ones with --probes. */
#ifndef SM_ENDS_PROBES_H
#define SM_ENDS_PROBES_H

#include "trial/state.h"

/* Make the probe ends that a trial needs; false (message in `error`) without memory. */
bool probes_make(struct trial *trial, char *error, size_t error_size);

/* Prepare them for the trial, after the ends of the load. */
void probes_begin(struct trial *trial);

/* The trial is over: what still comes is not its. */
void probes_end(struct trial *trial);

/* Set the probe schedules, when the trial's times are known. */
void probes_set_times(struct trial *trial);

/* Free what probes_begin has made. */
void probes_close(struct trial *trial);
#endif
