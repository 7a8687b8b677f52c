/* A rate as it was asked for: frames a second, bits a second of layer 1 or 2, or a share of a
 * stated line rate. What a sender needs is frames a second, and that takes the mean frame size.
 * A bit rate must name its layer: at 64 bytes the two lie 31 % apart. */
#ifndef SM_RATE_H
#define SM_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_OVERHEAD_BYTES 20 /* preamble, start delimiter, inter-frame gap */
#define RATE_PPS_MAX 10000000000ULL
#define RATE_BPS_MAX 10000000000000ULL
#define RATE_WHOLE_LINE 100000000ULL /* 100 %, in millionths of a percent */

enum rate_unit { RATE_PPS, RATE_L1_BPS, RATE_L2_BPS, RATE_LINE_SHARE };

struct rate {
    uint64_t amount; /* 0: none (as fast as the port takes it, where a rate is asked for) */
    enum rate_unit unit;
    uint64_t line_bps; /* what a share is of, where the text says so; 0: it does not */
};

/* "max", "1.5M", "800kpps", "1Gbps-l1", "500Mbit/s-l2", "80%", "80% of 10Gbps". On failure `error`
 * says what the text should be. */
bool rate_parse(const char *text, struct rate *rate, char *error, size_t error_size);

/* "10Gbps", "25Gbit/s": the bits a second that a line carries, everything on it counted. */
bool rate_parse_line(const char *text, uint64_t *line_bps);

/* Is it a share of a line that nobody has stated? */
bool rate_lacks_line(const struct rate *rate, uint64_t line_bps);

/* Frames a second, 0 for none. `mean_frame_bytes` is with FCS; `line_bps` is used for shares of no
 * line of their own. */
double rate_pps(const struct rate *rate, uint64_t line_bps, double mean_frame_bytes);

double rate_l1_bps(double pps, double mean_frame_bytes);
double rate_l2_bps(double pps, double mean_frame_bytes);
#endif
