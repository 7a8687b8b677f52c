/* The largest cache line of an architecture's usual cores. What two threads write lies that far
 * apart, or each write would take the line from the other thread's core. */
#ifndef SM_CACHE_LINE_BYTES_H
#define SM_CACHE_LINE_BYTES_H

#if defined(__aarch64__)
#define CACHE_LINE_BYTES 128 /* most servers' have 64; some, and Apple's, 128 */
#else
#define CACHE_LINE_BYTES 64
#endif
#endif
