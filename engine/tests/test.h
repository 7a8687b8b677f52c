/* Included by every unit test. */
#ifndef SM_TEST_H
#define SM_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Skip a test and print the reason: cmocka prints only its name. */
#define skip_because(reason)                                                                       \
    do {                                                                                           \
        print_message("[  REASON  ] %s\n", reason);                                                \
        skip();                                                                                    \
    } while (0)

/* A small random generator with a fixed seed: the same cases on every machine. */
static inline uint64_t test_random(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15ULL;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}
#endif
