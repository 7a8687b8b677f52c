/* Options that must fit together, once all are read. */
#include <stdio.h>
#include <string.h>

#include "fail.h"
#include "io/io.h"
#include "options/options.h"
#include "role/role.h"

/* What times frames, in which roles? */
static bool check_timing(const struct options *o, const struct traffic *t, char *error, size_t size)
{
    if (t->latency && o->role != &role_server &&
        (!o->role->tracks || o->role->latency != LATENCY_NONE))
        return fail(error, size,
                    "--latency: only receiver, duplex and server take it; clients and testers "
                    "time every frame anyway");
    if (t->latency && (io_capabilities(o->ports[0]) & IO_UNTIMED) != 0)
        return fail(error, size, "--latency: frames from a file cannot be timed; leave it out");
    if (t->sender_clock.hz > 0 && !t->latency && !t->probes)
        return fail(error, size,
                    "--sender-clock: nothing is timed; give --latency 1 or --probes 1");
    return true;
}

/* Would frames of the engine's own have nowhere to go? */
static bool lacks_peer(const struct options *o)
{
    const bool addressed = (io_capabilities(o->ports[0]) & (IO_DATAGRAMS | IO_NO_PEER)) == 0;
    return o->role->sends && o->role->ports == 1 && addressed && !o->dst_mac_given;
}

static bool check_probes(const struct options *o, const struct traffic *t, char *error, size_t size)
{
    const enum schedule_shape shape = t->probe_schedule.shape;

    if (shape != SCHEDULE_CONSTANT && shape != SCHEDULE_POISSON)
        return fail(error, size, "--probe-schedule: constant or poisson, not %s",
                    schedule_name(shape));
    if (rate_lacks_line(&t->probe_rate, t->line_bps))
        return fail(error, size, "--probe-rate: a share of which line? give --line-rate");
    if (t->probe_rate.amount > 0 && !o->role->sends)
        return fail(error, size,
                    "--probe-rate: only a sender, client, duplex or tester sends; "
                    "give --probes 1 to what receives");
    if (t->probe_rate.amount > 0 && lacks_peer(o))
        return fail(error, size, "--probe-rate: needs --dst-mac, the MAC address of its peer");
    if (t->probes && o->role == &role_duplex && t->probe_rate.amount == 0)
        return fail(error, size, "--probes: a duplex sends probes, too; give --probe-rate");
    if (t->probes && o->role != &role_receiver && o->role != &role_server &&
        o->role != &role_duplex)
        return fail(error, size,
                    "--probes: only a receiver, server or duplex; others have --probe-rate");
    if (o->queues > 1 && (t->probes || t->probe_rate.amount > 0))
        return fail(error, size, "--queues: a probe stream has one worker");
    return true;
}

bool options_fit(const struct options *o, const struct traffic *t, char *error, size_t size)
{
    const enum schedule_shape shape = t->schedule.shape;

    if (shape == SCHEDULE_RECORDED && o->replay_path == NULL)
        return fail(error, size, "--schedule recorded: only with --replay FILE");
    if (t->rate_given && shape == SCHEDULE_RECORDED)
        return fail(error, size, "--rate: a recorded schedule has the file's times; leave it out");
    if (t->rate_given && shape == SCHEDULE_RAMP)
        return fail(error, size, "--rate: a ramp has its own rates; leave --rate out");
    return check_timing(o, t, error, size) && check_probes(o, t, error, size) &&
           schedule_fits(&t->schedule, &t->rate, t->line_bps, error, size);
}

static bool check_baton(const struct options *o, char *error, size_t size)
{
    if ((o->idle == IDLE_BATON) == (o->baton_path != NULL))
        return true;
    return fail(error, size,
                o->idle == IDLE_BATON
                    ? "--idle baton: give --baton FILE, the same to all on this core"
                    : "--baton: only with --idle baton");
}

static bool check_workers(const struct options *o, char *error, size_t size)
{
    const struct io_ops *ops = io_of(o->ports[0], NULL);

    if (o->queues > 1 && !o->role->queues)
        return fail(error, size, "--queues: only a sender or a receiver has several workers");
    if (o->queues > ops->queues_max && o->queues > 1) {
        const bool by_argument = (ops->capabilities & IO_ARGUMENT_QUEUES) != 0;
        return fail(error, size, "--queues: %s ports have one queue for a worker%s%s%s", ops->name,
                    by_argument ? " (--port " : "", by_argument ? ops->name : "",
                    by_argument ? ":queues=N has one worker take N)" : "");
    }
    if (o->queues > 1 && o->stream + o->queues > 65536)
        return fail(error, size, "--stream: %llu leaves no numbers for %llu queues",
                    (unsigned long long)o->stream, (unsigned long long)o->queues);
    if (o->queues > 1 && o->replay_path != NULL)
        return fail(error, size, "--queues: a replay has one worker");
    if (o->core_count > 1 && o->core_count != o->queues && o->role != &role_tester)
        return fail(error, size,
                    "--core: %u cores for %llu workers; only a tester uses two cores, others as "
                    "many as --queues",
                    o->core_count, (unsigned long long)o->queues);
    if (o->core_count > 2 && o->role == &role_tester)
        return fail(error, size, "--core: a tester uses one core or two, not %u", o->core_count);
    return true;
}

/* Which IP version it is, and the addresses that were not given. */
static bool choose_ip_version(struct options *o, char *error, size_t size)
{
    static const uint8_t prefix[12] = {0x20, 0x01, 0, 0x02}; /* RFC 5180: for benchmarks */

    if (o->ip4_given && o->ip6_given)
        return fail(error, size, "--src-ip, --dst-ip: one is IPv4, the other IPv6; use one kind");
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

static bool check_frames(struct options *o, char *error, size_t size)
{
    char reason[200];

    if (!choose_ip_version(o, error, size))
        return false;
    const uint32_t smallest = frame_size_min(&o->address);
    if (!o->payload_given)
        o->payload = o->touch ? PAYLOAD_RANDOM : PAYLOAD_FIXED;
    for (unsigned i = 0; i < o->port_count; i++) {
        if ((io_capabilities(o->ports[i]) & IO_DATAGRAMS) == 0)
            continue;
        if (o->address.tags > 0 || o->flows.count > 1)
            return fail(error, size, "%s: with udp the kernel writes the headers; use raw or dpdk",
                        o->address.tags > 0 ? "--vlan" : "--flows");
    }
    for (unsigned i = 0; i < o->port_count && o->role != &role_sender; i++) {
        if (o->address.tags == 2 && (io_capabilities(o->ports[i]) & IO_NO_OUTER_TAG) != 0)
            return fail(
                error, size,
                "--vlan: DPDK's af-packet driver gives the outer of two tags as 802.1Q; use "
                "packet_mmap");
    }
    if (o->replay_path != NULL && o->traffic.sizes.kind == SIZES_FIXED &&
        o->traffic.sizes.smallest < smallest) { /* of probes, if there are any */
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
    if (!flows_bind(&o->flows, &o->address, reason, sizeof reason))
        return fail(error, size, "--flows: %s", reason);
    return true;
}

static bool check_replay(const struct options *o, char *error, size_t size)
{
    if (o->replay_path == NULL) {
        if (o->stamp || o->loops != 1)
            return fail(error, size, "--%s: only with --replay FILE", o->stamp ? "stamp" : "loops");
        return true;
    }
    if (!o->role->sends)
        return fail(error, size, "--replay: a %s does not send", o->role->name);
    if (o->role->tracks && !o->stamp)
        return fail(error, size,
                    "--replay: a %s follows its frames by their stamp; give --stamp, "
                    "or use a sender",
                    o->role->name);
    if ((io_capabilities(o->ports[0]) & IO_DATAGRAMS) != 0)
        return fail(error, size, "--replay: udp ports send no whole frames; use raw or dpdk");
    if (o->touch)
        return fail(error, size, "--touch: replayed frames keep their bytes, or take --stamp");
    if (o->flows.count > 1 || o->address.tags > 0 || o->traffic.sizes.kind != SIZES_FIXED)
        return fail(error, size,
                    "--replay: its frames have their own sizes, tags and flows; leave "
                    "--packet-size, --vlan and --flows out");
    return true;
}

/* DPDK is told to open the functions that ports name and no other (dpdk_eal.c); a list of those
 * that it is not to open contradicts that, and it then refuses both. */
static bool check_eal(const struct options *o, char *error, size_t size)
{
    bool names_function = false;

    for (unsigned i = 0; i < o->port_count; i++)
        names_function |= (io_capabilities(o->ports[i]) & IO_PCI_FUNCTION) != 0;
    for (unsigned i = 0; names_function && i < o->eal_argument_count; i++) {
        const char *argument = o->eal_arguments[i];
        if (strncmp(argument, "--bl", 4) == 0 || strncmp(argument, "-b", 2) == 0)
            return fail(error, size,
                        "--eal %s: beside a port dpdk:pci=ADDRESS, DPDK opens that function and no "
                        "other anyway; leave it out",
                        argument);
    }
    return true;
}

static bool check_pages(const struct options *o, char *error, size_t size)
{
    for (unsigned i = 0; i < o->port_count && o->dpdk_pages == IO_PAGES_SMALL; i++) {
        if ((io_capabilities(o->ports[i]) & IO_HUGEPAGES_ONLY) != 0)
            return fail(error, size,
                        "--dpdk-pages: 4KiB does not go with --port %s, whose driver works in "
                        "hugepages only; use --dpdk-pages huge, or another port",
                        o->ports[i]);
    }
    return true;
}

static bool check_gathering(const struct options *o, char *error, size_t size)
{
    if (o->gather_ns == 0)
        return true;
    if (o->role != &role_forwarder || o->port_count != 2)
        return fail(error, size, "--gather-us: only a forwarder of two ports holds frames");
    for (unsigned i = 0; i < 2; i++)
        if ((io_capabilities(o->ports[i]) & IO_HOLDS) == 0)
            return fail(error, size, "--gather-us: --port %s cannot hold frames; use dpdk ports",
                        o->ports[i]);
    return true;
}

bool options_check(struct options *o, char *error, size_t size)
{
    if (o->role->pairs && (o->port_count == 0 || o->port_count % o->role->ports != 0))
        return fail(error, size, "%s takes pairs of --port (0 and 1, 2 and 3, ...), not %u",
                    o->role->name, o->port_count);
    if (!o->role->pairs && o->port_count != o->role->ports)
        return fail(error, size, "%s takes %u --port, not %u", o->role->name, o->role->ports,
                    o->port_count);
    if (o->bidirectional && o->role != &role_tester)
        return fail(error, size, "--bidirectional: only a tester has two sending ports");
    if (o->mac_update && o->role != &role_forwarder)
        return fail(error, size, "--mac-update: only a forwarder rewrites frames");
    if (o->mac_update && (!o->src_mac_given || !o->dst_mac_given))
        return fail(error, size, "--mac-update: needs --src-mac and --dst-mac");
    if ((o->src_mac_b_given || o->dst_mac_b_given) && !o->mac_update)
        return fail(error, size, "--src-mac-b, --dst-mac-b: only with --mac-update");
    if (!check_gathering(o, error, size))
        return false;
    if (!options_fit(o, &o->traffic, error, size))
        return false;
    if (!check_replay(o, error, size))
        return false;
    if (o->frames > 0 && (o->role != &role_sender || o->queues > 1))
        return fail(error, size, "--frames: only a sender of one queue counts its frames");
    if (o->probe_stream_given && o->probe_stream == o->stream)
        return fail(error, size, "--probe-stream: %llu is the load's --stream; give another",
                    (unsigned long long)o->stream);
    if ((o->flow_groups & (o->flow_groups - 1)) != 0)
        return fail(error, size, "--flow-groups: %llu is not a power of two",
                    (unsigned long long)o->flow_groups);
    if (o->flow_groups > 0 && o->queues > 1)
        return fail(error, size, "--flow-groups: with several queues each flow has a queue");
    if (o->flow_groups > 0 && !o->role->tracks)
        return fail(error, size, "--flow-groups: a %s does not look at order", o->role->name);
    if ((o->reference.queue & (o->reference.queue - 1)) != 0)
        return fail(error, size, "--queue: %llu is not a power of two",
                    (unsigned long long)o->reference.queue);
    if (o->reference.jitter == JITTER_UNIFORM && o->reference.jitter_ns > o->reference.delay_ns)
        return fail(error, size, "--jitter-us: more than --delay-us would make delays below 0");
    if (o->reference.every[FAULT_REORDER] == 1)
        return fail(error, size, "--reorder-every: 1 leaves no frame to overtake; use 2 or more");
    if (o->role == &role_reference && (io_capabilities(o->ports[0]) & IO_DATAGRAMS) != 0)
        return fail(error, size, "reference: needs whole frames: raw, dpdk or null ports");
    if (!check_baton(o, error, size) || !check_workers(o, error, size) ||
        !check_eal(o, error, size) || !check_pages(o, error, size))
        return false;
    if (lacks_peer(o) && o->replay_path == NULL)
        return fail(error, size, "%s over %.*s needs --dst-mac: the MAC address of its peer",
                    o->role->name, (int)strcspn(o->ports[0], ":"), o->ports[0]);
    return check_frames(o, error, size);
}
