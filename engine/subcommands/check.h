/* Checks many command lines in one process, without opening a port. */
#ifndef SM_SUBCOMMANDS_CHECK_H
#define SM_SUBCOMMANDS_CHECK_H

#include <stdbool.h>

/* Read command lines from standard input, one per line, with arguments separated by tabs and
 * without the name of the program. Print a line for each: its error, or nothing. Options and the
 * file of --replay are checked as at the start of the program; ports are not opened. Returns false
 * if memory is missing or standard input cannot be read. */
bool check_command_lines(void);
#endif
