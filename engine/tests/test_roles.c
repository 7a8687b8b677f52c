/* Roles with scripted ports: the server echoes exactly its stream, each frame with its payload; the
 * forwarder passes every frame once; every received frame is released exactly once. */
#include "test.h"

#include <pthread.h>
#include <unistd.h>

#include "fake_io.h"
#include "trial/loop.h"

static struct options options;
static struct trial *trial;
static struct fake_port *ports[2];
static const struct frame_address peer = {.src_mac = {2, 0, 0, 0, 0, 1},
                                          .dst_mac = {2, 0, 0, 0, 0, 2},
                                          .src_ip = 1,
                                          .dst_ip = 2,
                                          .src_udp = 3,
                                          .dst_udp = 4};

static void make_trial(const struct role *role, bool can_forward)
{
    options = (struct options){.role = role, .stream = 7, .catch_up_ns = 1000, .idle = IDLE_YIELD};
    options.address = frame_address_swapped(&peer);
    trial = calloc(1, sizeof *trial);
    trial->options = &options;
    trial->ends = aligned_alloc(64, sizeof(struct end) * role->ports);
    memset(trial->ends, 0, sizeof(struct end) * role->ports);
    trial->end_count = role->ports;
    trial->threads.count = 1;
    trial->intervals.wake_fd = -1;
    for (unsigned i = 0; i < role->ports; i++) {
        struct end *end = &trial->ends[i];
        ports[i] = fake_open(can_forward);
        end->port = &ports[i]->base;
        end->address = i == 0 ? options.address : frame_address_swapped(&options.address);
        end->receiving.rx.counters = &end->counters;
        end->receiving.rx.stream = __builtin_bswap16(7);
        receive_expect(&end->receiving.rx, &end->address, false, false, false, false);
    }
}

/* Run the role until its ports are empty. */
static void run(void)
{
    trial->clock.next_interval = UINT64_MAX;
    trial->clock.end_tick = clock_ticks() + clock_ns_to_ticks(20000000);
    trial->clock.next_event = trial->clock.end_tick;
    trial->options->role->run(trial, 0);
}

static void end_trial(void)
{
    for (unsigned i = 0; i < trial->end_count; i++) {
        assert_int_equal(ports[i]->unreleased, 0);
        fake_close(ports[i]);
    }
    free(trial->ends);
    free(trial);
}

static void queue(unsigned port, uint16_t stream, unsigned kind, uint32_t sequence)
{
    static struct frame_template t;
    frame_template_build(&t, &peer, 64 + sequence % 100, stream, kind, 1, false);
    const struct frame_times times = frame_times_make(5, 6);
    frame_stamp(&t, t.bytes, sequence, &times);
    fake_queue(ports[port], t.bytes, t.length);
}

static void queue_mixture(unsigned count)
{
    const uint8_t arp[60] = {[12] = 8, [13] = 6};
    for (uint32_t i = 0; i < count; i++) {
        if (i % 3 == 0)
            fake_queue(ports[0], arp, sizeof arp);
        else if (i % 3 == 1)
            queue(0, 8, FRAME_DATA, i);
        if (i % 5 == 0)
            queue(0, 7, FRAME_VERIFICATION, i);
        queue(0, 7, FRAME_DATA, i);
    }
}

/* An earlier tool's filter moved packets but not their payloads: after a foreign frame all
 * following frames carried wrong data. */
static void check_server(bool can_forward)
{
    make_trial(&role_server, can_forward);
    queue_mixture(500);
    run();
    assert_int_equal(ports[0]->sent_count, 500);
    for (uint32_t i = 0; i < 500; i++) {
        const uint8_t *f = ports[0]->sent[i];
        assert_int_equal(ports[0]->sent_length[i], 60 + i % 100);
        assert_int_equal(__builtin_bswap32(load32(f + 46)), i);
        assert_memory_equal(f, "\2\0\0\0\0\1\2\0\0\0\0\2", 12);
        assert_memory_equal(f + 26, "\0\0\0\2\0\0\0\1\0\4\0\3", 12);
        assert_int_equal(load16(f + 44), __builtin_bswap16(7));
    }
    const struct counters *c = &trial->ends[0].counters;
    assert_int_equal(c->rx_frames, 500);
    assert_int_equal(c->rx_foreign, 167);
    assert_int_equal(c->rx_other, 167);
    assert_int_equal(c->tx_offered, 500);
    assert_int_equal(c->tx_bytes, c->rx_bytes);
    end_trial();
}

static void server_echoes_only_its_stream(void **state)
{
    (void)state;
    check_server(false);
    check_server(true);
}

static void server_drops_if_ring_is_full(void **state)
{
    (void)state;
    for (unsigned can_forward = 0; can_forward < 2; can_forward++) {
        make_trial(&role_server, can_forward);
        queue_mixture(100);
        ports[0]->accepts = 0;
        run();
        assert_int_equal(trial->ends[0].counters.tx_dropped, 100);
        assert_int_equal(trial->ends[0].counters.tx_offered, 0);
        end_trial();
    }
}

static void server_retries_after_partial_send(void **state)
{
    (void)state;
    for (unsigned can_forward = 0; can_forward < 2; can_forward++) {
        make_trial(&role_server, can_forward);
        options.catch_up_ns = 1000000000;
        queue_mixture(100);
        ports[0]->accepts = 7;
        ports[0]->refusals = 3;
        run();
        assert_int_equal(trial->ends[0].counters.tx_offered, 100);
        for (uint32_t i = 0; i < 100; i++)
            assert_int_equal(__builtin_bswap32(load32(ports[0]->sent[i] + 46)), i);
        end_trial();
    }
}

static void forwarder_passes_every_frame_once(void **state)
{
    (void)state;
    for (unsigned can_forward = 0; can_forward < 2; can_forward++) {
        make_trial(&role_forwarder, can_forward);
        queue_mixture(300);
        queue(1, 9, FRAME_DATA, 1);
        const unsigned arrived = ports[0]->rx_count;
        run();
        assert_int_equal(ports[1]->sent_count, arrived);
        assert_int_equal(ports[0]->sent_count, 1);
        for (unsigned i = 0; i < arrived; i++) {
            assert_int_equal(ports[1]->sent_length[i], ports[0]->rx_length[i]);
            assert_memory_equal(ports[1]->sent[i], ports[0]->rx[i], ports[0]->rx_length[i]);
        }
        assert_int_equal(trial->ends[0].counters.rx_frames, arrived);
        assert_int_equal(trial->ends[1].counters.tx_offered, arrived);
        end_trial();
    }
}

static void forwarder_writes_macs_and_counts_drops(void **state)
{
    (void)state;
    make_trial(&role_forwarder, false);
    options.mac_update = true;
    for (uint32_t i = 0; i < 10; i++)
        queue(0, 7, FRAME_DATA, i);
    queue(1, 7, FRAME_DATA, 0);
    ports[1]->accepts = 4;
    run();
    assert_int_equal(trial->ends[1].counters.tx_offered, 4);
    assert_int_equal(trial->ends[1].counters.tx_dropped, 6);
    /* by port A: --src-mac, --dst-mac as given; by port B: swapped */
    assert_memory_equal(ports[0]->sent[0], options.address.dst_mac, 6);
    assert_memory_equal(ports[0]->sent[0] + 6, options.address.src_mac, 6);
    assert_memory_equal(ports[1]->sent[0], options.address.src_mac, 6);
    assert_memory_equal(ports[1]->sent[0] + 6, options.address.dst_mac, 6);
    end_trial();
}

static void forwarder_in_chain_sets_macs_per_port(void **state)
{
    (void)state;
    make_trial(&role_forwarder, false);
    options.mac_update = true;
    memcpy(trial->ends[1].address.src_mac, "\2\0\0\0\0\10", 6);
    memcpy(trial->ends[1].address.dst_mac, "\2\0\0\0\0\11", 6);
    queue(0, 7, FRAME_DATA, 0);
    queue(1, 7, FRAME_DATA, 0);
    run();
    assert_memory_equal(ports[1]->sent[0], "\2\0\0\0\0\11\2\0\0\0\0\10", 12);
    assert_memory_equal(ports[0]->sent[0], options.address.dst_mac, 6);
    end_trial();
}

/* Full bursts leave at once, and the rest at the end of the trial. */
static void forwarder_gathers_as_l2fwd_does(void **state)
{
    (void)state;
    make_trial(&role_forwarder, true);
    options.gather_ns = NS_PER_S;
    for (uint32_t sequence = 0; sequence < 70; sequence++)
        queue(0, 7, FRAME_DATA, sequence);
    queue(1, 7, FRAME_DATA, 0);
    ports[1]->accepts = 31;
    run();
    assert_int_equal(trial->ends[0].counters.rx_frames, 70);
    assert_int_equal(ports[1]->sent_count, 31 + 31 + 6);
    assert_int_equal(trial->ends[1].counters.tx_polls, 3);
    assert_int_equal(trial->ends[1].counters.tx_dropped, 2);
    assert_int_equal(ports[0]->sent_count, 1);
    for (unsigned i = 0; i < 6; i++)
        assert_memory_equal(ports[1]->sent[62 + i], ports[0]->rx[64 + i],
                            ports[0]->rx_length[64 + i]);
    end_trial();
}

static void forwarder_releases_frames_after_timer(void **state)
{
    (void)state;
    make_trial(&role_forwarder, true);
    options.gather_ns = 1; /* shorter than any round */
    queue(0, 7, FRAME_DATA, 0);
    ports[0]->endless = true;
    ports[1]->accepts = 0;
    run();
    const struct counters *sent = &trial->ends[1].counters;
    assert_int_equal(sent->tx_polls, trial->ends[0].counters.rx_frames);
    assert_int_equal(sent->tx_dropped, sent->tx_polls);
    end_trial();
}

static unsigned (*fake_forward)(struct io_port *from, struct io_port *to, struct io_frame *frames,
                                unsigned count);

/* It takes a while, and is the last action. */
static unsigned forward_slowly(struct io_port *from, struct io_port *to, struct io_frame *frames,
                               unsigned count)
{
    const uint64_t until = clock_ticks() + clock_ns_to_ticks(2000000);

    while (clock_ticks() < until)
        continue;
    atomic_store(&trial->request.stop, REASON_DURATION);
    return fake_forward(from, to, frames, count);
}

static void forwarder_release_counts_as_work(void **state)
{
    (void)state;
    make_trial(&role_forwarder, true);
    struct io_ops slow = *ports[0]->base.ops;
    fake_forward = slow.forward;
    slow.forward = forward_slowly;
    ports[0]->base.ops = ports[1]->base.ops = &slow;
    options.gather_ns = 1;
    queue(0, 7, FRAME_DATA, 0);
    trial->clock.end_tick = trial->clock.next_interval = trial->clock.next_event = UINT64_MAX;
    role_forwarder.run(trial, 0);
    assert_int_equal(ports[1]->sent_count, 1);
    assert_true(trial->ends[0].spent_ticks[true] >= clock_ns_to_ticks(2000000));
    end_trial();
}

/* The kernel, or a port opened for jumbo frames, may hand over frames longer than configured: they
 * are passed on or dropped, and block no other frame. */
static void reference_takes_frames_of_any_length(void **state)
{
    (void)state;
    static const uint8_t bytes[16000];
    for (unsigned jumbo = 0; jumbo < 2; jumbo++) {
        make_trial(&role_reference, false);
        options.reference.queue = 64;
        options.traffic.frame_size = 64;
        ports[0]->base.mtu_bytes = ports[1]->base.mtu_bytes = jumbo ? 9000 : 1500;
        ports[1]->longest = 2000; /* has an MTU, but no room for it */
        const uint32_t lengths[] = {60, 1514, 1515, 2001, 9014, 9023, 16000, 60};
        for (unsigned i = 0; i < 8; i++)
            fake_queue(ports[0], bytes, lengths[i]);
        run();
        assert_int_equal(ports[1]->sent_count, jumbo ? 4 : 3);
        assert_int_equal(ports[1]->sent_length[1], 1514);
        assert_int_equal(ports[1]->sent_length[jumbo ? 3 : 2], 60);
        assert_int_equal(trial->ends[1].faults.too_long, jumbo ? 4 : 5);
        assert_int_equal(trial->ends[1].counters.tx_dropped, jumbo ? 4 : 5);
        end_trial();
    }
}

/* A frame that the other port cannot send does not affect the other frames of its burst. */
static void forwarder_drops_only_too_long_frames(void **state)
{
    (void)state;
    static uint8_t tagged[1519] = {[12] = 0x81};
    static uint8_t service[1518] = {[12] = 0x88, [13] = 0xa8, [16] = 0x81};
    static const uint8_t plain[9000];
    for (unsigned can_forward = 0; can_forward < 2; can_forward++) {
        make_trial(&role_forwarder, can_forward);
        fake_queue(ports[0], plain, 60);
        fake_queue(ports[0], plain, 9000);
        fake_queue(ports[0], tagged, 1518); /* one 802.1Q tag does not count */
        fake_queue(ports[0], tagged, 1519);
        fake_queue(ports[0], service, 1518); /* any other tag counts */
        fake_queue(ports[0], plain, 1515);
        fake_queue(ports[0], plain, 13); /* no whole header */
        fake_queue(ports[0], plain, 0);
        fake_queue(ports[0], service, 1514);
        run();
        assert_int_equal(ports[1]->sent_count, 3);
        assert_int_equal(ports[1]->sent_length[1], 1518);
        assert_int_equal(ports[1]->sent_length[2], 1514);
        assert_int_equal(trial->ends[1].counters.tx_dropped, 6);
        assert_int_equal(trial->ends[1].counters.tx_misfits, 6);
        assert_int_equal(trial->ends[1].counters.tx_bytes, 60 + 1518 + 1514 + 3 * 4);
        end_trial();
    }
}

/* The MTU of the other port permits it, but the port has no buffer for it. */
static void forwarder_drops_only_frames_without_room(void **state)
{
    (void)state;
    static uint8_t tagged[1518] = {[12] = 0x81};
    static const uint8_t plain[1514];
    make_trial(&role_forwarder, false);
    ports[1]->longest = ports[1]->base.room = 1516;
    fake_queue(ports[0], plain, 60);
    fake_queue(ports[0], tagged, 1518);
    fake_queue(ports[0], plain, 1514);
    fake_queue(ports[0], tagged, 1516);
    run();
    assert_int_equal(ports[1]->sent_count, 3);
    assert_int_equal(ports[1]->sent_length[2], 1516);
    assert_int_equal(trial->ends[1].counters.tx_dropped, 1);
    end_trial();
}

/* Such frames may come from a file. */
static void forwarder_writes_no_macs_without_header(void **state)
{
    (void)state;
    static const uint8_t bytes[14] = {9, 8, 7};
    make_trial(&role_forwarder, true);
    options.mac_update = true;
    for (uint32_t length = 1; length <= sizeof bytes; length++)
        fake_queue(ports[0], bytes, length);
    run();
    assert_int_equal(ports[1]->sent_count, 1);
    assert_memory_equal(ports[1]->sent[0], options.address.src_mac, 6);
    assert_int_equal(trial->ends[1].counters.tx_misfits, sizeof bytes - 1);
    end_trial();
}

/* A frame that should be overtaken is not early if no frame overtakes it. */
static void reference_delays_every_frame(void **state)
{
    (void)state;
    make_trial(&role_reference, false);
    options.reference =
        (struct reference){.queue = 64, .delay_ns = NS_PER_S, .every[FAULT_REORDER] = 2};
    queue(0, 7, FRAME_DATA, 0);
    queue(0, 7, FRAME_DATA, 1); /* it waits for a follower for at most 2 ms */
    run();
    assert_int_equal(ports[1]->sent_count, 0);
    assert_int_equal(trial->ends[1].faults.did[FAULT_REORDER], 0);
    assert_int_equal(trial->ends[1].faults.waiting, 2);
    end_trial();
}

/* A fault that a full queue has undone does not count, and a frame is dropped at most once. */
static void reference_counts_applied_faults(void **state)
{
    (void)state;
    for (unsigned blocked = 0; blocked < 2; blocked++) {
        make_trial(&role_reference, false);
        options.reference = (struct reference){.queue = 8,
                                               .every[FAULT_REORDER] = 5,
                                               .every[FAULT_DUPLICATE] = 7,
                                               .every[FAULT_CORRUPT] = 3};
        ports[1]->accepts = blocked ? 0 : UINT32_MAX;
        for (unsigned i = 0; i < 60; i++)
            queue(0, 7, FRAME_DATA, i);
        run();
        const uint64_t *did = trial->ends[1].faults.did;
        const struct counters *out = &trial->ends[1].counters;
        assert_true(out->tx_dropped <= out->tx_intended);
        assert_int_equal(out->tx_intended, 60);
        if (blocked) {
            assert_int_equal(out->tx_offered, 0);
            for (unsigned fault = 0; fault < FAULTS; fault++)
                assert_int_equal(did[fault], 0);
        } else {
            assert_true(did[FAULT_REORDER] + did[FAULT_DUPLICATE] + did[FAULT_CORRUPT] > 0);
            assert_int_equal(out->tx_offered, out->tx_intended - out->tx_dropped +
                                                  did[FAULT_DUPLICATE] -
                                                  trial->ends[1].faults.waiting);
        }
        end_trial();
    }
}

/* Frames that arrive before the schedule begins are received, and none is sent until then. */
static void duplex_receives_before_it_sends(void **state)
{
    (void)state;
    make_trial(&role_duplex, false);
    struct end *end = &trial->ends[0];
    end->sending.tx.port = end->port;
    end->sending.tx.counters = &end->counters;
    end->receiving.rx.port = end->port;
    end->receiving.rx.tracker = &end->receiving.tracker;
    end->receiving.rx.from_actual = &end->receiving.from_actual;
    end->receiving.rx.from_intended = &end->receiving.from_intended;
    end->receiving.rx.variation = &end->receiving.variation;
    frame_template_build(&end->sending.tx.template, &end->address, 64, 7, FRAME_DATA, 1, false);
    end->sending.tx.lateness = &end->sending.lateness;
    uint64_t now = clock_ticks();
    trial->clock.start_tick = now + clock_ns_to_ticks(10000000000);
    receive_begin(&end->receiving.rx, 0, 0);
    for (uint32_t i = 0; i < 40; i++)
        queue(0, 7, FRAME_DATA, i);
    trial->clock.next_interval = UINT64_MAX;
    trial->clock.end_tick = trial->clock.next_event = now + clock_ns_to_ticks(300000000);
    trial->options->role->run(trial, 0);
    assert_int_equal(end->counters.rx_frames, 40);
    assert_int_equal(end->counters.tx_polls, 0);
    now = trial->clock.start_tick = clock_ticks();
    const uint64_t last = now + clock_ns_to_ticks(300000000);
    pacing_begin(&end->sending.tx.pacing, 100, 1, engine_clock.hz, now, last, last);
    trial->clock.end_tick = trial->clock.next_event = last;
    trial->options->role->run(trial, 0);
    assert_in_range(end->counters.tx_offered, 1, 31);
    end_trial();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(server_echoes_only_its_stream),
        cmocka_unit_test(server_drops_if_ring_is_full),
        cmocka_unit_test(server_retries_after_partial_send),
        cmocka_unit_test(forwarder_passes_every_frame_once),
        cmocka_unit_test(forwarder_writes_macs_and_counts_drops),
        cmocka_unit_test(forwarder_in_chain_sets_macs_per_port),
        cmocka_unit_test(forwarder_gathers_as_l2fwd_does),
        cmocka_unit_test(forwarder_releases_frames_after_timer),
        cmocka_unit_test(forwarder_release_counts_as_work),
        cmocka_unit_test(forwarder_drops_only_too_long_frames),
        cmocka_unit_test(forwarder_drops_only_frames_without_room),
        cmocka_unit_test(forwarder_writes_no_macs_without_header),
        cmocka_unit_test(reference_takes_frames_of_any_length),
        cmocka_unit_test(reference_counts_applied_faults),
        cmocka_unit_test(reference_delays_every_frame),
        cmocka_unit_test(duplex_receives_before_it_sends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
