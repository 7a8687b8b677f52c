/* Checks that a kernel network device exists, is up and has a carrier, with two cheap queries that
 * wait for no lock. The flags of the device show the carrier up to a second late. If /sys has a
 * count of lost carriers, a short loss between two checks is also visible. */
#ifndef SM_DEVICE_LINK_H
#define SM_DEVICE_LINK_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

struct device_link {
    char name[IFNAMSIZ]; /* empty: no device to check */
    int index;           /* its number in the kernel */
    int fd;              /* a socket in the namespace of the device, for queries */
    int count_fd;        /* the count in /sys, or -1 */
    uint64_t losses;     /* last value of the count */
};

void device_link_open(struct device_link *link, const char *name);
void device_link_close(struct device_link *link);

/* Return true if the device is up now; adds to `lost` how often it was lost since the last check.
 */
bool device_link_check(struct device_link *link, unsigned *lost);

/* After ENETDOWN: return true if the device still exists, so that it may go up again, and add one
 * to `lost`. A device that was removed, replaced or moved to another namespace does not come back.
 */
bool device_link_is_only_down(const struct device_link *link, unsigned *lost);
#endif
