/* Opens and closes the ends of a trial, and checks that frames fit their ports. */
#include "ends/ends.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ends/denied.h"
#include "ends/end.h"
#include "ends/probes.h"
#include "fail.h"
#include "measure/memory.h"

#define ORDINARY_FRAME_SIZE 1518

bool ends_check_cores(const struct options *o, char *error, size_t size)
{
    cpu_set_t allowed;

    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return true;
    for (unsigned i = 0; i < o->core_count; i++) {
        if (o->cores[i] >= CPU_SETSIZE || !CPU_ISSET(o->cores[i], &allowed))
            return fail(error, size, "--core: this process may not run on core %d", o->cores[i]);
    }
    return true;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The longest frame for which ports are opened, with FCS. */
static uint64_t size_opened_for(const struct trial *trial)
{
    const uint64_t configured = larger(trial->options->traffic.frame_size, ORDINARY_FRAME_SIZE);
    return larger(configured, trial->replay.longest + FCS_BYTES);
}

/* Bytes in front of the frames of the given sizes. */
static uint32_t outer_bytes(const struct options *o)
{
    return o->address.tunnel.used || o->expected.decap ? OUTER_BYTES : 0;
}

static struct io_config make_config(const struct trial *trial, const struct end_view *view,
                                    unsigned queue)
{
    const struct options *o = trial->options;
    const unsigned port = view->port_index;

    return (struct io_config){
        .spec = o->ports[port],
        .arguments = "",
        .index = port,
        .specs = o->ports,
        .spec_count = o->port_count,
        .frame_length = (uint32_t)o->traffic.frame_size - FCS_BYTES + outer_bytes(o),
        .frame_length_max = (uint32_t)size_opened_for(trial) - FCS_BYTES + outer_bytes(o),
        .address = &view->address,
        .src_mac_given = view->src_mac_given,
        .src_ip_given = view->src_ip_given,
        .dst_ip_given = view->dst_ip_given,
        .tagged = o->address.tags > 0 || o->expected.vlan_given || o->role->stands_between,
        .rx_may_block = !o->role->sends && o->role->ports == 1,
        .only_sends = role_only_sends(o->role),
        .only_receives = role_only_receives(o->role),
        .rx_untimed = role_only_receives(o->role) && !o->traffic.latency && !o->traffic.probes,
        .forwards = o->role->stands_between || o->role->echoes,
        .unforced_buffers = o->unforced_buffers,
        .queue_count = (unsigned)o->queues,
        .queue = queue,
        .first = queue > 0 ? trial->ends[0].port : NULL,
        .core = o->core_count > 0 ? o->cores[port < o->core_count ? port : 0] : -1,
        .cores = o->cores,
        .core_count = o->queues > 1 ? o->core_count : 0,
        .null = {.stream = (uint16_t)(o->stream + queue),
                 .kind = FRAME_DATA | (o->touch ? FRAME_TOUCHED : 0)},
        .dpdk = {.memory_mb = (unsigned)o->dpdk_memory_mb,
                 .pages = (enum io_pages)o->dpdk_pages,
                 .eal_arguments = o->eal_arguments,
                 .eal_argument_count = o->eal_argument_count},
    };
}

bool ends_check_ports(const struct options *o, char *error, size_t size)
{
    for (unsigned i = 0; i < o->port_count; i++) {
        const char *arguments;
        const struct io_ops *ops = io_of(o->ports[i], &arguments);
        char reason[256] = "";

        if (ops->check == NULL || ops->check(arguments, reason, sizeof reason))
            continue;
        return fail(error, size, "--port %s: %s", o->ports[i], reason);
    }
    return true;
}

static bool open_end(struct trial *trial, unsigned index, char *error, size_t size)
{
    const struct options *o = trial->options;
    struct end *end = &trial->ends[index];
    const unsigned queue = o->queues > 1 ? index : 0;
    const unsigned streams = o->role->tracks && o->queues > 1 ? (unsigned)o->queues : 1;
    const struct end_view view = end_view_of(o, index);
    char reason[256] = "";

    if (!queues_make(end, streams))
        return fail(error, size, "out of memory: %u queues need %zu MB more", (unsigned)o->queues,
                    (size_t)streams * sizeof(struct queue_stream) >> 20);
    end->address = view.address;
    struct io_config config = make_config(trial, &view, queue);
    const struct io_ops *ops = io_of(config.spec, &config.arguments);
    end->port = ops->open(&config, reason, sizeof reason);
    if (end->port == NULL)
        return fail(error, size, "port %u (%s): %s", index, config.spec, reason);
    end->port->ops = ops;
    snprintf(end->port->spec, sizeof end->port->spec, "%s", config.spec);
    if (!view.src_mac_given)
        memcpy(end->address.src_mac, end->port->mac, 6);
    if (!o->outer_src_given)
        memcpy(end->address.tunnel.src_mac, end->port->mac, 6);
    if (!o->outer_dst_given)
        memcpy(end->address.tunnel.dst_mac, end->address.dst_mac, 6);
    return true;
}

/* The flows of an end begin at its address, which may be that of its port. */
static bool bind_flows(struct trial *trial, unsigned index, char *error, size_t size)
{
    struct end *end = &trial->ends[index];
    char reason[200];

    end->flows = end_view_of(trial->options, index).flows;
    if (flows_bind(&end->flows, &end->address, reason, sizeof reason))
        return true;
    return fail(error, size, "port %u (%s): flows: %s", index, end->port->spec, reason);
}

/* Each end of a path sends to the other, unless the command line names another address. */
static void address_other_end(struct trial *trial)
{
    const struct options *o = trial->options;
    struct frame_address *first = &trial->ends[0].address, *second = &trial->ends[1].address;

    if (!o->dst_mac_given)
        memcpy(first->dst_mac, second->src_mac, 6);
    if (!o->src_mac_given)
        memcpy(second->dst_mac, first->src_mac, 6);
}

/* Compile the modifiers of sent frames, and of received frames. Fields with an explicit expectation
 * are left out of the latter: the switch changes them. */
static bool make_modifiers(struct trial *trial, char *error, size_t size)
{
    const struct options *o = trial->options;
    const struct expected_headers *h = &o->expected;
    const uint32_t explicit = (h->next_hop_count > 0 ? 1U << WRONG_dst_mac : 0) |
                              (h->src_mac_given ? 1U << WRONG_src_mac : 0) |
                              (h->ttl_given ? 1U << WRONG_ttl : 0) |
                              (h->dscp_given ? 1U << WRONG_dscp : 0);
    struct modifiers expected = {0};

    for (unsigned i = 0; o->role->takes_expectation && i < o->modifiers.count; i++) {
        const struct header_field *field = o->modifiers.given[i].field;
        const bool is_tag = field->layer == LAYER_TAG || field->layer == LAYER_SERVICE_TAG;
        if ((explicit & 1U << field->wrong) == 0 && !(h->vlan_given && is_tag) &&
            (h->decap || field->layer < LAYER_OUTER_ETHERNET))
            expected.given[expected.count++] = o->modifiers.given[i];
    }
    return (!o->role->sends || field_writes_make(&trial->modified, &o->modifiers, &o->address,
                                                 o->address.tunnel.used, error, size)) &&
           field_writes_make(&trial->expected, &expected, &o->address, h->decap, error, size);
}

/* The ends expect the flows of the table, if all of them have arrived. */
static void expect_table(struct trial *trial)
{
    for (unsigned i = 0; i < trial->end_count; i++)
        end_expect(trial, &trial->ends[i], i);
}

static unsigned count_ends(const struct options *o)
{
    return o->queues > 1 ? (unsigned)o->queues : o->port_count;
}

/* The histograms and rings of the half that a role does not use get no pages: hundreds of engines
 * may share the memory. */
static void populate_end(const struct role *role, struct end *end)
{
    char *const begin = (char *)end;
    char *const lateness = (char *)&end->sending.lateness;
    char *const receiving = (char *)&end->receiving;
    char *const tracker = (char *)&end->receiving.tracker;
    char *const watch = (char *)&end->watch;
    char *const behind = (char *)(end + 1);

    if (role_only_sends(role)) {
        memory_populate(begin, (size_t)(tracker - begin));
        memory_populate(watch, (size_t)(behind - watch));
    } else if (role_only_receives(role)) {
        memory_populate(begin, (size_t)(lateness - begin));
        memory_populate(receiving, (size_t)(behind - receiving));
    } else {
        memory_populate(begin, sizeof *end);
    }
}

bool ends_open(struct trial *trial, const struct options *o, char *error, size_t size)
{
    if (trial->options != o) /* no write if it is equal: the control thread may already read it */
        trial->options = o;
    trial->traffic = o->traffic;
    const unsigned ends = count_ends(o);

    trial->threads.count = 1;
    if (o->role->speaks_tcp)
        return o->role->open(trial, error, size);
    trial->threads.count = o->role->has_both_ends && o->core_count == 2 ? 2 : 1;
    if (o->queues > 1)
        trial->threads.count = ends;
    trial->epoch = (unsigned)(clock_monotonic_ns() >> 10) & 15;
    if (!memory_suffices(sizeof(struct end) * ends, "out of memory: its ports and queues ", error,
                         size))
        return false;
    trial->ends = memory_map(sizeof(struct end) * ends);
    if (trial->ends == NULL)
        return fail(error, size, "out of memory");
    for (unsigned i = 0; i < ends; i++)
        populate_end(o->role, &trial->ends[i]);
    for (; trial->end_count < ends; trial->end_count++) {
        if (!open_end(trial, trial->end_count, error, size))
            return false;
    }
    if (o->role->has_both_ends)
        address_other_end(trial);
    if (!make_modifiers(trial, error, size))
        return false;
    for (unsigned i = 0; i < trial->end_count; i++) {
        if (!bind_flows(trial, i, error, size))
            return false;
        end_join(trial, &trial->ends[i], i, (uint16_t)o->stream);
    }
    if (o->flows.zipf)
        zipf_make(&trial->zipf, o->flows.count, o->flows.exponent);
    return ends_fit(trial, error, size);
}

static bool fits_mtu(const struct trial *trial, char *error, size_t size)
{
    const bool begins_with_tag =
        trial->options->address.tags == 1 && !trial->options->address.tunnel.used;
    const uint32_t outside = io_bytes_outside_mtu(begins_with_tag);
    const uint32_t outer = trial->options->address.tunnel.used ? OUTER_BYTES : 0;
    const uint64_t own_bytes = trial->traffic.frame_size - FCS_BYTES - outside + outer;
    const uint64_t mtu_bytes = larger(own_bytes, trial->replay.mtu_bytes);

    for (unsigned i = 0; i < trial->end_count; i++) {
        const struct io_port *port = trial->ends[i].port;
        if (mtu_bytes <= port->mtu_bytes)
            continue;
        if (mtu_bytes == trial->replay.mtu_bytes)
            return fail(error, size,
                        "port %u (%s): frame %llu of the replay needs an MTU of %llu; the port has "
                        "%u: raise it, or leave the frame out (editcap -F pcap FILE NEW %llu)",
                        i, port->spec, (unsigned long long)trial->replay.mtu_frame,
                        (unsigned long long)mtu_bytes, port->mtu_bytes,
                        (unsigned long long)trial->replay.mtu_frame);
        return fail(error, size,
                    "port %u (%s): packet-size %llu needs an MTU of %llu; the port has %u: raise "
                    "it, or use a smaller packet-size",
                    i, port->spec,
                    (unsigned long long)larger(trial->traffic.frame_size,
                                               trial->replay.longest + FCS_BYTES),
                    (unsigned long long)mtu_bytes, port->mtu_bytes);
    }
    return true;
}

/* A port that hands frames over late would falsify their times. */
static bool fits_timing(const struct trial *trial, char *error, size_t size)
{
    const bool timed = trial->traffic.latency || trial->traffic.probes;
    const char *key = trial->traffic.latency ? "latency" : "probes";

    for (unsigned i = 0; timed && i < trial->end_count; i++) {
        const struct io_port *port = trial->ends[i].port;
        if (!port->untimed)
            continue;
        return fail(error, size,
                    "%s: port %u (%s) was opened for a receiver that only counts, and hands frames "
                    "over up to 1 ms late; give --%s 1 on the command line, or ring=v2",
                    key, i, port->spec, key);
    }
    return true;
}

/* Each row of a table has a tunnel; without a table, all frames have the only tunnel. */
bool ends_fit_tunnels(const struct trial *trial, char *error, size_t size)
{
    const struct row_table *tunnels = &trial->tunnels, *tables[] = {&trial->table, &trial->denied};

    if (tunnels->loaded < tunnels->count ||
        (trial->options->address.tunnel.used && tunnels->count == 0))
        return fail(error, size,
                    "tunnels: %u of %u rows have arrived; send them by the command tunnels",
                    tunnels->loaded, tunnels->count);
    if (tunnels->count > 1 && trial->table.count == 0)
        return fail(error, size, "tunnels: %u of them need a table of flows, which choose a tunnel",
                    tunnels->count);
    for (unsigned i = 0; i < 2 && tunnels->count > 0; i++) {
        for (uint32_t row = 0; row < tables[i]->loaded; row++) {
            const uint16_t tunnel = row_tunnel(tables[i], row_table_row(tables[i], row));
            if (tunnel >= tunnels->count)
                return fail(error, size, "table: row %u has tunnel %u; there are %u, from 0", row,
                            tunnel, tunnels->count);
        }
    }
    return true;
}

bool ends_fit(const struct trial *trial, char *error, size_t size)
{
    const uint64_t opened_for = size_opened_for(trial);

    if (trial->table.loaded < trial->table.count)
        return fail(error, size, "table: %u of %u rows have arrived; send the rest before start",
                    trial->table.loaded, trial->table.count);
    if (trial->table.count > 0 && modifiers_change(&trial->options->modifiers, FIELDS_OF_ROWS))
        return fail(error, size,
                    "table: its rows have the addresses and ports; leave the "
                    "modifiers of these fields out");
    if (trial->traffic.frame_size > opened_for)
        return fail(error, size,
                    "packet-size: %llu is above the %llu that the ports were opened for; give "
                    "--packet-size",
                    (unsigned long long)trial->traffic.frame_size, (unsigned long long)opened_for);
    if (!fits_timing(trial, error, size))
        return false;
    if (trial->traffic.schedule.shape == SCHEDULE_RECORDED &&
        !replay_repeats(&trial->replay, trial->options->loops, error, size))
        return false;
    if (!trial->options->role->sends)
        return true;
    const uint32_t smallest = frame_size_min(&trial->options->address);
    if (trial->traffic.sizes.smallest < smallest)
        return fail(error, size, "packet-size: %u is below %u, the smallest frame of this kind",
                    trial->traffic.sizes.smallest, smallest);
    return fits_mtu(trial, error, size);
}

bool ends_begin_table(struct trial *trial, struct row_table *table,
                      const struct row_table_plan *plan, char *error, size_t size)
{
    const uint32_t flow_bytes = trial->options->address.ip6 ? ROW_BYTES_IP6 : ROW_BYTES_IP4;
    const bool good = row_table_begin(
        table, plan, table == &trial->tunnels ? TUNNEL_ROW_BYTES : flow_bytes, error, size);

    expect_table(trial);
    return good;
}

bool ends_load_table(struct trial *trial, struct row_table *table, const uint8_t *bytes,
                     size_t length, char *error, size_t size)
{
    const uint32_t next_hops = table == &trial->table ? trial->options->expected.next_hop_count : 0;

    if (!row_table_add(table, bytes, length, next_hops, error, size))
        return false;
    expect_table(trial);
    return true;
}

bool ends_flush(struct trial *trial, char *error, size_t size)
{
    for (unsigned i = 0; i < trial->end_count; i++) {
        struct io_port *port = trial->ends[i].port;
        if (port->ops->flush != NULL)
            port->ops->flush(port);
        if (port->failure[0] == '\0')
            continue;
        return fail(error, size, "port %u (%s): %s", i, port->spec, port->failure);
    }
    return true;
}

void ends_close(struct trial *trial)
{
    if (trial->tcp != NULL)
        trial->options->role->close(trial);
    probes_close(trial);
    denied_close(trial);
    for (unsigned i = trial->end_count; i-- > 0;) { /* queue 0 is closed last */
        trial->ends[i].port->ops->close(trial->ends[i].port);
        queues_free(&trial->ends[i]);
    }
    field_writes_free(&trial->modified);
    field_writes_free(&trial->expected);
    row_table_free(&trial->table);
    row_table_free(&trial->denied);
    row_table_free(&trial->tunnels);
    memory_unmap(trial->ends,
                 trial->ends == NULL ? 0 : sizeof(struct end) * count_ends(trial->options));
    trial->ends = NULL;
    trial->end_count = 0;
}
