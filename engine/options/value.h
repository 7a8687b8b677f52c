/* Reading single values as users write them: numbers with suffixes, seconds, addresses. All
 * are strict: the whole text must fit, and nothing overflows silently. The bench reads values by
 * the same grammar; tests/grammar.txt holds both to it. */
#ifndef SM_OPTIONS_VALUE_H
#define SM_OPTIONS_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "measure/sender_clock.h"

#define VALUE_SHARE_WHOLE 1000000000ULL /* billionths */

/* Decimal "INT[.FRACTION]" times 10^scale, exactly; what follows it through `rest`. */
bool value_parse_decimal(const char *text, unsigned scale, uint64_t *value, const char **rest);
/* "64", "1k", "1.5 M", "2G" (powers of 1000); the value must come out whole. `rest`: what follows
 * and spaces. */
bool value_parse_scaled(const char *text, uint64_t *value, const char **rest);
/* The same, and nothing follows. */
bool value_parse_count(const char *text, uint64_t *count);
/* A whole number of exactly `length` digits, without suffix. */
bool value_parse_digits(const char *text, size_t length, uint64_t *value);
/* "10ms", "500us", "1.5s", "20ns", "2m" or "2min", "1h", to nanoseconds; a bare number is seconds.
 */
bool value_parse_time(const char *text, uint64_t *ns);
/* "0.02" or "2%", at most all of it. */
bool value_parse_share(const char *text, uint64_t *billionths);
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
