/* Loads the file of --replay. */
#include "options/replay_file.h"

static bool fits(struct replay *replay, const struct options *o, char *error, size_t size)
{
    if (o->stamp && !replay_stamp_all(replay, (uint16_t)o->stream, error, size))
        return false;
    return o->traffic.schedule.shape != SCHEDULE_RECORDED ||
           replay_repeats(replay, o->loops, error, size);
}

bool replay_file_load(struct replay *replay, int fd, const struct options *options, char *error,
                      size_t size)
{
    if (!replay_load(replay, fd, options->replay_path, error, size))
        return false;
    if (fits(replay, options, error, size))
        return true;
    replay_free(replay);
    return false;
}
