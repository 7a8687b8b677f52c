/* Received frames are judged right, corruption of any bit is found, and random data does no harm.
 */
#include "test.h"

#include "arrival.h"
#include "fake_io.h"
#include "traffic/receive.h"

static const struct frame_address peer = {.src_mac = {2, 0, 0, 0, 0, 1},
                                          .dst_mac = {2, 0, 0, 0, 0, 2},
                                          .src_ip = 0x0a000001,
                                          .dst_ip = 0x0a000002,
                                          .src_udp = 1000,
                                          .dst_udp = 2000};
static struct receiver rx;
static struct counters counters;
static struct sequence_tracker tracker;
static struct histogram from_actual, from_intended;
static struct variation variation;
static struct frame_template t;

static int reset(void **state)
{
    (void)state;
    const struct frame_address local = frame_address_swapped(&peer);
    memset(&counters, 0, sizeof counters);
    rx = (struct receiver){.counters = &counters,
                           .stream = __builtin_bswap16(7),
                           .touch = true,
                           .tracker = &tracker,
                           .from_actual = &from_actual,
                           .from_intended = &from_intended,
                           .variation = &variation,
                           .mac_known = true};
    memcpy(rx.mac, local.src_mac, 6);
    receive_expect(&rx, &local, true, true, true, true);
    receive_begin(&rx, 0, 0);
    return 0;
}

static void arrive(const uint8_t *bytes, uint32_t length, uint64_t now)
{
    arrive_at(&rx, bytes, length, now);
}

static void make(uint32_t size, uint16_t stream, unsigned kind, unsigned epoch, uint32_t sequence,
                 uint64_t intended)
{
    frame_template_build(&t, &peer, size, stream, kind, epoch, false);
    const struct frame_times times = frame_times_make(intended, intended + 50);
    frame_stamp(&t, t.bytes, sequence, &times);
}

static void each_kind_has_its_counter(void **state)
{
    (void)state;
    make(64, 7, FRAME_DATA, 1, 0, 1000);
    arrive(t.bytes, t.length, 2000);
    make(64, 8, FRAME_DATA, 1, 0, 1000);
    arrive(t.bytes, t.length, 2000);
    make(64, 7, FRAME_VERIFICATION, 0, 0, 1000);
    arrive(t.bytes, t.length, 2000);
    memset(t.bytes, 0xff, 6); /* a verification frame to the broadcast address */
    arrive(t.bytes, t.length, 2000);
    t.bytes[0] = 2; /* a frame of our stream to another host: flooded */
    arrive(t.bytes, t.length, 2000);
    const uint8_t arp[60] = {[12] = 8, [13] = 6};
    arrive(arp, sizeof arp, 2000);
    arrive(arp, 0, 2000);
    assert_int_equal(counters.rx_frames, 1);
    assert_int_equal(counters.rx_bytes, 64);
    assert_int_equal(counters.rx_foreign, 2);
    assert_int_equal(counters.rx_verification, 2);
    assert_int_equal(counters.rx_other, 2);
    assert_int_equal(counters.rx_corrupt, 0);
    assert_int_equal(tracker.unique, 1);
}

/* An earlier tool had an 8-bit sum that was only counted. Behind the MAC addresses, which no
 * checksum protects, a flipped bit must not pass as data of our stream. */
static void flipped_bits_are_detected(void **state)
{
    (void)state;
    const uint32_t sizes[] = {64, 65, 68, 128, 601};
    for (unsigned s = 0; s < 5; s++) {
        reset(NULL);
        make(sizes[s], 7, FRAME_DATA | FRAME_TOUCHED, 1, 5, 1000);
        arrive(t.bytes, t.length, 2000);
        assert_int_equal(counters.rx_frames, 1);
        for (uint32_t bit = 12 * 8; bit < t.length * 8; bit++) {
            t.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            arrive(t.bytes, t.length, 2000);
            t.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        assert_int_equal(counters.rx_frames, 1);
        const uint64_t bits = (t.length - 12) * 8U;
        assert_int_equal(counters.rx_corrupt + counters.rx_other + counters.rx_foreign, bits);
        assert_true(counters.rx_corrupt > bits - 80);
        assert_int_equal(counters.rx_foreign,
                         0); /* the checksum fails if the stream number is changed */
    }
}

/* An additive checksum cannot detect two exchanged words. */
static void exchanged_words_are_detected(void **state)
{
    (void)state;
    make(256, 7, FRAME_DATA | FRAME_TOUCHED, 1, 5, 1000);
    uint8_t word[2];
    memcpy(word, t.bytes + 100, 2);
    memcpy(t.bytes + 100, t.bytes + 120, 2);
    memcpy(t.bytes + 120, word, 2);
    arrive(t.bytes, t.length, 2000);
    assert_int_equal(counters.rx_corrupt, 1);
}

static void stamps_are_verified_without_touch(void **state)
{
    (void)state;
    rx.touch = false;
    make(1518, 7, FRAME_DATA, 1, 5, 1000);
    for (uint32_t bit = 44 * 8; bit < 60 * 8; bit++) {
        t.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        arrive(t.bytes, t.length, 2000);
        t.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_int_equal(counters.rx_corrupt, 16 * 8);
    assert_int_equal(counters.rx_frames, 0);
}

/* A flipped bit that makes a frame look touched, or like a frame of a later trial, must not affect
 * the trial. */
static void flipped_signatures_do_no_harm(void **state)
{
    (void)state;
    rx.touch = false;
    make(300, 7, FRAME_DATA, 1, 4, 1000);
    arrive(t.bytes, t.length, 2000);
    make(300, 7, FRAME_DATA, 1, 5, 9000);
    for (uint32_t bit = 43 * 8; bit < 44 * 8; bit++) {
        t.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        arrive(t.bytes, t.length, 9900);
        t.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_int_equal(counters.rx_corrupt, 8);
    assert_int_equal(counters.rx_frames, 1);
    assert_int_equal(counters.rx_stale, 0);
    assert_int_equal(tracker.unique, 1);
}

static void truncated_frames_are_corrupt(void **state)
{
    (void)state;
    make(512, 7, FRAME_DATA | FRAME_TOUCHED, 1, 5, 1000);
    for (uint32_t length = 60; length < t.length; length++)
        arrive(t.bytes, length, 2000);
    assert_int_equal(counters.rx_frames, 0);
    assert_int_equal(counters.rx_corrupt, t.length - 60);
}

static void other_addresses_are_corrupt_if_given(void **state)
{
    (void)state;
    struct frame_address stranger = peer;
    stranger.src_ip = 0x0a000063;
    frame_template_build(&t, &stranger, 64, 7, FRAME_DATA, 1, false);
    arrive(t.bytes, t.length, 2000);
    assert_int_equal(counters.rx_corrupt, 1);
    const struct frame_address local = frame_address_swapped(&peer);
    receive_expect(&rx, &local, true, false, true, true);
    arrive(t.bytes, t.length, 2000);
    assert_int_equal(counters.rx_frames, 1);
}

static void latency_from_both_times(void **state)
{
    (void)state;
    rx.latency_wanted = true;
    make(64, 7, FRAME_DATA, 1, 0, 0xffffffffff00ULL); /* the 48 bits wrap in between */
    arrive(t.bytes, t.length, 0x1000000000100ULL);
    assert_int_equal(from_intended.max, clock_ticks_to_ns(0x200));
    assert_int_equal(from_actual.max, clock_ticks_to_ns(0x200 - 50));
    make(64, 7, FRAME_DATA, 1, 1, 5000); /* from the future because of clock skew: recorded as 0 */
    arrive(t.bytes, t.length, 4000);
    assert_int_equal(from_actual.count, 2);
    assert_int_equal(from_actual.clamped, 1);
    assert_int_equal(variation.shrunk.count, 1);
    assert_int_equal(variation.shrunk.max, clock_ticks_to_ns(0x200 - 50));
    frame_template_build(&t, &peer, 64, 7, FRAME_DATA, 1, false); /* 10 minutes behind schedule */
    const struct frame_times late = frame_times_make(6000, 6000 + (30000ULL << 26));
    frame_stamp(&t, t.bytes, 2, &late);
    arrive(t.bytes, t.length, 6000 + (30000ULL << 26) + 0x300);
    assert_int_equal(from_actual.max, clock_ticks_to_ns(0x300));
}

/* A sender with another clock, at half our rate, whose 48 bits wrap in between. */
static void remote_sender_clock_is_converted(void **state)
{
    (void)state;
    const struct sender_clock clock = {
        .ticks = 0xabcdfffffffffff0ULL,
        .here = 7000000000ULL,
        .ratio = 2ULL << 32,
        .inverse = 1ULL << 31,
    };
    rx.latency_wanted = true;
    rx.sender_clock = &clock;
    make(64, 7, FRAME_DATA, 1, 0, 0x1000); /* 0x1010 of its ticks later; sent 50 late */
    arrive(t.bytes, t.length, clock.here + 2 * 0x1010 + 900);
    assert_int_equal(from_intended.max, clock_ticks_to_ns(900));
    assert_int_equal(from_actual.max, clock_ticks_to_ns(900 - 2 * 50));
    make(64, 7, FRAME_DATA, 1, 1, 0xffffffffff00ULL); /* before that moment */
    arrive(t.bytes, t.length, clock.here - 2 * 0xf0 + 5000);
    assert_int_equal(from_intended.max, clock_ticks_to_ns(5000));
    assert_int_equal(from_actual.clamped, 0);
    for (uint64_t days = 1; days < 40; days++) { /* days in its 2^48 ticks, slightly more */
        const uint64_t later = days * 0x1012345678901ULL;
        make(64, 7, FRAME_DATA, 1, 2, clock.ticks + later);
        arrive(t.bytes, t.length, clock.here + 2 * later + 6000 + days);
        assert_int_equal(from_intended.max, clock_ticks_to_ns(6000 + days));
    }
    assert_int_equal(from_actual.clamped, 0);
}

/* Times are the same for any distribution of frames to bursts. */
static void times_do_not_depend_on_bursts(void **state)
{
    (void)state;
    static struct histogram actual[2], intended[2];
    static struct variation varied[2];
    for (unsigned pass = 0; pass < 2; pass++) {
        static uint8_t bytes[IO_BURST_MAX][64];
        struct io_frame frames[IO_BURST_MAX];
        uint64_t random = 77;
        uint32_t next = 0;
        reset(NULL);
        rx.latency_wanted = true;
        for (unsigned burst = 0; burst < 400; burst++) {
            const unsigned count = 1 + (unsigned)(test_random(&random) % 40);
            const uint64_t now = 1000000 + burst * 50000;
            for (unsigned i = 0; i < count; i++) {
                const unsigned kind = (unsigned)(test_random(&random) % 10);
                uint32_t sequence = next++;
                if (kind == 0) /* a gap */
                    sequence = next++;
                else if (kind == 1 && next > 20) /* a late or duplicated frame */
                    sequence = --next - 1 - (uint32_t)(test_random(&random) % 15);
                /* sent in bursts that differ from those received; some from the future */
                const uint64_t sent = 900000 + sequence / 7 * 20000;
                make(64, 7, FRAME_DATA, 1, sequence, sent);
                memcpy(bytes[i], t.bytes, t.length);
                frames[i] = (struct io_frame){.data = bytes[i], .length = t.length};
            }
            for (unsigned i = 0; pass == 0 && i < count; i++)
                receive_burst(&rx, &frames[i], 1, now, NULL);
            if (pass == 1)
                receive_burst(&rx, frames, count, now, NULL);
        }
        actual[pass] = from_actual;
        intended[pass] = from_intended;
        varied[pass] = variation;
    }
    assert_true(from_actual.count > 5000 && from_actual.clamped > 0);
    assert_true(varied[0].grown.count > 0 && varied[0].shrunk.count > 0);
    assert_memory_equal(&actual[0], &actual[1], sizeof actual[0]);
    assert_memory_equal(&intended[0], &intended[1], sizeof intended[0]);
    assert_memory_equal(&varied[0].grown, &varied[1].grown, sizeof varied[0].grown);
    assert_memory_equal(&varied[0].shrunk, &varied[1].shrunk, sizeof varied[0].shrunk);
}

/* A burst with the end of one trial and the begin of the next. */
static void late_frames_in_burst_leave_no_times(void **state)
{
    (void)state;
    static uint8_t bytes[6][64];
    struct io_frame frames[6];
    rx.latency_wanted = true;
    for (uint32_t i = 0; i < 6; i++) {
        make(64, 7, FRAME_DATA, i < 3 ? 1 : 2, i < 3 ? 500 + i : i - 3, i < 3 ? 100 : 5000);
        memcpy(bytes[i], t.bytes, t.length);
        frames[i] = (struct io_frame){.data = bytes[i], .length = t.length};
    }
    receive_burst(&rx, frames, 6, 9000, NULL);
    assert_int_equal(counters.rx_stale, 3);
    assert_int_equal(from_actual.count, 3);
    assert_int_equal(from_actual.max, clock_ticks_to_ns(9000 - 5050));
    assert_int_equal(variation.grown.count, 2);
}

/* Frames of the previous trial that were still in the switch when this trial began. */
static void late_frames_belong_to_earlier_trial(void **state)
{
    (void)state;
    make(64, 7, FRAME_DATA, 1, 1000000, 100);
    arrive(t.bytes, t.length, 2000);
    arrive(t.bytes, t.length, 2000);
    for (uint32_t i = 0; i < 10; i++) {
        make(64, 7, FRAME_DATA, 2, i, 1000 + i);
        arrive(t.bytes, t.length, 3000);
    }
    make(64, 7, FRAME_DATA, 1, 1000001, 101);
    arrive(t.bytes, t.length, 3000);
    assert_int_equal(counters.rx_frames, 10);
    assert_int_equal(counters.rx_bytes, 640);
    assert_int_equal(counters.rx_stale, 3);
    const struct sequence_summary s = sequence_summarise(&tracker);
    assert_int_equal(s.expected, 10);
    assert_int_equal(s.lost, 0);
}

static void deliver(unsigned epoch, uint32_t sequence, uint64_t intended)
{
    make(64, 7, FRAME_DATA, epoch, sequence, intended);
    arrive(t.bytes, t.length, intended + 1000);
}

/* Another run has the same four bits of epoch by chance: its times distinguish it. */
static void run_of_same_epoch_differs_by_times(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 37; i++)
        deliver(3, i, 1000 + i);
    for (uint32_t i = 0; i < 10; i++)
        deliver(3, i, 5000 + i); /* the sender restarts */
    assert_int_equal(counters.rx_stale, 37);
    assert_int_equal(counters.rx_frames, 10);
    deliver(
        3, 36,
        1036); /* late frames of the earlier run: with higher numbers, and with received numbers */
    deliver(3, 5, 1005);
    assert_int_equal(counters.rx_stale, 39);
    assert_int_equal(counters.rx_frames, 10);
    const struct sequence_summary s = sequence_summarise(&tracker);
    assert_int_equal(s.expected, 10);
    assert_int_equal(s.lost, 0);
    assert_int_equal(s.duplicates, 0);
}

/* If this process sends the frames, their signature is known: frames with other signatures do not
 * restart the trial. */
static void known_signature_is_kept(void **state)
{
    (void)state;
    make(64, 7, FRAME_DATA, 3, 0, 1000);
    receive_begin(&rx, load32(t.bytes + 42), 0);
    rx.lock_intended = 1000;
    for (uint32_t i = 0; i < 10; i++)
        deliver(3, i, 1000 + i);
    deliver(4, 0, 9000);
    deliver(3, 0, 9000);
    deliver(3, 8, 10);
    assert_int_equal(counters.rx_stale, 3);
    assert_int_equal(counters.rx_frames, 10);
    assert_int_equal(tracker.unique, 10);
    assert_int_equal(tracker.duplicates, 0);
}

/* A foreign frame is classified by its length, otherwise by its tag; each frame counts once. */
static void runts_jumbos_and_tagged_are_counted(void **state)
{
    (void)state;
    static const uint8_t tag[] = {0x81, 0, 0, 5}, service[] = {0x88, 0xa8, 0, 6};
    static const uint32_t lengths[] = {0, 1, 13, 14, 59, 60, 1514, 1515, 9014};
    static uint8_t bytes[9014] = {[12] = 8};

    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++)
        arrive(bytes, lengths[i], 2000);
    assert_int_equal(counters.rx_runts, 5);
    assert_int_equal(counters.rx_jumbos, 2);
    assert_int_equal(counters.rx_tagged, 0);
    memcpy(bytes + 12, service, 4);
    memcpy(bytes + 16, tag, 4);
    arrive(bytes, 1522, 2000); /* two tags */
    arrive(bytes, 1523, 2000);
    memcpy(bytes + 12, tag, 4);
    memset(bytes + 16, 0, 4);
    arrive(bytes, 60, 2000);
    arrive(bytes, 1519, 2000);
    assert_int_equal(counters.rx_tagged, 2);
    assert_int_equal(counters.rx_jumbos, 4);
    assert_int_equal(counters.rx_other, 13);
    struct io_port port = {.cuts_tagged = true};
    rx.port = &port;
    arrive(bytes, 14, 2000);
    rx.port = NULL;
    assert_int_equal(counters.rx_tagged, 3);
    assert_int_equal(counters.rx_runts, 5);
}

/* Late and early frames are in no rate, no loss and no histogram of delays. */
static void distant_frames_are_counted_separately(void **state)
{
    (void)state;
    const uint32_t far = 3 * SEQUENCE_WINDOW;
    rx.latency_wanted = true;
    deliver(3, far, 900000);
    for (uint32_t i = 0; i < 10; i++)
        deliver(3, i, 1000 + i);
    assert_int_equal(counters.rx_early, 1);
    assert_int_equal(counters.rx_frames, 10);
    assert_int_equal(counters.rx_bytes, 640);
    assert_int_equal(from_actual.count, 10);
    deliver(3, far, 900000);
    deliver(3, far + 1, 900001); /* so there was an outage */
    assert_int_equal(counters.rx_early, 1);
    assert_int_equal(counters.rx_frames, 12);
    assert_int_equal(counters.rx_bytes, 12 * 64);
    deliver(3, 5, 1005);
    assert_int_equal(counters.rx_beyond_window, 1);
    assert_int_equal(counters.rx_frames, 12);
    const struct sequence_summary s = sequence_summarise(&tracker);
    assert_int_equal(s.received_unique, 12);
    assert_int_equal(s.lost, far - 10);
    assert_int_equal(s.lost_at_least, far - 12);
}

static void payloads_without_headers(void **state)
{
    (void)state;
    rx.payload_only = true;
    frame_template_build(&t, &peer, 128, 7, FRAME_DATA | FRAME_TOUCHED, 1, true);
    arrive(t.bytes, t.length, 2000);
    assert_int_equal(counters.rx_frames, 1);
    assert_int_equal(counters.rx_bytes, 128);
    t.bytes[40] ^= 1;
    arrive(t.bytes, t.length, 2000);
    assert_int_equal(counters.rx_corrupt, 1);
    arrive(t.bytes, 17, 2000);
    assert_int_equal(counters.rx_other, 1);
}

static void random_frames_are_handled(void **state)
{
    (void)state;
    uint64_t random = 123;
    uint64_t total = 0;
    for (unsigned i = 0; i < 200000; i++) {
        make(64 + (uint32_t)(test_random(&random) % 200), 7,
             FRAME_DATA | (i & 1 ? FRAME_TOUCHED : 0), 1, i, 1000);
        const unsigned changes = (unsigned)(test_random(&random) % 6);
        for (unsigned j = 0; j < changes; j++)
            t.bytes[test_random(&random) % t.length] = (uint8_t)test_random(&random);
        arrive(t.bytes, (uint32_t)(test_random(&random) % (t.length + 1)), 2000);
        total++;
    }
    assert_int_equal(counters.rx_frames + counters.rx_corrupt + counters.rx_foreign +
                         counters.rx_other + counters.rx_verification + counters.rx_stale +
                         counters.rx_beyond_window + counters.rx_early,
                     total);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_kind_has_its_counter, reset),
        cmocka_unit_test_setup(flipped_bits_are_detected, reset),
        cmocka_unit_test_setup(exchanged_words_are_detected, reset),
        cmocka_unit_test_setup(stamps_are_verified_without_touch, reset),
        cmocka_unit_test_setup(flipped_signatures_do_no_harm, reset),
        cmocka_unit_test_setup(truncated_frames_are_corrupt, reset),
        cmocka_unit_test_setup(other_addresses_are_corrupt_if_given, reset),
        cmocka_unit_test_setup(latency_from_both_times, reset),
        cmocka_unit_test_setup(remote_sender_clock_is_converted, reset),
        cmocka_unit_test_setup(times_do_not_depend_on_bursts, reset),
        cmocka_unit_test_setup(late_frames_in_burst_leave_no_times, reset),
        cmocka_unit_test_setup(late_frames_belong_to_earlier_trial, reset),
        cmocka_unit_test_setup(run_of_same_epoch_differs_by_times, reset),
        cmocka_unit_test_setup(known_signature_is_kept, reset),
        cmocka_unit_test_setup(runts_jumbos_and_tagged_are_counted, reset),
        cmocka_unit_test_setup(distant_frames_are_counted_separately, reset),
        cmocka_unit_test_setup(payloads_without_headers, reset),
        cmocka_unit_test_setup(random_frames_are_handled, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
