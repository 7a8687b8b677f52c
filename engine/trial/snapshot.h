/* Totals of a running trial, and the snapshots of them that interval lines are made of. */
#ifndef SM_TRIAL_SNAPSHOT_H
#define SM_TRIAL_SNAPSHOT_H

#include "trial/state.h"

/* Everything an interval line says, as it is now. */
void snapshot_fill(struct trial *trial, struct snapshot *snapshot);

/* The same into the ring to the printing thread. */
void snapshot_take(struct trial *trial);
#endif
