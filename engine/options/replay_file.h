/* The file of --replay, prepared as the options require. */
#ifndef SM_OPTIONS_REPLAY_FILE_H
#define SM_OPTIONS_REPLAY_FILE_H

#include "options/options.h"
#include "traffic/replay.h"

/* Load the opened file and prepare its frames; false (one line in `error`, no memory in use) if it
 * cannot be sent with these options. */
bool replay_file_load(struct replay *replay, int fd, const struct options *options, char *error,
                      size_t size);
#endif
