/* Checks the state of a device. */
#include "io/device_link.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static bool read_losses(const struct device_link *link, uint64_t *losses)
{
    char text[24];
    const ssize_t n = link->count_fd >= 0 ? pread(link->count_fd, text, sizeof text - 1, 0) : -1;

    if (n <= 0)
        return false;
    text[n] = '\0';
    *losses = strtoull(text, NULL, 10);
    return true;
}

/* /sys may show another namespace, where a device of this name is another device. */
static bool is_same_device(const char *name)
{
    char path[64], text[24] = "";

    snprintf(path, sizeof path, "/sys/class/net/%s/ifindex", name);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    return n > 0 && (unsigned)strtoul(text, NULL, 10) == if_nametoindex(name);
}

void device_link_open(struct device_link *link, const char *name)
{
    char path[64];

    *link = (struct device_link){.fd = -1, .count_fd = -1};
    if (name[0] == '\0')
        return;
    snprintf(link->name, sizeof link->name, "%.15s", name);
    link->index = (int)if_nametoindex(name);
    link->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(path, sizeof path, "/sys/class/net/%s/carrier_down_count", name);
    if (is_same_device(name))
        link->count_fd = open(path, O_RDONLY | O_CLOEXEC);
    read_losses(link, &link->losses);
}

void device_link_close(struct device_link *link)
{
    if (link->name[0] == '\0')
        return;
    if (link->fd >= 0)
        close(link->fd);
    if (link->count_fd >= 0)
        close(link->count_fd);
}

bool device_link_check(struct device_link *link, unsigned *lost)
{
    struct ifreq request = {0};
    uint64_t losses = link->losses;

    if (link->name[0] == '\0' || link->fd < 0)
        return true; /* unknown */
    if (read_losses(link, &losses) && losses > link->losses) {
        __atomic_fetch_add(lost, (unsigned)(losses - link->losses), __ATOMIC_RELAXED);
        link->losses = losses;
    }
    memcpy(request.ifr_name, link->name, sizeof link->name);
    if (ioctl(link->fd, SIOCGIFFLAGS, &request) != 0)
        return false; /* the device is gone */
    return (request.ifr_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
}

bool device_link_is_only_down(const struct device_link *link, unsigned *lost)
{
    struct ifreq request = {0};

    if (link->name[0] == '\0' || link->fd < 0)
        return false;
    memcpy(request.ifr_name, link->name, sizeof link->name);
    if (ioctl(link->fd, SIOCGIFINDEX, &request) != 0 || request.ifr_ifindex != link->index)
        return false;
    __atomic_fetch_add(lost, 1, __ATOMIC_RELAXED);
    return true;
}
