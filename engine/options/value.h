/* Parsers of single values as users write them: numbers with suffixes, seconds, addresses. All of
 * them are strict: the whole text must be valid, and nothing overflows silently. The bench uses the
 * same grammar; tests/grammar.txt tests both. */
#ifndef SM_OPTIONS_VALUE_H
#define SM_OPTIONS_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "measure/sender_clock.h"

#define VALUE_SHARE_WHOLE 1000000000ULL /* billionths */

/* Decimal "INT[.FRACTION]" times 10^scale, exactly; `rest` gets the text after it. */
bool value_parse_decimal(const char *text, unsigned scale, uint64_t *value, const char **rest);
/* "64", "1k", "1.5 M", "2G" (powers of 1000); the result must be a whole number. `rest`: the text
 * after the number and spaces. */
bool value_parse_scaled(const char *text, uint64_t *value, const char **rest);
/* The same, with no text after it. */
bool value_parse_count(const char *text, uint64_t *count);
/* A whole number of exactly `length` digits, without suffix. */
bool value_parse_digits(const char *text, size_t length, uint64_t *value);
/* "10ms", "500us", "1.5s", "20ns", "2m" or "2min", "1h", to nanoseconds; a bare number is seconds.
 */
bool value_parse_time(const char *text, uint64_t *ns);
/* "0.02" or "2%", at most 1. */
bool value_parse_share(const char *text, uint64_t *billionths);
bool value_parse_mac(const char *text, uint8_t mac[6]);
bool value_parse_ipv4(const char *text, uint32_t *ip);
bool value_parse_ipv6(const char *text, uint8_t ip[16]);
/* "100" or "200.100": VLAN IDs from 1 to 4094, the outer first; returns their number, 0 if the text
 * is invalid. */
unsigned value_parse_vlan(const char *text, uint16_t ids[2]);

/* "TICKS:NS:HZ", a reading of a sender's clock; HZ is not 0. */
bool value_parse_clock(const char *text, struct sender_clock_reading *clock);

/* Return the name in `names` (ended by NULL) that is most similar to `text`, or NULL if none is
 * similar. */
const char *value_nearest(const char *text, const char *const *names);
#endif
