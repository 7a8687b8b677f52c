/* Sockets of the TCP roles. All of them are non-blocking and have TCP_NODELAY. */
#ifndef SM_TCP_SOCKETS_H
#define SM_TCP_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>

#include "tcp/options.h"

#define TCP_CONGESTION_NAME_MAX 16

/* A socket that is not connected yet; -1 with errno: none. */
int tcp_socket_make(const struct tcp_options *options, const struct tcp_address *address);

/* A listening socket, or -1 and one line in `error`. Accepted sockets inherit TCP_NODELAY and the
 * congestion control. */
int tcp_socket_listen(const struct tcp_options *options, char *error, size_t size);

/* The name of the congestion control of a socket; empty: unknown. */
void tcp_socket_congestion(int socket, char name[TCP_CONGESTION_NAME_MAX]);

/* Make sure that this process may open so many sockets; otherwise one line in `error`. A number
 * that the user has not given is lowered to the limit. */
bool tcp_sockets_suffice(uint64_t *sockets, bool given, char *error, size_t size);

/* Return true if the algorithm can be used with the rights that the engine keeps; otherwise one
 * line in `error`. */
bool tcp_congestion_is_permitted(const struct tcp_options *options, char *error, size_t size);
#endif
