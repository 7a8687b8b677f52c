/* The probe stream next to a load stream: few timed frames inside untimed traffic, which measure
 * latency under load. It is a separate end on the same port with its own stream ID, sequence
 * numbers, counters and histograms, so that no figure mixes the two streams.
 *
 * Sending ends have a probe end with --probe-rate, receiving ends with --probes. */
#ifndef SM_ENDS_PROBES_H
#define SM_ENDS_PROBES_H

#include "trial/state.h"

/* Allocate the probe ends of a trial; false (message in `error`) if memory is missing. */
bool probes_make(struct trial *trial, char *error, size_t error_size);

/* Prepare the probe ends for the trial, after the ends of the load. */
void probes_begin(struct trial *trial);

/* The trial is over: frames that still arrive do not belong to it. */
void probes_end(struct trial *trial);

/* Set the probe schedules, after the times of the trial were set. */
void probes_set_times(struct trial *trial);

/* Free the memory of the probe ends. */
void probes_close(struct trial *trial);
#endif
