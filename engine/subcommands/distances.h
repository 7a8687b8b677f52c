/* How long a cache line takes between the cores of this machine, measured on request. */
#ifndef SM_SUBCOMMANDS_DISTANCES_H
#define SM_SUBCOMMANDS_DISTANCES_H

/* The subcommand `cache-line CORES`: print a measurement as a JSON line at once, and another for
 * each line of standard input until end of file. Returns the exit code. */
int distances_serve(const int *cores, unsigned count);
#endif
