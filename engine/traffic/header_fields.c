/* The table of header fields. */
#include "traffic/header_fields.h"

#include "traffic/frame.h"

#define ETHERNET(name, offset, wrong)                                                              \
    {                                                                                              \
        name, LAYER_ETHERNET, offset, 0, 48, SUMS_NONE, FORMAT_MAC, WRONG_##wrong                  \
    }
#define TAG(name, layer, first_bit, bits, wrong)                                                   \
    {                                                                                              \
        name, layer, 2, first_bit, bits, SUMS_NONE, FORMAT_NUMBER, WRONG_##wrong                   \
    }
#define IPV4(name, offset, first_bit, bits, wrong)                                                 \
    {                                                                                              \
        name, LAYER_IPV4, offset, first_bit, bits, SUMS_IP, FORMAT_NUMBER, WRONG_##wrong           \
    }
#define IPV6(name, offset, first_bit, bits, wrong)                                                 \
    {                                                                                              \
        name, LAYER_IPV6, offset, first_bit, bits, SUMS_NONE, FORMAT_NUMBER, WRONG_##wrong         \
    }
#define UDP(name, offset, wrong)                                                                   \
    {                                                                                              \
        name, LAYER_UDP, offset, 0, 16, SUMS_UDP, FORMAT_NUMBER, WRONG_##wrong                     \
    }
#define OUTER(name, layer, offset, first_bit, bits, format, wrong)                                 \
    {                                                                                              \
        name, layer, offset, first_bit, bits, SUMS_NONE, format, WRONG_##wrong                     \
    }

const struct header_field header_fields[] = {
    ETHERNET("src-mac", 6, src_mac),
    ETHERNET("dst-mac", 0, dst_mac),
    TAG("service-pcp", LAYER_SERVICE_TAG, 0, 3, pcp),
    TAG("service-dei", LAYER_SERVICE_TAG, 3, 1, dei),
    TAG("service-vlan", LAYER_SERVICE_TAG, 4, 12, vlan),
    TAG("pcp", LAYER_TAG, 0, 3, pcp),
    TAG("dei", LAYER_TAG, 3, 1, dei),
    TAG("vlan", LAYER_TAG, 4, 12, vlan),
    IPV4("traffic-class", 0, 8, 8, dscp),
    IPV4("dscp", 0, 8, 6, dscp),
    IPV4("ecn", 0, 14, 2, ecn),
    IPV4("id", 4, 0, 16, id),
    IPV4("df", 6, 1, 1, df),
    IPV4("ttl", 8, 0, 8, ttl),
    {"src-ip", LAYER_IPV4, 12, 0, 32, SUMS_BOTH, FORMAT_IPV4, WRONG_src_ip},
    {"dst-ip", LAYER_IPV4, 16, 0, 32, SUMS_BOTH, FORMAT_IPV4, WRONG_dst_ip},
    IPV6("traffic-class", 0, 4, 8, dscp),
    IPV6("dscp", 0, 4, 6, dscp),
    IPV6("ecn", 0, 10, 2, ecn),
    IPV6("flow-label", 0, 12, 20, flow_label),
    IPV6("ttl", 6, 8, 8, ttl),
    {"src-ip", LAYER_IPV6, 8, 0, 128, SUMS_UDP, FORMAT_IPV6, WRONG_src_ip},
    {"dst-ip", LAYER_IPV6, 24, 0, 128, SUMS_UDP, FORMAT_IPV6, WRONG_dst_ip},
    UDP("src-port", 0, src_port),
    UDP("dst-port", 2, dst_port),
    OUTER("outer-src-mac", LAYER_OUTER_ETHERNET, 6, 0, 48, FORMAT_MAC, outer_header),
    OUTER("outer-dst-mac", LAYER_OUTER_ETHERNET, 0, 0, 48, FORMAT_MAC, outer_header),
    OUTER("outer-dscp", LAYER_OUTER_IPV4, 0, 8, 6, FORMAT_NUMBER, outer_header),
    OUTER("outer-ecn", LAYER_OUTER_IPV4, 0, 14, 2, FORMAT_NUMBER, outer_header),
    OUTER("outer-traffic-class", LAYER_OUTER_IPV4, 0, 8, 8, FORMAT_NUMBER, outer_header),
    OUTER("outer-id", LAYER_OUTER_IPV4, 4, 0, 16, FORMAT_NUMBER, outer_header),
    OUTER("outer-df", LAYER_OUTER_IPV4, 6, 1, 1, FORMAT_NUMBER, outer_header),
    OUTER("outer-ttl", LAYER_OUTER_IPV4, 8, 0, 8, FORMAT_NUMBER, outer_header),
    OUTER("outer-src-ip", LAYER_OUTER_IPV4, 12, 0, 32, FORMAT_IPV4, outer_src_ip),
    OUTER("outer-dst-ip", LAYER_OUTER_IPV4, 16, 0, 32, FORMAT_IPV4, outer_dst_ip),
    OUTER("outer-src-port", LAYER_OUTER_UDP, 0, 0, 16, FORMAT_NUMBER, outer_header),
    OUTER("vni", LAYER_VXLAN, 4, 0, 24, FORMAT_NUMBER, vni),
};

const unsigned header_field_count = sizeof header_fields / sizeof header_fields[0];

const char *const header_layer_names[HEADER_LAYERS] = {
    [LAYER_ETHERNET] = "ethernet",
    [LAYER_SERVICE_TAG] = "802.1ad",
    [LAYER_TAG] = "802.1Q",
    [LAYER_IPV4] = "ipv4",
    [LAYER_IPV6] = "ipv6",
    [LAYER_UDP] = "udp",
    [LAYER_OUTER_ETHERNET] = "outer ethernet",
    [LAYER_OUTER_IPV4] = "outer ipv4",
    [LAYER_OUTER_UDP] = "outer udp",
    [LAYER_VXLAN] = "vxlan",
};

int header_layer_offset(enum header_layer layer, const struct frame_address *a, bool has_outer,
                        enum header_part *part)
{
    *part = PART_ETHERNET;
    switch (layer) {
    case LAYER_ETHERNET:
        return 0;
    case LAYER_SERVICE_TAG:
        return a->tags == 2 ? OFFSET_ETHERTYPE : -1;
    case LAYER_TAG:
        return a->tags > 0 ? OFFSET_ETHERTYPE + TAG_BYTES * (a->tags - 1) : -1;
    default:
        break;
    }
    *part = PART_IP;
    if (layer == LAYER_IPV4)
        return a->ip6 ? -1 : 0;
    if (layer == LAYER_IPV6)
        return a->ip6 ? 0 : -1;
    if (layer == LAYER_UDP)
        return a->ip6 ? 40 : 20;
    *part = PART_OUTER;
    if (!has_outer)
        return -1;
    return layer == LAYER_OUTER_ETHERNET ? 0
           : layer == LAYER_OUTER_IPV4   ? OUTER_IP
           : layer == LAYER_OUTER_UDP    ? OUTER_UDP
                                         : OUTER_VXLAN;
}
