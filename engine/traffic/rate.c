/* Reading rates, and turning them into frames a second. */
#include "traffic/rate.h"

#include <stdio.h>
#include <string.h>

#include "options_value.h"

static const struct {
    const char *ending;
    enum rate_unit unit;
} endings[] = {
    {"bps-l1", RATE_L1_BPS},   {"bit/s-l1", RATE_L1_BPS}, {"bps-l2", RATE_L2_BPS},
    {"bit/s-l2", RATE_L2_BPS}, {"pps", RATE_PPS},
};

static bool ends_with(const char *text, const char *ending)
{
    const size_t length = strlen(text), wanted = strlen(ending);
    return length > wanted && strcmp(text + length - wanted, ending) == 0;
}

/* The count in front of an ending of the text. */
static bool parse_front(const char *text, const char *ending, uint64_t *count)
{
    char front[32];
    const size_t length = strlen(text) - strlen(ending);

    if (length >= sizeof front)
        return false;
    memcpy(front, text, length);
    front[length] = '\0';
    return value_parse_count(front, count);
}

static bool parse_share(const char *text, struct rate *rate)
{
    const char *rest = NULL;

    rate->unit = RATE_LINE_SHARE;
    return value_parse_decimal(text, 6, &rate->amount, &rest) && strcmp(rest, "%") == 0 &&
           rate->amount >= 1 && rate->amount <= RATE_WHOLE_LINE;
}

static bool parse_amount(const char *text, struct rate *rate)
{
    for (unsigned i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        if (!ends_with(text, endings[i].ending))
            continue;
        rate->unit = endings[i].unit;
        return parse_front(text, endings[i].ending, &rate->amount);
    }
    rate->unit = RATE_PPS;
    return value_parse_count(text, &rate->amount);
}

bool rate_parse(const char *text, struct rate *rate, char *error, size_t size)
{
    *rate = (struct rate){0, RATE_PPS};
    if (strcmp(text, "max") == 0)
        return true;
    if (ends_with(text, "bps") || ends_with(text, "bit/s")) {
        snprintf(error, size,
                 "'%s' does not name its layer: write %s-l1 (20 bytes a frame more, as on the "
                 "wire) or %s-l2 (the frames with FCS)",
                 text, text, text);
        return false;
    }
    if (ends_with(text, "%")) {
        if (parse_share(text, rate))
            return true;
        snprintf(error, size, "'%s' is not a share of the line from 0.000001%% to 100%%", text);
        return false;
    }
    const bool read = parse_amount(text, rate);
    const uint64_t most = rate->unit == RATE_PPS ? RATE_PPS_MAX : RATE_BPS_MAX;
    if (read && rate->amount >= 1 && rate->amount <= most)
        return true;
    snprintf(error, size,
             "'%s' is neither 'max' nor a rate from 1 to 10G frames/s (1.5M), in bits up to 10T "
             "(1Gbps-l1, 500Mbps-l2), or a share of --line-rate (80%%)",
             text);
    return false;
}

bool rate_parse_line(const char *text, uint64_t *line_bps)
{
    const char *const line_endings[] = {"bps", "bit/s"};

    for (unsigned i = 0; i < 2; i++) {
        if (ends_with(text, line_endings[i]))
            return parse_front(text, line_endings[i], line_bps) && *line_bps >= 1000 &&
                   *line_bps <= RATE_BPS_MAX;
    }
    return false;
}

double rate_pps(const struct rate *rate, uint64_t line_bps, double mean_frame_bytes)
{
    const double amount = (double)rate->amount;
    const double l1_bits = 8.0 * (mean_frame_bytes + WIRE_OVERHEAD_BYTES);

    switch (rate->unit) {
    case RATE_L1_BPS:
        return amount / l1_bits;
    case RATE_L2_BPS:
        return amount / (8.0 * mean_frame_bytes);
    case RATE_LINE_SHARE:
        return amount / (double)RATE_WHOLE_LINE * (double)line_bps / l1_bits;
    default:
        return amount;
    }
}

double rate_l1_bps(double pps, double mean_frame_bytes)
{
    return pps * 8.0 * (mean_frame_bytes + WIRE_OVERHEAD_BYTES);
}

double rate_l2_bps(double pps, double mean_frame_bytes)
{
    return pps * 8.0 * mean_frame_bytes;
}
