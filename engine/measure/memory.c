/* Reads statistics of the kernel about memory. */
#include "measure/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fail.h"

#define PATH_BYTES 1024

/* Files of the two versions of control groups. */
static const struct accounts {
    const char *folders[3]; /* below /sys/fs/cgroup, possible mount points */
    const char *limit, *used, *cached[2];
} versions[] = {
    {{"", "/unified", NULL}, "memory.max", "memory.current", {"inactive_file ", "active_file "}},
    {{"/memory", NULL},
     "memory.limit_in_bytes",
     "memory.usage_in_bytes",
     {"total_inactive_file ", "total_active_file "}},
};

/* The number behind `key` at the beginning of a line ("": in the first line); `missing` if there is
 * no such file, line or number ("max"). */
static uint64_t read_number(const char *folder, const char *file, const char *key, uint64_t missing)
{
    char path[PATH_BYTES + 64], line[256];
    uint64_t value = missing;

    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return missing;
    while (fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        if (sscanf(line + strlen(key), " %" SCNu64, &value) != 1)
            value = missing;
        break;
    }
    fclose(f);
    return value;
}

/* Free memory of one group; pages of files are reclaimed if memory is short. */
static uint64_t left_in_group(const struct accounts *v, const char *folder)
{
    const uint64_t limit = read_number(folder, v->limit, "", UINT64_MAX);
    const uint64_t used = read_number(folder, v->used, "", 0);
    const uint64_t cached = read_number(folder, "memory.stat", v->cached[0], 0) +
                            read_number(folder, "memory.stat", v->cached[1], 0);
    const uint64_t in_use = used > cached ? used - cached : 0;

    if (limit == UINT64_MAX)
        return UINT64_MAX;
    return limit > in_use ? limit - in_use : 0;
}

/* The minimum over the group and all visible groups above it. */
static uint64_t left_in_groups(const struct accounts *v, const char *groups, const char *group)
{
    uint64_t least = UINT64_MAX;

    for (unsigned i = 0; v->folders[i] != NULL; i++) {
        char folder[PATH_BYTES];
        const int top = snprintf(folder, sizeof folder, "%s%s", groups, v->folders[i]);
        snprintf(folder + top, sizeof folder - (size_t)top, "%s", group);
        for (;;) {
            const uint64_t left = left_in_group(v, folder);
            least = left < least ? left : least;
            char *slash = strrchr(folder + top, '/');
            if (slash == NULL)
                break;
            *slash = '\0';
        }
    }
    return least;
}

/* "4:memory:/a/b" in version 1, "0::/a/b" in version 2. */
uint64_t memory_left(const char *proc, const char *groups)
{
    const uint64_t available_kib = read_number(proc, "meminfo", "MemAvailable:", UINT64_MAX >> 10);
    const uint64_t swap_kib = read_number(proc, "meminfo", "SwapFree:", 0);
    uint64_t least = (available_kib << 10) + (swap_kib << 10);
    char path[PATH_BYTES], line[PATH_BYTES / 2];

    snprintf(path, sizeof path, "%s/self/cgroup", proc);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char *controllers = strchr(line, ':');
        char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (group == NULL)
            continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        if (strcmp(controllers, ":") != 0 && strstr(controllers, "memory") == NULL)
            continue;
        const struct accounts *v = &versions[strcmp(controllers, ":") != 0];
        const uint64_t left = left_in_groups(v, groups, group);
        least = left < least ? left : least;
    }
    if (file != NULL)
        fclose(file);
    return least;
}

bool memory_suffices(uint64_t bytes, const char *purpose, char *error, size_t size)
{
    const uint64_t left = memory_left("/proc", "/sys/fs/cgroup");

    if (bytes <= left)
        return true;
    return fail(error, size,
                "%swould take %" PRIu64
                " MB of memory, and the machine or its control group leaves "
                "%" PRIu64,
                purpose, (bytes >> 20) + 1, left >> 20);
}

void *memory_map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void memory_unmap(void *memory, size_t bytes)
{
    if (memory != NULL)
        munmap(memory, bytes);
}

/* The content stays the same. A kernel before 5.14 refuses the call, and pages come one by one. */
void memory_populate(void *memory, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t first = (uintptr_t)memory & ~(page - 1);
    const uintptr_t end = ((uintptr_t)memory + bytes + page - 1) & ~(page - 1);

    (void)madvise((void *)first, end - first, MADV_POPULATE_WRITE);
}
