/* Parses schedules, and makes the plan of a schedule. */
#include "traffic/schedule.h"

#include <stdio.h>
#include <string.h>

#include "fail.h"
#include "options/value.h"

#define PARTS_MAX 4
#define PART_BYTES 40
#define TIME_MAX_NS (1000000ULL * 1000000000ULL)
#define EXAMPLES "constant, poisson, poisson:7, on-off:10ms:90ms, ramp:1k:1M:10s or recorded"

static const char *const names[] = {"constant", "poisson", "on-off", "ramp", "recorded", NULL};

const char *schedule_name(enum schedule_shape shape)
{
    return names[shape];
}

/* Split at colons; returns the number of parts, 0 if there are too many or a part is too long. */
static unsigned split(const char *text, char parts[PARTS_MAX][PART_BYTES])
{
    unsigned count = 0;

    for (;; text++) {
        const size_t length = strcspn(text, ":");
        if (count == PARTS_MAX || length >= PART_BYTES)
            return 0;
        memcpy(parts[count], text, length);
        parts[count++][length] = '\0';
        text += length;
        if (*text == '\0')
            return count;
    }
}

static bool parse_time(const char *text, uint64_t *ns)
{
    return value_parse_time(text, ns) && *ns > 0 && *ns <= TIME_MAX_NS;
}

static bool parse_on_off(char parts[PARTS_MAX][PART_BYTES], unsigned count, struct schedule *s,
                         char *error, size_t size)
{
    if (count == 3 && parse_time(parts[1], &s->on_ns) && parse_time(parts[2], &s->off_ns))
        return true;
    return fail(error, size, "on-off needs two times above 0, such as on-off:10ms:90ms");
}

static bool parse_end(const char *text, struct rate *rate, char *error, size_t size)
{
    char reason[224];

    if (strcmp(text, "0") == 0) {
        *rate = (struct rate){.unit = RATE_PPS};
        return true;
    }
    if (strcmp(text, "max") == 0)
        snprintf(error, size, "a ramp needs rates at both ends, not 'max'");
    else if (rate_parse(text, rate, reason, sizeof reason))
        return true;
    else
        snprintf(error, size, "ramp: %s", reason);
    return false;
}

static bool parse_ramp(char parts[PARTS_MAX][PART_BYTES], unsigned count, struct schedule *s,
                       char *error, size_t size)
{
    if (count != 4 || !parse_time(parts[3], &s->over_ns))
        return fail(error, size, "ramp needs two rates and a time, such as ramp:1k:1M:10s");
    if (!parse_end(parts[1], &s->from, error, size) || !parse_end(parts[2], &s->to, error, size))
        return false;
    if (s->from.amount == 0 && s->to.amount == 0)
        return fail(error, size, "a ramp from 0 to 0 sends nothing");
    return true;
}

bool schedule_parse(const char *text, struct schedule *s, char *error, size_t size)
{
    char parts[PARTS_MAX][PART_BYTES];
    const unsigned count = split(text, parts);
    unsigned shape = 0;

    *s = (struct schedule){.seed = 1};
    while (count > 0 && names[shape] != NULL && strcmp(names[shape], parts[0]) != 0)
        shape++;
    if (count == 0 || names[shape] == NULL)
        return fail(error, size, "'%.60s' is not a schedule: " EXAMPLES, text);
    s->shape = (enum schedule_shape)shape;
    switch (s->shape) {
    case SCHEDULE_ON_OFF:
        return parse_on_off(parts, count, s, error, size);
    case SCHEDULE_RAMP:
        return parse_ramp(parts, count, s, error, size);
    case SCHEDULE_POISSON:
        if (count == 1 || (count == 2 && value_parse_count(parts[1], &s->seed)))
            return true;
        return fail(error, size, "poisson takes at most a seed, such as poisson:7");
    default:
        if (count > 1)
            snprintf(error, size, "%s takes nothing more", parts[0]);
        return count == 1;
    }
}

bool schedule_fits(const struct schedule *s, const struct rate *rate, uint64_t line_bps,
                   char *error, size_t size)
{
    const bool ramp = s->shape == SCHEDULE_RAMP;
    const bool lacks =
        ramp ? rate_lacks_line(&s->from, line_bps) || rate_lacks_line(&s->to, line_bps)
             : rate_lacks_line(rate, line_bps);

    if (lacks) {
        snprintf(
            error, size,
            "--%s: a share of which line? write e.g. 80%% of 10Gbps, or give --line-rate 10Gbps",
            ramp ? "schedule" : "rate");
        return false;
    }
    if (s->shape == SCHEDULE_POISSON && rate->amount == 0)
        return fail(error, size, "--schedule: poisson needs a mean --rate, such as 100k");
    return true;
}

struct schedule_plan schedule_plan(const struct schedule *s, const struct rate *rate,
                                   uint64_t line_bps, double mean_frame_bytes)
{
    const bool ramp = s->shape == SCHEDULE_RAMP;

    return (struct schedule_plan){
        .shape = s->shape,
        .rate_pps = rate_pps(ramp ? &s->to : rate, line_bps, mean_frame_bytes),
        .from_pps = ramp ? rate_pps(&s->from, line_bps, mean_frame_bytes) : 0.0,
        .seed = s->seed,
        .on_ns = s->on_ns,
        .off_ns = s->off_ns,
        .over_ns = s->over_ns,
    };
}
