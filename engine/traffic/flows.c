/* Parses flow sets. */
#include "traffic/flows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common_divisor.h"
#include "fail.h"
#include "options/value.h"
#include "traffic/frame.h"
#include "traffic/zipf.h"

#define EXPONENT_MAX 10U

static const struct {
    const char *name;
    uint64_t highest; /* highest value */
} known[FLOW_FIELDS] = {
    {"src-mac", UINT32_MAX}, {"dst-mac", UINT32_MAX}, {"src-ip", UINT32_MAX},
    {"dst-ip", UINT32_MAX},  {"src-port", 65535},     {"dst-port", 65535},
    {"vlan", 4094},
};

/* Copy the text up to one of `ends`, at most 63 characters; returns the text behind it. */
static const char *take(const char *text, const char *ends, char piece[64])
{
    const size_t length = strcspn(text, ends);

    snprintf(piece, 64, "%.*s", (int)(length < 63 ? length : 63), text);
    return text + length;
}

static int find_field(const char *name)
{
    for (int i = 0; i < FLOW_FIELDS; i++) {
        if (strcmp(known[i].name, name) == 0)
            return i;
    }
    return -1;
}

/* NAME[=COUNT][/random] */
static bool parse_field(const char *text, struct flow_set *flows, char *error, size_t size)
{
    char name[64], count[64] = "", order[64] = "";
    uint64_t values = 0;
    const char *rest = take(text, "=/", name);
    const int field = find_field(name);

    if (*rest == '=')
        rest = take(rest + 1, "/", count);
    if (*rest == '/')
        take(rest + 1, "", order);
    if (field < 0)
        return fail(error, size,
                    "'%s' is not a field that flows may differ in; use src-mac, dst-mac, src-ip, "
                    "dst-ip, src-port, dst-port or vlan",
                    name);
    if (strchr(text, '=') != NULL && (!value_parse_count(count, &values) || values < 1 ||
                                      values > FLOW_VALUES_MAX || values > known[field].highest))
        return fail(error, size, "%s=%s: not a number of values from 1 to %llu", name, count,
                    (unsigned long long)(known[field].highest < FLOW_VALUES_MAX
                                             ? known[field].highest
                                             : FLOW_VALUES_MAX));
    if (*rest == '/' && strcmp(order, "random") != 0)
        return fail(error, size, "%s/%s: only /random may follow", name, order);
    if (flows->fields[field].varies)
        return fail(error, size, "%s is given twice; keep one", name);
    flows->fields[field] =
        (struct flow_range){.varies = true, .random = *rest == '/', .requested = (uint32_t)values};
    return true;
}

static bool parse_fields(const char *text, struct flow_set *flows, char *error, size_t size)
{
    char piece[64];

    for (;; text++) {
        text = take(text, "+:", piece);
        if (!parse_field(piece, flows, error, size))
            return false;
        if (*text != '+')
            return true;
    }
}

/* zipf=S and seed=N, each after a colon. */
static bool parse_settings(const char *text, struct flow_set *flows, char *error, size_t size)
{
    char piece[64];

    while (*text == ':') {
        text = take(text + 1, ":", piece);
        if (strncmp(piece, "zipf=", 5) == 0) {
            const char *end = NULL;
            uint64_t billionths = 0;
            flows->zipf = true;
            if (!value_parse_decimal(piece + 5, 9, &billionths, &end) || *end != '\0' ||
                billionths > EXPONENT_MAX * VALUE_SHARE_WHOLE)
                return fail(error, size, "%s: not an exponent from 0 to 10, such as 1.0", piece);
            flows->exponent = (double)billionths / VALUE_SHARE_WHOLE;
        } else if (strncmp(piece, "seed=", 5) != 0 || !value_parse_count(piece + 5, &flows->seed)) {
            return fail(error, size, "'%s' is neither zipf=S nor seed=N", piece);
        }
    }
    return true;
}

/* Choose the order in which a random field takes its values. */
static void choose_order(struct flow_range *range, uint64_t seed)
{
    struct flow_order *o = &range->order;
    unsigned bits = 0;

    while (bits < 24 && 1U << bits < range->count)
        bits++;
    o->mask = (1U << bits) - 1;
    o->shift = bits / 2 + 1;
    o->first = (uint32_t)zipf_mix(seed);
    for (unsigned i = 0; i < 3; i++)
        o->factors[i] = (uint32_t)zipf_mix(seed + 1 + i) | 1;
}

/* Return how many values a field takes, if other fields already vary `multiple` combinations: the
 * largest count without a common divisor, so that the combinations multiply. */
static uint32_t choose_count(const struct flow_range *range, uint64_t room, uint64_t multiple,
                             uint32_t flows)
{
    if (range->requested > 0)
        return range->requested;
    if (flows <= room)
        return flows;
    uint64_t count = room;
    while (multiple < flows && count > 1 && common_divisor(count, multiple) != 1)
        count--;
    return (uint32_t)count;
}

bool flows_parse(const char *text, struct flow_set *flows, char *error, size_t size)
{
    char piece[64];
    uint64_t count = 0;
    const char *rest = take(text, ":", piece);

    memset(flows, 0, sizeof *flows);
    if (!value_parse_count(piece, &count) || count < 1 || count > FLOWS_MAX)
        return fail(error, size, "'%s' is not a number of flows from 1 to 1000000", piece);
    flows->count = (uint32_t)count;
    const bool names_fields =
        *rest == ':' && strncmp(rest, ":zipf=", 6) != 0 && strncmp(rest, ":seed=", 6) != 0;
    const char *fields = names_fields ? rest + 1 : "src-ip";
    if (names_fields)
        rest += 1 + strcspn(rest + 1, ":");
    return parse_settings(rest, flows, error, size) && parse_fields(fields, flows, error, size);
}

static uint32_t low_bytes(const uint8_t mac[6])
{
    return __builtin_bswap32(load32(mac + 2));
}

/* Each field advances after the fields before it have taken all their values. */
static void make_odometer(struct flow_set *flows)
{
    uint64_t every = 1;

    for (unsigned i = 0; i < FLOW_FIELDS; i++) {
        struct flow_range *range = &flows->fields[i];
        if (!range->varies)
            continue;
        range->every = every < FLOWS_MAX ? (uint32_t)every : FLOWS_MAX;
        every *= every < FLOWS_MAX ? range->count : 1;
    }
}

bool flows_bind(struct flow_set *flows, const struct frame_address *a, char *error, size_t size)
{
    const uint32_t bases[FLOW_FIELDS] = {
        low_bytes(a->src_mac),
        low_bytes(a->dst_mac),
        a->src_ip,
        a->dst_ip,
        a->src_udp,
        a->dst_udp,
        a->tags > 0 ? a->vlan[a->tags - 1U] : 0U,
    };

    uint64_t multiple = 1, product = 1;

    if (flows->fields[FLOW_VLAN].varies && a->tags == 0)
        return fail(error, size, "vlan: the frames have no tag; give --vlan");
    for (unsigned i = 0; i < FLOW_FIELDS; i++) {
        struct flow_range *range = &flows->fields[i];
        if (!range->varies)
            continue;
        const uint64_t room = known[i].highest - bases[i] + 1;
        range->base = bases[i];
        range->count = choose_count(range, room, multiple, flows->count);
        if (range->count > room)
            return fail(error, size,
                        "%s: %u values do not fit behind the first, %u; begin lower, or take "
                        "fewer (%s=N)",
                        known[i].name, range->count, range->base, known[i].name);
        choose_order(range, zipf_mix(flows->seed + 1) + i * 0x9e3779b97f4a7c15ULL);
        range->every = 1;
        if (multiple < flows->count)
            multiple *= range->count / common_divisor(multiple, range->count);
        if (product < flows->count)
            product *= range->count;
    }
    if (multiple < flows->count && product >= flows->count)
        make_odometer(flows);
    if (product >= flows->count)
        return true;
    return fail(error, size,
                "%u flows cannot all differ: the fields have %llu combinations together; add a "
                "field or values, or begin lower",
                flows->count, (unsigned long long)product);
}

struct flow_set flows_swapped(const struct flow_set *flows)
{
    struct flow_set s = *flows;

    for (unsigned i = 0; i < FLOW_VLAN; i++)
        s.fields[i] = flows->fields[i ^ 1U];
    return s;
}
