/* The file of --replay, as the options ask for it. */
#ifndef SM_OPTIONS_REPLAY_FILE_H
#define SM_OPTIONS_REPLAY_FILE_H

#include "options/options.h"
#include "traffic/replay.h"

/* Load the opened file and prepare its frames; false (one line in `error`, and nothing is held) if
 * it cannot be sent as the options say. */
bool replay_file_load(struct replay *replay, int fd, const struct options *options, char *error,
                      size_t size);
#endif
