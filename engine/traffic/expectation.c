/* Compares the headers of received frames with the expectation. */
#include "traffic/expectation.h"

void expectation_reset(struct expectation *e)
{
    memset(e->wrong, 0, sizeof e->wrong);
    e->sample_length = 0;
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

struct opened_frame expectation_open(const struct expectation *e, const struct io_frame *frame)
{
    struct opened_frame opened = {.frame = *frame, .ethernet = frame->data};
    const struct expected_headers *h = e->headers;

    if (!h->vlan_given)
        return opened;
    const unsigned tags = count_tags(frame);
    const bool is_right =
        h->vlan == 0 ? tags == 0
                     : tags == 1 && (__builtin_bswap16(load16(frame->data + OFFSET_ETHERTYPE + 2)) &
                                     0xfffU) == h->vlan;
    opened.removed = TAG_BYTES * tags;
    opened.frame.data += opened.removed;
    opened.frame.length -= opened.removed;
    opened.wrong = bit(!is_right, WRONG_vlan);
    return opened;
}

static bool is_mac(const uint8_t *bytes, const uint8_t *mac)
{
    return memcmp(bytes, mac, 6) == 0;
}

/* Addresses and ports of a frame, which are one piece. */
static uint32_t check_flow(const uint8_t *bytes, const uint8_t *row, const struct row_table *table)
{
    const uint32_t ports = table->row_bytes - ROW_INDEX_BYTES - 4, address = ports / 2;

    if (__builtin_expect(memcmp(bytes, row, ports + 4) == 0, 1))
        return 0;
    return bit(memcmp(bytes, row, address) != 0, WRONG_src_ip) |
           bit(memcmp(bytes + address, row + address, address) != 0, WRONG_dst_ip) |
           bit(memcmp(bytes + ports, row + ports, 2) != 0, WRONG_src_port) |
           bit(memcmp(bytes + ports + 2, row + ports + 2, 2) != 0, WRONG_dst_port);
}

static uint32_t check_ip(const struct expected_headers *h, const uint8_t *ip, bool ip6)
{
    const unsigned ttl = ip6 ? ip[7] : ip[8];
    const unsigned dscp = ip6 ? (ip[0] & 15U) << 2 | ip[1] >> 6 : ip[1] >> 2;

    return bit(h->ttl_given && ttl != h->ttl, WRONG_ttl) |
           bit(h->dscp_given && dscp != h->dscp, WRONG_dscp);
}

uint32_t expectation_check(const struct expectation *e, const struct opened_frame *opened,
                           const struct frame_layout *layout, uint64_t sequence)
{
    const struct expected_headers *h = e->headers;
    const struct row_table *table = e->table;
    uint32_t wrong = opened->wrong, hop = 0;

    if (table != NULL) {
        const uint8_t *row = row_table_row(table, row_table_flow(table, sequence));
        const uint32_t addresses = layout->ip6 ? 32 : 8;
        hop = row_next_hop(table, row);
        wrong |= check_flow(opened->frame.data + layout->udp - addresses, row, table);
    }
    if (h->next_hop_count > 0)
        wrong |= bit(!is_mac(opened->ethernet, h->next_hops[hop]), WRONG_next_hop);
    if (h->src_mac_given)
        wrong |= bit(!is_mac(opened->ethernet + 6, h->src_mac), WRONG_src_mac);
    return wrong | check_ip(h, opened->frame.data + layout->ip, layout->ip6);
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
