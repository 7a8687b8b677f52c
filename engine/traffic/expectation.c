/* Compares the headers of received frames with the expectation. */
#include "traffic/expectation.h"

void expectation_reset(struct expectation *e)
{
    memset(e->wrong, 0, sizeof e->wrong);
    e->sample_length = 0;
    e->prepared = 0; /* the table may be another */
}

void expectation_prepare(struct expectation *e, uint64_t sequence, unsigned count)
{
    e->prepared = 0;
    if (e->table == NULL)
        return;
    row_table_choose(e->table, sequence, e->flows, count);
    e->prepared_first = sequence;
    e->prepared = count;
    for (unsigned i = 0; i < count && i < ROWS_FETCHED_AHEAD; i++)
        row_table_fetch(e->table, e->flows[i]);
}

static const uint8_t *row_of(const struct expectation *e, uint64_t sequence)
{
    const uint64_t place = sequence - e->prepared_first;

    if (place + ROWS_FETCHED_AHEAD < e->prepared)
        row_table_fetch(e->table, e->flows[place + ROWS_FETCHED_AHEAD]);
    return row_table_row(e->table, place < e->prepared ? e->flows[place]
                                                       : row_table_flow(e->table, sequence));
}

static uint32_t bit(bool is_wrong, enum wrong_field field)
{
    return is_wrong ? 1U << field : 0;
}

static unsigned count_tags(const struct io_frame *f)
{
    unsigned tags = 0;

    while (tags < TAGS_MAX && f->length >= OFFSET_ETHERTYPE + TAG_BYTES * (tags + 1) + 2 &&
           frame_is_tag(load16(f->data + OFFSET_ETHERTYPE + TAG_BYTES * tags)))
        tags++;
    return tags;
}

/* Return true if a frame is VXLAN over IPv4, with room for an inner frame. */
static bool is_vxlan(const struct io_frame *f)
{
    const uint8_t *ip = f->data + OUTER_IP;

    return f->length >= OUTER_BYTES + OFFSET_ETHERTYPE + 2 &&
           load16(f->data + OFFSET_ETHERTYPE) == WIRE_IPV4 && ip[0] == 0x45 && ip[9] == 17 &&
           (load16(ip + 6) & __builtin_bswap16(0x3fff)) == 0 &&
           load16(f->data + OUTER_UDP + 2) == __builtin_bswap16(VXLAN_PORT);
}

static uint32_t big16(const uint8_t *bytes)
{
    return __builtin_bswap16(load16(bytes));
}

/* Return true if the sum over pseudo header, UDP header and content is all ones, or if there is no
 * checksum. A kernel that leaves the checksum to the device writes the sum of the pseudo header;
 * over veth and tap it stays so, because there is no device. */
static bool has_right_udp_sum(const uint8_t *f, uint32_t udp_length)
{
    const uint8_t *udp = f + OUTER_UDP;
    const uint16_t checksum = load16(udp + 6);
    const uint64_t pseudo =
        sum_bytes(f + OUTER_ADDRESSES, 8) + __builtin_bswap16(17) + load16(udp + 4);

    return checksum == 0 || checksum == sum_fold(pseudo) ||
           sum_fold(pseudo + sum_bytes(udp, udp_length)) == 0xffff;
}

/* Compare all of the outer header that is the same for every tunnel: lengths, sums, flags. */
static bool is_outer_right(const struct io_frame *f)
{
    const uint8_t *ip = f->data + OUTER_IP, *vxlan = f->data + OUTER_VXLAN;
    const uint32_t udp_length = big16(f->data + OUTER_UDP + 4);

    return udp_length >= OUTER_BYTES - OUTER_UDP && OUTER_UDP + udp_length <= f->length &&
           big16(ip + 2) == udp_length + 20 && sum_fold(sum_bytes(ip, 20)) == 0xffff &&
           load32(vxlan) == VXLAN_FLAGS && vxlan[7] == 0 && has_right_udp_sum(f->data, udp_length);
}

static void remove_outer(struct opened_frame *opened)
{
    struct io_frame *f = &opened->frame;
    const bool is_right = is_outer_right(f);

    opened->outer = f->data;
    opened->wrong |= bit(!is_right, WRONG_outer_header);
    f->length = is_right ? OUTER_UDP + big16(f->data + OUTER_UDP + 4) : f->length;
    f->data += OUTER_BYTES;
    f->length -= OUTER_BYTES;
}

static void remove_tags(struct opened_frame *opened, uint64_t vlan)
{
    struct io_frame *f = &opened->frame;
    const unsigned tags = count_tags(f);
    const bool is_right =
        vlan == 0 ? tags == 0
                  : tags == 1 && (big16(f->data + OFFSET_ETHERTYPE + 2) & 0xfff) == vlan;

    opened->wrong |= bit(!is_right, WRONG_vlan);
    f->data += TAG_BYTES * tags;
    f->length -= TAG_BYTES * tags;
}

struct opened_frame expectation_open(const struct expectation *e, const struct io_frame *frame)
{
    struct opened_frame opened = {.frame = *frame};

    if (e->headers->decap && is_vxlan(frame))
        remove_outer(&opened);
    opened.ethernet = opened.frame.data;
    opened.counted = opened.frame.length;
    if (e->headers->vlan_given)
        remove_tags(&opened, e->headers->vlan);
    return opened;
}

static bool is_mac(const uint8_t *bytes, const uint8_t *mac)
{
    return memcmp(bytes, mac, 6) == 0;
}

/* Addresses and ports of a frame, which are one piece. */
static uint32_t check_flow(const uint8_t *bytes, const uint8_t *row, const struct row_table *table,
                           bool reversed)
{
    const uint32_t ports = table->row_bytes - ROW_INDEX_BYTES - 4, address = ports / 2;
    const uint32_t source = reversed ? address : 0, destination = address - source;
    const uint32_t source_port = ports + (reversed ? 2 : 0);
    const uint32_t destination_port = ports + (reversed ? 0 : 2);

    if (!reversed && __builtin_expect(memcmp(bytes, row, ports + 4) == 0, 1))
        return 0;
    return bit(memcmp(bytes, row + source, address) != 0, WRONG_src_ip) |
           bit(memcmp(bytes + address, row + destination, address) != 0, WRONG_dst_ip) |
           bit(memcmp(bytes + ports, row + source_port, 2) != 0, WRONG_src_port) |
           bit(memcmp(bytes + ports + 2, row + destination_port, 2) != 0, WRONG_dst_port);
}

static uint32_t check_ip(const struct expected_headers *h, const uint8_t *ip, bool ip6)
{
    const unsigned ttl = ip6 ? ip[7] : ip[8];
    const unsigned dscp = ip6 ? (ip[0] & 15U) << 2 | ip[1] >> 6 : ip[1] >> 2;

    return bit(h->ttl_given && ttl != h->ttl, WRONG_ttl) |
           bit(h->dscp_given && dscp != h->dscp, WRONG_dscp);
}

static uint32_t check_outer(const uint8_t *outer, const uint8_t *tunnel)
{
    return bit(memcmp(outer + OUTER_VXLAN + 4, tunnel + 1, 3) != 0, WRONG_vni) |
           bit(load32(outer + OUTER_ADDRESSES) != load32(tunnel + 4), WRONG_outer_src_ip) |
           bit(load32(outer + OUTER_ADDRESSES + 4) != load32(tunnel + 8), WRONG_outer_dst_ip);
}

/* Compare a frame with the row of its tunnel: MAC addresses, and the outer header if it has one. */
static uint32_t check_tunnel(const struct opened_frame *opened, const uint8_t *row, bool reversed)
{
    uint8_t tunnel[TUNNEL_ROW_BYTES];

    memcpy(tunnel, row, sizeof tunnel);
    if (reversed)
        frame_reverse_tunnel(tunnel);
    return (opened->outer != NULL ? check_outer(opened->outer, tunnel) : 0) |
           bit(!is_mac(opened->ethernet, tunnel + TUNNEL_ROW_MACS), WRONG_next_hop) |
           bit(!is_mac(opened->ethernet + 6, tunnel + TUNNEL_ROW_MACS + 6), WRONG_src_mac);
}

uint32_t expectation_check(const struct expectation *e, const struct opened_frame *opened,
                           const struct frame_layout *layout, uint64_t sequence)
{
    const struct expected_headers *h = e->headers;
    const struct row_table *table = e->table;
    uint32_t wrong = opened->wrong, hop = 0, tunnel = 0;

    if (table != NULL) {
        const uint8_t *row = row_of(e, sequence);
        const uint32_t addresses = layout->ip6 ? 32 : 8;
        hop = row_next_hop(table, row);
        tunnel = row_tunnel(table, row);
        wrong |= check_flow(opened->frame.data + layout->udp - addresses, row, table, e->reversed);
    }
    if (h->decap && opened->outer == NULL)
        wrong |= bit(true, WRONG_outer_header);
    else if (e->tunnels != NULL)
        wrong |= check_tunnel(opened, row_table_row(e->tunnels, tunnel), e->reversed);
    if (h->next_hop_count > 0)
        wrong |= bit(!is_mac(opened->ethernet, h->next_hops[hop]), WRONG_next_hop);
    if (h->src_mac_given)
        wrong |= bit(!is_mac(opened->ethernet + 6, h->src_mac), WRONG_src_mac);
    wrong |= check_ip(h, opened->frame.data + layout->ip, layout->ip6);
    if (e->fields == NULL || e->fields->count == 0)
        return wrong;
    const uint8_t *const parts[HEADER_PARTS] = {
        [PART_ETHERNET] = opened->ethernet,
        [PART_IP] = opened->frame.data + layout->ip,
        [PART_OUTER] = opened->outer,
    };
    return (wrong & ~(e->fields->wrong & ~(1U << WRONG_outer_header))) |
           field_writes_check(e->fields, parts, sequence);
}

void expectation_note(struct expectation *e, uint32_t wrong, const struct io_frame *frame)
{
    for (unsigned field = 0; field < WRONG_FIELDS_COUNT; field++)
        e->wrong[field] += wrong >> field & 1;
    if (e->sample_length > 0)
        return;
    e->sample_length = frame->length < sizeof e->sample ? frame->length : sizeof e->sample;
    memcpy(e->sample, frame->data, e->sample_length);
}
