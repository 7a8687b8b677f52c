/* The options of the roles that use TCP sockets of the kernel. */
#ifndef SM_TCP_OPTIONS_H
#define SM_TCP_OPTIONS_H

#include <stdbool.h>

#include "tcp/address.h"

enum tcp_workload {
    TCP_RR,     /* requests and responses on connections that stay open */
    TCP_CRR,    /* a connection for each request, which the server closes after its response */
    TCP_STREAM, /* the client writes, the server only reads */
    TCP_HTTP,   /* as TCP_RR, with HTTP/1.1 */
};

#define TCP_MESSAGE_MAX (1ULL << 20)
#define TCP_CONNECTIONS_MAX 10000
#define TCP_SERVER_CONNECTIONS 4096 /* default */
#define TCP_MESSAGE_BYTES 64        /* default */
#define TCP_WRITE_BYTES 131072      /* default of the workload stream */
#define TCP_PATH_MAX 256
#define TCP_TIMEOUT_NS 5000000000ULL /* default */

struct tcp_options {
    struct tcp_address connect, listen;
    uint64_t workload;    /* enum tcp_workload */
    uint64_t connections; /* 0: default */
    bool connections_given;
    uint64_t request_bytes, response_bytes; /* 0: default */
    uint64_t timeout_ns;
    uint64_t spin_ns;       /* server: it computes for this time before each response */
    const char *congestion; /* NULL: as the kernel chooses */
    const char *path;       /* HTTP: path of the request */
};

const char *tcp_workload_name(uint64_t workload);
#endif
