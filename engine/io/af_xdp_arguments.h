/* The arguments of an `af_xdp` port. */
#ifndef SM_IO_AF_XDP_ARGUMENTS_H
#define SM_IO_AF_XDP_ARGUMENTS_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>

#define XDP_QUEUES_MAX 16

enum xdp_mode { XDP_MODE_AUTO, XDP_MODE_ZEROCOPY, XDP_MODE_COPY };

struct xdp_arguments {
    char device[IFNAMSIZ];
    unsigned queues, queue;
    unsigned mode; /* enum xdp_mode */
    bool busy_poll;
    bool block;
};

/* False: one line in `error`. */
bool xdp_parse(const char *text, struct xdp_arguments *arguments, char *error, size_t error_size);
bool xdp_check(const char *text, char *error, size_t error_size);

#endif
