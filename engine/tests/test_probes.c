/* The probe stream next to a load: two streams on one port that do not mix, even if the ring is
 * full at times; a server that echoes one or both of them. */
#include "test.h"

#include "ends/end.h"
#include "ends/probes.h"
#include "fake_io.h"
#include "trial/loop.h"

#define LOAD 7
#define PROBES (LOAD ^ 0x8000)

static struct options options;
static struct trial *trial;
static struct fake_port *port;
static struct end *end;
static const struct frame_address address = {.src_mac = {2, 0, 0, 0, 0, 1},
                                             .dst_mac = {2, 0, 0, 0, 0, 2},
                                             .src_ip = 1,
                                             .dst_ip = 2,
                                             .src_udp = 3,
                                             .dst_udp = 4};

static void make_trial(const struct role *role, bool persistent)
{
    char error[128];
    options = (struct options){.role = role, .stream = LOAD, .catch_up_ns = 1000000};
    options.address = address;
    trial = calloc(1, sizeof *trial);
    trial->options = &options;
    trial->traffic.frame_size = 64;
    trial->traffic.burst = 8;
    trial->traffic.rate = (struct rate){.amount = 1000000, .unit = RATE_PPS};
    if (role->sends)
        trial->traffic.probe_rate = (struct rate){.amount = 100000, .unit = RATE_PPS};
    else
        trial->traffic.probes = 1;
    trial->ends = end = aligned_alloc(64, sizeof(struct end));
    memset(end, 0, sizeof *end);
    trial->end_count = trial->threads.count = 1;
    trial->intervals.wake_fd = -1;
    port = fake_open(false);
    port->persistent = persistent;
    end->port = &port->base;
    end->address = address;
    end_join(trial, end, 0, LOAD);
    assert_true(probes_make(trial, error, sizeof error));
    end->sending.tx.shares_port = end->probe != NULL;
    frame_template_build(&end->sending.tx.template, &address, 64, LOAD, FRAME_DATA, 3, false);
    trial->epoch = 3;
    transmit_begin(&end->sending.tx);
    receive_begin(&end->receiving.rx, 0, 0);
    probes_begin(trial);
    trial->clock.start_tick = 1000;
    trial->clock.end_tick = UINT64_MAX;
    pacing_begin(&end->sending.tx.pacing, 1e6, 8, engine_clock.hz, 1000, UINT64_MAX, 1000000);
    probes_set_times(trial);
}

static void end_trial(void)
{
    assert_int_equal(port->unreleased, 0);
    probes_close(trial);
    fake_close(port);
    free(end);
    free(trial);
}

static uint16_t stream_of(const uint8_t *frame)
{
    return __builtin_bswap16(load16(frame + 44));
}

/* Each stream counts from 0 without a gap, and every frame is complete. */
static void check_sent(uint64_t loads, uint64_t probes)
{
    uint64_t numbers[2] = {0};
    struct receiver check = {.stream = __builtin_bswap16(LOAD)};

    for (unsigned i = 0; i < port->sent_count; i++) {
        const bool probe = stream_of(port->sent[i]) == PROBES;
        assert_int_equal(stream_of(port->sent[i]), probe ? PROBES : LOAD);
        assert_int_equal(__builtin_bswap32(load32(port->sent[i] + 46)), numbers[probe]++);
        assert_true(receive_is_intact(&check, port->sent[i], port->sent_length[i]));
    }
    assert_int_equal(numbers[0], loads);
    assert_int_equal(numbers[1], probes);
}

static void probe_and_load_do_not_mix(void **state)
{
    (void)state;
    for (unsigned persistent = 0; persistent < 2; persistent++) {
        make_trial(&role_client, persistent);
        assert_false(end->sending.tx.prepared);
        for (uint64_t now = 1000; now < 1001000; now += 500) {
            port->refusals = now % 7 == 0;
            port->accepts = now % 3 == 0 ? 5 : UINT32_MAX;
            end_send(trial, end, now);
        }
        const struct counters *load = &end->counters, *probe = &end->probe->counters;
        assert_in_range(probe->tx_offered, 60, 140); /* Poisson, mean 100 */
        assert_in_range(load->tx_offered, 950, 1008);
        assert_int_equal(load->tx_bytes, load->tx_offered * 64);
        check_sent(load->tx_offered, probe->tx_offered);
        end_trial();
    }
}

static void next_due_frame_of_both_streams(void **state)
{
    (void)state;
    make_trial(&role_client, false);
    const uint64_t probe_due = pacing_due(&end->probe->sending.tx.pacing);
    const uint64_t load_due = pacing_due(&end->sending.tx.pacing);
    assert_int_equal(end_next_due(end, 0), probe_due < load_due ? probe_due : load_due);
    end_trial();
}

static void queue(uint16_t stream, uint32_t sequence, unsigned epoch)
{
    static struct frame_template t;
    const struct frame_address peer = frame_address_swapped(&address);
    const struct frame_times times = frame_times_make(5000, 6000);

    frame_template_build(&t, &peer, 64, stream, FRAME_DATA, epoch, false);
    frame_stamp(&t, t.bytes, sequence, &times);
    fake_queue(port, t.bytes, t.length);
}

static void queue_both(unsigned count)
{
    for (uint32_t i = 0; i < count; i++) {
        queue(LOAD, i, 3);
        if (i % 10 == 0)
            queue(PROBES, i / 10, 3);
        if (i % 50 == 0)
            queue(9, i, 3);
    }
}

static void receiver_separates_probe_and_load(void **state)
{
    (void)state;
    make_trial(&role_receiver, false);
    queue_both(100);
    while (end_receive(trial, end) > 0)
        continue;
    assert_int_equal(end->counters.rx_frames, 100);
    assert_int_equal(end->counters.rx_bytes, 6400);
    assert_int_equal(end->counters.rx_foreign, 2);
    assert_int_equal(end->probe->counters.rx_frames, 10);
    assert_int_equal(end->receiving.from_actual.count, 0); /* the load is not timed */
    assert_int_equal(end->probe->receiving.from_actual.count, 10);
    assert_int_equal(sequence_summarise(&end->receiving.tracker).received_unique, 100);
    assert_int_equal(sequence_summarise(&end->probe->receiving.tracker).lost, 0);
    end_trial();
}

/* Both directions at once: sent and received probes have the same stream ID and separate counters.
 */
static void duplex_sends_and_times_probes(void **state)
{
    (void)state;
    make_trial(&role_duplex, false);
    queue_both(100);
    for (uint64_t now = 1000; now < 1001000; now += 500) {
        end_receive(trial, end);
        end_send(trial, end, now);
    }
    const struct counters *probe = &end->probe->counters;
    assert_in_range(probe->tx_offered, 60, 140); /* Poisson, mean 100 */
    check_sent(end->counters.tx_offered, probe->tx_offered);
    assert_int_equal(end->counters.rx_frames, 100);
    assert_int_equal(probe->rx_frames, 10);
    assert_int_equal(end->receiving.from_actual.count, 0);
    assert_int_equal(end->probe->receiving.from_actual.count, 10);
    assert_int_equal(sequence_summarise(&end->probe->receiving.tracker).received_unique, 10);
    end_trial();
}

static void serve(enum echo echo)
{
    make_trial(&role_server, false);
    trial->traffic.echo = echo;
    queue_both(100);
    trial->clock.next_interval = UINT64_MAX;
    trial->clock.end_tick = clock_ticks() + clock_ns_to_ticks(20000000);
    trial->clock.next_event = trial->clock.end_tick;
    options.idle = trial->threads.idle = IDLE_YIELD;
    role_server.run(trial, 0);
}

static void server_echoes_probes_or_all(void **state)
{
    (void)state;
    serve(ECHO_PROBES);
    check_sent(0, 10);
    assert_int_equal(end->counters.rx_frames, 100);
    assert_int_equal(end->counters.tx_offered, 0);
    assert_int_equal(end->probe->counters.tx_offered, 10);
    assert_int_equal(end->probe->counters.tx_bytes, 640);
    end_trial();
    serve(ECHO_ALL);
    check_sent(100, 10);
    assert_int_equal(end->counters.tx_offered, 100);
    assert_int_equal(end->counters.tx_bytes, 6400);
    assert_int_equal(end->probe->counters.tx_offered, 10);
    end_trial();
}

static void no_second_stream_without_probes(void **state)
{
    (void)state;
    char error[128];
    make_trial(&role_receiver, false);
    trial->traffic.probes = 0;
    assert_true(probes_make(trial, error, sizeof error));
    assert_null(end->probe);
    queue_both(50);
    while (end_receive(trial, end) > 0)
        continue;
    assert_int_equal(end->counters.rx_frames, 50);
    assert_int_equal(end->counters.rx_foreign, 6);
    end_trial();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probe_and_load_do_not_mix),
        cmocka_unit_test(next_due_frame_of_both_streams),
        cmocka_unit_test(receiver_separates_probe_and_load),
        cmocka_unit_test(duplex_sends_and_times_probes),
        cmocka_unit_test(server_echoes_probes_or_all),
        cmocka_unit_test(no_second_stream_without_probes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
