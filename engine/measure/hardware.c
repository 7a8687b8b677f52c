/* Requests hardware counters from the kernel, and explains why it refuses. */
#include "measure/hardware.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DTLB_READ_MISSES                                                                           \
    (PERF_COUNT_HW_CACHE_DTLB | PERF_COUNT_HW_CACHE_OP_READ << 8 |                                 \
     PERF_COUNT_HW_CACHE_RESULT_MISS << 16)

const char *const hardware_names[HARDWARE_EVENTS] = {"cycles", "instructions", "branch_misses",
                                                     "cache_misses", "dtlb_misses"};

static const struct {
    uint32_t type;
    uint64_t config;
} events[HARDWARE_EVENTS] = {
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES},
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
    {PERF_TYPE_HW_CACHE, DTLB_READ_MISSES},
};

static int open_event(unsigned event, bool with_kernel)
{
    struct perf_event_attr attributes = {
        .size = sizeof attributes,
        .type = events[event].type,
        .config = events[event].config,
        .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
        .disabled = 1,
        .inherit = 1,
        .exclude_kernel = !with_kernel,
        .exclude_hv = 1,
    };
    return (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void say_why(struct hardware *h, unsigned event, int error)
{
    if (h->reason[0] != '\0')
        return; /* the first reason is enough */
    if (error == EACCES || error == EPERM)
        snprintf(h->reason, sizeof h->reason,
                 "%s: not allowed; lower /proc/sys/kernel/perf_event_paranoid or give CAP_PERFMON",
                 hardware_names[event]);
    else if (error == ENOENT || error == EOPNOTSUPP || error == ENODEV)
        snprintf(h->reason, sizeof h->reason,
                 "%s: this machine has no such counter (a virtual one often has none)",
                 hardware_names[event]);
    else if (error == ENOSYS)
        snprintf(h->reason, sizeof h->reason, "this kernel has no perf events");
    else
        snprintf(h->reason, sizeof h->reason, "%s: %s", hardware_names[event], strerror(error));
}

void hardware_open(struct hardware *h)
{
    memset(h, 0, sizeof *h);
    h->with_kernel = true;
    for (unsigned i = 0; i < HARDWARE_EVENTS; i++) {
        h->fds[i] = open_event(i, h->with_kernel);
        if (h->fds[i] < 0 && (errno == EACCES || errno == EPERM) && h->with_kernel) {
            h->with_kernel = false; /* an ordinary user may count events in user space */
            h->fds[i] = open_event(i, false);
        }
        if (h->fds[i] < 0)
            say_why(h, i, errno);
    }
}

void hardware_start(struct hardware *h)
{
    for (unsigned i = 0; i < HARDWARE_EVENTS; i++) {
        if (h->fds[i] >= 0)
            ioctl(h->fds[i], PERF_EVENT_IOC_ENABLE, 0);
    }
}

static void read_event(struct hardware *h, unsigned event)
{
    struct {
        uint64_t value, enabled, running;
    } seen;

    if (read(h->fds[event], &seen, sizeof seen) != (ssize_t)sizeof seen || seen.running == 0) {
        close(h->fds[event]);
        h->fds[event] = -1;
        if (h->reason[0] == '\0')
            snprintf(h->reason, sizeof h->reason, "%s: was never given a counter",
                     hardware_names[event]);
        return;
    }
    const double share = (double)seen.running / (double)seen.enabled;
    h->counts[event] = (uint64_t)((double)seen.value / share);
    if (share < h->counted_share)
        h->counted_share = share;
}

void hardware_finish(struct hardware *h)
{
    h->counted_share = 1.0;
    for (unsigned i = 0; i < HARDWARE_EVENTS; i++) {
        if (h->fds[i] >= 0)
            ioctl(h->fds[i], PERF_EVENT_IOC_DISABLE, 0);
    }
    for (unsigned i = 0; i < HARDWARE_EVENTS; i++) {
        if (h->fds[i] < 0)
            continue;
        read_event(h, i);
        if (h->fds[i] >= 0)
            close(h->fds[i]);
    }
}
