/* Fills frames that differ in size or flow. */
#include "traffic/varied.h"

#include <arpa/inet.h>
#include <string.h>

/* Move the state to a sequence number: after frames were not accepted, and once at the begin. */
static void seek(struct varied *v, uint64_t sequence)
{
    if (v->sizes != NULL && v->sizes->kind == SIZES_CYCLE)
        v->cycle_at = (unsigned)(sequence % v->sizes->cycle_length);
    for (unsigned i = 0; i < v->field_count && v->zipf == NULL; i++) {
        struct varied_field *field = &v->fields[i];
        const struct flow_range *range = &field->range;
        const uint32_t flow = (uint32_t)(sequence % v->flows);
        field->at = flow / range->every % range->count;
        field->left = range->every - flow % range->every;
    }
    for (unsigned i = 0; v->modified != NULL && i < v->modified->count; i++)
        v->value_at[i] = (uint32_t)(sequence % v->modified->write[i].count);
}

/* The arrays of one burst. */
struct burst {
    uint64_t sum[IO_BURST_MAX], ip_sum[IO_BURST_MAX];
    uint64_t bits[IO_BURST_MAX];
    uint32_t value[IO_BURST_MAX], port[IO_BURST_MAX];
    uint32_t flow[IO_BURST_MAX];
    uint32_t payload_length[IO_BURST_MAX];
};

static void choose_sizes(struct varied *v, struct burst *b, unsigned count, uint64_t sequence)
{
    const struct sizes *s = v->sizes;

    if (s->kind != SIZES_CYCLE) {
        for (unsigned i = 0; i < count; i++)
            b->payload_length[i] = sizes_random(s, sequence + i) - v->beside;
        return;
    }
    unsigned at = v->cycle_at;
    for (unsigned i = 0; i < count; i++) {
        b->payload_length[i] = s->cycle[at] - v->beside;
        at = at + 1 == s->cycle_length ? 0 : at + 1;
    }
    v->cycle_at = at;
}

static void write_sizes(const struct varied *v, const struct frame_template *t,
                        struct io_frame *frames, unsigned count, struct burst *b)
{
    for (unsigned i = 0; i < count; i++) {
        const uint32_t length = b->payload_length[i];
        frames[i].length = v->headers + length;
        if (v->headers == 0)
            continue;
        uint8_t *udp = frames[i].data + v->headers - 8;
        const uint16_t udp_length = htons((uint16_t)(8 + length));
        const uint16_t ip_length = v->ip6 ? udp_length : htons((uint16_t)(28 + length));
        store16(udp + 4, udp_length);
        store16(udp - (v->ip6 ? 36 : 18), ip_length);
        b->sum[i] += 2U * udp_length + varied_pattern_sum(t, length);
        b->ip_sum[i] += ip_length;
    }
}

/* Places advance from flow to flow, and from the last flow to the first, whose places may not be
 * the next. */
static void choose_places(const struct varied *v, struct varied_field *field, uint32_t *places,
                          unsigned count, uint32_t flow)
{
    const uint32_t values = field->range.count;
    uint32_t at = field->at;

    for (unsigned i = 0; i < count;) {
        const uint32_t left = v->flows - flow;
        const unsigned end = left < count - i ? i + left : count;
        flow += end - i;
        for (; i < end; i++) {
            places[i] = at;
            at = at + 1 == values ? 0 : at + 1;
        }
        if (flow == v->flows)
            flow = at = 0;
    }
    field->at = at;
}

/* The same for a field that advances once in several flows. */
static void choose_places_slowly(const struct varied *v, struct varied_field *field,
                                 uint32_t *places, unsigned count, uint32_t flow)
{
    const struct flow_range r = field->range;
    uint32_t at = field->at, left = field->left;

    for (unsigned i = 0; i < count; i++) {
        places[i] = at;
        if (--left == 0) {
            left = r.every;
            at = at + 1 == r.count ? 0 : at + 1;
        }
        if (++flow == v->flows) {
            flow = at = 0;
            left = r.every;
        }
    }
    field->at = at;
    field->left = left;
}

/* First all values, then the few values that must be mixed again. */
static void shuffle(const struct flow_range *range, uint32_t *places, unsigned count)
{
    const struct flow_order order = range->order;

    for (unsigned i = 0; i < count; i++)
        places[i] = flow_mix(&order, places[i]);
    for (unsigned i = 0; i < count; i++) {
        if (__builtin_expect(places[i] >= range->count, 0))
            places[i] = flow_shuffled(range, places[i]);
    }
}

/* The values of a field in host byte order. */
static void choose_values(struct varied *v, struct varied_field *field, struct burst *b,
                          uint32_t *values, unsigned count, uint32_t flow)
{
    const struct flow_range *r = &field->range;
    const uint32_t base = r->base;

    if (v->zipf != NULL) {
        const bool plain = flow_counts_up(r, v->flows);
        for (unsigned i = 0; i < count; i++)
            values[i] = plain ? base + b->flow[i] : flow_value(r, b->flow[i]);
        return;
    }
    if (__builtin_expect(r->every > 1, 0))
        choose_places_slowly(v, field, values, count, flow);
    else
        choose_places(v, field, values, count, flow);
    if (r->random)
        shuffle(r, values, count);
    for (unsigned i = 0; i < count; i++)
        values[i] += base;
}

static void write_field(const struct varied_field *field, struct io_frame *frames, unsigned count,
                        struct burst *b)
{
    const uint32_t offset = field->offset;

    switch (field->field) {
    case FLOW_SRC_MAC:
    case FLOW_DST_MAC:
        for (unsigned i = 0; i < count; i++)
            store32(frames[i].data + offset, __builtin_bswap32(b->value[i]));
        break;
    case FLOW_SRC_IP:
    case FLOW_DST_IP:
        for (unsigned i = 0; i < count; i++) {
            const uint32_t wire = __builtin_bswap32(b->value[i]);
            store32(frames[i].data + offset, wire);
            b->sum[i] += wire;
            b->ip_sum[i] += wire;
        }
        break;
    case FLOW_VLAN:
        for (unsigned i = 0; i < count; i++)
            store16(frames[i].data + offset, __builtin_bswap16((uint16_t)b->value[i]));
        break;
    default:
        for (unsigned i = 0; i < count; i++) {
            const uint16_t wire = __builtin_bswap16((uint16_t)b->value[i]);
            store16(frames[i].data + offset, wire);
            b->sum[i] += wire;
        }
    }
}

/* The flows of the next frames: drawn for each frame, or the first of them for round-robin. */
static uint32_t choose_flows(const struct varied *v, struct burst *b, unsigned count,
                             uint64_t sequence)
{
    if (v->zipf == NULL)
        return (uint32_t)(sequence % v->flows);
    zipf_ranks(v->zipf, v->seed + sequence * ZIPF_STEP, b->flow, count);
    return 0;
}

static void write_flows(struct varied *v, struct io_frame *frames, unsigned count, struct burst *b,
                        uint64_t sequence)
{
    const uint32_t flow = choose_flows(v, b, count, sequence);

    for (unsigned i = 0; i < v->field_count; i++) {
        choose_values(v, &v->fields[i], b, b->value, count, flow);
        write_field(&v->fields[i], frames, count, b);
    }
}

/* The flows of a burst; the first of their rows are fetched, the others while frames are written.
 */
static void choose_rows(const struct varied *v, struct burst *b, unsigned count, uint64_t sequence)
{
    row_table_choose(v->table, sequence, b->flow, count);
    for (unsigned i = 0; i < count && i < ROWS_FETCHED_AHEAD; i++)
        row_table_fetch(v->table, b->flow[i]);
}

/* Fetch the row of a frame behind frame i. */
static inline void fetch_ahead(const struct varied *v, const struct burst *b, unsigned i,
                               unsigned count)
{
    if (i + ROWS_FETCHED_AHEAD < count)
        row_table_fetch(v->table, b->flow[i + ROWS_FETCHED_AHEAD]);
}

/* Addresses and ports of frames that also differ otherwise. */
static void write_rows(struct varied *v, struct io_frame *frames, unsigned count, struct burst *b,
                       uint64_t sequence)
{
    const uint32_t bytes = v->table->row_bytes - ROW_INDEX_BYTES;

    choose_rows(v, b, count, sequence);
    for (unsigned i = 0; i < count; i++) {
        fetch_ahead(v, b, i, count);
        const uint8_t *row = row_table_row(v->table, b->flow[i]);
        const uint64_t addresses = sum_bytes(row, bytes - 4);
        memcpy(frames[i].data + v->headers - 4 - bytes, row, bytes);
        b->sum[i] += addresses + load32(row + bytes - 4);
        b->ip_sum[i] += addresses;
    }
}

/* The tunnel is that of the row, or the only one. */
static void write_tunnels(const struct varied *v, struct io_frame *frames, unsigned count,
                          const struct burst *b, uint64_t sequence)
{
    const bool has_flows = v->table != NULL || v->zipf != NULL;

    for (unsigned i = 0; i < count; i++) {
        const uint32_t flow = has_flows ? b->flow[i] : (uint32_t)((sequence + i) % v->flows);
        const uint32_t number =
            v->table != NULL ? row_tunnel(v->table, row_table_row(v->table, flow)) : 0;
        const uint8_t *tunnel = row_table_row(v->tunnels, number);
        memcpy(frames[i].data + v->outer, tunnel + TUNNEL_ROW_MACS, 12);
        if (v->outer > 0)
            frame_set_tunnel(frames[i].data, frames[i].length, tunnel, flow);
    }
}

/* The values of a modified field for a burst, as on the wire. Each kind has its own loop, so
 * that no frame decides on a branch. */
static void choose_bits(const struct field_write *w, uint32_t *value_at, uint64_t *bits,
                        unsigned count)
{
    const uint32_t values = w->count;
    uint32_t at = *value_at;

    if (w->bits != NULL) {
        for (unsigned i = 0; i < count; i++) {
            bits[i] = w->bits[at];
            at = at + 1 == values ? 0 : at + 1;
        }
    } else if (w->is_random) {
        for (unsigned i = 0; i < count; i++) {
            bits[i] = __builtin_bswap64((field_random(w, at) & w->mask) << w->shift);
            at = at + 1 == values ? 0 : at + 1;
        }
    } else {
        const uint64_t start = w->start, step = w->step, mask = w->mask;
        const uint32_t shift = w->shift;
        for (unsigned i = 0; i < count; i++) {
            bits[i] = __builtin_bswap64(((start + step * at) & mask) << shift);
            at = at + 1 == values ? 0 : at + 1;
        }
    }
    *value_at = at;
}

/* The fields of modifiers, in front of the checksum of the IPv4 header and behind the lengths. */
static void write_modified(struct varied *v, struct io_frame *frames, unsigned count,
                           struct burst *b)
{
    for (unsigned n = 0; n < v->modified->count; n++) {
        const struct field_write *w = &v->modified->write[n];
        const uint32_t offset = v->write_offset[n];
        const uint64_t keep = w->keep, in_udp = w->in_udp, in_ipv4 = w->in_ipv4;
        choose_bits(w, &v->value_at[n], b->bits, count);
        for (unsigned i = 0; i < count; i++) {
            uint8_t *window = frames[i].data + offset;
            const uint64_t sum = (b->bits[i] & 0xffffffffU) + (b->bits[i] >> 32);
            store64(window, (load64(window) & keep) | b->bits[i]);
            b->sum[i] += sum & in_udp;
            b->ip_sum[i] += sum & in_ipv4;
        }
    }
}

/* The usual case of a table: IPv4 frames that differ only in the fields of their row. */
static void fill_rows(struct varied *v, const struct frame_template *t, struct io_frame *frames,
                      unsigned count, uint64_t sequence, const struct frame_times *times,
                      struct burst *b)
{
    const struct frame_times local_times = *times; /* frames are bytes, which may alias anything */
    const uint32_t headers = v->headers, payload_length = t->payload_length;
    const uint64_t sum = v->sum, ip_sum = v->ip_sum;
    const uint8_t *rows = v->table->rows;

    choose_rows(v, b, count, sequence);
    for (unsigned i = 0; i < count; i++) {
        fetch_ahead(v, b, i, count);
        const uint8_t *row = rows + (size_t)b->flow[i] * ROW_BYTES_IP4;
        uint8_t *data = frames[i].data;
        const uint64_t addresses = load64(row);
        const uint32_t ports = load32(row + 8);
        const uint64_t all = (addresses & 0xffffffffU) + (addresses >> 32);
        store64(data + headers - 16, addresses);
        store32(data + headers - 8, ports);
        store16(data + headers - 18, (uint16_t)~sum_fold(ip_sum + all));
        frame_stamp_sum(t, data, payload_length, (uint32_t)sequence + i, &local_times,
                        sum + all + ports);
    }
}

/* The varying fields are constants wherever this is inlined. */
static inline __attribute__((always_inline)) void
write_usual(const struct varied *v, const struct frame_template *t, struct io_frame *frames,
            unsigned count, const struct burst *b, uint32_t sequence,
            const struct frame_times *times, bool address, bool port)
{
    const struct frame_times local_times = *times; /* frames are bytes, which may alias anything */
    const uint32_t headers = v->headers, payload_length = t->payload_length;
    const uint32_t address_offset = address ? v->fields[v->address].offset : 0;
    const uint32_t port_offset = port ? v->fields[v->port].offset : 0;
    const uint64_t sum = v->sum, ip_sum = sum_fold(v->ip_sum);

    for (unsigned i = 0; i < count; i++) {
        uint8_t *data = frames[i].data;
        uint64_t all = sum;
        if (address) {
            const uint32_t wire = __builtin_bswap32(b->value[i]);
            store32(data + address_offset, wire);
            store16(data + headers - 18, (uint16_t)~sum_fold(ip_sum + wire));
            all += wire;
        }
        if (port) {
            const uint16_t wire = __builtin_bswap16((uint16_t)b->port[i]);
            store16(data + port_offset, wire);
            all += wire;
        }
        frame_stamp_sum(t, data, payload_length, sequence + i, &local_times, all);
    }
}

static void fill_usual(struct varied *v, const struct frame_template *t, struct io_frame *frames,
                       unsigned count, uint64_t sequence, const struct frame_times *times,
                       struct burst *b)
{
    const uint32_t flow = choose_flows(v, b, count, sequence), first = (uint32_t)sequence;

    if (v->address >= 0)
        choose_values(v, &v->fields[v->address], b, b->value, count, flow);
    if (v->port >= 0)
        choose_values(v, &v->fields[v->port], b, b->port, count, flow);
    if (v->port < 0)
        write_usual(v, t, frames, count, b, first, times, true, false);
    else if (v->address < 0)
        write_usual(v, t, frames, count, b, first, times, false, true);
    else
        write_usual(v, t, frames, count, b, first, times, true, true);
}

void varied_fill(struct varied *v, const struct frame_template *t, struct io_frame *frames,
                 unsigned count, uint64_t sequence, const struct frame_times *times, bool prepared)
{
    struct burst b;

    if (v->sequence != sequence)
        seek(v, sequence);
    v->sequence = sequence + count;
    if (v->usual) {
        for (unsigned i = 0; !prepared && i < count; i++)
            memcpy(frames[i].data, t->bytes, t->length);
        fill_usual(v, t, frames, count, sequence, times, &b);
        return;
    }
    if (v->whole_rows) {
        for (unsigned i = 0; !prepared && i < count; i++)
            memcpy(frames[i].data, t->bytes, t->length);
        fill_rows(v, t, frames, count, sequence, times, &b);
        if (v->tunnels != NULL)
            write_tunnels(v, frames, count, &b, sequence);
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        b.sum[i] = v->sum;
        b.ip_sum[i] = v->ip_sum;
        b.payload_length[i] = t->payload_length;
    }
    if (v->sizes != NULL)
        choose_sizes(v, &b, count, sequence);
    if (!prepared) {
        for (unsigned i = 0; i < count; i++)
            memcpy(frames[i].data, t->bytes, v->headers + b.payload_length[i]);
    }
    if (v->sizes != NULL)
        write_sizes(v, t, frames, count, &b);
    if (v->field_count > 0)
        write_flows(v, frames, count, &b, sequence);
    if (v->table != NULL)
        write_rows(v, frames, count, &b, sequence);
    if (v->tunnels != NULL)
        write_tunnels(v, frames, count, &b, sequence);
    if (v->modified != NULL)
        write_modified(v, frames, count, &b);
    for (unsigned i = 0; v->modifies_outer && i < count; i++)
        frame_sum_outer(frames[i].data);
    if (v->ip_sum_varies) {
        for (unsigned i = 0; i < count; i++)
            store16(frames[i].data + v->headers - 18, (uint16_t)~sum_fold(b.ip_sum[i]));
    }
    for (unsigned i = 0; t->touch && i < count; i++)
        frame_fetch(frames[i].data, v->headers + b.payload_length[i]);
    for (unsigned i = 0; i < count; i++)
        frame_stamp_sum(t, frames[i].data, b.payload_length[i], (uint32_t)sequence + i, times,
                        b.sum[i]);
}
