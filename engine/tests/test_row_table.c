/* Tables of flows: loading, the flows of frames, and frames that carry their rows. */
#include "test.h"

#include <stdlib.h>

#include "fake_io.h"
#include "traffic/receive.h"
#include "traffic/row_table.h"
#include "traffic/transmit.h"

#define ROWS 5

static struct row_table table;
static char error[200];

/* Row `i`: addresses 10.0.0.i and 20.i.0.0, ports 1000 + i and 2000 + i, next hop i % 2. */
static void make_row(uint8_t *row, unsigned i, bool ip6)
{
    const unsigned address = ip6 ? 16 : 4;
    memset(row, 0, ROW_BYTES_IP6);
    row[0] = 10;
    row[address - 1] = (uint8_t)i;
    row[address] = 20;
    row[address + 1] = (uint8_t)i;
    store16(row + 2 * address, __builtin_bswap16((uint16_t)(1000 + i)));
    store16(row + 2 * address + 2, __builtin_bswap16((uint16_t)(2000 + i)));
    row[2 * address + 5] = (uint8_t)(i % 2);
}

static void load(bool ip6, unsigned rows, bool is_zipf)
{
    const struct row_table_plan plan = {
        .rows = rows, .is_zipf = is_zipf, .exponent = 1.1, .seed = 7};
    assert_true(row_table_begin(&table, &plan, ip6 ? 40 : 16, error, sizeof error));
    for (unsigned i = 0; i < rows; i++) {
        uint8_t row[ROW_BYTES_IP6];
        assert_false(row_table_is_complete(&table));
        make_row(row, i, ip6);
        assert_true(row_table_add(&table, row, table.row_bytes, 2, error, sizeof error));
    }
    assert_true(row_table_is_complete(&table));
}

static void rows_are_loaded_in_parts(void **state)
{
    (void)state;
    load(false, ROWS, false);
    assert_int_equal(table.row_bytes, 16);
    for (unsigned i = 0; i < 3 * ROWS; i++) {
        assert_int_equal(row_table_flow(&table, i), i % ROWS);
        assert_int_equal(row_next_hop(&table, row_table_row(&table, i % ROWS)), i % ROWS % 2);
    }
    assert_int_equal(row_table_flow(&table, 1ULL << 32), (1ULL << 32) % ROWS);
    assert_true(row_table_begin(&table, &(struct row_table_plan){0}, 16, error, sizeof error));
    assert_false(row_table_is_complete(&table));
}

static void bad_rows_have_reasons(void **state)
{
    (void)state;
    uint8_t rows[2 * ROW_BYTES_IP6] = {0};
    const struct row_table_plan plan = {.rows = 3};
    row_table_free(&table);
    assert_false(row_table_add(&table, rows, 16, 0, error, sizeof error));
    assert_non_null(strstr(error, "begin with rows=N"));
    assert_true(row_table_begin(&table, &plan, 16, error, sizeof error));
    assert_false(row_table_add(&table, rows, 17, 0, error, sizeof error));
    assert_non_null(strstr(error, "17 bytes are not a multiple of 16"));
    assert_true(row_table_add(&table, rows, 32, 0, error, sizeof error));
    assert_false(row_table_add(&table, rows, 32, 0, error, sizeof error));
    assert_non_null(strstr(error, "row 4 is one too many; the table has 3 rows"));
    rows[13] = 2;
    assert_false(row_table_add(&table, rows, 16, 2, error, sizeof error));
    assert_non_null(strstr(error, "row 2 has next hop 2; --next-hops has 2 addresses"));
    assert_int_equal(table.loaded, 2);
    assert_true(row_table_add(&table, rows, 16, 3, error, sizeof error));
    row_table_free(&table);
}

struct path {
    struct transmitter tx;
    struct receiver rx;
    struct counters sent, received;
    struct sequence_tracker tracker;
    struct histogram lateness, actual, intended;
    struct variation variation;
    struct expectation expectation;
    struct expected_headers headers;
    struct sizes sizes;
    struct fake_port *port;
};
static struct path *p;

static const struct frame_address address = {.src_mac = {2, 0, 0, 0, 0, 1},
                                             .dst_mac = {2, 0, 0, 0, 0, 2},
                                             .src_ip = 1,
                                             .dst_ip = 2,
                                             .src_udp = 3,
                                             .dst_udp = 4};

static void begin_path(bool ip6, const char *sizes, bool touch)
{
    struct frame_address a = address;
    const struct schedule_plan plan = {.shape = SCHEDULE_CONSTANT};

    a.ip6 = ip6;
    a.ttl = 17;
    a.dscp = 46;
    p = calloc(1, sizeof *p);
    assert_true(sizes_parse(sizes, &p->sizes, error, sizeof error));
    p->port = fake_open(true);
    p->tx.port = &p->port->base;
    p->tx.counters = &p->sent;
    p->tx.lateness = &p->lateness;
    frame_template_build(&p->tx.template, &a, p->sizes.largest, 9,
                         FRAME_DATA | (touch ? FRAME_TOUCHED : 0), 3, false);
    varied_begin(&p->tx.varied, &p->tx.template, &a, &p->sizes, NULL, NULL);
    varied_use_table(&p->tx.varied, &p->tx.template, &table);
    transmit_begin(&p->tx);
    pacing_begin(&p->tx.pacing, 0, 16, 1e9, 0, UINT64_MAX, 1000000);
    pacing_take_shape(&p->tx.pacing, &plan, 1e9, 0);

    const struct frame_address local = frame_address_swapped(&a);
    p->rx = (struct receiver){.counters = &p->received,
                              .tracker = &p->tracker,
                              .from_actual = &p->actual,
                              .from_intended = &p->intended,
                              .variation = &p->variation,
                              .touch = touch,
                              .stream = __builtin_bswap16(9),
                              .denied_stream = __builtin_bswap16(9 ^ 0x2000)};
    p->headers.ttl_given = p->headers.dscp_given = true;
    p->headers.ttl = 17;
    p->headers.dscp = 46;
    p->expectation = (struct expectation){.headers = &p->headers, .table = &table, .used = true};
    receive_expect(&p->rx, &local, true, true, true, true);
    receive_expect_headers(&p->rx, &p->expectation);
    receive_begin(&p->rx, 0, 0);
}

static void end_path(void)
{
    fake_close(p->port);
    free(p);
    row_table_free(&table);
}

/* Changes of a frame by a switch; the buffer has room for a tag. */
static void swap_hop(uint8_t *frame, uint32_t *length)
{
    (void)length;
    frame[5] ^= 1;
}

static void change_source(uint8_t *frame, uint32_t *length)
{
    (void)length;
    frame[11] ^= 4;
}

static void add_tag(uint8_t *frame, uint32_t *length)
{
    memmove(frame + 16, frame + 12, *length - 12);
    store16(frame + 12, WIRE_VLAN);
    store16(frame + 14, __builtin_bswap16(0x6000 | 77)); /* priority 3, VLAN 77 */
    *length += TAG_BYTES;
}

/* Add to the TTL; the checksum of the header stays right. */
static void keep_ttl(uint8_t *frame, uint32_t *length)
{
    uint8_t *ip = frame + 14;
    (void)length;
    if (frame[12] == 0x86) {
        ip[7]++;
        return;
    }
    ip[8]++;
    store16(ip + 10, 0);
    store16(ip + 10, (uint16_t)~sum_fold(sum_bytes(ip, 20)));
}

/* Change source port and sum so that the frame remains intact. */
static void change_port(uint8_t *frame, uint32_t *length)
{
    uint8_t *udp = frame + (frame[12] == 0x86 ? 54 : 34);
    (void)length;
    udp[1]++;
    const uint16_t sum = __builtin_bswap16(load16(udp + 6));
    store16(udp + 6, __builtin_bswap16((uint16_t)(sum - 1)));
}

static void flip_payload(uint8_t *frame, uint32_t *length)
{
    frame[*length - 20] ^= 1;
}

typedef void change(uint8_t *frame, uint32_t *length);

static void receive_one(const uint8_t *bytes, uint32_t length, change *changed)
{
    uint8_t *copy = malloc(length + TAG_BYTES);
    memcpy(copy, bytes, length);
    if (changed != NULL)
        changed(copy, &length);
    const struct io_frame frame = {.data = copy, .length = length};
    receive_burst(&p->rx, &frame, 1, 2000, NULL);
    free(copy);
}

/* Send 16 frames and receive them; the frame with this index is changed. */
static void pass(change *changed, unsigned index)
{
    const unsigned before = p->port->sent_count;
    assert_int_equal(transmit_step(&p->tx, 1000), 16);
    for (unsigned i = 0; i < 16; i++) {
        const uint32_t length = p->port->sent_length[before + i];
        receive_one(p->port->sent[before + i], length, i == index ? changed : NULL);
    }
}

static uint64_t wrong(enum wrong_field field)
{
    return p->expectation.wrong[field];
}

/* Rows are in the frames, in turn or by Zipf's law, with every kind of size, and the receiver finds
 * each of them right. */
static void frames_carry_their_rows(void **state)
{
    (void)state;
    static const char *const sizes[] = {"64", "100", "64*3+570+1518", "random:64-1518"};
    static const char *const sizes6[] = {"84", "84*3+570+1518"};
    for (unsigned i = 0; i < 4 * 2 * 2 * 2; i++) {
        const bool ip6 = i & 1, touch = i & 2, is_zipf = i & 4;
        load(ip6, 200, is_zipf);
        begin_path(ip6, ip6 ? sizes6[i >> 3 & 1] : sizes[i >> 3], touch);
        for (unsigned round = 0; round < 20; round++)
            pass(NULL, 99);
        assert_int_equal(p->received.rx_frames, 320);
        assert_int_equal(p->tracker.unique, 320);
        for (uint32_t frame = 0; frame < 320; frame++) {
            const uint32_t flow = row_table_flow(&table, frame);
            const uint8_t *row = row_table_row(&table, flow);
            assert_true(is_zipf || flow == frame % 200);
            assert_memory_equal(p->port->sent[frame] + (ip6 ? 22 : 26), row, ip6 ? 36 : 12);
            assert_int_equal(p->port->sent[frame][ip6 ? 21 : 22], 17);
        }
        end_path();
    }
}

/* A wrong frame has arrived, but does not count as right; a damaged frame is lost. */
static void wrong_fields_are_counted_apart(void **state)
{
    (void)state;
    for (unsigned ip6 = 0; ip6 < 2; ip6++) {
        load(ip6, ROWS, false);
        begin_path(ip6, ip6 ? "84" : "64", false);
        p->headers.next_hop_count = 2;
        memcpy(p->headers.next_hops[0], address.dst_mac, 6);
        memcpy(p->headers.next_hops[1], address.dst_mac, 6);
        p->headers.next_hops[1][5] ^= 1;
        p->headers.src_mac_given = true;
        memcpy(p->headers.src_mac, address.src_mac, 6);
        pass(NULL, 0); /* rows 1, 3 of each five have the other next hop */
        assert_int_equal(p->received.rx_wrong_next_hop, 6);
        assert_int_equal(p->received.rx_frames, 10);
        assert_int_equal(p->received.rx_wrong_header, 0);
        assert_int_equal(p->expectation.sample_length, ip6 ? 80 : 60);
        memcpy(p->headers.next_hops[1], address.dst_mac, 6);
        change *const changes[] = {swap_hop, change_source, keep_ttl, change_port, flip_payload};
        for (unsigned i = 0; i < 5; i++)
            pass(changes[i], 3 * i);
        assert_int_equal(p->received.rx_wrong_next_hop, 7);
        assert_int_equal(p->received.rx_wrong_header, 3);
        assert_int_equal(p->received.rx_corrupt, 1);
        assert_int_equal(p->received.rx_frames, 10 + 5 * 16 - 5);
        assert_int_equal(p->received.rx_bytes, p->received.rx_frames * (ip6 ? 84 : 64));
        assert_int_equal(p->tracker.unique, 6 * 16 - 1);
        assert_int_equal(wrong(WRONG_next_hop), 7);
        assert_int_equal(wrong(WRONG_src_mac), 1);
        assert_int_equal(wrong(WRONG_ttl), 1);
        assert_int_equal(wrong(WRONG_src_port), 1);
        assert_int_equal(wrong(WRONG_dst_ip), 0);
        end_path();
    }
}

static void send_bursts(unsigned burst, unsigned bursts)
{
    const struct schedule_plan plan = {.shape = SCHEDULE_CONSTANT};

    pacing_begin(&p->tx.pacing, 0, burst, 1e9, 0, UINT64_MAX, 1000000);
    pacing_take_shape(&p->tx.pacing, &plan, 1e9, 0);
    for (unsigned i = 0; i < bursts; i++)
        assert_int_equal(transmit_step(&p->tx, 1000), burst);
}

/* Receive one burst of sent frames: number `first`, and each `step` numbers later. */
static void receive_sent(unsigned first, int step, unsigned count)
{
    struct io_frame frames[IO_BURST_MAX];

    for (unsigned i = 0; i < count; i++) {
        const unsigned number = (unsigned)((int)first + step * (int)i);
        frames[i] = (struct io_frame){.data = p->port->sent[number],
                                      .length = p->port->sent_length[number]};
    }
    receive_burst(&p->rx, frames, count, 2000, NULL);
}

/* Rows are fetched ahead within a burst. The table may be shorter than that distance, and frames
 * may be lost or late, so that their rows are not those of the burst. */
static void bursts_find_their_rows(void **state)
{
    (void)state;
    static const unsigned rows[] = {1, 5, ROWS_FETCHED_AHEAD, ROWS_FETCHED_AHEAD + 1, 200};
    static const unsigned bursts[] = {1, ROWS_FETCHED_AHEAD, ROWS_FETCHED_AHEAD + 1, 100,
                                      IO_BURST_MAX};
    for (unsigned i = 0; i < 5 * 5 * 2 * 2; i++) {
        const unsigned count = rows[i / 20], burst = bursts[i / 4 % 5];
        load(i & 1, count, i & 2);
        begin_path(i & 1, i & 1 ? "84" : "64", false);
        send_bursts(burst, 5);
        for (unsigned frame = 0; frame < 5 * burst; frame++)
            assert_memory_equal(p->port->sent[frame] + (i & 1 ? 22 : 26),
                                row_table_row(&table, row_table_flow(&table, frame)),
                                table.row_bytes - ROW_INDEX_BYTES);
        receive_sent(0, 1, burst);
        receive_sent(burst, 4, burst); /* three of four are lost */
        receive_sent(5 * burst - 1, -1, burst);
        assert_int_equal(p->received.rx_frames, 3 * burst);
        assert_int_equal(p->received.rx_wrong_header + p->received.rx_corrupt, 0);
        table.rows[(count - 1) * table.row_bytes] ^= 1; /* each frame is compared with its row */
        unsigned changed = 0;
        for (unsigned frame = 0; frame < burst; frame++)
            changed += row_table_flow(&table, frame) == count - 1;
        receive_sent(0, 1, burst);
        assert_int_equal(p->received.rx_wrong_header, changed);
        end_path();
    }
}

/* Frames of another table: the receiver compares with the rows of its table. */
static void another_row_is_wrong(void **state)
{
    (void)state;
    load(false, ROWS, false);
    begin_path(false, "64", false);
    pass(NULL, 0);
    table.rows[3 * 16 + 7] ^= 1; /* in place of the sender's row, which it has already sent */
    for (unsigned i = 0; i < 5; i++)
        receive_one(p->port->sent[i], p->port->sent_length[i], NULL);
    assert_int_equal(p->received.rx_wrong_header, 1);
    assert_int_equal(wrong(WRONG_dst_ip), 1);
    assert_int_equal(wrong(WRONG_src_ip), 0);
    end_path();
}

static void tags_are_expected_or_not(void **state)
{
    (void)state;
    for (unsigned vlan = 0; vlan < 3; vlan++) { /* none, 77, another */
        load(false, ROWS, false);
        begin_path(false, "64", false);
        p->headers.vlan_given = true;
        p->headers.vlan = vlan == 0 ? 0 : 76 + vlan;
        pass(add_tag, 2);
        assert_int_equal(p->received.rx_frames, vlan == 0 ? 15 : vlan == 1 ? 1 : 0);
        assert_int_equal(p->received.rx_wrong_header, vlan == 0 ? 1 : vlan == 1 ? 15 : 16);
        assert_int_equal(wrong(WRONG_vlan), p->received.rx_wrong_header);
        if (vlan == 1)
            assert_int_equal(p->received.rx_bytes, 68);
        assert_int_equal(p->tracker.unique, 16);
        end_path();
    }
}

/* A wrong frame far ahead counts as wrong once it is certain that it belongs to the stream. */
static void early_wrong_frame_is_not_right(void **state)
{
    (void)state;
    load(false, 8, false);
    begin_path(false, "64", false);
    pass(NULL, 0);
    p->tx.sequence = 1U << 21;
    pass(keep_ttl, 0);
    assert_int_equal(p->received.rx_wrong_header, 1);
    assert_int_equal(p->received.rx_frames, 31);
    assert_int_equal(p->received.rx_early, 0);
    assert_int_equal(p->received.rx_bytes, 31 * 64);
    end_path();
}

static struct row_table tunnels;

/* Tunnel `i` has VNI 0x010200 + i, from 192.168.0.i to 192.168.1.i; its inner frames go from MAC
 * 02:04:00:00:00:i to 02:03:00:00:00:i. */
static void load_tunnels(unsigned count)
{
    const struct row_table_plan plan = {.rows = count};
    assert_true(row_table_begin(&tunnels, &plan, TUNNEL_ROW_BYTES, error, sizeof error));
    for (unsigned i = 0; i < count; i++) {
        const uint8_t number = (uint8_t)i;
        const uint8_t row[] = {0, 1, 2, number, 192, 168,    0, number, 192, 168, 1, number,
                               2, 3, 0, 0,      0,   number, 2, 4,      0,   0,   0, number};
        assert_true(row_table_add(&tunnels, row, sizeof row, 0, error, sizeof error));
    }
    for (unsigned i = 0; i < table.count; i++) /* rows have tunnels in turn */
        table.rows[i * table.row_bytes + table.row_bytes - 1] = (uint8_t)(i % count);
}

static void begin_tunnels(bool ip6, const char *sizes, bool touch, bool encapsulated)
{
    struct frame_address a = address;

    load(ip6, ROWS, false);
    load_tunnels(3);
    begin_path(ip6, sizes, touch);
    a.ip6 = ip6;
    a.ttl = 17;
    a.dscp = 46;
    a.tunnel = (struct frame_tunnel){.used = encapsulated, .dst_mac = {2, 9}, .src_mac = {2, 8}};
    memcpy(a.tunnel.row, tunnels.rows, sizeof a.tunnel.row);
    frame_template_build(&p->tx.template, &a, p->sizes.largest, 9,
                         FRAME_DATA | (touch ? FRAME_TOUCHED : 0), 3, false);
    varied_begin(&p->tx.varied, &p->tx.template, &a, &p->sizes, NULL, NULL);
    varied_use_table(&p->tx.varied, &p->tx.template, &table);
    varied_use_tunnels(&p->tx.varied, &tunnels);
    transmit_begin(&p->tx);
    p->headers.decap = encapsulated;
    p->expectation.tunnels = &tunnels;
}

static void begin_tunnelled(bool ip6, const char *sizes, bool touch)
{
    begin_tunnels(ip6, sizes, touch, true);
}

/* The MAC addresses of a frame, by the definition of its tunnel. */
static void check_macs(const uint8_t *ethernet, uint8_t tunnel)
{
    const uint8_t macs[] = {2, 3, 0, 0, 0, tunnel, 2, 4, 0, 0, 0, tunnel};
    assert_memory_equal(ethernet, macs, sizeof macs);
}

/* The outer header, by its definition. */
static void check_outer(const uint8_t *f, uint32_t length, uint32_t tunnel)
{
    assert_int_equal(load16(f + 12), WIRE_IPV4);
    assert_int_equal(__builtin_bswap16(load16(f + 16)), length - 14);
    assert_int_equal(sum_fold(sum_bytes(f + 14, 20)), 0xffff);
    assert_int_equal(f[29], tunnel);
    assert_int_equal(f[33], tunnel);
    assert_true(__builtin_bswap16(load16(f + 34)) >= 49152);
    assert_int_equal(__builtin_bswap16(load16(f + 36)), 4789);
    assert_int_equal(__builtin_bswap16(load16(f + 38)), length - 34);
    assert_int_equal(load16(f + 40), 0);
    assert_int_equal(__builtin_bswap32(load32(f + 42)), 0x08000000);
    assert_int_equal(__builtin_bswap32(load32(f + 46)), (0x010200 + tunnel) << 8);
}

static void tunnelled_frames_arrive(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        const bool ip6 = i & 1, touch = i & 2;
        begin_tunnelled(ip6, i & 4 ? "100*2+570" : "100", touch);
        for (unsigned round = 0; round < 4; round++)
            pass(NULL, 0);
        assert_int_equal(p->received.rx_frames, 64);
        assert_int_equal(p->received.rx_bytes, p->sent.tx_bytes);
        for (uint32_t frame = 0; frame < 64; frame++) {
            check_outer(p->port->sent[frame], p->port->sent_length[frame], frame % ROWS % 3);
            check_macs(p->port->sent[frame] + 50, frame % ROWS % 3);
            assert_memory_equal(p->port->sent[frame] + 50 + (ip6 ? 22 : 26),
                                row_table_row(&table, frame % ROWS), ip6 ? 36 : 12);
        }
        row_table_free(&tunnels);
        end_path();
    }
}

/* Frames towards a switch that encapsulates them have the MAC addresses of their tunnels alone. */
static void frames_have_macs_of_their_tunnels(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        const bool ip6 = i & 1;
        begin_tunnels(ip6, i & 2 ? "100*2+570" : "100", false, false);
        for (unsigned round = 0; round < 4; round++)
            pass(NULL, 0);
        assert_int_equal(p->received.rx_frames, 64);
        for (uint32_t frame = 0; frame < 64; frame++) {
            check_macs(p->port->sent[frame], frame % ROWS % 3);
            assert_memory_equal(p->port->sent[frame] + (ip6 ? 22 : 26),
                                row_table_row(&table, frame % ROWS), ip6 ? 36 : 12);
        }
        row_table_free(&tunnels);
        end_path();
    }
}

static void set_inner_destination(uint8_t *frame, uint32_t *length)
{
    (void)length;
    frame[55]++;
}

static void set_inner_source(uint8_t *frame, uint32_t *length)
{
    (void)length;
    frame[61]++;
}

static void wrong_macs_in_tunnels_are_found(void **state)
{
    (void)state;
    begin_tunnelled(false, "100", false);
    pass(set_inner_destination, 4);
    pass(set_inner_source, 4);
    assert_int_equal(p->received.rx_wrong_next_hop, 1);
    assert_int_equal(p->received.rx_wrong_header, 1);
    assert_int_equal(wrong(WRONG_next_hop), 1);
    assert_int_equal(wrong(WRONG_src_mac), 1);
    row_table_free(&tunnels);
    end_path();
}

static void reverse_rows(void)
{
    for (uint32_t i = 0; i < table.count; i++) {
        uint8_t *row = table.rows + i * table.row_bytes, copy[12];
        memcpy(copy, row, sizeof copy);
        memcpy(row, copy + 4, 4);
        memcpy(row + 4, copy, 4);
        memcpy(row + 8, copy + 10, 2);
        memcpy(row + 10, copy + 8, 2);
    }
    for (uint32_t i = 0; i < tunnels.count; i++)
        frame_reverse_tunnel(tunnels.rows + i * tunnels.row_bytes);
}

/* An end that sends and receives has the rows of the frames that it sends; others are the reverse.
 */
static void frames_of_the_other_end_are_expected_reversed(void **state)
{
    (void)state;
    begin_tunnelled(false, "100", false);
    assert_int_equal(transmit_step(&p->tx, 1000), 16);
    assert_int_equal(transmit_step(&p->tx, 1000), 16);
    reverse_rows();
    for (uint32_t frame = 0; frame < 32; frame++) {
        p->expectation.reversed = frame < 16;
        receive_one(p->port->sent[frame], p->port->sent_length[frame], NULL);
    }
    assert_int_equal(p->received.rx_frames, 16);
    assert_true(wrong(WRONG_vni) == 0 && wrong(WRONG_next_hop) == 16 && wrong(WRONG_src_mac) == 16);
    assert_true(wrong(WRONG_src_ip) == 16 && wrong(WRONG_dst_port) == 16);
    row_table_free(&tunnels);
    end_path();
}

static void set_vni(uint8_t *frame, uint32_t *length)
{
    (void)length;
    frame[48]++;
}

static void set_flags(uint8_t *frame, uint32_t *length)
{
    (void)length;
    frame[42] = 0x0c;
}

static void set_outer_sum(uint8_t *frame, uint32_t *length)
{
    (void)length;
    frame[40] = 1;
}

static void add_outer_sum(uint8_t *frame, uint32_t *length)
{
    const uint64_t sum = sum_bytes(frame + 26, 8) + __builtin_bswap16(17) + load16(frame + 38) +
                         sum_bytes(frame + 34, *length - 34);
    store16(frame + 40, udp_checksum(sum_fold(sum)));
}

static void leave_outer_sum_to_device(uint8_t *frame, uint32_t *length)
{
    (void)length;
    store16(frame + 40,
            sum_fold(sum_bytes(frame + 26, 8) + __builtin_bswap16(17) + load16(frame + 38)));
}

static void set_outer_address(uint8_t *frame, uint32_t *length)
{
    (void)length;
    frame[33] ^= 1;
    store16(frame + 24, 0);
    store16(frame + 24, (uint16_t)~sum_fold(sum_bytes(frame + 14, 20)));
}

static void lengthen_outer(uint8_t *frame, uint32_t *length)
{
    (void)length;
    frame[39]++;
}

static void remove_outer(uint8_t *frame, uint32_t *length)
{
    *length -= 50;
    memmove(frame, frame + 50, *length);
}

static void wrong_outer_headers_are_found(void **state)
{
    (void)state;
    change *const changes[] = {set_vni,           set_flags,      set_outer_sum,
                               set_outer_address, lengthen_outer, remove_outer};
    begin_tunnelled(false, "100", false);
    pass(add_outer_sum, 4); /* a right checksum is permitted */
    pass(leave_outer_sum_to_device, 4);
    assert_int_equal(p->received.rx_frames, 32);
    for (unsigned i = 0; i < 6; i++) {
        pass(changes[i], i);
        assert_int_equal(p->received.rx_wrong_header, i + 1);
    }
    assert_int_equal(wrong(WRONG_vni), 1);
    assert_int_equal(wrong(WRONG_outer_dst_ip), 1);
    assert_int_equal(wrong(WRONG_outer_src_ip), 0);
    assert_int_equal(wrong(WRONG_outer_header), 4);
    assert_int_equal(p->tracker.unique, 8 * 16);
    row_table_free(&tunnels);
    end_path();
}

/* A frame that is cut anywhere is not data, and nothing is read behind its end. */
static void cut_frames_are_not_read_beyond_end(void **state)
{
    (void)state;
    begin_tunnelled(false, "100", false);
    p->headers.vlan_given = true;
    assert_int_equal(transmit_step(&p->tx, 1000), 16);
    for (uint32_t length = 0; length < p->port->sent_length[0]; length++)
        receive_one(p->port->sent[0], length, NULL);
    assert_int_equal(p->received.rx_frames, 0);
    row_table_free(&tunnels);
    end_path();
}

/* Data of the denied stream is neither foreign nor of the load. */
static void denied_frames_are_counted(void **state)
{
    (void)state;
    static struct frame_template t;
    load(false, ROWS, false);
    begin_path(false, "64", false);
    pass(NULL, 0);
    frame_template_build(&t, &address, 64, 9 ^ 0x2000, FRAME_DATA, 3, false);
    receive_one(t.bytes, t.length, NULL);
    frame_template_build(&t, &address, 64, 9 ^ 0x2000, FRAME_VERIFICATION, 3, false);
    receive_one(t.bytes, t.length, NULL);
    assert_int_equal(p->received.rx_denied, 1);
    assert_int_equal(p->received.rx_foreign, 1);
    assert_int_equal(p->received.rx_frames, 16);
    end_path();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_loaded_in_parts),
        cmocka_unit_test(bad_rows_have_reasons),
        cmocka_unit_test(frames_carry_their_rows),
        cmocka_unit_test(wrong_fields_are_counted_apart),
        cmocka_unit_test(bursts_find_their_rows),
        cmocka_unit_test(another_row_is_wrong),
        cmocka_unit_test(tags_are_expected_or_not),
        cmocka_unit_test(early_wrong_frame_is_not_right),
        cmocka_unit_test(tunnelled_frames_arrive),
        cmocka_unit_test(frames_have_macs_of_their_tunnels),
        cmocka_unit_test(wrong_macs_in_tunnels_are_found),
        cmocka_unit_test(frames_of_the_other_end_are_expected_reversed),
        cmocka_unit_test(wrong_outer_headers_are_found),
        cmocka_unit_test(cut_frames_are_not_read_beyond_end),
        cmocka_unit_test(denied_frames_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
