/* Packet sockets (AF_PACKET) for `raw`, `packet_mmap` and other backends. */
#ifndef SM_IO_PACKET_H
#define SM_IO_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum packet_qdisc { PACKET_QDISC_PAST, PACKET_QDISC_THROUGH };
extern const char *const packet_qdisc_names[]; /* by enum packet_qdisc, ended by NULL */

/* A socket that receives nothing until it is bound, promiscuous on the device of this index,
 * without frames that this host sends. -1: one line in `error`. */
int packet_socket(int index, unsigned qdisc, char *error, size_t error_size);

/* The kernel removes the outer VLAN tag of each frame, so that a tagged frame looks like an
 * untagged frame. With this call, ports without tags get only the Ethernet header of a tagged
 * frame, which the engine does not mistake for its frames. On failure the socket is closed. */
bool packet_cut_tagged(int fd, char *error, size_t error_size);

/* Bind the socket to the device; `receives`: it receives every protocol from now on, otherwise it
 * only sends. On failure it is closed. */
bool packet_bind(int fd, int index, bool hears, char *error, size_t error_size);

/* Frames that the kernel dropped at the socket since the last call. */
uint64_t packet_drops(int fd);
#endif
