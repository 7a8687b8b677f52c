/* Parses rates, and converts them to frames per second. */
#include "traffic/rate.h"

#include <string.h>

#include "fail.h"
#include "options/value.h"

static const struct {
    const char *name;
    enum rate_unit unit;
} units[] = {
    {"", RATE_PPS},          {"pps", RATE_PPS},
    {"bps-l1", RATE_L1_BPS}, {"bit/s-l1", RATE_L1_BPS},
    {"bps-l2", RATE_L2_BPS}, {"bit/s-l2", RATE_L2_BPS},
};

static bool ends_with(const char *text, const char *ending)
{
    const size_t length = strlen(text), wanted = strlen(ending);
    return length > wanted && strcmp(text + length - wanted, ending) == 0;
}

/* "80%" or "80% of 10Gbps" */
static bool parse_share(const char *text, struct rate *rate)
{
    const char *rest = NULL;

    rate->unit = RATE_LINE_SHARE;
    if (!value_parse_decimal(text, 6, &rate->amount, &rest) || rate->amount < 1 ||
        rate->amount > RATE_WHOLE_LINE)
        return false;
    rest += strspn(rest, " ");
    if (*rest++ != '%')
        return false;
    rest += strspn(rest, " ");
    if (*rest == '\0')
        return true;
    return strncmp(rest, "of ", 3) == 0 &&
           rate_parse_line(rest + 2 + strspn(rest + 2, " "), &rate->line_bps);
}

static bool parse_amount(const char *text, struct rate *rate)
{
    const char *unit = NULL;

    if (!value_parse_scaled(text, &rate->amount, &unit))
        return false;
    for (unsigned i = 0; i < sizeof units / sizeof units[0]; i++) {
        rate->unit = units[i].unit;
        if (strcmp(unit, units[i].name) == 0)
            return true;
    }
    return false;
}

bool rate_parse(const char *text, struct rate *rate, char *error, size_t size)
{
    *rate = (struct rate){.unit = RATE_PPS};
    if (strcmp(text, "max") == 0)
        return true;
    if (strchr(text, '%') != NULL) {
        if (parse_share(text, rate))
            return true;
        return fail(
            error, size,
            "'%s' is not a share of the line from 0.000001%% to 100%%, such as 80%%, or 80%% "
            "of 10Gbps",
            text);
    }
    if (ends_with(text, "bps") || ends_with(text, "bit/s"))
        return fail(error, size,
                    "'%s' does not name its layer: write %s-l1 (20 bytes a frame more, as on the "
                    "wire) or %s-l2 (the frames with FCS)",
                    text, text, text);
    const bool read = parse_amount(text, rate);
    const uint64_t most = rate->unit == RATE_PPS ? RATE_PPS_MAX : RATE_BPS_MAX;
    if (read && rate->amount >= 1 && rate->amount <= most)
        return true;
    return fail(error, size,
                "'%s' is neither 'max' nor a rate from 1 to 10G frames/s (1.5M), in bits up to 10T "
                "(1Gbps-l1, 500Mbps-l2), or a share of a line (80%%, 80%% of 10Gbps)",
                text);
}

bool rate_parse_line(const char *text, uint64_t *line_bps)
{
    static const char *const names[] = {"bps", "bit/s", "bps-l1", "bit/s-l1"};
    const char *unit = NULL;

    if (!value_parse_scaled(text, line_bps, &unit) || *line_bps < 1 || *line_bps > RATE_BPS_MAX)
        return false;
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(unit, names[i]) == 0)
            return true;
    }
    return false;
}

bool rate_lacks_line(const struct rate *rate, uint64_t line_bps)
{
    return rate->amount > 0 && rate->unit == RATE_LINE_SHARE && rate->line_bps == 0 &&
           line_bps == 0;
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
        return amount / (double)RATE_WHOLE_LINE *
               (double)(rate->line_bps > 0 ? rate->line_bps : line_bps) / l1_bits;
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
