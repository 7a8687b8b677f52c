/* Opening, probing and closing the ends of a trial: what happens to ports outside of trials. */
#ifndef SM_ENDS_ENDS_H
#define SM_ENDS_ENDS_H

#include "trial/state.h"

/* Whether every port specification is well-formed: a mistake there is one of the command line. */
bool ends_check_ports(const struct options *o, char *error, size_t size);

/* Do the cores of --core exist, and may we use them? */
bool ends_check_cores(const struct options *options, char *error, size_t error_size);

bool ends_open(struct trial *trial, const struct options *options, char *error, size_t error_size);

/* Does this trial's frame size fit the ports? */
bool ends_fit(const struct trial *trial, char *error, size_t error_size);

/* A role that sends waits for the peers of its ports, at most 10 s. */
bool ends_wait_for_links(struct trial *trial, char *error, size_t error_size);

/* Send verification frames from every port to its peer; returns how many went. */
unsigned ends_verify(struct trial *trial, unsigned count, bool broadcast);

/* Bring what was sent where it belongs; false: a port cannot, `error` says which and why. */
bool ends_flush(struct trial *trial, char *error, size_t size);
void ends_close(struct trial *trial);
#endif
