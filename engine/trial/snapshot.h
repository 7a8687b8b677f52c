/* Totals of a running trial, from which interval lines are made. */
#ifndef SM_TRIAL_SNAPSHOT_H
#define SM_TRIAL_SNAPSHOT_H

#include "trial/state.h"

/* Fill in all values of an interval line as they are now. */
void snapshot_fill(struct trial *trial, struct snapshot *snapshot);

/* Put a snapshot into the ring of the printing thread. */
void snapshot_take(struct trial *trial);
#endif
