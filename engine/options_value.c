/* Reading single values; no library function here accepts more than it should. */
#include "options_value.h"

#include <arpa/inet.h>
#include <string.h>

bool value_parse_decimal(const char *text, unsigned scale, uint64_t *value, const char **rest)
{
    uint64_t v = 0;
    unsigned digits = 0;
    bool after_point = false;

    for (;; text++) {
        if (*text == '.' && !after_point && digits > 0) {
            after_point = true;
            continue;
        }
        if (*text < '0' || *text > '9')
            break;
        if (after_point && scale == 0) {
            if (*text != '0') /* finer than one unit */
                return false;
            continue;
        }
        if (__builtin_mul_overflow(v, 10U, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*text - '0'), &v))
            return false;
        digits++;
        scale -= after_point ? 1 : 0;
    }
    if (digits == 0)
        return false;
    for (; scale > 0; scale--) {
        if (__builtin_mul_overflow(v, 10U, &v))
            return false;
    }
    *value = v;
    *rest = text;
    return true;
}

static unsigned suffix_scale(char suffix)
{
    switch (suffix) {
    case 'k':
    case 'K':
        return 3;
    case 'm':
    case 'M':
        return 6;
    case 'g':
    case 'G':
        return 9;
    default:
        return 0;
    }
}

bool value_parse_count(const char *text, uint64_t *count)
{
    const size_t length = strlen(text);
    const unsigned scale = length > 0 ? suffix_scale(text[length - 1]) : 0;
    const char *rest = NULL;

    return value_parse_decimal(text, scale, count, &rest) &&
           rest == text + length - (scale > 0 ? 1 : 0);
}

bool value_parse_seconds(const char *text, uint64_t *ns)
{
    const char *rest = NULL;
    return value_parse_decimal(text, 9, ns, &rest) && *rest == '\0';
}

bool value_parse_time(const char *text, uint64_t *ns)
{
    static const struct {
        const char *unit;
        unsigned scale;
    } units[] = {{"", 9}, {"s", 9}, {"ms", 6}, {"us", 3}, {"ns", 0}};

    for (unsigned i = 0; i < sizeof units / sizeof units[0]; i++) {
        const char *rest = NULL;
        if (value_parse_decimal(text, units[i].scale, ns, &rest) &&
            strcmp(rest, units[i].unit) == 0)
            return true;
    }
    return false;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool value_parse_mac(const char *text, uint8_t mac[6])
{
    uint8_t parsed[6];

    for (unsigned i = 0; i < 6; i++, text += 3) {
        if (hex_digit(text[0]) < 0 || hex_digit(text[1]) < 0 || text[2] != (i < 5 ? ':' : '\0'))
            return false;
        parsed[i] = (uint8_t)(hex_digit(text[0]) << 4 | hex_digit(text[1]));
    }
    memcpy(mac, parsed, sizeof parsed);
    return true;
}

bool value_parse_ipv4(const char *text, uint32_t *ip)
{
    struct in_addr address;
    if (inet_pton(AF_INET, text, &address) != 1)
        return false;
    *ip = ntohl(address.s_addr);
    return true;
}

bool value_parse_ipv6(const char *text, uint8_t ip[16])
{
    struct in6_addr address;
    if (inet_pton(AF_INET6, text, &address) != 1)
        return false;
    memcpy(ip, &address, 16);
    return true;
}

bool value_parse_clock(const char *text, struct sender_clock_told *clock)
{
    return value_parse_decimal(text, 0, &clock->ticks, &text) && *text++ == ':' &&
           value_parse_decimal(text, 0, &clock->at_ns, &text) && *text++ == ':' &&
           value_parse_decimal(text, 0, &clock->hz, &text) && *text == '\0' && clock->hz > 0;
}

unsigned value_parse_vlan(const char *text, uint16_t ids[2])
{
    for (unsigned count = 0; count < 2; count++) {
        char digits[5] = "";
        uint64_t id = 0;
        const size_t length = strspn(text, "0123456789");
        if (length == 0 || length >= sizeof digits)
            return 0;
        memcpy(digits, text, length);
        if (!value_parse_count(digits, &id) || id < 1 || id > 4094)
            return 0;
        ids[count] = (uint16_t)id;
        text += length;
        if (*text == '\0')
            return count + 1;
        if (*text++ != '.')
            return 0;
    }
    return 0;
}

/* Damerau-Levenshtein distance of two short words (the restricted, "optimal alignment" one). */
static unsigned distance(const char *a, const char *b)
{
    enum { LONGEST = 32 };
    unsigned rows[3][LONGEST + 1];
    const size_t la = strlen(a), lb = strlen(b);

    if (la > LONGEST || lb > LONGEST)
        return LONGEST;
    for (unsigned j = 0; j <= lb; j++)
        rows[0][j] = j;
    for (unsigned i = 1; i <= la; i++) {
        unsigned *row = rows[i % 3], *above = rows[(i - 1) % 3], *above2 = rows[(i + 1) % 3];
        row[0] = i;
        for (unsigned j = 1; j <= lb; j++) {
            unsigned best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best)
                best = above[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                above2[j - 2] + 1 < best)
                best = above2[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[la % 3][lb];
}

const char *value_nearest(const char *text, const char *const *names)
{
    const char *best = NULL;
    unsigned best_distance = (unsigned)strlen(text) / 3 + 2; /* farther than this is no help */

    for (; *names != NULL; names++) {
        const unsigned d = distance(text, *names);
        if (d < best_distance) {
            best_distance = d;
            best = *names;
        }
    }
    return best;
}
