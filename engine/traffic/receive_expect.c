/* What a receiving end expects of its frames: addresses, tags and flows, taken from its own
 * options once, before anything arrives. */
#include <arpa/inet.h>
#include <string.h>

#include "traffic/receive.h"

static void expect_field(struct expected_frames *e, enum flow_field field, bool given,
                         uint32_t value)
{
    e->fields[field] = (struct flow_range){.base = value, .count = given ? 1 : 0};
}

/* Where the headers are, and what they say in every frame. */
static void expect_layout(struct receiver *rx, const struct frame_address *own)
{
    struct expected_frames *e = &rx->expected;

    memset(e, 0, sizeof *e);
    rx->extra_headers = frame_headers_bytes(own) - HEADERS_BYTES;
    rx->special = own->tags > 0 || own->ip6;
    e->layout.udp = HEADERS_BYTES + rx->extra_headers - 8;
    e->layout.ip = e->layout.udp - (own->ip6 ? 40 : 20);
    e->layout.ip6 = own->ip6;
    e->tags = own->tags;
    for (unsigned tag = 0; tag < own->tags; tag++)
        e->types[tag] = own->tags == 2 && tag == 0 ? WIRE_SERVICE : WIRE_VLAN;
    e->types[own->tags] = own->ip6 ? WIRE_IPV6 : WIRE_IPV4;
    e->outer_vlan = own->tags == 2 ? own->vlan[0] : 0;
    if (own->tags > 0)
        expect_field(e, FLOW_VLAN, true, own->vlan[own->tags - 1U]);
}

void receive_expect(struct receiver *rx, const struct frame_address *own, bool src_ip_given,
                    bool dst_ip_given, bool src_udp_given, bool dst_udp_given)
{
    const uint32_t ips[2] = {htonl(own->dst_ip), htonl(own->src_ip)};
    const uint32_t ip_masks[2] = {dst_ip_given ? ~0U : 0, src_ip_given ? ~0U : 0};
    const uint16_t ports[2] = {htons(own->dst_udp), htons(own->src_udp)};
    const uint16_t port_masks[2] = {dst_udp_given ? 0xffff : 0, src_udp_given ? 0xffff : 0};
    struct expected_frames *e = &rx->expected;

    memset(rx->intact, 0, sizeof rx->intact); /* were judged by other expectations */
    memcpy(&rx->addresses, ips, sizeof ips);
    memcpy(&rx->address_mask, ip_masks, sizeof ip_masks);
    memcpy(&rx->ports, ports, sizeof ports);
    memcpy(&rx->port_mask, port_masks, sizeof port_masks);

    expect_layout(rx, own);
    expect_field(e, FLOW_SRC_IP, dst_ip_given, own->dst_ip);
    expect_field(e, FLOW_DST_IP, src_ip_given, own->src_ip);
    expect_field(e, FLOW_SRC_PORT, dst_udp_given, own->dst_udp);
    expect_field(e, FLOW_DST_PORT, src_udp_given, own->src_udp);
    memcpy(e->src_prefix, own->dst_prefix, sizeof e->src_prefix);
    memcpy(e->dst_prefix, own->src_prefix, sizeof e->dst_prefix);
    e->src_prefix_given = dst_ip_given;
    e->dst_prefix_given = src_ip_given;
}

void receive_expect_flows(struct receiver *rx, const struct flow_set *own)
{
    const struct flow_set arriving = flows_swapped(own);

    for (unsigned i = 0; i < FLOW_FIELDS; i++) {
        if (arriving.fields[i].count == 0 || i == FLOW_SRC_MAC || i == FLOW_DST_MAC)
            continue;
        rx->special = true;
        if (rx->expected.fields[i].count > 0) /* given, or a tag */
            rx->expected.fields[i] = arriving.fields[i];
    }
}
