/* Reading single values as users write them: numbers with suffixes, seconds, addresses. All
 * are strict: the whole text must fit, and nothing overflows silently. */
#ifndef SM_OPTIONS_VALUE_H
#define SM_OPTIONS_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "measure/sender_clock.h"

/* Decimal "INT[.FRACTION]" times 10^scale, exactly; what follows it through `rest`. */
bool value_parse_decimal(const char *text, unsigned scale, uint64_t *value, const char **rest);
/* "64", "1k", "1.5M", "2G" (powers of 1000); the value must come out whole. */
bool value_parse_count(const char *text, uint64_t *count);
/* "2", "0.25" seconds, to nanoseconds. */
bool value_parse_seconds(const char *text, uint64_t *ns);
/* "10ms", "500us", "1.5s", "20ns", to nanoseconds; a bare number is seconds. */
bool value_parse_time(const char *text, uint64_t *ns);
bool value_parse_mac(const char *text, uint8_t mac[6]);
bool value_parse_ipv4(const char *text, uint32_t *ip);
bool value_parse_ipv6(const char *text, uint8_t ip[16]);
/* "100" or "200.100": VLAN IDs from 1 to 4094, the outer first; returns how many, 0 when bad. */
unsigned value_parse_vlan(const char *text, uint16_t ids[2]);

/* "TICKS:NS:HZ", of a sender's clock; HZ is not 0. */
bool value_parse_clock(const char *text, struct sender_clock_told *clock);

/* The one of `names` (ended by NULL) nearest to `text`, or NULL when none is near. */
const char *value_nearest(const char *text, const char *const *names);
#endif
