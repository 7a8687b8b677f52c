/* Checks that all options fit together, after all of them have been read.
 *
 * Two tables have the simple rules: the first names the options that only some roles take, the
 * second the combinations that are not possible. Rules with values in their messages are
 * functions. */
#include <stdio.h>
#include <string.h>

#include "fail.h"
#include "io/io.h"
#include "options/options.h"
#include "role/role.h"

typedef bool (*option_test)(const struct options *o, const struct traffic *t);

static bool has_bidirectional(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->bidirectional;
}

static bool has_mac_update(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->mac_update;
}

static bool has_gathering(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->gather_ns > 0;
}

static bool has_frames(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->frames > 0;
}

static bool has_header_values(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->ttl_given || o->dscp_given;
}

static bool has_next_hops(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->expected.next_hop_count > 0;
}

static bool has_expected_headers(const struct options *o, const struct traffic *t)
{
    (void)t;
    struct expected_headers expected = o->expected;

    expected.decap = false;
    return expected_headers_are_given(&expected);
}

static bool has_encapsulation(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->address.tunnel.used || o->expected.decap;
}

static bool has_modifiers(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->modifiers.count > 0;
}

static bool has_flow_groups(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->flow_groups > 0;
}

static bool has_several_queues(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->queues > 1;
}

static bool has_replay(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->replay_path != NULL;
}

static bool has_latency(const struct options *o, const struct traffic *t)
{
    (void)o;
    return t->latency != 0;
}

static bool has_probes(const struct options *o, const struct traffic *t)
{
    (void)o;
    return t->probes != 0;
}

static bool has_probe_rate(const struct options *o, const struct traffic *t)
{
    (void)o;
    return t->probe_rate.amount > 0;
}

static bool has_denied_rate(const struct options *o, const struct traffic *t)
{
    (void)o;
    return t->denied_rate.amount > 0;
}

static bool lacks_line_of_denied_rate(const struct options *o, const struct traffic *t)
{
    (void)o;
    return rate_lacks_line(&t->denied_rate, t->line_bps);
}

static bool lacks_table_of_denied_rate(const struct options *o, const struct traffic *t)
{
    return t->denied_rate.amount > 0 && (o->start_now || !o->role->takes_table);
}

static bool has_denied_rate_on_queues(const struct options *o, const struct traffic *t)
{
    return t->denied_rate.amount > 0 && o->queues > 1;
}

/* The options that only some roles take. */
#define FLAG(name) offsetof(struct role, name)
static const struct {
    const char *option;
    option_test is_given;
    size_t role_flag;   /* offset of the flag that roles have if they take it */
    bool per_trial;     /* a `start` command may also set it */
    const char *remedy; /* remedy for other roles, or NULL */
} role_options[] = {
    {"bidirectional", has_bidirectional, FLAG(has_both_ends), false, NULL},
    {"mac-update", has_mac_update, FLAG(takes_mac_update), false, NULL},
    {"gather-us", has_gathering, FLAG(takes_gathering), false, NULL},
    {"frames", has_frames, FLAG(takes_frames), false, NULL},
    {"ttl, --dscp", has_header_values, FLAG(sends), false, NULL},
    {"encap, --decap", has_encapsulation, FLAG(takes_encapsulation), false, NULL},
    {"modify", has_modifiers, FLAG(takes_modifiers), false, NULL},
    {"next-hops", has_next_hops, FLAG(takes_expectation), false, NULL},
    {"expect-...", has_expected_headers, FLAG(takes_expectation), false, NULL},
    {"flow-groups", has_flow_groups, FLAG(tracks), false, NULL},
    {"queues", has_several_queues, FLAG(takes_queues), false, NULL},
    {"replay", has_replay, FLAG(sends), false, NULL},
    {"latency", has_latency, FLAG(takes_latency), true,
     "client and tester time every frame anyway"},
    {"probe-rate", has_probe_rate, FLAG(sends), true, "give --probes 1 to the receiving role"},
    {"denied-rate", has_denied_rate, FLAG(sends), true, "the receiver needs no option"},
    {"probes", has_probes, FLAG(takes_probes), true, "give --probe-rate to the sending role"},
};

static bool role_has(const struct role *role, size_t flag)
{
    return *(const bool *)((const char *)role + flag);
}

/* "a, b and c" */
static void list_roles_with(size_t flag, char *text, size_t size)
{
    unsigned count = 0, listed = 0;
    size_t length = 0;

    for (unsigned i = 0; roles[i] != NULL; i++)
        count += role_has(roles[i], flag);
    text[0] = '\0';
    for (unsigned i = 0; roles[i] != NULL && length < size; i++) {
        if (!role_has(roles[i], flag))
            continue;
        length += (size_t)snprintf(text + length, size - length, "%s%s",
                                   listed == 0           ? ""
                                   : listed + 1 == count ? " and "
                                                         : ", ",
                                   roles[i]->name);
        listed++;
    }
}

static bool check_role_options(const struct options *o, const struct traffic *t, bool per_trial,
                               char *error, size_t size)
{
    char takers[128];

    for (unsigned i = 0; i < sizeof role_options / sizeof role_options[0]; i++) {
        const size_t flag = role_options[i].role_flag;
        if (role_options[i].per_trial != per_trial || !role_options[i].is_given(o, t) ||
            role_has(o->role, flag))
            continue;
        list_roles_with(flag, takers, sizeof takers);
        return fail(error, size, "--%s: the role %s does not take this option, only %s%s%s",
                    role_options[i].option, o->role->name, takers,
                    role_options[i].remedy != NULL ? "; " : "",
                    role_options[i].remedy != NULL ? role_options[i].remedy : "");
    }
    return true;
}

static bool is_port_without_arrival_times(const struct options *o)
{
    return (io_capabilities(o->ports[0]) & IO_UNTIMED) != 0;
}

/* The frames of this role have no destination: the port needs the address of a peer. */
static bool lacks_peer(const struct options *o)
{
    return o->role->sends && o->role->ports == 1 && !o->dst_mac_given &&
           (io_capabilities(o->ports[0]) & (IO_DATAGRAMS | IO_NO_PEER)) == 0;
}

static bool times_frames_of_a_file(const struct options *o, const struct traffic *t)
{
    return t->latency && is_port_without_arrival_times(o);
}

static bool has_useless_sender_clock(const struct options *o, const struct traffic *t)
{
    (void)o;
    return t->sender_clock.hz > 0 && !t->latency && !t->probes;
}

static bool lacks_line_of_probe_rate(const struct options *o, const struct traffic *t)
{
    (void)o;
    return rate_lacks_line(&t->probe_rate, t->line_bps);
}

static bool lacks_peer_of_probes(const struct options *o, const struct traffic *t)
{
    return t->probe_rate.amount > 0 && lacks_peer(o);
}

static bool receives_probes_only(const struct options *o, const struct traffic *t)
{
    return t->probes && o->role->sends && t->probe_rate.amount == 0;
}

static bool has_probes_on_queues(const struct options *o, const struct traffic *t)
{
    return o->queues > 1 && (t->probes || t->probe_rate.amount > 0);
}

static bool has_frames_in_rate_of_requests(const struct options *o, const struct traffic *t)
{
    return o->role->speaks_tcp && t->rate.unit != RATE_PPS;
}

static bool lacks_recorded_file(const struct options *o, const struct traffic *t)
{
    return t->schedule.shape == SCHEDULE_RECORDED && o->replay_path == NULL;
}

static bool has_rate_and_recorded_times(const struct options *o, const struct traffic *t)
{
    (void)o;
    return t->rate_given && t->schedule.shape == SCHEDULE_RECORDED;
}

static bool has_rate_and_ramp(const struct options *o, const struct traffic *t)
{
    (void)o;
    return t->rate_given && t->schedule.shape == SCHEDULE_RAMP;
}

static bool lacks_macs_to_update(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->mac_update && (!o->src_mac_given || !o->dst_mac_given);
}

static bool has_useless_macs(const struct options *o, const struct traffic *t)
{
    (void)t;
    return (o->src_mac_b_given || o->dst_mac_b_given) && !o->mac_update;
}

static bool gathers_on_several_pairs(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->gather_ns > 0 && o->port_count != 2;
}

static bool has_frames_on_queues(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->frames > 0 && o->queues > 1;
}

static bool has_replay_on_queues(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->replay_path != NULL && o->queues > 1;
}

static bool has_groups_on_queues(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->flow_groups > 0 && o->queues > 1;
}

static bool lacks_file_to_stamp(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->replay_path == NULL && o->stamp;
}

static bool lacks_file_to_repeat(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->replay_path == NULL && o->loops != 1;
}

static bool replays_datagrams(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->replay_path != NULL && (io_capabilities(o->ports[0]) & IO_DATAGRAMS) != 0;
}

static bool touches_replay(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->replay_path != NULL && o->touch;
}

static bool shapes_replay(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->replay_path != NULL &&
           (o->flows.count > 1 || o->address.tags > 0 || o->traffic.sizes.kind != SIZES_FIXED);
}

static bool has_negative_delays(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->reference.jitter == JITTER_UNIFORM && o->reference.jitter_ns > o->reference.delay_ns;
}

static bool reorders_every_frame(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->reference.every[FAULT_REORDER] == 1;
}

static bool changes_datagrams(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->role->applies_faults && (io_capabilities(o->ports[0]) & IO_DATAGRAMS) != 0;
}

static bool expects_headers_on_queues(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->queues > 1 && (expected_headers_are_given(&o->expected) ||
                             (o->modifiers.count > 0 && o->role->takes_expectation));
}

static bool expects_headers_both_ways(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->bidirectional && (expected_headers_are_given(&o->expected) || o->modifiers.count > 0);
}

static bool expects_two_kinds_of_tags(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->expected.vlan_given && o->address.tags > 0 && !o->role->sends;
}

static bool expects_headers_of_datagrams(const struct options *o, const struct traffic *t)
{
    (void)t;
    return (expected_headers_are_given(&o->expected) || o->ttl_given || o->dscp_given ||
            o->modifiers.count > 0) &&
           (io_capabilities(o->ports[0]) & IO_DATAGRAMS) != 0;
}

static bool encapsulates_wrongly(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->address.tunnel.used &&
           (o->start_now || o->queues > 1 || o->bidirectional || o->replay_path != NULL ||
            (io_capabilities(o->ports[0]) & IO_DATAGRAMS) != 0);
}

static bool has_useless_outer_macs(const struct options *o, const struct traffic *t)
{
    (void)t;
    return (o->outer_src_given || o->outer_dst_given) && !o->address.tunnel.used;
}

static bool changes_headers_of_replay(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->replay_path != NULL && (o->ttl_given || o->dscp_given || o->modifiers.count > 0 ||
                                      expected_headers_are_given(&o->expected));
}

static bool lacks_token_file(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->idle == IDLE_TOKEN && o->token_path == NULL;
}

static bool has_useless_token_file(const struct options *o, const struct traffic *t)
{
    (void)t;
    return o->idle != IDLE_TOKEN && o->token_path != NULL;
}

/* Combinations that are not possible. */
struct rule {
    option_test is_broken;
    const char *message; /* names the option, the problem and the remedy */
};

/* Rules for the options that a `start` command may also set. */
static const struct rule trial_rules[] = {
    {has_frames_in_rate_of_requests,
     "--rate: with TCP it is a number of requests per second (writes of a stream), such as 1k"},
    {lacks_recorded_file, "--schedule recorded: only with --replay FILE"},
    {has_rate_and_recorded_times,
     "--rate: a recorded schedule has the times of the file; leave --rate out"},
    {has_rate_and_ramp, "--rate: a ramp has its own rates; leave --rate out"},
    {times_frames_of_a_file, "--latency: frames from a file cannot be timed; leave it out"},
    {has_useless_sender_clock, "--sender-clock: nothing is timed; give --latency 1 or --probes 1"},
    {lacks_line_of_probe_rate, "--probe-rate: a share needs the rate of a line; give --line-rate"},
    {lacks_peer_of_probes, "--probe-rate: needs --dst-mac, the MAC address of its peer"},
    {receives_probes_only, "--probes: this role also sends probes; give --probe-rate"},
    {lacks_line_of_denied_rate,
     "--denied-rate: a share needs the rate of a line; give --line-rate"},
    {lacks_table_of_denied_rate,
     "--denied-rate: only for a sender or tester with --start command, which waits for its table"},
    {has_denied_rate_on_queues, "--denied-rate: only with one queue"},
    {has_probes_on_queues, "--queues: a probe stream has one worker; use one queue"},
};

static const struct rule rules[] = {
    {lacks_macs_to_update, "--mac-update: needs --src-mac and --dst-mac"},
    {has_useless_macs, "--src-mac-b, --dst-mac-b: only with --mac-update"},
    {gathers_on_several_pairs, "--gather-us: only with two ports"},
    {has_frames_on_queues, "--frames: only with one queue"},
    {has_replay_on_queues, "--queues: a replay has one worker; use one queue"},
    {has_groups_on_queues,
     "--flow-groups: with several queues each flow has its queue; use one queue"},
    {lacks_file_to_stamp, "--stamp: only with --replay FILE"},
    {lacks_file_to_repeat, "--loops: only with --replay FILE"},
    {replays_datagrams, "--replay: udp ports send no whole frames; use raw or dpdk"},
    {touches_replay, "--touch: replayed frames keep their bytes; leave it out, or give --stamp"},
    {shapes_replay, "--replay: the frames of the file have their own sizes, tags and flows; leave "
                    "--packet-size, --vlan and --flows out"},
    {has_negative_delays,
     "--jitter-us: a value above --delay-us would make delays below 0; lower it"},
    {reorders_every_frame, "--reorder-every: 1 leaves no frame to overtake; use 2 or more"},
    {changes_datagrams, "reference: needs whole frames; use raw, dpdk or null ports"},
    {expects_headers_on_queues, "--modify, --next-hops, --expect-...: only with one queue"},
    {expects_headers_both_ways,
     "--modify, --next-hops, --expect-...: one direction only; leave --bidirectional out"},
    {expects_two_kinds_of_tags, "--expect-vlan: leave --vlan out, which also states the tags"},
    {expects_headers_of_datagrams,
     "--ttl, --dscp, --modify, --next-hops, --expect-...: with udp the kernel writes the headers; "
     "use raw or dpdk"},
    {encapsulates_wrongly, "--encap: tunnels are sent before the command start, to one queue of a "
                           "port with whole frames; "
                           "leave --start now, --queues, --bidirectional and --replay out"},
    {has_useless_outer_macs, "--outer-src-mac, --outer-dst-mac: only with --encap vxlan"},
    {changes_headers_of_replay,
     "--replay: the frames of the file have their own headers; leave --ttl, --dscp, --modify, "
     "--next-hops and --expect-... out"},
    {lacks_token_file,
     "--idle baton: needs --baton FILE, the same file for all programs on this core"},
    {has_useless_token_file, "--baton: only with --idle baton"},
};

static bool check_rules(const struct rule *rule, size_t count, const struct options *o,
                        const struct traffic *t, char *error, size_t size)
{
    for (; count > 0; rule++, count--) {
        if (rule->is_broken(o, t))
            return fail(error, size, "%s", rule->message);
    }
    return true;
}

#define CHECK_RULES(table, o, t, error, size)                                                      \
    check_rules(table, sizeof(table) / sizeof(table)[0], o, t, error, size)

static bool check_probe_schedule(const struct traffic *t, char *error, size_t size)
{
    const enum schedule_shape shape = t->probe_schedule.shape;

    return shape == SCHEDULE_CONSTANT || shape == SCHEDULE_POISSON ||
           fail(error, size, "--probe-schedule: %s is not possible; use constant or poisson",
                schedule_name(shape));
}

bool options_fit(const struct options *o, const struct traffic *t, char *error, size_t size)
{
    return check_role_options(o, t, true, error, size) && check_probe_schedule(t, error, size) &&
           CHECK_RULES(trial_rules, o, t, error, size) &&
           schedule_fits(&t->schedule, &t->rate, t->line_bps, error, size);
}

static bool check_ports(const struct options *o, char *error, size_t size)
{
    const struct role *role = o->role;

    if (role->takes_pairs && (o->port_count == 0 || o->port_count % role->ports != 0))
        return fail(error, size, "%s takes pairs of --port (0 and 1, 2 and 3, ...), not %u",
                    role->name, o->port_count);
    if (!role->takes_pairs && o->port_count != role->ports)
        return fail(error, size, "%s takes %u --port, not %u", role->name, role->ports,
                    o->port_count);
    return true;
}

/* Both ends of a path may be on one core or on two; all other roles have one core per queue. */
static bool check_cores(const struct options *o, char *error, size_t size)
{
    if (o->role->has_both_ends)
        return o->core_count <= 2 || fail(error, size, "--core: %s uses one core or two, not %u",
                                          o->role->name, o->core_count);
    return o->core_count <= 1 || o->core_count == o->queues ||
           fail(error, size,
                "--core: %u cores for %llu workers; give one core for each of --queues",
                o->core_count, (unsigned long long)o->queues);
}

static bool check_queues(const struct options *o, char *error, size_t size)
{
    if (o->queues <= 1)
        return true;
    const struct io_ops *ops = io_of(o->ports[0], NULL);
    if (o->queues > ops->queues_max) {
        const bool by_argument = (ops->capabilities & IO_ARGUMENT_QUEUES) != 0;
        return fail(error, size, "--queues: %s ports have one queue for a worker%s%s%s", ops->name,
                    by_argument ? " (with --port " : "", by_argument ? ops->name : "",
                    by_argument ? ":queues=N one worker takes N)" : "");
    }
    if (o->stream + o->queues > 65536)
        return fail(error, size, "--stream: %llu leaves no numbers for %llu queues",
                    (unsigned long long)o->stream, (unsigned long long)o->queues);
    return true;
}

static bool is_power_of_two_or_0(uint64_t value)
{
    return (value & (value - 1)) == 0;
}

static bool check_numbers(const struct options *o, char *error, size_t size)
{
    if (o->probe_stream_given && o->probe_stream == o->stream)
        return fail(error, size, "--probe-stream: %llu is the --stream of the load; give another",
                    (unsigned long long)o->stream);
    if (!is_power_of_two_or_0(o->flow_groups))
        return fail(error, size, "--flow-groups: %llu is not a power of two",
                    (unsigned long long)o->flow_groups);
    if (!is_power_of_two_or_0(o->reference.queue))
        return fail(error, size, "--queue: %llu is not a power of two",
                    (unsigned long long)o->reference.queue);
    return true;
}

/* Choose the IP version, and the addresses that were not given. */
static bool choose_ip_version(struct options *o, char *error, size_t size)
{
    static const uint8_t prefix[12] = {0x20, 0x01, 0, 0x02}; /* RFC 5180: for benchmarks */

    if (o->ip4_given && o->ip6_given)
        return fail(error, size,
                    "--src-ip, --dst-ip: one is IPv4 and the other IPv6; use one version");
    if ((o->ip_version == 6 && o->ip4_given) || (o->ip_version == 4 && o->ip6_given))
        return fail(error, size, "--ip-version: %llu, but the addresses are IPv%d",
                    (unsigned long long)o->ip_version, o->ip4_given ? 4 : 6);
    o->address.ip6 = o->ip_version == 6 || o->ip6_given;
    if (o->address.ip6 && !o->src_ip_given) {
        memcpy(o->address.src_prefix, prefix, sizeof prefix);
        o->address.src_ip = 1;
    }
    if (o->address.ip6 && !o->dst_ip_given) {
        memcpy(o->address.dst_prefix, prefix, sizeof prefix);
        o->address.dst_ip = 2;
    }
    return true;
}

static bool check_port_headers(const struct options *o, char *error, size_t size)
{
    for (unsigned i = 0; i < o->port_count; i++) {
        const unsigned capabilities = io_capabilities(o->ports[i]);
        if ((capabilities & IO_DATAGRAMS) != 0 && (o->address.tags > 0 || o->flows.count > 1))
            return fail(error, size, "%s: with udp the kernel writes the headers; use raw or dpdk",
                        o->address.tags > 0 ? "--vlan" : "--flows");
        if ((capabilities & IO_NO_OUTER_TAG) != 0 && o->address.tags == 2 &&
            !role_only_sends(o->role))
            return fail(error, size,
                        "--vlan: the af-packet driver of DPDK reports the outer of two tags as "
                        "802.1Q; use packet_mmap");
    }
    return true;
}

static bool check_frames(struct options *o, char *error, size_t size)
{
    char reason[200];

    if (!choose_ip_version(o, error, size))
        return false;
    const uint32_t smallest = frame_size_min(&o->address);
    if (!o->payload_given)
        o->payload = o->touch ? PAYLOAD_RANDOM : PAYLOAD_FIXED;
    if (!check_port_headers(o, error, size))
        return false;
    if (o->replay_path != NULL && o->traffic.sizes.kind == SIZES_FIXED &&
        o->traffic.sizes.smallest < smallest) { /* only a probe stream uses this size */
        sizes_set(&o->traffic.sizes, smallest);
        o->traffic.frame_size = smallest;
    }
    if (o->role->sends && o->traffic.sizes.smallest < smallest)
        return fail(
            error, size,
            "--packet-size: %u is below %u, the smallest IPv%d frame with %u VLAN tags that "
            "holds the stamp of %d bytes; use %u or more",
            o->traffic.sizes.smallest, smallest, o->address.ip6 ? 6 : 4, o->address.tags,
            STAMP_BYTES, smallest);
    if (o->address.tunnel.used && o->traffic.sizes.largest > FRAME_SIZE_MAX - OUTER_BYTES)
        return fail(error, size,
                    "--packet-size: %u is above %d, the largest frame in VXLAN; use %d or less",
                    o->traffic.sizes.largest, FRAME_SIZE_MAX - OUTER_BYTES,
                    FRAME_SIZE_MAX - OUTER_BYTES);
    if (!flows_bind(&o->flows, &o->address, reason, sizeof reason))
        return fail(error, size, "--flows: %s", reason);
    const bool has_outer = o->role->sends ? o->address.tunnel.used : o->expected.decap;
    return modifiers_bind(&o->modifiers, &o->address, has_outer, &o->flows, reason,
                          sizeof reason) ||
           fail(error, size, "--modify %s", reason);
}

static bool check_replay(const struct options *o, char *error, size_t size)
{
    return o->replay_path == NULL || !o->role->tracks || o->stamp ||
           fail(error, size,
                "--replay: the role %s recognises its frames by their stamp; give --stamp, or use "
                "a sender",
                o->role->name);
}

/* The engine gives DPDK a list of the functions that ports name (dpdk_eal.c). DPDK refuses such a
 * list together with a list of functions to leave out. */
static bool check_eal(const struct options *o, char *error, size_t size)
{
    bool names_function = false;

    for (unsigned i = 0; i < o->port_count; i++)
        names_function |= (io_capabilities(o->ports[i]) & IO_PCI_FUNCTION) != 0;
    for (unsigned i = 0; names_function && i < o->eal_argument_count; i++) {
        const char *argument = o->eal_arguments[i];
        if (strncmp(argument, "--bl", 4) == 0 || strncmp(argument, "-b", 2) == 0)
            return fail(error, size,
                        "--eal %s: with a port dpdk:pci=ADDRESS, DPDK opens only that function; "
                        "leave the argument out",
                        argument);
    }
    return true;
}

static bool check_pages(const struct options *o, char *error, size_t size)
{
    for (unsigned i = 0; i < o->port_count && o->dpdk_pages == IO_PAGES_SMALL; i++) {
        if ((io_capabilities(o->ports[i]) & IO_HUGEPAGES_ONLY) != 0)
            return fail(error, size,
                        "--dpdk-pages: 4KiB is not possible with --port %s, whose driver needs "
                        "hugepages; use --dpdk-pages huge, or another port",
                        o->ports[i]);
    }
    return true;
}

static bool check_gathering(const struct options *o, char *error, size_t size)
{
    for (unsigned i = 0; i < o->port_count && o->gather_ns > 0; i++) {
        if ((io_capabilities(o->ports[i]) & IO_HOLDS) == 0)
            return fail(error, size, "--gather-us: --port %s cannot hold frames; use dpdk ports",
                        o->ports[i]);
    }
    return true;
}

static bool check_peer(const struct options *o, char *error, size_t size)
{
    return !lacks_peer(o) || o->replay_path != NULL ||
           fail(error, size, "%s over %.*s needs --dst-mac, the MAC address of its peer",
                o->role->name, (int)strcspn(o->ports[0], ":"), o->ports[0]);
}

static bool check_path(const struct tcp_options *t, char *error, size_t size)
{
    if (t->workload != TCP_HTTP)
        return t->path == NULL || fail(error, size, "--path: only with --workload http");
    for (const char *c = t->path; c != NULL && *c != '\0'; c++) {
        if (*c <= ' ' || *c > '~')
            return fail(error, size, "--path: only printable ASCII without blanks is possible");
    }
    return t->path == NULL || (t->path[0] == '/' && strlen(t->path) <= TCP_PATH_MAX) ||
           fail(error, size, "--path: begins with / and has at most %d characters", TCP_PATH_MAX);
}

/* The options that only one of the TCP roles takes. */
static bool check_tcp_role(const struct options *o, char *error, size_t size)
{
    const struct tcp_options *t = &o->tcp;
    const bool client = o->role->sends_requests;
    const char *name = o->role->name;

    if (client && t->listen.length > 0)
        return fail(error, size, "--listen: the role %s does not take this option", name);
    if (!client && t->connect.length > 0)
        return fail(error, size, "--connect: the role %s does not take this option", name);
    if (client && t->connect.length == 0)
        return fail(error, size, "%s needs --connect IP:PORT, the address of its server", name);
    if (!client && t->listen.length == 0)
        return fail(error, size, "%s needs --listen IP:PORT", name);
    if (client && t->spin_ns > 0)
        return fail(error, size, "--server-spin-us: only the server takes this option");
    if (!client && (t->path != NULL || o->traffic.rate_given))
        return fail(error, size, "--%s: only the client takes this option",
                    t->path != NULL ? "path" : "rate");
    return true;
}

static bool check_tcp_sizes(const struct tcp_options *t, bool client, char *error, size_t size)
{
    if (t->workload == TCP_HTTP && (t->request_bytes > 0 || (client && t->response_bytes > 0)))
        return fail(error, size, "--%s: the server and --path determine it; leave it out",
                    t->request_bytes > 0 ? "request-size" : "response-size");
    if (t->workload == TCP_STREAM && t->response_bytes > 0)
        return fail(error, size, "--response-size: a stream has no response; leave it out");
    return true;
}

static bool check_tcp(struct options *o, char *error, size_t size)
{
    struct tcp_options *t = &o->tcp;

    if (!o->role->speaks_tcp)
        return true;
    if (!check_tcp_role(o, error, size) || !check_path(t, error, size) ||
        !check_tcp_sizes(t, o->role->sends_requests, error, size))
        return false;
    if (!o->idle_given)
        o->idle = IDLE_SLEEP;
    if (t->connections == 0)
        t->connections = o->role->sends_requests ? 1 : TCP_SERVER_CONNECTIONS;
    if (t->request_bytes == 0)
        t->request_bytes = t->workload == TCP_STREAM ? TCP_WRITE_BYTES : TCP_MESSAGE_BYTES;
    if (t->response_bytes == 0 && t->workload != TCP_STREAM)
        t->response_bytes = TCP_MESSAGE_BYTES;
    if (t->path == NULL)
        t->path = "/";
    return true;
}

bool options_check(struct options *o, char *error, size_t size)
{
    return check_ports(o, error, size) && check_tcp(o, error, size) &&
           check_role_options(o, &o->traffic, false, error, size) &&
           options_fit(o, &o->traffic, error, size) &&
           CHECK_RULES(rules, o, &o->traffic, error, size) && check_replay(o, error, size) &&
           check_gathering(o, error, size) && check_numbers(o, error, size) &&
           check_queues(o, error, size) && check_cores(o, error, size) &&
           check_eal(o, error, size) && check_pages(o, error, size) && check_peer(o, error, size) &&
           check_frames(o, error, size);
}
