/* Opens, checks and closes the ends of a trial: the life of ports outside of trials. */
#ifndef SM_ENDS_ENDS_H
#define SM_ENDS_ENDS_H

#include "trial/state.h"

/* Return true if every port specification is well-formed. An error here is an error of the command
 * line. */
bool ends_check_ports(const struct options *o, char *error, size_t size);

/* Return true if the cores of --core exist and this process may use them. */
bool ends_check_cores(const struct options *options, char *error, size_t error_size);

bool ends_open(struct trial *trial, const struct options *options, char *error, size_t error_size);

/* Return true if the frames of this trial fit the ports. */
bool ends_fit(const struct trial *trial, char *error, size_t error_size);

/* Return true if the tunnels of --encap have arrived, and each flow has one. */
bool ends_fit_tunnels(const struct trial *trial, char *error, size_t error_size);

/* A sending role waits for the peers of its ports, at most 10 s. */
bool ends_wait_for_links(struct trial *trial, char *error, size_t error_size);

/* Send verification frames from every port to its peer; returns the number of sent frames. */
unsigned ends_verify(struct trial *trial, unsigned count, bool broadcast);

/* Send one frame, at least a whole Ethernet header, by the port with this number; false: the port
 * has not accepted it until `last_ns`. */
bool ends_inject(struct trial *trial, unsigned port, const uint8_t *bytes, uint32_t length,
                 uint64_t last_ns);

/* Begin one of the tables of the trial anew, or append rows to it. False: `error` has the reason.
 */
bool ends_begin_table(struct trial *trial, struct row_table *table,
                      const struct row_table_plan *plan, char *error, size_t size);
bool ends_load_table(struct trial *trial, struct row_table *table, const uint8_t *bytes,
                     size_t length, char *error, size_t size);

/* Complete what was sent, for example write a file to disk. False: a port failed, `error` has the
 * reason. */
bool ends_flush(struct trial *trial, char *error, size_t size);
void ends_close(struct trial *trial);
#endif
