/* One line that says why something cannot be, for whoever asked. */
#ifndef SM_FAIL_H
#define SM_FAIL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

/* Write the line; false, so that a check can end with it. */
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
