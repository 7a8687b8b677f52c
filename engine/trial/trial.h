/* The life of one trial: begin, loop of the role, drain, totals. */
#ifndef SM_TRIAL_TRIAL_H
#define SM_TRIAL_TRIAL_H

#include "trial/state.h"

/* Run one trial from its start to its result; false if a port failed (message in `error`). */
bool trial_run(struct trial *trial, char *error, size_t error_size);
#endif
