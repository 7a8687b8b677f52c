/* Parses and prints the address of a TCP server. */
#include "tcp/address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "options/value.h"

static bool parse_port(const char *text, in_port_t *port)
{
    uint64_t number = 0;

    if (!value_parse_digits(text, strlen(text), &number) || number < 1 || number > 65535)
        return false;
    *port = htons((uint16_t)number);
    return true;
}

bool tcp_address_parse(const char *text, struct tcp_address *address)
{
    const bool bracketed = text[0] == '[';
    const char *begin = text + bracketed;
    const char *end = bracketed ? strchr(begin, ']') : strrchr(begin, ':');
    char host[INET6_ADDRSTRLEN];
    in_port_t port = 0;

    memset(address, 0, sizeof *address);
    if (end == NULL || (bracketed && end[1] != ':') || (size_t)(end - begin) >= sizeof host ||
        !parse_port(end + 1 + bracketed, &port))
        return false;
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    if (bracketed) {
        if (inet_pton(AF_INET6, host, &address->v6.sin6_addr) != 1)
            return false;
        address->v6.sin6_family = AF_INET6;
        address->v6.sin6_port = port;
        address->length = sizeof address->v6;
        return true;
    }
    if (inet_pton(AF_INET, host, &address->v4.sin_addr) != 1)
        return false;
    address->v4.sin_family = AF_INET;
    address->v4.sin_port = port;
    address->length = sizeof address->v4;
    return true;
}

uint16_t tcp_address_port(const struct tcp_address *address)
{
    return ntohs(address->any.sa_family == AF_INET6 ? address->v6.sin6_port : address->v4.sin_port);
}

void tcp_address_print(const struct tcp_address *address, char text[TCP_ADDRESS_TEXT_MAX])
{
    char host[INET6_ADDRSTRLEN] = "";
    const bool v6 = address->any.sa_family == AF_INET6;

    inet_ntop(address->any.sa_family,
              v6 ? (const void *)&address->v6.sin6_addr : (const void *)&address->v4.sin_addr, host,
              sizeof host);
    snprintf(text, TCP_ADDRESS_TEXT_MAX, v6 ? "[%s]:%u" : "%s:%u", host, tcp_address_port(address));
}
