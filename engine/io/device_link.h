/* Is a kernel's network device there, up, and with a carrier? Two cheap looks, neither of which
 * waits for a lock: the device's flags, whose carrier may be a second late, and where /sys tells,
 * how often the carrier was lost, so that a short loss between two looks shows. */
#ifndef SM_DEVICE_LINK_H
#define SM_DEVICE_LINK_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

struct device_link {
    char name[IFNAMSIZ]; /* empty: no device to look at */
    int fd;              /* a socket of its namespace, to ask by */
    int count_fd;        /* of the file in /sys, or -1 */
    uint64_t losses;     /* as it said last */
};

void device_link_open(struct device_link *link, const char *name);
void device_link_close(struct device_link *link);

/* Whether it is up now; adds to `lost` how often it has gone since the last look. */
bool device_link_look(struct device_link *link, unsigned *lost);
#endif
