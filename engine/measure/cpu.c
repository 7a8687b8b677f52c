/* Reads statistics of the kernel about this process. */
#include "measure/cpu.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

static uint64_t timeval_ns(const struct timeval *t)
{
    return (uint64_t)t->tv_sec * 1000000000U + (uint64_t)t->tv_usec * 1000U;
}

void cpu_times_read(struct cpu_times *times)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    times->user_ns = timeval_ns(&usage.ru_utime);
    times->system_ns = timeval_ns(&usage.ru_stime);
    times->voluntary_switches = (uint64_t)usage.ru_nvcsw;
    times->involuntary_switches = (uint64_t)usage.ru_nivcsw;
}

static bool is_left_out(const char *name, const int *left_out, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (atoi(name) == left_out[i])
            return true;
    }
    return false;
}

/* "ran waited turns" */
static uint64_t read_waited(const char *path)
{
    uint64_t ran, waited;
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return 0;
    if (fscanf(file, "%" SCNu64 " %" SCNu64, &ran, &waited) != 2)
        waited = 0;
    fclose(file);
    return waited;
}

uint64_t cpu_run_delay_ns(const int *left_out, unsigned count)
{
    DIR *tasks = opendir("/proc/self/task");
    uint64_t sum = 0;
    struct dirent *entry;

    if (tasks == NULL)
        return 0;
    while ((entry = readdir(tasks)) != NULL) {
        char path[300];
        if (entry->d_name[0] == '.' || is_left_out(entry->d_name, left_out, count))
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", entry->d_name);
        sum += read_waited(path);
    }
    closedir(tasks);
    return sum;
}

uint64_t cpu_own_run_delay_ns(void)
{
    return read_waited("/proc/thread-self/schedstat");
}

/* "cpu", or "cpuN": user nice system idle iowait irq softirq steal ... */
struct cpu_stolen cpu_stolen_read(const int *cores, unsigned count)
{
    const uint64_t tick_ns = 1000000000U / (uint64_t)sysconf(_SC_CLK_TCK);
    struct cpu_stolen stolen = {0, 0};
    FILE *file = fopen("/proc/stat", "re");
    char line[512];

    while (file != NULL && fgets(line, sizeof line, file) != NULL && strncmp(line, "cpu", 3) == 0) {
        uint64_t steal;
        int core;
        if (sscanf(line, "cpu %*u %*u %*u %*u %*u %*u %*u %" SCNu64, &steal) == 1 &&
            line[3] == ' ') {
            stolen.all_ns = steal * tick_ns;
        } else if (sscanf(line, "cpu%d %*u %*u %*u %*u %*u %*u %*u %" SCNu64, &core, &steal) == 2) {
            for (unsigned i = 0; i < count; i++)
                stolen.cores_ns += cores[i] == core ? steal * tick_ns : 0;
        }
    }
    if (file != NULL)
        fclose(file);
    return stolen;
}
