/* The receive path on arbitrary frames: raw bytes, and right frames of every kind (plain, tagged
 * once or twice, IPv6, of several flows, filled, touched) with changed bits, so that the checks
 * behind the checksums are also reached. Frames are in buffers of exactly their length. Every frame
 * is counted once, loss figures are consistent, and an unchanged frame is right. */
#include "fuzz.h"

#include "ends/denied.h"
#include "tests/fake_io.h"
#include "trial/loop.h"

#define STREAMS 3
#define GROUPS 4
#define FRAMES_MAX 100
#define STREAM 7
#define DENIED (STREAM ^ DENIED_STREAM)

static const struct frame_address peer = {.src_mac = {2, 0, 0, 0, 0, 1},
                                          .dst_mac = {2, 0, 0, 0, 0, 2},
                                          .src_ip = 0x0a000001,
                                          .dst_ip = 0x0a000002,
                                          .src_udp = 1000,
                                          .dst_udp = 2000,
                                          .vlan = {200, 100},
                                          .src_prefix = {0x20, 1},
                                          .dst_prefix = {0x20, 1, 0, 2}};
static struct options options;
static struct trial trial;
static struct end *end, all;
static struct fake_port *port;
static struct frame_address sent; /* kind of frame that the peer of the receiver sends */
static enum payload_kind payload; /* payload behind the stamp, if the receiver has its pattern */
static struct flow_set flows;

/* Bits 0 and 1: tags, 2: IPv6, 3: flows, 4: flow groups, 5 and 6: pattern of the payload. */
static void choose_kind(uint8_t kind)
{
    const char *untagged = "12:src-ip=4+dst-port=3", *tagged = "12:src-ip=4+dst-port=3+vlan=2";
    char error[256];

    sent = peer;
    sent.tags = kind % 4 % 3;
    sent.ip6 = kind & 4;
    flows = (struct flow_set){0};
    if (kind & 8) {
        must(flows_parse(sent.tags > 0 ? tagged : untagged, &flows, error, sizeof error));
        must(flows_bind(&flows, &sent, error, sizeof error));
    }
    payload = (kind >> 5) % PAYLOAD_KINDS;
}

static void begin(uint8_t flags, uint8_t kind)
{
    static struct flow_groups groups = {.count = GROUPS};

    choose_kind(flags & 2 ? 0 : kind); /* the kernel removes only plain headers */
    const struct frame_address local = frame_address_swapped(&sent);
    const struct flow_set own_flows = flows_swapped(&flows);

    memset(&end->counters, 0, sizeof end->counters);
    end->receiving.rx = (struct receiver){.port = &port->base,
                                          .counters = &end->counters,
                                          .tracker = &end->receiving.tracker,
                                          .from_actual = &end->receiving.from_actual,
                                          .from_intended = &end->receiving.from_intended,
                                          .variation = &end->receiving.variation,
                                          .pattern = kind & 128 ? payload_pattern(payload) : NULL,
                                          .groups = kind & 16 ? &groups : NULL,
                                          .touch = flags & 1,
                                          .payload_only = flags & 2,
                                          .latency_wanted = flags & 4,
                                          .mac_known = flags & 8,
                                          .stream = __builtin_bswap16(STREAM),
                                          .denied_stream = __builtin_bswap16(DENIED)};
    memcpy(end->receiving.rx.mac, local.src_mac, 6);
    receive_expect(&end->receiving.rx, &local, flags & 16, flags & 16, flags & 32, flags & 32);
    if (flows.count > 1)
        receive_expect_flows(&end->receiving.rx, &own_flows);
    end->receiving.stream_count = flags & 64 && end->receiving.rx.groups == NULL ? STREAMS : 1;
    queues_join(end, STREAM);
    receive_begin(&end->receiving.rx, 0, 0);
    queues_begin(end);
}

/* The addresses of a flow. */
static struct frame_address address_of(uint32_t flow)
{
    struct frame_address a = sent;

    if (flows.count < 2)
        return a;
    a.src_ip = flow_value(&flows.fields[FLOW_SRC_IP], flow % flows.count);
    a.dst_udp = (uint16_t)flow_value(&flows.fields[FLOW_DST_PORT], flow % flows.count);
    if (flows.fields[FLOW_VLAN].count > 0)
        a.vlan[a.tags - 1U] = (uint16_t)flow_value(&flows.fields[FLOW_VLAN], flow % flows.count);
    return a;
}

/* Queue a right frame with the changes of the input, possibly of another kind. Returns true if it
 * must be accepted. */
static bool queue_changed(struct input *in, bool other_kind)
{
    static struct frame_template t;
    const uint32_t size = 64 + input_number(in, 2) % 1455;
    const unsigned kind = input_byte(in) & 7;
    const uint16_t chosen = (uint16_t)(5 + input_byte(in) % 8);
    const uint16_t stream = chosen == 12 ? DENIED : chosen;
    const struct frame_times times = frame_times_make(input_number(in, 4), input_number(in, 4));
    const bool payload_only = end->receiving.rx.payload_only;
    struct frame_address address = address_of(size);
    uint8_t changes = input_byte(in) % 4;

    if (other_kind) {
        address.tags = size % 3;
        address.ip6 = size & 4;
    }
    const bool as_expected = address.tags == sent.tags && address.ip6 == sent.ip6;
    const uint32_t least = frame_size_min(&address);
    frame_template_build(&t, &address, size < least ? least : size, stream, kind,
                         input_byte(in) & 15, payload_only);
    if (payload != PAYLOAD_FIXED)
        frame_template_fill(&t, payload);
    frame_stamp(&t, t.bytes, input_number(in, 4), &times);
    const bool untouched = changes == 0;
    while (changes-- > 0) {
        const uint32_t at = input_number(in, 2) % t.length;
        t.bytes[at] ^= input_byte(in);
    }
    fake_queue(port, t.bytes, t.length);
    return untouched && as_expected && (kind & 3) == FRAME_DATA && stream == STREAM;
}

static void queue_raw(struct input *in)
{
    const size_t length = input_number(in, 2) % 1600;
    const size_t taken = length < in->left ? length : in->left;

    fake_queue(port, in->at, (uint32_t)taken);
    in->at += taken;
    in->left -= taken;
}

static void check_counts(unsigned frames, unsigned right)
{
    const struct counters *c = &end->counters;
    const struct sequence_summary s = end->receiving.stream_count > 1
                                          ? queues_summarise(&trial, &all)
                                          : sequence_summarise(&end->receiving.tracker);

    must(c->rx_frames + c->rx_stale + c->rx_beyond_window + c->rx_early + c->rx_verification +
             c->rx_foreign + c->rx_other + c->rx_denied + c->rx_corrupt ==
         frames);
    must(c->rx_runts + c->rx_jumbos + c->rx_tagged <= c->rx_other);
    must(c->rx_frames + c->rx_stale + c->rx_beyond_window + c->rx_early >= right);
    must(s.received_unique + s.duplicates == c->rx_frames);
    must(s.beyond_window <= c->rx_beyond_window &&
         s.early <= c->rx_early); /* a new run resets it */
    must(s.lost + s.received_unique == s.expected && s.lost_at_least <= s.lost);
}

static void check_groups(void)
{
    const struct sequence_summary s = sequence_summarise(&end->receiving.tracker);
    uint64_t unique = 0, duplicates = 0, reordered = 0;

    for (uint32_t group = 0; group < GROUPS; group++) {
        const struct flow_group_summary group_sum =
            flow_group_summarise(end->receiving.rx.groups, group, &s);
        unique += group_sum.received_unique;
        duplicates += group_sum.duplicates;
        reordered += group_sum.reordered;
    }
    must(unique == s.received_unique && duplicates == s.duplicates && reordered == s.reordered);
}

static void empty_port(void)
{
    for (unsigned i = 0; i < port->rx_count; i++)
        free(port->rx[i]);
    port->rx_count = port->rx_next = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    unsigned frames = 0, right = 0;

    if (end == NULL) {
        clock_begin();
        clock_calibrate();
        trial.options = &options;
        trial.ends = end = aligned_alloc(_Alignof(struct end), sizeof *end);
        trial.end_count = 1;
        must(end != NULL);
        memset(end, 0, sizeof *end);
        must(queues_make(end, STREAMS));
        port = fake_open(false);
        end->port = &port->base;
    }
    const uint8_t flags = input_byte(&in);
    begin(flags, input_byte(&in));
    for (; in.left > 0 && frames < FRAMES_MAX; frames++) {
        const uint8_t action = input_byte(&in);
        if (action & 1)
            right += queue_changed(&in, action & 2);
        else
            queue_raw(&in);
    }
    while (end_receive(&trial, end) > 0)
        continue;
    check_counts(frames, right);
    if (end->receiving.rx.groups != NULL)
        check_groups();
    empty_port();
    return 0;
}
