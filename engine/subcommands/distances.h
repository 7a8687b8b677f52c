/* How far the cores of this machine are from each other, told as often as it is asked. */
#ifndef SM_SUBCOMMANDS_DISTANCES_H
#define SM_SUBCOMMANDS_DISTANCES_H

/* The subcommand `cache-line CORES`: a reading as a JSON line at once, and another for each line
 * of standard input, until that ends. Returns the exit code. */
int distances_serve(const int *cores, unsigned count);
#endif
