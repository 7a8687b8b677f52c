/* After the end of a trial: take what is still on its way, so that no late frame is called lost. */
#ifndef SM_TRIAL_DRAIN_H
#define SM_TRIAL_DRAIN_H

#include <stdint.h>

struct trial;

/* Receive until the ports have been silent for long enough; trial->outcome.drained says whether
 * they ever were. */
void drain(struct trial *trial);
#endif
