/* A rate as given: frames per second, bits per second on layer 1 or 2, or a share of a line rate. A
 * sender needs frames per second, which depend on the mean frame size. A bit rate must name its
 * layer, because at 64 bytes the two differ by 31 %. */
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
    uint64_t amount; /* 0: none; for a load, as fast as the port accepts frames */
    enum rate_unit unit;
    uint64_t line_bps; /* line rate that the text names for a share; 0: none */
};

/* "max", "1.5M", "800kpps", "1Gbps-l1", "500Mbit/s-l2", "80%", "80% of 10Gbps". On failure `error`
 * has the valid forms. */
bool rate_parse(const char *text, struct rate *rate, char *error, size_t error_size);

/* "10Gbps", "25Gbit/s": the bits per second of a line, including overhead. */
bool rate_parse_line(const char *text, uint64_t *line_bps);

/* Return true if it is a share and no line rate is given. */
bool rate_lacks_line(const struct rate *rate, uint64_t line_bps);

/* Frames per second, 0 for none. `mean_frame_bytes` is with FCS; `line_bps` is used for shares that
 * name no line rate. */
double rate_pps(const struct rate *rate, uint64_t line_bps, double mean_frame_bytes);

double rate_l1_bps(double pps, double mean_frame_bytes);
double rate_l2_bps(double pps, double mean_frame_bytes);
#endif
