/* The events of switchmark/engine/events.schema.json, each one line on standard output. The control
 * thread and the main thread both print, so every function takes the lock of this file. */
#ifndef SM_EVENTS_H
#define SM_EVENTS_H

#include <stdbool.h>

#include "trial/state.h"

void event_ready(const struct trial *trial);
void event_verification(unsigned sent);
void event_counters(const struct trial *trial);
void event_started(const struct trial *trial);
/* Print the finished intervals. */
void event_intervals(struct trial *trial);
void event_result(struct trial *trial);
/* Print the message also on standard error. */
void event_error(const char *message);

/* Return false after standard output failed: then no program reads the results. */
bool events_are_read(void);
/* Return true if that was a fault (disk full, out of memory), which was reported, and not a closed
 * pipe. */
bool events_are_lost(void);
#endif
