/* The denied stream: frames of flows that the switch must drop, sent alongside the load at their
 * own rate, with the addresses of a second table (command `denied`). They are neither load nor
 * loss: the sender counts them in tx_denied, and the receiver counts those that arrive in
 * rx_denied. */
#ifndef SM_ENDS_DENIED_H
#define SM_ENDS_DENIED_H

#include "trial/state.h"

/* Its stream ID is that of the load with this bit flipped. */
#define DENIED_STREAM 0x2000U

/* Return true if this trial has a denied stream. */
bool denied_is_sent(const struct trial *trial);

/* Allocate the streams of all ends that send; false: no memory, or their table is not complete. */
bool denied_make(struct trial *trial, char *error, size_t size);
void denied_begin(struct trial *trial);
void denied_set_times(struct trial *trial);

/* The trial is over for an end that sends one. */
void denied_stop(struct end *end, uint64_t now);
void denied_close(struct trial *trial);
#endif
