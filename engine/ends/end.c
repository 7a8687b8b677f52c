/* Connects an end with its port and prepares it for a trial. */
#include "ends/end.h"

#include <string.h>

#include "ends/denied.h"

struct end_view end_view_of(const struct options *o, unsigned end)
{
    struct end_view view = {.port_index = o->queues > 1 ? 0 : end, /* several queues of one port */
                            .address = o->address,
                            .flows = o->flows,
                            .src_mac_given = o->src_mac_given,
                            .src_ip_given = o->src_ip_given,
                            .dst_ip_given = o->dst_ip_given,
                            .src_udp_given = o->src_udp_given,
                            .dst_udp_given = o->dst_udp_given};

    if (view.port_index % 2 == 0)
        return view;
    view.address = frame_address_swapped(&o->address);
    view.address.tunnel.used = false;
    view.flows = flows_swapped(&o->flows);
    view.src_mac_given = o->dst_mac_given;
    view.src_ip_given = o->dst_ip_given;
    view.dst_ip_given = o->src_ip_given;
    view.src_udp_given = o->dst_udp_given;
    view.dst_udp_given = o->src_udp_given;
    if (o->src_mac_b_given)
        memcpy(view.address.src_mac, o->address_b.src_mac, 6);
    if (o->dst_mac_b_given)
        memcpy(view.address.dst_mac, o->address_b.dst_mac, 6);
    return view;
}

/* The switch may have removed or added a tag: then the expected tag is compared separately, and the
 * rest of a frame is that of an untagged frame. */
void end_expect(struct trial *trial, struct end *end, unsigned index)
{
    const struct options *o = trial->options;
    const struct end_view view = end_view_of(o, index);
    struct end_receiving *r = &end->receiving;
    struct expectation *expectation = &r->expectation;
    struct frame_address address = end->address;

    expectation->headers = &o->expected;
    expectation->table = row_table_is_complete(&trial->table) ? &trial->table : NULL;
    expectation->tunnels = row_table_is_complete(&trial->tunnels) ? &trial->tunnels : NULL;
    expectation->reversed = o->role->sends && !o->role->has_both_ends;
    expectation->fields = &trial->expected;
    expectation->used = o->expected.decap ||
                        (o->role->takes_expectation &&
                         (expected_headers_are_given(&o->expected) || expectation->table != NULL ||
                          expectation->tunnels != NULL || trial->expected.count > 0));
    if (expectation->used && o->expected.vlan_given)
        address.tags = 0;
    receive_expect(&r->rx, &address, view.src_ip_given, view.dst_ip_given, view.src_udp_given,
                   view.dst_udp_given);
    receive_expect_flows(&r->rx, &end->flows);
    receive_expect_headers(&r->rx, expectation);
}

void end_join(struct trial *trial, struct end *end, unsigned index, uint16_t stream)
{
    const struct options *o = trial->options;
    struct end_receiving *r = &end->receiving;

    end->sending.tx.port = end->port;
    end->sending.tx.counters = &end->counters;
    end->sending.tx.lateness = &end->sending.lateness;
    end->sending.tx.lateness_away = &end->sending.lateness_away;
    r->rx.port = end->port;
    r->rx.counters = &end->counters;
    r->rx.tracker = &r->tracker;
    r->rx.from_actual = &r->from_actual;
    r->rx.from_intended = &r->from_intended;
    r->rx.variation = &r->variation;
    r->groups.count = (uint32_t)o->flow_groups;
    r->rx.groups = o->flow_groups > 0 ? &r->groups : NULL;
    r->rx.touch = o->touch;
    r->rx.payload_only = end->port->udp_payload_only;
    r->rx.stream = __builtin_bswap16(stream);
    r->rx.denied_stream = __builtin_bswap16((uint16_t)(stream ^ DENIED_STREAM));
    memcpy(r->rx.mac, end->address.src_mac, 6);
    r->rx.mac_known = true;
    end_expect(trial, end, index);
    if (o->touch || o->payload != PAYLOAD_FIXED)
        r->rx.pattern = payload_pattern((enum payload_kind)o->payload);
    queues_join(end, (unsigned)o->stream);
}

/* The size of the template. Roles that do not send may have no frame size, or a size too small for
 * the stamp: they use only the signature of their template. */
static uint32_t template_size(const struct trial *trial, const struct end *end)
{
    const uint32_t configured = (uint32_t)trial->traffic.frame_size;
    const uint32_t smallest = frame_size_min(&end->address);

    return configured > smallest ? configured : smallest;
}

struct frame_address end_sent_address(const struct trial *trial, const struct end *end,
                                      unsigned index)
{
    const struct role *role = trial->options->role;
    struct frame_address address = end->address;
    uint8_t *row = address.tunnel.row;

    if (!row_table_is_complete(&trial->tunnels) || (role->has_both_ends && index > 0)) {
        address.tunnel.used = false;
        return address;
    }
    memcpy(row, row_table_row(&trial->tunnels, 0), sizeof address.tunnel.row);
    if (!role->sends)
        frame_reverse_tunnel(row);
    memcpy(address.dst_mac, row + TUNNEL_ROW_MACS, 6);
    memcpy(address.src_mac, row + TUNNEL_ROW_MACS + 6, 6);
    return address;
}

static void use_tables(const struct trial *trial, struct end *end, const struct row_table *table)
{
    struct transmitter *tx = &end->sending.tx;

    if (row_table_is_complete(table))
        varied_use_table(&tx->varied, &tx->template, table);
    if (row_table_is_complete(&trial->tunnels))
        varied_use_tunnels(&tx->varied, &trial->tunnels);
}

void end_begin_sending(struct trial *trial, struct end *end, unsigned index, uint16_t stream)
{
    const struct options *o = trial->options;
    const unsigned kind = FRAME_DATA | (o->touch ? FRAME_TOUCHED : 0);
    const struct frame_address address = end_sent_address(trial, end, index);
    const bool is_denied = end == trial->ends[index].denied;

    frame_template_build(&end->sending.tx.template, &address, template_size(trial, end), stream,
                         kind, trial->epoch, end->port->udp_payload_only);
    frame_template_fill(&end->sending.tx.template, (enum payload_kind)o->payload);
    varied_begin(&end->sending.tx.varied, &end->sending.tx.template, &address,
                 &trial->traffic.sizes, &end->flows, &trial->zipf);
    use_tables(trial, end, is_denied ? &trial->denied : &trial->table);
    if (trial->modified.count > 0 && !is_denied)
        varied_use_modifiers(&end->sending.tx.varied, &end->sending.tx.template, &trial->modified);
    end->before = end->counters;
    memset(end->spent_ticks, 0, sizeof end->spent_ticks);
    if (trial_end_sends(trial, index))
        transmit_begin(&end->sending.tx);
}

void end_begin_receiving(struct trial *trial, struct end *end, bool timed)
{
    const uint32_t signature =
        load32(end->sending.tx.template.bytes + end->sending.tx.template.payload);
    const bool knows_signature = trial->options->role->latency != LATENCY_NONE;

    end->receiving.rx.latency_wanted = timed;
    end->receiving.rx.sender_clock = trial_sender_clock(trial);
    receive_begin(&end->receiving.rx, knows_signature ? signature : 0, 0);
    end->receiving.missing = 0;
    end->receiving.last_poll_tick = 0;
    end->receiving.absence = (struct absence){.ring = end->port->rx_ring,
                                              .limit = clock_ns_to_ticks(ABSENCE_NS),
                                              .limit_a_frame = clock_ns_to_ticks(ABSENCE_FRAME_NS)};
}

void end_set_times(struct trial *trial, struct end *end, const struct schedule_plan *plan,
                   uint32_t burst, unsigned seed_index)
{
    pacing_begin(&end->sending.tx.pacing, plan->rate_pps, burst, engine_clock.hz,
                 trial->clock.start_tick, trial->clock.end_tick,
                 clock_ns_to_ticks(trial->options->catch_up_ns));
    pacing_take_shape(&end->sending.tx.pacing, plan, engine_clock.hz, seed_index);
    end->receiving.rx.lock_intended = trial->clock.start_tick;
}
