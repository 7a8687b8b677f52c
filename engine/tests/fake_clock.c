/* The kernel's clock in a test's hands: it goes on by the looks at it alone, so what happens does
 * not depend on when the process ran. For programs linked with --wrap=clock_gettime; the engine's
 * ticks are its nanoseconds as long as clock_begin has not chosen others. */
#include <time.h>

#define LOOK_NS 10000
#define NS_PER_S 1000000000L

int __wrap_clock_gettime(clockid_t id, struct timespec *now);

int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
    static struct timespec told = {.tv_sec = 1000};

    (void)id;
    told.tv_nsec += LOOK_NS;
    if (told.tv_nsec >= NS_PER_S) {
        told.tv_sec++;
        told.tv_nsec -= NS_PER_S;
    }
    *now = told;
    return 0;
}
