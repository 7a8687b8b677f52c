/* Error messages of one line. */
#ifndef SM_FAIL_H
#define SM_FAIL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

/* Write the message and return false, so that a check can end with this call. */
__attribute__((format(printf, 3, 4))) static inline bool fail(char *error, size_t size,
                                                              const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error, size, format, arguments);
    va_end(arguments);
    return false;
}
#endif
