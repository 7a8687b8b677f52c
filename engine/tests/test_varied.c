/* Frames that differ: each must be, byte for byte, the frame that would be built for its size and
 * flow alone, even if the ring was full before; and the receiver accepts exactly these. */
#include "test.h"

#include "arrival.h"
#include "fake_io.h"
#include "traffic/receive.h"
#include "traffic/transmit.h"

#define FRAMES 3000

static struct fake_port *port;
static struct transmitter tx;
static struct counters counters, rx_counters;
static struct histogram lateness, from_actual, from_intended;
static struct sizes sizes;
static struct flow_set flows;
static struct frame_address address;
static struct zipf zipf;

struct kind {
    const char *sizes, *flows;
    bool ip6, touch;
    unsigned tags;
    enum payload_kind payload;
};

static const struct kind kinds[] = {
    {"128", "1", false, false, 0, PAYLOAD_FIXED},
    {"imix", "1", false, false, 0, PAYLOAD_FIXED},
    {"imix", "1000:src-ip", false, false, 0, PAYLOAD_COUNTER},
    {"64", "7:src-mac+dst-mac", false, false, 0, PAYLOAD_FIXED},
    {"64", "100:src-ip/random+src-port=17", false, false, 0, PAYLOAD_FIXED},
    {"65*2+1500+333", "1M:dst-ip+src-port+dst-port/random", false, true, 0, PAYLOAD_RANDOM},
    {"random:64-1518", "1", false, true, 0, PAYLOAD_COUNTER},
    {"random:72-1518", "50:vlan+src-ip", false, false, 2, PAYLOAD_RANDOM},
    {"84", "1", true, false, 0, PAYLOAD_FIXED},
    {"92*3+1522", "100000:src-ip/random+dst-ip+src-port=999:zipf=1.0", true, true, 2,
     PAYLOAD_RANDOM},
    {"random:88-1000", "3:vlan/random", true, false, 1, PAYLOAD_COUNTER},
    {"64", "1000:src-ip", false, false, 0, PAYLOAD_FIXED},
    {"100", "1000:src-ip+dst-port", false, false, 0, PAYLOAD_COUNTER},
    {"64", "1M:dst-ip:zipf=1.0", false, false, 0, PAYLOAD_FIXED},
    {"68", "777:dst-ip/random+src-port/random:zipf=1.0", false, false, 1, PAYLOAD_FIXED},
    {"64", "500:src-port", false, true, 0, PAYLOAD_FIXED},
    {"64", "900:src-ip=900+dst-ip=7", false, false, 0, PAYLOAD_FIXED},
    {"68", "1000:dst-port:zipf=0.9:seed=4", false, false, 1, PAYLOAD_FIXED},
    {"64", "100:src-ip=10+src-port=10", false, false, 0, PAYLOAD_FIXED},
    {"92+1000", "1234:src-ip=40/random+dst-port=20+vlan=4", true, true, 2, PAYLOAD_RANDOM},
    {"68", "90:src-ip=10+vlan=10:zipf=1.0", false, false, 1, PAYLOAD_FIXED},
};

static void begin(const struct kind *kind, bool persistent)
{
    char error[200] = "";

    address = (struct frame_address){.src_mac = {2, 0, 0, 0, 0, 1},
                                     .dst_mac = {2, 0, 0, 0, 0, 2},
                                     .src_ip = 0xc6120001,
                                     .dst_ip = 0xc612ff02,
                                     .src_udp = 1000,
                                     .dst_udp = 2000,
                                     .ip6 = kind->ip6,
                                     .tags = (uint8_t)kind->tags,
                                     .vlan = {kind->tags == 2 ? 200 : 100, 100}};
    memset(address.src_prefix, 0x20, 12);
    memset(address.dst_prefix, 0x21, 12);
    if (!sizes_parse(kind->sizes, &sizes, error, sizeof error) ||
        !flows_parse(kind->flows, &flows, error, sizeof error) ||
        !flows_bind(&flows, &address, error, sizeof error))
        fail_msg("%s", error);
    if (flows.zipf)
        zipf_make(&zipf, flows.count, flows.exponent);
    port = fake_open(false);
    port->persistent = persistent;
    memset(&counters, 0, sizeof counters);
    memset(&tx, 0, sizeof tx);
    tx.port = &port->base;
    tx.counters = &counters;
    tx.lateness = &lateness;
    frame_template_build(&tx.template, &address, sizes.largest, 7,
                         FRAME_DATA | (kind->touch ? FRAME_TOUCHED : 0), 1, false);
    frame_template_fill(&tx.template, kind->payload);
    varied_begin(&tx.varied, &tx.template, &address, &sizes, &flows, &zipf);
    transmit_begin(&tx);
    pacing_begin(&tx.pacing, 0, 32, 1e9, 0, UINT64_MAX, 0);
}

/* The address of one flow, by the definition. */
static struct frame_address address_of(uint64_t flow)
{
    struct frame_address a = address;
    const struct flow_range *f = flows.fields;

    if (f[FLOW_SRC_MAC].count > 0)
        store32(a.src_mac + 2, __builtin_bswap32(flow_value(&f[FLOW_SRC_MAC], flow)));
    if (f[FLOW_DST_MAC].count > 0)
        store32(a.dst_mac + 2, __builtin_bswap32(flow_value(&f[FLOW_DST_MAC], flow)));
    if (f[FLOW_SRC_IP].count > 0)
        a.src_ip = flow_value(&f[FLOW_SRC_IP], flow);
    if (f[FLOW_DST_IP].count > 0)
        a.dst_ip = flow_value(&f[FLOW_DST_IP], flow);
    if (f[FLOW_SRC_PORT].count > 0)
        a.src_udp = (uint16_t)flow_value(&f[FLOW_SRC_PORT], flow);
    if (f[FLOW_DST_PORT].count > 0)
        a.dst_udp = (uint16_t)flow_value(&f[FLOW_DST_PORT], flow);
    if (f[FLOW_VLAN].count > 0)
        a.vlan[a.tags - 1] = (uint16_t)flow_value(&f[FLOW_VLAN], flow);
    return a;
}

static void send_all(void)
{
    uint64_t random = 5;

    for (uint64_t now = 0; port->sent_count < FRAMES; now++) {
        port->accepts = test_random(&random) % 3 == 0 ? (uint32_t)(test_random(&random) % 32) : 99;
        transmit_step(&tx, 4096); /* the same time, so that frames can be compared */
    }
}

static void check_frames(const struct kind *kind)
{
    static struct frame_template expected;
    const struct frame_times times = frame_times_make(4096, 4096);
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < port->sent_count; i++) {
        const uint64_t flow = flows.zipf ? varied_flow(&tx.varied, i) : i % flows.count;
        const struct frame_address a = address_of(flow);
        assert_true(flow < flows.count);
        frame_template_build(&expected, &a, sizes_at(&sizes, i), 7,
                             FRAME_DATA | (kind->touch ? FRAME_TOUCHED : 0), 1, false);
        frame_template_fill(&expected, kind->payload);
        frame_stamp(&expected, expected.bytes, i, &times);
        assert_int_equal(port->sent_length[i], expected.length);
        assert_memory_equal(port->sent[i], expected.bytes, expected.length);
        bytes += expected.length + 4;
    }
    assert_int_equal(counters.tx_bytes, bytes);
    assert_int_equal(counters.tx_offered, port->sent_count);
}

static void varied_frames_equal_single_frames(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 2 * sizeof kinds / sizeof kinds[0]; k++) {
        begin(&kinds[k / 2], k % 2 == 0);
        send_all();
        check_frames(&kinds[k / 2]);
        fake_close(port);
    }
}

static struct receiver make_receiver(const struct kind *kind, bool touch, bool knows_pattern)
{
    static struct sequence_tracker tracker;
    static struct variation variation;
    const struct frame_address local = frame_address_swapped(&address);
    const struct flow_set own_flows = flows_swapped(&flows);
    struct receiver rx = {.counters = &rx_counters,
                          .stream = __builtin_bswap16(7),
                          .touch = touch,
                          .tracker = &tracker,
                          .variation = &variation,
                          .from_actual = &from_actual,
                          .from_intended = &from_intended};

    memset(&rx_counters, 0, sizeof rx_counters);
    receive_expect(&rx, &local, true, true, true, true);
    receive_expect_flows(&rx, &own_flows);
    if (knows_pattern)
        rx.pattern = payload_pattern(kind->payload);
    receive_begin(&rx, 0, 0);
    return rx;
}

static void varied_frames_are_accepted(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 4 * sizeof kinds / sizeof kinds[0]; k++) {
        const struct kind *kind = &kinds[k / 4];
        begin(kind, true);
        send_all();
        struct receiver rx = make_receiver(kind, k & 1, k & 2);
        for (uint32_t i = 0; i < port->sent_count; i++)
            arrive_at(&rx, port->sent[i], port->sent_length[i], 5000);
        if (rx_counters.rx_frames != port->sent_count)
            fail_msg("kind %u: %llu of %u", k, (unsigned long long)rx_counters.rx_frames,
                     port->sent_count);
        assert_int_equal(rx_counters.rx_bytes, counters.tx_bytes);
        assert_int_equal(rx.tracker->unique, port->sent_count);
        fake_close(port);
    }
}

/* Behind the MAC addresses any bit counts if everything is verified, except in a VLAN tag, where
 * only the ID counts. */
static void varied_flipped_bits_are_detected(void **state)
{
    (void)state;
    for (unsigned k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        const struct kind *kind = &kinds[k];
        begin(kind, true);
        send_all();
        struct receiver rx = make_receiver(kind, true, true);
        arrive_at(&rx, port->sent[0], port->sent_length[0], 5000);
        for (uint32_t i = 1; i < 8; i++) {
            uint8_t *f = port->sent[i];
            for (uint32_t bit = 12 * 8; bit < port->sent_length[i] * 8; bit++) {
                const bool in_tag = bit / 8 < 12 + 4 * kind->tags;
                if (in_tag && flows.fields[FLOW_VLAN].count > 0)
                    continue; /* may belong to another flow */
                if (in_tag && bit / 8 % 4 == 2 && bit % 8 >= 4)
                    continue; /* priority */
                f[bit / 8] ^= (uint8_t)(1 << bit % 8);
                arrive_at(&rx, f, port->sent_length[i], 5000);
                f[bit / 8] ^= (uint8_t)(1 << bit % 8);
                /* traffic class and flow label of IPv6 are in no checksum */
                if (kind->ip6 && bit / 8 >= 14 + 4 * kind->tags && bit / 8 < 18 + 4 * kind->tags) {
                    rx_counters.rx_frames = 1;
                } else if (kind->ip6 && bit / 8 == 21 + 4 * kind->tags) { /* hop limit */
                    rx_counters.rx_frames = 1;
                } else if (rx_counters.rx_frames != 1) {
                    fail_msg("kind %u frame %u: bit %u of byte %u", k, i, bit % 8, bit / 8);
                }
            }
        }
        fake_close(port);
    }
}

static void flows_outside_range_are_corrupt(void **state)
{
    (void)state;
    begin(&(struct kind){"64", "100:src-ip", false, false, 0, PAYLOAD_FIXED}, true);
    struct receiver rx = make_receiver(&kinds[0], false, false);
    static struct frame_template t;
    for (uint32_t ip = 0xc6120000; ip <= 0xc6120065; ip++) {
        struct frame_address a = address;
        a.src_ip = ip;
        frame_template_build(&t, &a, 64, 7, FRAME_DATA, 1, false);
        arrive_at(&rx, t.bytes, t.length, 5000);
    }
    assert_int_equal(rx_counters.rx_frames, 100);
    assert_int_equal(rx_counters.rx_corrupt, 2);
    fake_close(port);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(varied_frames_equal_single_frames),
        cmocka_unit_test(varied_frames_are_accepted),
        cmocka_unit_test(varied_flipped_bits_are_detected),
        cmocka_unit_test(flows_outside_range_are_corrupt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
