/* A real-time clock that can be stepped, for the programs into which it is preloaded.
 *
 * The seconds by which it is ahead are an int64 in the file that FAULTS_CLOCK names, so that a step
 * comes at once to all of them. Every other clock goes on as it does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int (*real_gettime)(clockid_t, struct timespec *);
static const volatile int64_t *ahead_s;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("FAULTS_CLOCK");
    const int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);

    real_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    if (file < 0)
        return;
    void *page = mmap(NULL, sizeof *ahead_s, PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED)
        ahead_s = page;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    const int failed = real_gettime != NULL ? real_gettime(clock, now)
                                            : (int)syscall(SYS_clock_gettime, clock, now);

    if (failed == 0 && ahead_s != NULL &&
        (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += *ahead_s;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec precise;

    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &precise) != 0)
        return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result)
{
    struct timespec precise;

    if (clock_gettime(CLOCK_REALTIME, &precise) != 0)
        return -1;
    if (result != NULL)
        *result = precise.tv_sec;
    return precise.tv_sec;
}
