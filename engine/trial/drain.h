/* After the end of a trial: receive the frames in flight, so that no late frame counts as lost. */
#ifndef SM_TRIAL_DRAIN_H
#define SM_TRIAL_DRAIN_H

#include <stdint.h>

struct trial;

/* Receive until the ports have been silent for long enough; trial->outcome.drained is true if they
 * became silent. */
void drain(struct trial *trial);
#endif
