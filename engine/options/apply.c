/* Reads the value of an option into its field, or refuses it with a line that names the option, the
 * value and valid values. */
#include "options/options.h"

#include <stdio.h>
#include <string.h>

#include "fail.h"
#include "io/io.h"
#include "options/table.h"
#include "options/value.h"

#define NO_VALUE "none" /* the word of campaigns for the absence of an option */

static const char *const echo_names[] = {"probes", "all", NULL};
static const char *const idle_names[] = {"poll", "yield", "sleep", "baton", NULL};
static const char *const pages_names[] = {"huge", "4KiB", NULL}; /* enum io_pages */
static const char *const payload_names[] = {"fixed", "counter", "random", NULL};
static const char *const workload_names[] = {"rr", "crr", "stream", "http", NULL};

const char *idle_name(uint64_t idle)
{
    return idle_names[idle];
}

const char *payload_name(uint64_t payload)
{
    return payload_names[payload];
}

const char *tcp_workload_name(uint64_t workload)
{
    return workload_names[workload];
}

unsigned options_parse_cores(const char *text, int *cores, unsigned max)
{
    unsigned count = 0;

    while (*text != '\0') {
        uint64_t ends[2];
        for (unsigned i = 0; i < 2; i++) {
            const size_t length = strspn(text, "0123456789");
            if (length > 4 || !value_parse_digits(text, length, &ends[i]))
                return 0;
            text += length;
            if (i == 0 && *text != '-')
                ends[++i] = ends[0];
            else if (i == 0)
                text++;
        }
        for (uint64_t core = ends[0]; core <= ends[1];
             core++) { /* a range includes its last core */
            if (count == max)
                return 0;
            cores[count++] = (int)core;
        }
        if (ends[1] < ends[0] || (*text != ',' && *text != '\0') ||
            (*text == ',' && *++text == '\0'))
            return 0;
    }
    return count;
}

static bool read_number(const struct option_row *row, const char *text, uint64_t *value)
{
    switch (row->kind) {
    case KIND_LINE_RATE:
        return rate_parse_line(text, value);
    case KIND_TIME:
        return value_parse_time(text, value) && *value >= row->min && *value <= row->max;
    case KIND_SHARE:
        return value_parse_share(text, value);
    case KIND_MICROSECONDS: /* a number without a unit is in the unit of the option's name */
        if (value_parse_count(text, value))
            return !__builtin_mul_overflow(*value, 1000U, value) && *value >= row->min * 1000 &&
                   *value <= row->max * 1000;
        return value_parse_time(text, value) && *value >= row->min * 1000 &&
               *value <= row->max * 1000;
    default:
        return value_parse_count(text, value) && *value >= row->min && *value <= row->max;
    }
}

static bool bad_value(const struct option_row *row, const char *text, char *error, size_t size)
{
    switch (row->kind) {
    case KIND_LINE_RATE:
        return fail(error, size, "--%s: '%s' is not a line rate such as 10Gbps", row->name, text);
    case KIND_TIME:
        return fail(error, size,
                    "--%s: '%s' is not a time from %g to %g s, such as 2, 1.5s or 500ms", row->name,
                    text, (double)row->min / 1e9, (double)row->max / 1e9);
    case KIND_SHARE:
        return fail(error, size, "--%s: '%s' is not a probability from 0 to 1, such as 0.02 or 2%%",
                    row->name, text);
    case KIND_MAC:
        return fail(error, size, "--%s: '%s' is not a MAC address such as 02:00:00:00:00:01",
                    row->name, text);
    case KIND_IP:
        return fail(error, size, "--%s: '%s' is not an address such as 198.18.0.1 or 2001:2::1",
                    row->name, text);
    case KIND_EXPECTED_VLAN:
        return fail(error, size, "--%s: '%s' is not a VLAN ID from 1 to 4094, or none", row->name,
                    text);
    case KIND_MACS:
        return fail(error, size,
                    "--%s: '%s' is not a list of up to %d MAC addresses such as "
                    "02:00:00:00:00:01,02:00:00:00:00:02",
                    row->name, text, NEXT_HOPS_MAX);
    case KIND_VLAN:
        return fail(error, size,
                    "--vlan: '%s' is not a VLAN ID from 1 to 4094, or two such as 200.100", text);
    case KIND_TUNNEL:
    case KIND_IP_VERSION:
    case KIND_PAYLOAD:
    case KIND_IDLE:
    case KIND_PAGES:
    case KIND_START:
    case KIND_JITTER:
    case KIND_ECHO:
    case KIND_WORKLOAD:
        return fail(error, size, "--%s: '%s' is not one of %s", row->name, text, row->value);
    case KIND_TCP_ADDRESS:
        return fail(error, size,
                    "--%s: '%s' is not an address with a port, such as 198.18.0.2:5201 or "
                    "[2001:2::2]:5201",
                    row->name, text);
    case KIND_CLOCK:
        return fail(error, size, "--%s: '%s' is not three numbers, TICKS:NS:HZ", row->name, text);
    case KIND_CORES:
        return fail(error, size, "--core: '%s' is not one core or up to %d, such as 1 or 0,1", text,
                    CORES_MAX);
    default:
        return fail(error, size, "--%s: '%s' is not a number from %llu to %llu", row->name, text,
                    (unsigned long long)row->min, (unsigned long long)row->max);
    }
}

static bool read_port(struct options *o, const char *text, char *error, size_t size)
{
    const char *names[16] = {NULL};
    char word[32] = "";
    const size_t length = strcspn(text, ":");

    if (strlen(text) >= sizeof(((struct io_port *)0)->spec))
        return fail(error, size, "--port: specification is longer than 255 characters");
    if (o->port_count == PORTS_MAX)
        return fail(error, size, "--port: '%s' is one port too many; at most %d", text, PORTS_MAX);
    if (io_of(text, NULL) == NULL) {
        for (unsigned i = 0; io_backends[i] != NULL && i < 15; i++)
            names[i] = io_backends[i]->name;
        snprintf(word, sizeof word, "%.*s", (int)(length < 31 ? length : 31), text);
        const char *near = value_nearest(word, names);
        const char *reason = io_missing_reason(word);
        if (reason != NULL)
            return fail(error, size, "--port: this build has no %s: %s", word, reason);
        return fail(error, size, "--port: unknown backend '%s'%s%s%s", word,
                    near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    o->ports[o->port_count++] = text;
    return true;
}

/* The parsers of rates and schedules write their own messages. */
static bool read_schedule(const struct option_row *row, const char *text, void *field, char *error,
                          size_t size)
{
    char reason[384];
    const bool good = row->kind == KIND_SCHEDULE
                          ? schedule_parse(text, field, reason, sizeof reason)
                          : rate_parse(text, field, reason, sizeof reason);
    return good || fail(error, size, "--%s: %s", row->name, reason);
}

static bool read_probe_rate(const struct option_row *row, const char *text, void *field,
                            char *error, size_t size)
{
    if (strcmp(text, NO_VALUE) == 0) {
        *(struct rate *)field = (struct rate){0};
        return true;
    }
    if (strcmp(text, "max") == 0)
        return fail(error, size, "--%s: 'max' is not possible for probes; use for example 1k",
                    row->name);
    return read_schedule(row, text, field, error, size);
}

static bool read_name(const char *text, const char *const *names, uint64_t *index)
{
    for (*index = 0; names[*index] != NULL; (*index)++) {
        if (strcmp(text, names[*index]) == 0)
            return true;
    }
    return false;
}

static bool read_ip(struct options *o, const struct option_row *row, const char *text)
{
    const bool source = row->offset == offsetof(struct options, address.src_ip);
    uint32_t *low = source ? &o->address.src_ip : &o->address.dst_ip;
    uint8_t ip[16];

    if (value_parse_ipv4(text, low))
        return o->ip4_given = true;
    if (!value_parse_ipv6(text, ip))
        return false;
    memcpy(source ? o->address.src_prefix : o->address.dst_prefix, ip, 12);
    *low = __builtin_bswap32(load32(ip + 12));
    return o->ip6_given = true;
}

static bool read_sizes(struct options *o, const char *text, char *error, size_t size)
{
    char reason[160];

    if (!sizes_parse(text, &o->traffic.sizes, reason, sizeof reason))
        return fail(error, size, "--packet-size: %s", reason);
    o->traffic.frame_size = o->traffic.sizes.largest;
    return true;
}

static bool read_flows(struct options *o, const char *text, char *error, size_t size)
{
    char reason[200];

    if (flows_parse(text, &o->flows, reason, sizeof reason))
        return true;
    return fail(error, size, "--flows: %s", reason);
}

static bool read_modifier(struct options *o, const char *text, char *error, size_t size)
{
    char reason[240];

    return modifiers_parse(&o->modifiers, text, reason, sizeof reason) ||
           fail(error, size, "--modify %s", reason);
}

/* MAC addresses, separated by commas. */
static bool read_macs(struct expected_headers *h, const char *text)
{
    char word[18];

    for (h->next_hop_count = 0;; h->next_hop_count++) {
        const size_t length = strcspn(text, ",");
        if (length >= sizeof word || h->next_hop_count == NEXT_HOPS_MAX)
            return false;
        memcpy(word, text, length);
        word[length] = '\0';
        if (!value_parse_mac(word, h->next_hops[h->next_hop_count]))
            return false;
        if (text[length] == '\0')
            break;
        text += length + 1;
    }
    h->next_hop_count++;
    return true;
}

static bool read_expected_vlan(const char *text, uint64_t *vlan)
{
    uint16_t ids[2];

    *vlan = 0;
    if (strcmp(text, NO_VALUE) == 0)
        return true;
    const unsigned tags = value_parse_vlan(text, ids);
    *vlan = ids[0];
    return tags == 1;
}

bool option_apply(struct options *o, const struct option_row *row, const char *text, char *error,
                  size_t size)
{
    void *field = (char *)o + row->offset;
    static const char *const starts[] = {"command", "now", NULL};
    static const char *const tunnels[] = {NO_VALUE, "vxlan", NULL};
    static const char *const jitters[] = {"uniform", "normal", NULL};
    static const char *const ip_versions[] = {"4", "6", NULL};
    uint64_t number = 0;
    bool good = true;

    switch (row->kind) {
    case KIND_FLAG:
        *(bool *)field = true;
        break;
    case KIND_MAC:
        good = value_parse_mac(text, field);
        break;
    case KIND_IP:
        good = read_ip(o, row, text);
        break;
    case KIND_SIZES:
        return read_sizes(o, text, error, size);
    case KIND_FLOWS:
        return read_flows(o, text, error, size);
    case KIND_MODIFIER:
        return read_modifier(o, text, error, size);
    case KIND_VLAN:
        o->address.tags = (uint8_t)value_parse_vlan(text, o->address.vlan);
        good = o->address.tags > 0 || strcmp(text, NO_VALUE) == 0;
        break;
    case KIND_TUNNEL:
        good = read_name(text, tunnels, &number);
        *(bool *)field = good && number == 1;
        break;
    case KIND_EXPECTED_VLAN:
        good = read_expected_vlan(text, field);
        break;
    case KIND_MACS:
        good = read_macs(field, text);
        break;
    case KIND_CLOCK:
        good = value_parse_clock(text, field);
        break;
    case KIND_IP_VERSION:
        good = read_name(text, ip_versions, &number);
        *(uint64_t *)field = number == 0 ? 4 : 6;
        break;
    case KIND_PAYLOAD:
        good = read_name(text, payload_names, field);
        break;
    case KIND_PORT:
        return read_port(o, text, error, size);
    case KIND_CORES:
        o->core_count = options_parse_cores(text, o->cores, CORES_MAX);
        good = o->core_count > 0;
        break;
    case KIND_IDLE:
        good = read_name(text, idle_names, field);
        break;
    case KIND_PAGES:
        good = read_name(text, pages_names, field);
        break;
    case KIND_JITTER:
        good = read_name(text, jitters, field);
        break;
    case KIND_ECHO:
        good = read_name(text, echo_names, field);
        break;
    case KIND_WORKLOAD:
        good = read_name(text, workload_names, field);
        break;
    case KIND_TCP_ADDRESS:
        good = tcp_address_parse(text, field);
        break;
    case KIND_START:
        good = read_name(text, starts, &number);
        o->start_now = number == 1;
        break;
    case KIND_PROBE_RATE:
        if (!read_probe_rate(row, text, field, error, size))
            return false;
        break;
    case KIND_RATE:
    case KIND_SCHEDULE:
        if (!read_schedule(row, text, field, error, size))
            return false;
        break;
    case KIND_TEXT:
        *(const char **)field = text;
        break;
    case KIND_EAL:
        if (o->eal_argument_count == EAL_ARGUMENTS_MAX)
            return fail(error, size, "--eal: more than %d arguments", EAL_ARGUMENTS_MAX);
        o->eal_arguments[o->eal_argument_count++] = text;
        break;
    default:
        good = read_number(row, text, &number);
        if (good && row->kind == KIND_UDP_PORT)
            *(uint16_t *)field = (uint16_t)number;
        else if (good)
            *(uint64_t *)field = number;
    }
    if (!good)
        return bad_value(row, text, error, size);
    if (row->given != 0)
        *(bool *)((char *)o + row->given) = true;
    return true;
}
