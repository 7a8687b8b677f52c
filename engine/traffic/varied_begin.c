/* Determines the varying fields of a trial, once, before the first frame. */
#include <string.h>

#include "traffic/varied.h"

/* Removing a 16- or 32-bit word from a one's complement sum means adding its complement. */
static uint64_t without(uint32_t word)
{
    return UINT32_MAX - word;
}

static uint32_t offset_of(enum flow_field field, const struct frame_address *a, uint32_t headers,
                          uint32_t outer)
{
    const uint32_t udp = headers - 8;

    switch (field) {
    case FLOW_SRC_MAC:
        return outer + 8;
    case FLOW_DST_MAC:
        return outer + 2;
    case FLOW_SRC_IP: /* the last four bytes of the address */
        return a->ip6 ? udp - 20 : udp - 8;
    case FLOW_DST_IP:
        return udp - 4;
    case FLOW_SRC_PORT:
        return udp;
    case FLOW_DST_PORT:
        return udp + 2;
    default:
        return outer + OFFSET_ETHERTYPE + TAG_BYTES * (a->tags - 1U) + 2;
    }
}

static void add_field(struct varied *v, const struct frame_template *t,
                      const struct frame_address *a, enum flow_field field,
                      const struct flow_range *range)
{
    const uint32_t offset = offset_of(field, a, v->headers, v->outer);
    const uint8_t *at = t->bytes + offset;

    v->fields[v->field_count++] =
        (struct varied_field){.field = field, .offset = offset, .range = *range};
    if (field == FLOW_SRC_IP || field == FLOW_DST_IP) {
        v->sum += without(load32(at));
        v->ip_sum += without(load32(at));
        v->ip_sum_varies = !a->ip6;
    } else if (field == FLOW_SRC_PORT || field == FLOW_DST_PORT) {
        v->sum += without(load16(at));
    }
}

static void take_lengths_out(struct varied *v, const struct frame_template *t)
{
    const uint8_t *udp = t->bytes + v->headers - 8;

    v->sum +=
        2 * without(load16(udp + 4)) + without((uint32_t)varied_pattern_sum(t, t->payload_length));
    v->ip_sum += v->ip6 ? 0 : without(load16(udp - 18));
    v->ip_sum_varies |= !v->ip6;
}

/* IPv4 frames of one size whose flows differ in an address, a port or both. */
static void find_usual(struct varied *v, const struct frame_template *t)
{
    v->usual = v->field_count > 0 && v->sizes == NULL && !v->ip6 && !t->touch;
    v->address = v->port = -1;
    for (unsigned i = 0; i < v->field_count; i++) {
        const enum flow_field field = v->fields[i].field;
        const bool address = field == FLOW_SRC_IP || field == FLOW_DST_IP;
        const bool port = field == FLOW_SRC_PORT || field == FLOW_DST_PORT;
        int *place = address ? &v->address : &v->port;
        v->usual &= (address || port) && *place < 0;
        *place = (int)i;
    }
}

void varied_begin(struct varied *v, const struct frame_template *t,
                  const struct frame_address *address, const struct sizes *sizes,
                  const struct flow_set *flows, const struct zipf *zipf)
{
    memset(v, 0, sizeof *v);
    v->headers = t->payload;
    v->beside = (uint32_t)t->beside + t->payload;
    v->outer = address->tunnel.used ? OUTER_BYTES : 0;
    v->ip6 = address->ip6;
    v->sum = t->constant_sum;
    if (!v->ip6 &&
        v->headers > 0) { /* otherwise the sum would include the checksum of the template */
        const uint8_t *ip = t->bytes + v->headers - 28;
        v->ip_sum = sum_bytes(ip, 20) + without(load16(ip + 10));
    }
    if (sizes != NULL && sizes->kind != SIZES_FIXED) {
        v->sizes = sizes;
        if (v->headers > 0)
            take_lengths_out(v, t);
    }
    if (flows != NULL && flows->count > 1 && v->headers > 0) {
        v->flows = flows->count;
        v->seed = zipf_mix(flows->seed + 0x9e3779b97f4a7c15ULL);
        v->zipf = flows->zipf ? zipf : NULL;
        for (unsigned i = 0; i < FLOW_FIELDS; i++) {
            if (flows->fields[i].count > 0)
                add_field(v, t, address, (enum flow_field)i, &flows->fields[i]);
        }
    }
    v->used = v->sizes != NULL || v->field_count > 0;
    find_usual(v, t);
    v->sequence = UINT64_MAX; /* forces a search for the first frame */
}

void varied_use_table(struct varied *v, const struct frame_template *t,
                      const struct row_table *table)
{
    const uint32_t bytes = table->row_bytes - ROW_INDEX_BYTES; /* addresses and ports */
    const uint8_t *first = t->bytes + v->headers - 8 - (bytes - 4);

    v->used = true;
    v->usual = false;
    v->table = table;
    v->flows = table->count;
    v->seed = table->seed;
    v->zipf = table->is_zipf ? &table->zipf : NULL;
    v->field_count = 0;
    for (uint32_t at = 0; at < bytes; at += 4)
        v->sum += without(load32(first + at));
    for (uint32_t at = 0; at < bytes - 4 && !v->ip6; at += 4)
        v->ip_sum += without(load32(first + at));
    v->ip_sum_varies |= !v->ip6;
    v->whole_rows = !v->ip6 && v->sizes == NULL && !t->touch;
}

/* An outer header also has the length of the frame, so no frame in a tunnel takes a short cut. */
void varied_use_tunnels(struct varied *v, const struct row_table *tunnels)
{
    v->used = true;
    v->usual = false;
    v->whole_rows &= v->outer == 0;
    v->tunnels = tunnels;
    if (v->flows == 0)
        v->flows = 1;
}

/* The template has values in these fields, which leave its sums. */
void varied_use_modifiers(struct varied *v, const struct frame_template *t,
                          const struct field_writes *modified)
{
    const uint32_t ip = v->headers - (v->ip6 ? 48 : 28);

    v->used = true;
    v->usual = false;
    v->whole_rows = false;
    v->modified = modified;
    for (unsigned i = 0; i < modified->count; i++) {
        const struct field_write *w = &modified->write[i];
        const uint32_t part = w->part == PART_IP ? ip : w->part == PART_ETHERNET ? v->outer : 0;
        const uint64_t bits = load64(t->bytes + part + w->offset) & ~w->keep;
        const uint64_t removed = without((uint32_t)bits) + without((uint32_t)(bits >> 32));
        v->write_offset[i] = part + w->offset;
        v->sum += removed & w->in_udp;
        v->ip_sum += removed & w->in_ipv4;
        v->ip_sum_varies |= w->in_ipv4 != 0;
        v->modifies_outer |= w->part == PART_OUTER;
    }
}

uint32_t varied_flow(const struct varied *v, uint64_t sequence)
{
    if (v->zipf != NULL)
        return zipf_rank(v->zipf, v->seed + sequence * ZIPF_STEP);
    return v->flows > 0 ? (uint32_t)(sequence % v->flows) : 0;
}
