/* The shapes of a schedule in addition to a constant rate, as given by the user, and as plain
 * numbers once the frame size is known. pacing.h steps through them.
 *
 *   constant            bursts at equal distances (the default)
 *   poisson[:SEED]      bursts at independent, exponential distances, with the same mean rate
 *   on-off:ON:OFF       constant (or max) for ON, nothing for OFF, repeated
 *   ramp:FROM:TO:OVER   the rate changes linearly from FROM to TO, then stays at TO
 *   recorded            the times of the replayed file
 *
 * Times are 10ms, 500us, 1.5s; a number without a unit is seconds. */
#ifndef SM_SCHEDULE_H
#define SM_SCHEDULE_H

#include "traffic/rate.h"

enum schedule_shape {
    SCHEDULE_CONSTANT,
    SCHEDULE_POISSON,
    SCHEDULE_ON_OFF,
    SCHEDULE_RAMP,
    SCHEDULE_RECORDED
};

struct replay;

struct schedule {
    enum schedule_shape shape;
    uint64_t seed; /* Poisson */
    uint64_t on_ns, off_ns;
    struct rate from, to; /* rates of a ramp; one of them may be 0 */
    uint64_t over_ns;
};

/* The schedule for a sender: everything in frames per second and nanoseconds. */
struct schedule_plan {
    enum schedule_shape shape;
    double rate_pps; /* 0: max; for a ramp the final rate */
    double from_pps;
    uint64_t seed, on_ns, off_ns, over_ns;
    const struct replay *replay; /* recorded: the file with the times, and the number of frames */
    uint64_t frames;
};

bool schedule_parse(const char *text, struct schedule *schedule, char *error, size_t error_size);
const char *schedule_name(enum schedule_shape shape);

struct schedule_plan schedule_plan(const struct schedule *schedule, const struct rate *rate,
                                   uint64_t line_bps, double mean_frame_bytes);

/* Return true if line rate and rate are given as far as the schedule needs them; otherwise `error`
 * names the option. */
bool schedule_fits(const struct schedule *schedule, const struct rate *rate, uint64_t line_bps,
                   char *error, size_t error_size);

/* Frames are sent as fast as the port accepts them, all the time or in the on-times. */
static inline bool schedule_is_unlimited(const struct schedule *schedule, const struct rate *rate)
{
    return rate->amount == 0 && schedule->shape != SCHEDULE_RAMP &&
           schedule->shape != SCHEDULE_RECORDED;
}
#endif
