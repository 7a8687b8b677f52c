/* Modified fields: each frame must have the values of its number, written bit by bit, and checksums
 * that are calculated anew; the receiver accepts exactly these frames. */
#include "test.h"

#include <string.h>

#include "arrival.h"
#include "fake_io.h"
#include "traffic/receive.h"
#include "traffic/transmit.h"

#define FRAMES 1500

static struct fake_port *port;
static struct transmitter tx;
static struct counters counters, rx_counters;
static struct histogram lateness, from_actual, from_intended;
static struct sizes sizes;
static struct flow_set flows;
static struct frame_address address;
static struct modifiers modifiers;
static struct field_writes writes;
static struct row_table tunnels;

struct kind {
    const char *sizes, *flows;
    bool ip6, outer;
    unsigned tags;
    const char *modify[6];
};

static const struct kind kinds[] = {
    {"64", "1", false, false, 0, {"ttl=increment,250,3,7", "id=decrement,5,1,40000"}},
    {"64*3+570", "10:src-ip", false, false, 0, {"dst-port=random,0,0xffff,999,3", "df=values,0,1"}},
    {"100",
     "1",
     false,
     false,
     1,
     {"src-mac=decrement,02:00:00:00:00:01,0x10000,9", "pcp=7", "vlan=random,0,4095,50",
      "dei=values,1,0,0"}},
    {"random:100-300",
     "1",
     false,
     false,
     2,
     {"service-vlan=values,1,2,4095", "service-pcp=increment,6,1,8", "src-ip=1.2.3.4",
      "dst-ip=decrement,0.0.0.1,0.0.1.0,100"}},
    {"100",
     "7:dst-port",
     true,
     false,
     0,
     {"traffic-class=increment,255,1,9", "flow-label=random,5,0xffff0,200", "ttl=1",
      "src-ip=increment,2001::ffff:ffff:ffff:fffe,1,77"}},
    {"100",
     "1",
     true,
     false,
     1,
     {"src-ip=random,2001::5,2001::ffff,20", "ecn=values,0,1,2,3", "dst-ip=random,::,ffff::,300",
      "dscp=decrement,1,1,3"}},
    {"100",
     "1",
     true,
     false,
     0,
     {"dst-ip=values,::1,ff02::1", "src-ip=decrement,2001::ff,::2,90",
      "src-port=increment,65530,1,11"}},
    {"100",
     "1",
     false,
     true,
     0,
     {"vni=random,0,0xffffff,99", "outer-src-port=increment,1,1,9", "outer-ttl=values,1,2",
      "outer-dst-ip=increment,9.0.0.1,1,5", "ttl=increment,1,1,5",
      "dst-mac=values,00:00:00:00:00:07"}},
};

static void begin(const struct kind *kind, bool persistent)
{
    static uint8_t tunnel[TUNNEL_ROW_BYTES] = {0, 0, 0, 5, 10, 0, 0, 1, 10, 0, 0, 2};
    char error[300] = "";

    address = (struct frame_address){.src_mac = {2, 0, 0, 0, 0, 1},
                                     .dst_mac = {2, 0, 0, 0, 0, 2},
                                     .src_ip = 0xc6120001,
                                     .dst_ip = 0xc612ff02,
                                     .src_udp = 1000,
                                     .dst_udp = 2000,
                                     .ip6 = kind->ip6,
                                     .tags = (uint8_t)kind->tags,
                                     .vlan = {kind->tags == 2 ? 200 : 100, 100},
                                     .tunnel.used = kind->outer};
    memcpy(address.tunnel.row, tunnel, sizeof tunnel);
    modifiers.count = 0;
    for (unsigned i = 0; i < 6 && kind->modify[i] != NULL; i++) {
        if (!modifiers_parse(&modifiers, kind->modify[i], error, sizeof error))
            fail_msg("%s", error);
    }
    if (!sizes_parse(kind->sizes, &sizes, error, sizeof error) ||
        !flows_parse(kind->flows, &flows, error, sizeof error) ||
        !flows_bind(&flows, &address, error, sizeof error) ||
        !modifiers_bind(&modifiers, &address, kind->outer, &flows, error, sizeof error) ||
        !field_writes_make(&writes, &modifiers, &address, kind->outer, error, sizeof error))
        fail_msg("%s", error);
    port = fake_open(false);
    port->persistent = persistent;
    memset(&counters, 0, sizeof counters);
    memset(&tx, 0, sizeof tx);
    tx.port = &port->base;
    tx.counters = &counters;
    tx.lateness = &lateness;
    frame_template_build(&tx.template, &address, sizes.largest, 7, FRAME_DATA, 1, false);
    varied_begin(&tx.varied, &tx.template, &address, &sizes, &flows, NULL);
    if (kind->outer) {
        tunnels = (struct row_table){
            .rows = tunnel, .count = 1, .loaded = 1, .row_bytes = TUNNEL_ROW_BYTES};
        varied_use_tunnels(&tx.varied, &tunnels);
    }
    varied_use_modifiers(&tx.varied, &tx.template, &writes);
    transmit_begin(&tx);
    pacing_begin(&tx.pacing, 0, 32, 1e9, 0, UINT64_MAX, 0);
}

static void send_all(void)
{
    uint64_t random = 5;

    for (uint64_t now = 0; port->sent_count < FRAMES; now++) {
        port->accepts = test_random(&random) % 3 == 0 ? (uint32_t)(test_random(&random) % 32) : 99;
        transmit_step(&tx, 4096);
    }
}

/* Bits of a frame, the first of `first`, as a number. */
static header_value bits_of(const uint8_t *frame, uint32_t first, unsigned bits)
{
    header_value value = 0;

    for (uint32_t bit = first; bit < first + bits; bit++)
        value = value << 1 | (frame[bit / 8] >> (7 - bit % 8) & 1);
    return value;
}

static uint32_t part_offset(const struct kind *kind, enum header_part part)
{
    const uint32_t inner = kind->outer ? OUTER_BYTES : 0;

    return part == PART_OUTER ? 0 : part == PART_ETHERNET ? inner : inner + 14 + 4 * kind->tags;
}

/* The value that a counter has by its definition; random values and lists have their own tests. */
static header_value counter_value(const struct modifier *m, uint64_t number)
{
    const header_value at = number % m->count;
    const header_value value =
        m->kind == MODIFIER_INCREMENT ? m->start + m->step * at : m->start - m->step * at;
    const unsigned bits = m->field->bits;

    return bits == 128 ? value : value & (((header_value)1 << bits) - 1);
}

static void check_values(const struct kind *kind, const uint8_t *frame, uint32_t number)
{
    for (unsigned i = 0; i < modifiers.count; i++) {
        const struct modifier *m = &modifiers.given[i];
        const struct header_field *f = m->field;
        enum header_part part;
        const int layer = header_layer_offset(f->layer, &address, kind->outer, &part);
        const uint32_t first =
            8 * (part_offset(kind, part) + (uint32_t)layer + f->offset) + f->first_bit;
        const header_value value = bits_of(frame, first, f->bits);
        if (m->kind == MODIFIER_INCREMENT || m->kind == MODIFIER_DECREMENT)
            assert_true(value == counter_value(m, number));
        if (m->kind == MODIFIER_RANDOM)
            assert_true(value >= m->start && value <= m->step);
        if (number >= m->count)
            assert_true(value == bits_of(port->sent[number - m->count], first, f->bits));
    }
}

static void check_sums(const struct kind *kind, const uint8_t *frame, uint32_t length)
{
    const uint32_t ip = part_offset(kind, PART_IP), udp = ip + (kind->ip6 ? 40 : 20);
    const uint32_t addresses = kind->ip6 ? 32 : 8;
    const uint64_t sum = sum_bytes(frame + udp - addresses, addresses) + __builtin_bswap16(17) +
                         load16(frame + udp + 4) + sum_bytes(frame + udp, length - udp);

    assert_int_equal(sum_fold(sum), 0xffff);
    assert_true(kind->ip6 || sum_fold(sum_bytes(frame + ip, 20)) == 0xffff);
    assert_true(!kind->outer || sum_fold(sum_bytes(frame + OUTER_IP, 20)) == 0xffff);
}

static void modified_frames_have_their_values(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 2 * sizeof kinds / sizeof kinds[0]; k++) {
        const struct kind *kind = &kinds[k / 2];
        begin(kind, k % 2 == 0);
        send_all();
        for (uint32_t i = 0; i < port->sent_count; i++) {
            check_values(kind, port->sent[i], i);
            check_sums(kind, port->sent[i], port->sent_length[i]);
        }
        fake_close(port);
        field_writes_free(&writes);
    }
}

static struct receiver make_receiver(const struct kind *kind, struct expectation *expectation)
{
    static struct sequence_tracker tracker;
    static struct variation variation;
    static const struct expected_headers plain, inside = {.decap = true};
    const struct frame_address local = frame_address_swapped(&address);
    const struct flow_set own_flows = flows_swapped(&flows);
    struct receiver rx = {.counters = &rx_counters,
                          .stream = __builtin_bswap16(7),
                          .tracker = &tracker,
                          .variation = &variation,
                          .from_actual = &from_actual,
                          .from_intended = &from_intended};

    *expectation = (struct expectation){
        .headers = kind->outer ? &inside : &plain, .fields = &writes, .used = true};
    memset(&rx_counters, 0, sizeof rx_counters);
    receive_expect(&rx, &local, true, true, true, true);
    receive_expect_flows(&rx, &own_flows);
    receive_expect_headers(&rx, expectation);
    receive_begin(&rx, 0, 0);
    return rx;
}

/* A frame that carries the values of another frame is wrong in each modified field. */
static void modified_frames_are_compared(void **state)
{
    (void)state;
    for (unsigned k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        struct expectation expectation;
        begin(&kinds[k], true);
        send_all();
        struct receiver rx = make_receiver(&kinds[k], &expectation);
        for (uint32_t i = 0; i < port->sent_count; i++)
            arrive_at(&rx, port->sent[i], port->sent_length[i], 5000);
        assert_int_equal(rx_counters.rx_frames, port->sent_count);
        assert_int_equal(rx_counters.rx_wrong_header + rx_counters.rx_corrupt, 0);
        writes.write[0].start ^= 1; /* the receiver now expects another value */
        if (writes.write[0].bits != NULL)
            writes.write[0].bits[0] = ~writes.write[0].bits[0] & ~writes.write[0].keep;
        rx = make_receiver(&kinds[k], &expectation);
        arrive_at(&rx, port->sent[0], port->sent_length[0], 5000);
        assert_int_equal(rx_counters.rx_wrong_header, 1);
        assert_int_equal(expectation.wrong[modifiers.given[0].field->wrong], 1);
        fake_close(port);
        field_writes_free(&writes);
    }
}

static void values_of_a_list_are_sent_in_turn(void **state)
{
    const struct kind kind = {"64", "1", false, false, 0, {"ttl=values,9,0x1f,255"}};
    static const uint8_t expected[] = {9, 31, 255};

    (void)state;
    begin(&kind, true);
    send_all();
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(port->sent[i][OFFSET_IP + 8], expected[i % 3]);
    fake_close(port);
    field_writes_free(&writes);
}

static void expect_refusal(const char *text, bool ip6, const char *reason)
{
    char error[300] = "";
    struct frame_address a = {.ip6 = ip6};

    modifiers.count = 0;
    memset(&flows, 0, sizeof flows);
    if (modifiers_parse(&modifiers, text, error, sizeof error) &&
        modifiers_bind(&modifiers, &a, false, &flows, error, sizeof error))
        fail_msg("%s was accepted", text);
    if (strstr(error, reason) == NULL)
        fail_msg("%s: '%s' lacks '%s'", text, error, reason);
}

static void useless_modifiers_are_refused(void **state)
{
    (void)state;
    expect_refusal("tll=5", false, "did you mean 'ttl'");
    expect_refusal("ttl", false, "FIELD=");
    expect_refusal("ttl=", false, "'' is not a number");
    expect_refusal("ttl=256", false, "above 255");
    expect_refusal("ttl=increment,1,1", false, "number of values");
    expect_refusal("ttl=increment,1,1,5,6", false, "too much");
    expect_refusal("ttl=increment,1,1,4294967296", false, "number of values");
    expect_refusal("ttl=random,5,4,3", false, "below the lowest");
    expect_refusal("ttl=random,5", false, "LOW,HIGH,COUNT");
    expect_refusal("ttl=up,1,1,5", false, "not a kind");
    expect_refusal("dscp=values,1,,2", false, "'' is not a number");
    expect_refusal("src-ip=values,1.1.1.1,::1", false, "mixes");
    expect_refusal("src-ip=::1", false, "frames are IPv4");
    expect_refusal("src-ip=1.1.1.1", true, "frames are IPv6");
    expect_refusal("id=5", true, "no ipv4 header");
    expect_refusal("flow-label=5", false, "no ipv6 header");
    expect_refusal("pcp=5", false, "no 802.1Q header");
    expect_refusal("vni=5", false, "no vxlan header");
    expect_refusal("src-mac=increment,02:00:00:00:00:01,x,5", false, "step 'x'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modified_frames_have_their_values),
        cmocka_unit_test(modified_frames_are_compared),
        cmocka_unit_test(values_of_a_list_are_sent_in_turn),
        cmocka_unit_test(useless_modifiers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
