/* The kernel's clock under control of a test: it advances only when it is read, so that results do
 * not depend on when the process ran. For programs linked with --wrap=clock_gettime; the ticks of
 * the engine are its nanoseconds unless clock_begin has chosen others. */
#include <time.h>

#define LOOK_NS 10000
#define NS_PER_S 1000000000L

int __wrap_clock_gettime(clockid_t id, struct timespec *now);

int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
    static struct timespec current = {.tv_sec = 1000};

    (void)id;
    current.tv_nsec += LOOK_NS;
    if (current.tv_nsec >= NS_PER_S) {
        current.tv_sec++;
        current.tv_nsec -= NS_PER_S;
    }
    *now = current;
    return 0;
}
