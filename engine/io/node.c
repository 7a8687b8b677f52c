/* Nodes are files and directories in sysfs. */
#include "io/node.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <sys/random.h>
#include <sys/stat.h>

#define NODES_MAX 64
#define WHOLE_ADDRESS "0000:00:00.0"

void random_fill(void *bytes, size_t size)
{
    uint8_t *byte = bytes;
    struct timespec now;

    if (getrandom(bytes, size, GRND_NONBLOCK) == (ssize_t)size)
        return;
    clock_gettime(CLOCK_REALTIME, &now); /* the kernel has just booted */
    for (size_t i = 0; i < size; i++)
        byte[i] = (uint8_t)((uint64_t)now.tv_nsec >> 8 * (i % 4));
}

int node_of_function(const char *sys, const char *address)
{
    const char *domain = strlen(address) < sizeof WHOLE_ADDRESS - 1 ? "0000:" : "";
    char path[512];
    int node = NODE_UNKNOWN;

    snprintf(path, sizeof path, "%s/bus/pci/devices/%s%s/numa_node", sys, domain, address);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return NODE_UNKNOWN;
    if (fscanf(file, "%d", &node) != 1 || node < 0 || node >= NODES_MAX)
        node = NODE_UNKNOWN;
    fclose(file);
    return node;
}

int node_of_core(const char *sys, int core)
{
    struct stat found;

    for (int node = 0; node < NODES_MAX; node++) {
        char path[512];
        snprintf(path, sizeof path, "%s/devices/system/cpu/cpu%d/node%d", sys, core, node);
        if (stat(path, &found) == 0)
            return node;
    }
    return NODE_UNKNOWN;
}
