/* The events of switchmark/engine/events.schema.json, each one line on standard output. The
 * printing thread and the worker both print, so every call takes the one lock of this file. */
#ifndef SM_EVENTS_H
#define SM_EVENTS_H

#include <stdbool.h>

#include "trial/state.h"

void event_ready(const struct trial *trial);
void event_verified(unsigned sent);
void event_counters(const struct trial *trial);
void event_started(const struct trial *trial);
/* Print the intervals that are finished. */
void event_intervals(struct trial *trial);
void event_result(struct trial *trial);
/* Also on standard error. */
void event_error(const char *message);

/* False once standard output takes no more: nobody reads what we measure. */
bool events_are_read(void);
/* And that is a fault (a full disk, no memory), which has been told, not a reader that has gone. */
bool events_are_lost(void);
#endif
