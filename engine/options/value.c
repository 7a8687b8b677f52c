/* Parsers of single values. They use no library function that accepts more than documented. */
#include "options/value.h"

#include <arpa/inet.h>
#include <string.h>

static bool append_digits(const char *text, size_t length, uint64_t *value)
{
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(*value, 10U, value) ||
            __builtin_add_overflow(*value, (uint64_t)(text[i] - '0'), value))
            return false;
    }
    return true;
}

bool value_parse_digits(const char *text, size_t length, uint64_t *value)
{
    *value = 0;
    if (length == 0 || (length > 1 && *text == '0')) /* some other parsers would read it as octal */
        return false;
    return append_digits(text, length, value);
}

bool value_parse_decimal(const char *text, unsigned scale, uint64_t *value, const char **rest)
{
    const size_t digits = strspn(text, "0123456789");

    if (!value_parse_digits(text, digits, value))
        return false;
    text += digits;
    if (*text == '.') {
        const size_t fraction = strspn(++text, "0123456789");
        const size_t used_digits = fraction < scale ? fraction : scale;
        if (fraction == 0 ||
            strspn(text + used_digits, "0") < fraction - used_digits || /* finer than one unit */
            !append_digits(text, used_digits, value))
            return false;
        text += fraction;
        scale -= (unsigned)used_digits;
    }
    for (; scale > 0; scale--) {
        if (__builtin_mul_overflow(*value, 10U, value))
            return false;
    }
    *rest = text;
    return true;
}

static const char *skip_spaces(const char *text)
{
    return text + strspn(text, " ");
}

static unsigned suffix_scale(char suffix)
{
    switch (suffix) {
    case 'k':
    case 'K':
        return 3;
    case 'M':
        return 6;
    case 'G':
        return 9;
    default:
        return 0;
    }
}

bool value_parse_scaled(const char *text, uint64_t *value, const char **rest)
{
    const char *unit = skip_spaces(text + strspn(text, "0123456789."));
    const unsigned scale = suffix_scale(*unit);

    if (!value_parse_decimal(text, scale, value, rest) || skip_spaces(*rest) != unit)
        return false;
    *rest = skip_spaces(unit + (scale > 0));
    return true;
}

bool value_parse_count(const char *text, uint64_t *count)
{
    const char *rest = NULL;
    return value_parse_scaled(text, count, &rest) && *rest == '\0';
}

bool value_parse_time(const char *text, uint64_t *ns)
{
    static const struct {
        const char *unit;
        unsigned scale;
        uint64_t times;
    } units[] = {{"", 9, 1},   {"s", 9, 1},  {"ms", 6, 1},   {"us", 3, 1},
                 {"ns", 0, 1}, {"m", 9, 60}, {"min", 9, 60}, {"h", 9, 3600}};

    for (unsigned i = 0; i < sizeof units / sizeof units[0]; i++) {
        const char *rest = NULL;
        if (value_parse_decimal(text, units[i].scale, ns, &rest) &&
            strcmp(skip_spaces(rest), units[i].unit) == 0)
            return !__builtin_mul_overflow(*ns, units[i].times, ns);
    }
    return false;
}

bool value_parse_share(const char *text, uint64_t *billionths)
{
    const char *rest = NULL;

    if (strchr(text, '%') == NULL)
        return value_parse_decimal(text, 9, billionths, &rest) && *rest == '\0' &&
               *billionths <= VALUE_SHARE_WHOLE;
    return value_parse_decimal(text, 7, billionths, &rest) && strcmp(skip_spaces(rest), "%") == 0 &&
           *billionths <= VALUE_SHARE_WHOLE;
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

bool value_parse_clock(const char *text, struct sender_clock_reading *clock)
{
    return value_parse_decimal(text, 0, &clock->ticks, &text) && *text++ == ':' &&
           value_parse_decimal(text, 0, &clock->at_ns, &text) && *text++ == ':' &&
           value_parse_decimal(text, 0, &clock->hz, &text) && *text == '\0' && clock->hz > 0;
}

unsigned value_parse_vlan(const char *text, uint16_t ids[2])
{
    for (unsigned count = 0; count < 2; count++) {
        uint64_t id = 0;
        const size_t length = strcspn(text, ".");
        if (!value_parse_digits(text, length, &id) || id < 1 || id > 4094)
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

/* Damerau-Levenshtein distance of two short words (the restricted distance, also called optimal
 * string alignment). */
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
    unsigned best_distance =
        (unsigned)strlen(text) / 3 + 2; /* a word with a larger distance would not help */

    for (; *names != NULL; names++) {
        const unsigned d = distance(text, *names);
        if (d < best_distance) {
            best_distance = d;
            best = *names;
        }
    }
    return best;
}
