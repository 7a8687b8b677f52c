/* The events of switchmark/engine/events.schema.json, each one line on standard output. The control
 * thread and the main thread both print, so every function takes the lock of this file. */
#ifndef SM_EVENTS_H
#define SM_EVENTS_H

#include <stdbool.h>

#include "trial/state.h"

void event_ready(const struct trial *trial);
void event_verification(unsigned sent);
/* Whether the port accepted each of the frames of `inject`. */
void event_injected(const bool *accepted, unsigned count);
/* The next `frames` received frames will be printed. */
void event_capturing(unsigned frames);
/* A received frame: its length, and at most its first CAPTURED_BYTES. */
#define CAPTURED_BYTES 256
void event_captured(const struct io_port *port, unsigned index, const struct io_frame *frame);
/* The state of a table after a command. */
void event_table(const char *kind, const struct row_table *table);
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
