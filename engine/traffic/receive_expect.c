/* The expected frames of a receiving end: addresses, tags and flows, from its options, set before
 * any frame arrives. */
#include <arpa/inet.h>
#include <string.h>

#include "traffic/receive.h"

static void expect_field(struct expected_frames *e, enum flow_field field, bool given,
                         uint32_t value)
{
    e->fields[field] = (struct flow_range){.base = value, .count = given ? 1 : 0};
}

/* Offsets and fixed content of the headers. */
static void expect_layout(struct receiver *rx, const struct frame_address *local)
{
    struct expected_frames *e = &rx->expected;

    memset(e, 0, sizeof *e);
    rx->extra_headers = frame_headers_bytes(local) - HEADERS_BYTES;
    rx->special = local->tags > 0 || local->ip6;
    e->layout.udp = HEADERS_BYTES + rx->extra_headers - 8;
    e->layout.ip = e->layout.udp - (local->ip6 ? 40 : 20);
    e->layout.ip6 = local->ip6;
    e->tags = local->tags;
    for (unsigned tag = 0; tag < local->tags; tag++)
        e->types[tag] = local->tags == 2 && tag == 0 ? WIRE_SERVICE : WIRE_VLAN;
    e->types[local->tags] = local->ip6 ? WIRE_IPV6 : WIRE_IPV4;
    e->outer_vlan = local->tags == 2 ? local->vlan[0] : 0;
    if (local->tags > 0)
        expect_field(e, FLOW_VLAN, true, local->vlan[local->tags - 1U]);
}

void receive_expect(struct receiver *rx, const struct frame_address *local, bool src_ip_given,
                    bool dst_ip_given, bool src_udp_given, bool dst_udp_given)
{
    const uint32_t ips[2] = {htonl(local->dst_ip), htonl(local->src_ip)};
    const uint32_t ip_masks[2] = {dst_ip_given ? ~0U : 0, src_ip_given ? ~0U : 0};
    const uint16_t ports[2] = {htons(local->dst_udp), htons(local->src_udp)};
    const uint16_t port_masks[2] = {dst_udp_given ? 0xffff : 0, src_udp_given ? 0xffff : 0};
    struct expected_frames *e = &rx->expected;

    memset(rx->intact, 0, sizeof rx->intact); /* they were judged with other expectations */
    memcpy(&rx->addresses, ips, sizeof ips);
    memcpy(&rx->address_mask, ip_masks, sizeof ip_masks);
    memcpy(&rx->ports, ports, sizeof ports);
    memcpy(&rx->port_mask, port_masks, sizeof port_masks);

    expect_layout(rx, local);
    expect_field(e, FLOW_SRC_IP, dst_ip_given, local->dst_ip);
    expect_field(e, FLOW_DST_IP, src_ip_given, local->src_ip);
    expect_field(e, FLOW_SRC_PORT, dst_udp_given, local->dst_udp);
    expect_field(e, FLOW_DST_PORT, src_udp_given, local->src_udp);
    memcpy(e->src_prefix, local->dst_prefix, sizeof e->src_prefix);
    memcpy(e->dst_prefix, local->src_prefix, sizeof e->dst_prefix);
    e->src_prefix_given = dst_ip_given;
    e->dst_prefix_given = src_ip_given;
}

void receive_expect_flows(struct receiver *rx, const struct flow_set *local)
{
    const struct flow_set arriving = flows_swapped(local);

    for (unsigned i = 0; i < FLOW_FIELDS; i++) {
        if (arriving.fields[i].count == 0 || i == FLOW_SRC_MAC || i == FLOW_DST_MAC)
            continue;
        rx->special = true;
        if (rx->expected.fields[i].count > 0) /* an address was given, or there is a tag */
            rx->expected.fields[i] = arriving.fields[i];
    }
}

/* Modified fields are compared with the value of each frame, so no range of values is. */
static void expect_modified(struct expected_frames *e, uint32_t wrong)
{
    static const enum wrong_field of[FLOW_FIELDS] = {
        [FLOW_SRC_MAC] = WRONG_src_mac,   [FLOW_DST_MAC] = WRONG_dst_mac,
        [FLOW_SRC_IP] = WRONG_src_ip,     [FLOW_DST_IP] = WRONG_dst_ip,
        [FLOW_SRC_PORT] = WRONG_src_port, [FLOW_DST_PORT] = WRONG_dst_port,
        [FLOW_VLAN] = WRONG_vlan,
    };

    for (unsigned i = 0; i < FLOW_FIELDS; i++) {
        if ((wrong & 1U << of[i]) != 0)
            e->fields[i].count = 0;
    }
    e->any_outer_vlan = (wrong & 1U << WRONG_vlan) != 0;
    e->src_prefix_given &= (wrong & 1U << WRONG_src_ip) == 0;
    e->dst_prefix_given &= (wrong & 1U << WRONG_dst_ip) == 0;
}

/* The rows of a table have the addresses, so no address is the same for all frames. */
void receive_expect_headers(struct receiver *rx, struct expectation *expectation)
{
    rx->expectation = expectation->used ? expectation : NULL;
    if (!expectation->used)
        return;
    rx->special = true;
    if (expectation->fields != NULL)
        expect_modified(&rx->expected, expectation->fields->wrong);
    if (expectation->table == NULL)
        return;
    for (unsigned i = FLOW_SRC_IP; i <= FLOW_DST_PORT; i++)
        rx->expected.fields[i].count = 0;
    rx->expected.src_prefix_given = rx->expected.dst_prefix_given = false;
}
