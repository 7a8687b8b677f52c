/* Several queues: lost, duplicated and received frames are counted exactly, however the frames of
 * the workers' streams are spread over the queues. */
#include "test.h"

#include "fake_io.h"
#include "role/role.h"
#include "trial/loop.h"

#define QUEUES 3
#define FIRST_STREAM 7

static const struct frame_address peer = {.src_mac = {2, 0, 0, 0, 0, 1},
                                          .dst_mac = {2, 0, 0, 0, 0, 2},
                                          .src_ip = 1,
                                          .dst_ip = 2,
                                          .src_udp = 3,
                                          .dst_udp = 4};
static struct options options;
static struct trial *trial;
static struct fake_port *ports[QUEUES];
static struct end all;

static int make_trial(void **state)
{
    (void)state;
    options = (struct options){.role = &role_receiver, .stream = FIRST_STREAM, .queues = QUEUES};
    trial = calloc(1, sizeof *trial);
    trial->options = &options;
    trial->ends = aligned_alloc(64, sizeof(struct end) * QUEUES);
    memset(trial->ends, 0, sizeof(struct end) * QUEUES);
    trial->end_count = trial->threads.count = QUEUES;
    for (unsigned i = 0; i < QUEUES; i++) {
        struct end *end = &trial->ends[i];
        ports[i] = fake_open(false);
        end->port = &ports[i]->base;
        end->receiving.rx = (struct receiver){.counters = &end->counters,
                                              .stream = __builtin_bswap16(FIRST_STREAM),
                                              .tracker = &end->receiving.tracker,
                                              .latency_wanted = true,
                                              .from_actual = &end->receiving.from_actual,
                                              .from_intended = &end->receiving.from_intended,
                                              .variation = &end->receiving.variation};
        assert_true(queues_make(end, QUEUES));
        queues_join(end, FIRST_STREAM);
        receive_begin(&end->receiving.rx, 0, 0);
        queues_begin(end);
    }
    return 0;
}

static int end_trial(void **state)
{
    (void)state;
    for (unsigned i = 0; i < QUEUES; i++) {
        assert_int_equal(ports[i]->unreleased, 0);
        queues_free(&trial->ends[i]);
        fake_close(ports[i]);
    }
    free(trial->ends);
    free(trial);
    return 0;
}

static void arrive(unsigned queue, unsigned stream, uint32_t sequence)
{
    static struct frame_template t;
    const struct frame_times times = frame_times_make(1000, 1000);

    frame_template_build(&t, &peer, 64, (uint16_t)stream, FRAME_DATA, 1, false);
    frame_stamp(&t, t.bytes, sequence, &times);
    fake_queue(ports[queue], t.bytes, t.length);
}

static struct sequence_summary receive_all(void)
{
    for (unsigned i = 0; i < QUEUES; i++) {
        while (end_receive(trial, &trial->ends[i]) > 0)
            continue;
    }
    return queues_summarise(trial, &all);
}

static uint64_t received(void)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < QUEUES; i++)
        sum += trial->ends[i].counters.rx_frames;
    return sum;
}

static void queues_one_stream_each(void **state)
{
    (void)state;
    for (unsigned stream = 0; stream < QUEUES; stream++) {
        for (uint32_t i = 0; i < 100; i++) {
            if (i % 10 != 5 || stream != 1) /* stream 1 loses ten frames */
                arrive(stream, FIRST_STREAM + stream, i);
        }
    }
    const struct sequence_summary s = receive_all();
    assert_int_equal(received(), 290);
    assert_int_equal(s.expected, 300);
    assert_int_equal(s.received_unique, 290);
    assert_int_equal(s.lost, 10);
    assert_int_equal(s.duplicates + s.reordered, 0);
    assert_int_equal(s.first_sequence, 0);
    assert_int_equal(s.last_sequence, 99);
}

/* A switch that spreads one stream over all queues does not lose or reorder frames by that. */
static void queues_streams_spread_over_all(void **state)
{
    (void)state;
    uint64_t seed = 1, dropped = 0;

    for (uint32_t i = 0; i < 1000; i++) {
        for (unsigned stream = 0; stream < QUEUES; stream++) {
            const bool drop = i > 0 && i < 999 && test_random(&seed) % 50 == 0;
            dropped += drop;
            if (!drop)
                arrive((unsigned)(test_random(&seed) % QUEUES), FIRST_STREAM + stream, i);
        }
    }
    const struct sequence_summary s = receive_all();
    assert_true(dropped > 0);
    assert_int_equal(s.expected, 3000);
    assert_int_equal(s.lost, dropped);
    assert_int_equal(s.received_unique, 3000 - dropped);
    assert_int_equal(s.duplicates + s.reordered, 0);
}

static void queues_duplicates_and_order_per_stream(void **state)
{
    (void)state;
    arrive(0, FIRST_STREAM, 0);
    arrive(0, FIRST_STREAM + 1, 0);
    arrive(0, FIRST_STREAM, 0); /* duplicated */
    arrive(0, FIRST_STREAM + 1, 2);
    arrive(0, FIRST_STREAM + 1, 1); /* overtaken */
    arrive(2, FIRST_STREAM + 2, 5);
    arrive(1, FIRST_STREAM + 2, 5); /* duplicated over another queue */
    const struct sequence_summary s = receive_all();
    assert_int_equal(s.expected, 5);
    assert_int_equal(s.received_unique, 5);
    assert_int_equal(s.lost, 0);
    assert_int_equal(s.duplicates, 2);
    assert_int_equal(s.reordered, 1);
}

static void queues_ignore_other_streams(void **state)
{
    (void)state;
    const uint8_t arp[60] = {[12] = 8, [13] = 6};

    arrive(0, FIRST_STREAM - 1, 0);
    arrive(1, FIRST_STREAM + QUEUES, 0);
    fake_queue(ports[2], arp, sizeof arp);
    fake_queue(ports[2], arp, 0);
    const struct sequence_summary s = receive_all();
    assert_false(s.any);
    assert_int_equal(received(), 0);
    assert_int_equal(trial->ends[0].counters.rx_foreign, 1);
    assert_int_equal(trial->ends[1].counters.rx_foreign, 1);
    assert_int_equal(trial->ends[2].counters.rx_other, 2);
}

static void queues_time_every_stream(void **state)
{
    (void)state;
    for (unsigned stream = 0; stream < QUEUES; stream++)
        arrive(0, FIRST_STREAM + stream, 0);
    arrive(1, FIRST_STREAM, 1);
    receive_all();
    assert_int_equal(all.receiving.from_actual.count, 4);
    assert_int_equal(all.receiving.from_intended.count, 4);
    assert_int_equal(all.receiving.variation.grown.count,
                     0); /* no two consecutive frames on one queue */
}

int main(void)
{
    clock_begin();
    clock_calibrate();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(queues_one_stream_each, make_trial, end_trial),
        cmocka_unit_test_setup_teardown(queues_streams_spread_over_all, make_trial, end_trial),
        cmocka_unit_test_setup_teardown(queues_duplicates_and_order_per_stream, make_trial,
                                        end_trial),
        cmocka_unit_test_setup_teardown(queues_ignore_other_streams, make_trial, end_trial),
        cmocka_unit_test_setup_teardown(queues_time_every_stream, make_trial, end_trial),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
