/* The address of a TCP server as users write it: 198.18.0.2:5201, [2001:2::2]:5201. */
#ifndef SM_TCP_ADDRESS_H
#define SM_TCP_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define TCP_ADDRESS_TEXT_MAX 64

struct tcp_address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    };
    socklen_t length; /* 0: not given */
};

/* Return true if the text is an address and a port from 1 to 65535. Names of hosts are refused. */
bool tcp_address_parse(const char *text, struct tcp_address *address);

/* The text of an address, in the form that tcp_address_parse reads. */
void tcp_address_print(const struct tcp_address *address, char text[TCP_ADDRESS_TEXT_MAX]);

uint16_t tcp_address_port(const struct tcp_address *address);
#endif
