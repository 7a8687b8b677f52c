/* Packet sockets (AF_PACKET) as `raw`, `packet_mmap` and others need them. */
#ifndef SM_IO_PACKET_H
#define SM_IO_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum packet_qdisc { PACKET_QDISC_PAST, PACKET_QDISC_THROUGH };
extern const char *const packet_qdisc_names[]; /* by enum packet_qdisc, ended by NULL */

/* A deaf socket (it receives nothing until it is bound): promiscuous on the device of this
 * index, not hearing what this host sends. -1: one line in `error`. */
int packet_socket(int index, unsigned qdisc, char *error, size_t error_size);

/* The kernel takes the outer VLAN tag off each frame, so that a tagged one looks like one without.
 * Who asks for no tags gets no more of it than the Ethernet header, which is no frame of ours. On
 * failure it is closed. */
bool packet_cut_tagged(int fd, char *error, size_t error_size);

/* Bind it to the device; `hears`: it receives every protocol from now on, else it only sends.
 * On failure it is closed. */
bool packet_bind(int fd, int index, bool hears, char *error, size_t error_size);

/* What the kernel dropped at the socket since the last call. */
uint64_t packet_drops(int fd);
#endif
