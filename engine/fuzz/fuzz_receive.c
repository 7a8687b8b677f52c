/* The receive path on arbitrary frames: raw bytes, and right frames with bits changed, so that
 * the checks behind the checksums are reached as well. Frames lie in buffers of exactly their
 * length. Every frame is counted once, and loss figures fit together. */
#include "fuzz.h"

#include "tests/fake_io.h"
#include "trial.h"

#define LANES 3
#define FRAMES_MAX 200

static const struct frame_address peer = {.src_mac = {2, 0, 0, 0, 0, 1},
                                          .dst_mac = {2, 0, 0, 0, 0, 2},
                                          .src_ip = 0x0a000001,
                                          .dst_ip = 0x0a000002,
                                          .src_udp = 1000,
                                          .dst_udp = 2000};
static struct options options;
static struct trial trial;
static struct end *end, all;
static struct fake_port *port;

static void begin(uint8_t flags)
{
    const struct frame_address own = frame_address_swapped(&peer);

    port = fake_open(false);
    end->port = &port->base;
    memset(&end->counters, 0, sizeof end->counters);
    end->rx = (struct receiver){.port = &port->base,
                                .counters = &end->counters,
                                .tracker = &end->tracker,
                                .from_actual = &end->from_actual,
                                .from_intended = &end->from_intended,
                                .variation = &end->variation,
                                .touch = flags & 1,
                                .payload_only = flags & 2,
                                .latency_wanted = flags & 4,
                                .mac_known = flags & 8,
                                .stream = __builtin_bswap16(7)};
    memcpy(end->rx.mac, own.src_mac, 6);
    receive_expect(&end->rx, &own, flags & 16, flags & 16, flags & 32, flags & 32);
    end->lane_count = flags & 64 ? LANES : 1;
    lanes_join(end, 7);
    receive_begin(&end->rx, 0, 0);
    lanes_begin(end);
}

/* A frame that is right, but for what the input changes in it. */
static void queue_changed(struct input *in)
{
    static struct frame_template t;
    const uint32_t size = 64 + input_number(in, 2) % 1455;
    const unsigned kind = input_byte(in) & 7;
    const uint16_t stream = (uint16_t)(5 + input_byte(in) % 8);
    const struct frame_times times = frame_times_make(input_number(in, 4), input_number(in, 4));
    const bool payload_only = end->rx.payload_only;
    uint8_t changes = input_byte(in) % 4;

    frame_template_build(&t, &peer, size, stream, kind, input_byte(in) & 15, payload_only);
    frame_stamp(&t, t.bytes, input_number(in, 4), &times);
    while (changes-- > 0) {
        const uint32_t at = input_number(in, 2) % t.length;
        t.bytes[at] ^= input_byte(in);
    }
    fake_queue(port, t.bytes, t.length);
}

static void queue_raw(struct input *in)
{
    const size_t length = input_number(in, 2) % 1600;
    const size_t taken = length < in->left ? length : in->left;

    fake_queue(port, in->at, (uint32_t)taken);
    in->at += taken;
    in->left -= taken;
}

static void check_counts(unsigned frames)
{
    const struct counters *c = &end->counters;
    const struct sequence_summary s =
        end->lane_count > 1 ? lanes_summarise(&trial, &all) : sequence_summarise(&end->tracker);

    must(c->rx_frames + c->rx_stale + c->rx_probe + c->rx_foreign + c->rx_other + c->rx_corrupt ==
         frames);
    must(s.received_unique + s.duplicates <= frames);
    must(s.lost + s.received_unique == s.expected || s.beyond_window > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    unsigned frames = 0;

    if (end == NULL) {
        clock_begin();
        clock_calibrate();
        trial.options = &options;
        trial.ends = end = aligned_alloc(64, sizeof *end);
        trial.end_count = 1;
        must(end != NULL);
        memset(end, 0, sizeof *end);
        must(lanes_make(end, LANES));
    }
    begin(input_byte(&in));
    for (; in.left > 0 && frames < FRAMES_MAX; frames++) {
        if (input_byte(&in) & 1)
            queue_changed(&in);
        else
            queue_raw(&in);
    }
    while (end_receive(&trial, end) > 0)
        continue;
    check_counts(frames);
    fake_close(port);
    return 0;
}
