/* Checks command lines without opening a port, many in one process. */
#ifndef SM_SUBCOMMANDS_CHECK_H
#define SM_SUBCOMMANDS_CHECK_H

#include <stdbool.h>

/* Read command lines from standard input, one a line, their words separated by tabs and without the
 * program's name. Print a line for each: what is wrong with it, or nothing. Options and the file of
 * --replay are checked as at the start of the program; ports are not opened. Returns false if
 * memory runs out or standard input cannot be read. */
bool check_command_lines(void);
#endif
