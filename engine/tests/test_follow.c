/* Frames processed in rows are judged, counted, tracked and timed as if they were processed one by
 * one. */
#include "test.h"

#include "traffic/receive.h"

#define BURSTS 3000U
#define LENGTH_MAX 124U

static const struct frame_address peer = {
    .src_ip = 0x0a000001, .dst_ip = 0x0a000002, .src_udp = 1000, .dst_udp = 2000};

/* A receiver with everything that it writes to. */
struct side {
    struct receiver rx;
    struct counters counters;
    struct sequence_tracker tracker;
    struct histogram from_actual, from_intended;
    struct variation variation;
    uint8_t verdicts[IO_BURST_MAX];
};
static struct side whole, single;

static void begin(struct side *side, bool touch)
{
    const struct frame_address local = frame_address_swapped(&peer);

    memset(side, 0, sizeof *side);
    side->rx = (struct receiver){.counters = &side->counters,
                                 .stream = __builtin_bswap16(7),
                                 .touch = touch,
                                 .latency_wanted = true,
                                 .tracker = &side->tracker,
                                 .from_actual = &side->from_actual,
                                 .from_intended = &side->from_intended,
                                 .variation = &side->variation};
    receive_expect(&side->rx, &local, true, true, true, true);
    receive_begin(&side->rx, 0, 0);
}

/* A sender with occasional effects of switches; most frames follow the previous frame. */
struct source {
    uint64_t random, intended;
    uint32_t sequence, size;
    unsigned kind, harm; /* one frame in `harm` is affected */
};

static uint32_t make(struct source *s, uint8_t *bytes)
{
    static struct frame_template t;
    uint32_t sequence = s->sequence++;
    const uint64_t event = test_random(&s->random) % s->harm;

    if (event == 0)
        sequence = s->sequence++; /* a lost frame */
    else if (event == 1)
        sequence -= 1 + (uint32_t)(test_random(&s->random) % 70); /* a late or duplicated frame */
    else if (event == 2)
        s->size = 64 + (uint32_t)(test_random(&s->random) % 3);
    if (event < 6 && event != 1)
        s->intended += 700; /* another burst of the sender */
    frame_template_build(&t, &peer, s->size, 7, s->kind, 1, false);
    const struct frame_times times = frame_times_make(s->intended, s->intended + 50);
    frame_stamp(&t, t.bytes, sequence, &times);
    if (event == 6)
        t.bytes[12 + test_random(&s->random) % (t.length - 12)] ^=
            (uint8_t)(1U << test_random(&s->random) % 8);
    if (event == 7)
        memset(t.bytes, (int)test_random(&s->random), 12); /* MAC addresses are not compared */
    memcpy(bytes, t.bytes, t.length);
    return t.length;
}

static void compare_sides(void)
{
    assert_memory_equal(&whole.counters, &single.counters, sizeof whole.counters);
    assert_memory_equal(&whole.tracker, &single.tracker, sizeof whole.tracker);
    assert_memory_equal(&whole.from_actual, &single.from_actual, sizeof whole.from_actual);
    assert_memory_equal(&whole.from_intended, &single.from_intended, sizeof whole.from_intended);
    assert_memory_equal(&whole.variation.grown, &single.variation.grown,
                        sizeof whole.variation.grown);
    assert_memory_equal(&whole.variation.shrunk, &single.variation.shrunk,
                        sizeof whole.variation.shrunk);
    assert_int_equal(whole.rx.trial_frames, single.rx.trial_frames);
    assert_int_equal(whole.rx.trial_bytes, single.rx.trial_bytes);
}

static void run(struct source source, bool touch)
{
    uint8_t *exact[IO_BURST_MAX]; /* so that a sanitizer finds a read beyond a frame */
    struct io_frame frames[IO_BURST_MAX];
    uint8_t bytes[LENGTH_MAX];

    begin(&whole, touch);
    begin(&single, touch);
    for (unsigned burst = 0; burst < BURSTS; burst++) {
        const unsigned count = 1 + (unsigned)(test_random(&source.random) % IO_BURST_MAX);
        const uint64_t now = source.intended + 5000;
        for (unsigned i = 0; i < count; i++) {
            const uint32_t length = make(&source, bytes);
            exact[i] = malloc(length);
            memcpy(exact[i], bytes, length);
            frames[i] = (struct io_frame){.data = exact[i], .length = length};
        }
        memset(whole.verdicts, 0xff, sizeof whole.verdicts);
        const unsigned data = receive_burst(&whole.rx, frames, count, now, whole.verdicts);
        unsigned same = 0;
        for (unsigned i = 0; i < count; i++)
            same += receive_burst(&single.rx, &frames[i], 1, now, &single.verdicts[i]);
        assert_int_equal(data, same);
        assert_memory_equal(whole.verdicts, single.verdicts, count);
        for (unsigned i = 0; i < count; i++)
            free(exact[i]);
    }
    compare_sides();
}

/* Numbers and checksums wrap in between: 3000 bursts are about 380,000 frames. */
static void rows_count_like_single_frames(void **state)
{
    (void)state;
    run(
        (struct source){
            .random = 1, .size = 64, .kind = FRAME_DATA, .harm = 100, .sequence = 0xffff0000},
        false);
    assert_true(single.counters.rx_frames > 300000 && single.counters.rx_corrupt > 100);
    const struct sequence_summary s = sequence_summarise(&single.tracker);
    assert_true(s.lost > 100 && s.duplicates > 100 && s.reordered > 100);
    run((struct source){.random = 2, .size = 64, .kind = FRAME_DATA, .harm = 5000}, false);
    run((struct source){.random = 3, .size = 64, .kind = FRAME_DATA, .harm = 8}, false);
}

static void rows_of_other_kinds_count_like_single(void **state)
{
    (void)state;
    run((struct source){.random = 4, .size = 64, .kind = FRAME_DATA, .harm = 100}, true);
    run((struct source){.random = 5, .size = 90, .kind = FRAME_DATA | FRAME_TOUCHED, .harm = 100},
        true);
    run((struct source){.random = 6, .size = 90, .kind = FRAME_DATA | FRAME_TOUCHED, .harm = 100},
        false);
}

/* Every bit behind the MAC addresses of a frame that could follow another. */
static void flipped_bit_ends_row(void **state)
{
    (void)state;
    struct source source = {.random = 7, .size = 64, .kind = FRAME_DATA, .harm = 1U << 31};
    uint8_t bytes[3][LENGTH_MAX];
    struct io_frame frames[3];

    for (unsigned i = 0; i < 3; i++)
        frames[i] = (struct io_frame){.data = bytes[i], .length = make(&source, bytes[i])};
    for (unsigned bit = 12 * 8; bit < 60 * 8; bit++) {
        begin(&whole, false);
        bytes[1][bit / 8] ^= (uint8_t)(1U << bit % 8);
        receive_burst(&whole.rx, frames, 3, 9000, whole.verdicts);
        bytes[1][bit / 8] ^= (uint8_t)(1U << bit % 8);
        assert_int_equal(whole.counters.rx_frames, 2);
        assert_int_equal(sequence_summarise(&whole.tracker).lost, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_count_like_single_frames),
        cmocka_unit_test(rows_of_other_kinds_count_like_single),
        cmocka_unit_test(flipped_bit_ends_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
