/* The shapes of a schedule other than a constant rate, as they were asked for, and as plain
 * numbers once the frame size is known. pacing.h steps through them.
 *
 *   constant            bursts at equal distances (the default)
 *   poisson[:SEED]      bursts at independent, exponential distances, with the same mean rate
 *   on-off:ON:OFF       constant (or max) for ON, nothing for OFF, again and again
 *   ramp:FROM:TO:OVER   the rate goes in a straight line from FROM to TO, then stays at TO
 *   recorded            the times of the file that is replayed
 *
 * Times are 10ms, 500us, 1.5s; a bare number is seconds. */
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
    uint64_t seed; /* poisson */
    uint64_t on_ns, off_ns;
    struct rate from, to; /* of a ramp; one of them may be 0 */
    uint64_t over_ns;
};

/* What a sender goes by: everything in frames a second and nanoseconds. */
struct schedule_plan {
    enum schedule_shape shape;
    double rate_pps; /* 0: max; of a ramp, what it ends with */
    double from_pps;
    uint64_t seed, on_ns, off_ns, over_ns;
    const struct replay *replay; /* recorded: whose times, and how many frames of it */
    uint64_t frames;
};

bool schedule_parse(const char *text, struct schedule *schedule, char *error, size_t error_size);
const char *schedule_name(enum schedule_shape shape);

struct schedule_plan schedule_plan(const struct schedule *schedule, const struct rate *rate,
                                   uint64_t line_bps, double mean_frame_bytes);

/* Does anything need a line rate that was not stated, or a rate that was not given? On failure
 * `error` names the option. */
bool schedule_fits(const struct schedule *schedule, const struct rate *rate, uint64_t line_bps,
                   char *error, size_t error_size);

/* As fast as the port takes it, all the time or in the on-times. */
static inline bool schedule_is_unlimited(const struct schedule *schedule, const struct rate *rate)
{
    return rate->amount == 0 && schedule->shape != SCHEDULE_RAMP &&
           schedule->shape != SCHEDULE_RECORDED;
}
#endif
