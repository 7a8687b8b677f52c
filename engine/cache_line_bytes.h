/* The largest cache line of the usual cores of an architecture. Variables that two threads write
 * have this distance: in one line, each write would take the line from the core of the other
 * thread. */
#ifndef SM_CACHE_LINE_BYTES_H
#define SM_CACHE_LINE_BYTES_H

#if defined(__aarch64__)
#define CACHE_LINE_BYTES 128 /* most servers have 64; some servers, and Apple, have 128 */
#else
#define CACHE_LINE_BYTES 64
#endif
#endif
