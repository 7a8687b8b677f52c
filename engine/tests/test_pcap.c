/* The pcap parser on files of every kind, valid, invalid and random; and replays: times, rounds,
 * stamps. */
#include "test.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake_io.h"
#include "own_folder.h"
#include "traffic/pcap.h"
#include "traffic/receive.h"
#include "traffic/replay.h"
#include "traffic/transmit.h"

static uint8_t file[65536];
static size_t file_size;
static bool big; /* write in the other byte order */
static char error[512];
static char folder[64], path[96], pipe_path[96];
static const struct frame_address address = {.src_ip = 1, .dst_ip = 2, .src_udp = 3, .dst_udp = 4};

static void put32(uint32_t value)
{
    value = big ? __builtin_bswap32(value) : value;
    memcpy(file + file_size, &value, 4);
    file_size += 4;
}

static void put_header(uint32_t magic, uint32_t link)
{
    file_size = 0;
    put32(magic);
    put32(big ? 0x00020004 : 0x00040002);
    put32(0);
    put32(0);
    put32(262144);
    put32(link);
}

static void put_frame(uint32_t seconds, uint32_t fraction, const uint8_t *bytes, uint32_t captured,
                      uint32_t wire)
{
    put32(seconds);
    put32(fraction);
    put32(captured);
    put32(wire);
    memcpy(file + file_size, bytes, captured);
    file_size += captured;
}

static bool begin(struct pcap_reader *reader)
{
    return pcap_begin(reader, file, file_size, error, sizeof error);
}

static void pcap_every_kind_is_read(void **state)
{
    (void)state;
    const uint8_t bytes[100] = {[0] = 1, [99] = 9};
    const uint32_t magics[] = {0xa1b2c3d4, 0xa1b23c4d};
    for (unsigned i = 0; i < 4; i++) {
        struct pcap_reader reader;
        struct pcap_frame frame;
        big = i % 2;
        put_header(magics[i / 2], 1);
        put_frame(7, 250000, bytes, 100, 100);
        put_frame(8, 999999, bytes, 60, 1500);
        assert_true(begin(&reader));
        assert_int_equal(pcap_next(&reader, &frame, error, sizeof error), PCAP_FRAME);
        assert_int_equal(frame.length, 100);
        assert_int_equal(frame.wire_length, 100);
        assert_int_equal(frame.time_ns, 7000000000ULL + (i < 2 ? 250000000 : 250000));
        assert_memory_equal(frame.data, bytes, 100);
        assert_int_equal(pcap_next(&reader, &frame, error, sizeof error), PCAP_FRAME);
        assert_int_equal(frame.length, 60);
        assert_int_equal(frame.wire_length, 1500);
        assert_int_equal(pcap_next(&reader, &frame, error, sizeof error), PCAP_END);
        assert_int_equal(pcap_next(&reader, &frame, error, sizeof error), PCAP_END);
    }
    big = false;
}

static void pcap_fcs_is_removed(void **state)
{
    (void)state;
    const uint8_t bytes[64] = {0};
    struct pcap_reader reader;
    struct pcap_frame frame;
    put_header(0xa1b2c3d4, 0x24000001);
    put_frame(0, 0, bytes, 64, 64);
    put_frame(0, 0, bytes, 30, 64);
    put_frame(0, 0, bytes, 63, 64);
    assert_true(begin(&reader));
    pcap_next(&reader, &frame, error, sizeof error);
    assert_int_equal(frame.length, 60);
    pcap_next(&reader, &frame, error, sizeof error);
    assert_int_equal(frame.length, 30); /* the FCS is in the missing part */
    assert_int_equal(frame.wire_length, 60);
    pcap_next(&reader, &frame, error, sizeof error);
    assert_int_equal(frame.length, 60); /* the frame is complete, only its FCS was cut */
    assert_int_equal(frame.wire_length, 60);
}

static void pcap_other_formats_have_remedy(void **state)
{
    (void)state;
    const struct {
        uint32_t magic, link;
        const char *because;
    } bad[] = {
        {0x0a0d0d0a, 1, "is pcapng, not pcap; convert it: editcap -F pcap"},
        {0xa1b2cd34, 1, "editcap -F pcap"},
        {0x12345678, 1, "is not a pcap file"},
        {0xa1b2c3d4, 113, "link type 113, not Ethernet"},
    };
    for (unsigned i = 0; i < 4; i++) {
        struct pcap_reader reader;
        put_header(bad[i].magic, bad[i].link);
        assert_false(begin(&reader));
        assert_non_null(strstr(error, bad[i].because));
    }
    struct pcap_reader reader;
    assert_false(pcap_begin(&reader, file, 23, error, sizeof error));
    assert_false(pcap_begin(&reader, file, 0, error, sizeof error));
}

static void pcap_invalid_file_reports_place(void **state)
{
    (void)state;
    const uint8_t bytes[100] = {0};
    struct pcap_reader reader;
    struct pcap_frame frame;
    put_header(0xa1b2c3d4, 1);
    put_frame(0, 0, bytes, 100, 100);
    put_frame(0, 0, bytes, 100, 100);
    const size_t whole = file_size;
    for (size_t cut = 1; cut < 116; cut++) {
        assert_true(pcap_begin(&reader, file, whole - cut, error, sizeof error));
        assert_int_equal(pcap_next(&reader, &frame, error, sizeof error), PCAP_FRAME);
        assert_int_equal(pcap_next(&reader, &frame, error, sizeof error), PCAP_CUT);
    }
    put_frame(0, 0, bytes, 0, 100);
    memset(file + whole + 8, 0xff, 4); /* an impossible length */
    assert_true(begin(&reader));
    pcap_next(&reader, &frame, error, sizeof error);
    pcap_next(&reader, &frame, error, sizeof error);
    assert_int_equal(pcap_next(&reader, &frame, error, sizeof error), PCAP_BAD);
    assert_non_null(strstr(error, "is broken at byte 256: frame 3"));
    assert_int_equal(pcap_next(&reader, &frame, error, sizeof error), PCAP_BAD);
}

/* For any content, every frame is inside the file, and the end is reached. */
static void pcap_random_bytes_are_handled(void **state)
{
    (void)state;
    uint64_t random = 3;
    for (unsigned i = 0; i < 3000; i++) {
        const size_t size = test_random(&random) % 2000;
        uint8_t *noise =
            malloc(size > 0 ? size : 1); /* exact size: a sanitizer finds any access beyond it */
        struct pcap_reader reader;
        struct pcap_frame frame;
        for (size_t k = 0; k < size; k++)
            noise[k] = test_random(&random) % 5 == 0 ? (uint8_t)test_random(&random) : 0;
        const uint32_t magic = i % 2 ? 0xa1b2c3d4 : 0x4d3cb2a1, version = i % 2 ? 2 : 0x0200;
        if (size >= 24 && i % 3 != 0) {
            memcpy(noise, &magic, 4);
            memcpy(noise + 4, &version, 4);
            memset(noise + 20, 0, 4);
            noise[i % 2 ? 20 : 23] = 1;
        }
        if (pcap_begin(&reader, noise, size, error, sizeof error)) {
            unsigned frames = 0;
            while (pcap_next(&reader, &frame, error, sizeof error) == PCAP_FRAME) {
                assert_true(frame.data >= noise + 40 && frame.length <= size);
                assert_true(frame.data + frame.length <= noise + size);
                assert_true(++frames < size);
            }
        }
        free(noise);
    }
}

static int make_folder(void **state)
{
    (void)state;
    if (!own_folder(folder, sizeof folder, "test_pcap"))
        return -1;
    snprintf(pipe_path, sizeof pipe_path, "%s/pipe", folder);
    return own_file(path, sizeof path, folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(pipe_path);
    unlink(path);
    return rmdir(folder);
}

static void write_file(void)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(file, file_size, 1, out), 1);
    fclose(out);
}

/* Three frames of the engine, of 64, 100 and 1518 bytes, at 0, 10 and 40 us. */
static void put_three(void)
{
    static struct frame_template t;
    const uint32_t sizes[] = {64, 100, 1518}, times_us[] = {0, 10, 40};
    put_header(0xa1b2c3d4, 1);
    for (unsigned i = 0; i < 3; i++) {
        frame_template_build(&t, &address, sizes[i], 9, FRAME_DATA, 0, false);
        memset(t.bytes + HEADERS_BYTES, 0xee, t.length - HEADERS_BYTES);
        put_frame(100, 999990 + times_us[i], t.bytes, t.length, t.length);
    }
}

static bool load_into(struct replay *replay, const char *name)
{
    const int fd = replay_open(name, error, sizeof error);
    return fd >= 0 && replay_load(replay, fd, name, error, sizeof error);
}

static struct replay load(void)
{
    struct replay replay;
    write_file();
    if (!load_into(&replay, path))
        fail_msg("%s", error);
    return replay;
}

static void replay_has_times_of_file(void **state)
{
    (void)state;
    put_three();
    struct replay replay = load();
    assert_int_equal(replay.count, 3);
    assert_int_equal(replay.longest, 1514);
    assert_true(replay_mean_frame_bytes(&replay) == (64 + 100 + 1518) / 3.0);
    assert_int_equal(replay.length_ns, 60000); /* 40 us plus the mean distance, 20 us */
    const uint64_t due[] = {0, 10000, 40000, 60000, 70000, 100000, 120000};
    for (unsigned i = 0; i < 7; i++) {
        assert_int_equal(replay_time_ns(&replay, i), due[i]);
        assert_int_equal(replay_before(&replay, due[i]), i);
        assert_int_equal(replay_before(&replay, due[i] + 1), i + 1);
    }
    replay_free(&replay);
}

static struct transmitter tx;
static struct counters counters;
static struct histogram lateness;
static struct fake_port *port;

static void begin_replay(const struct replay *replay, enum schedule_shape shape, double rate_pps,
                         uint64_t loops)
{
    const struct schedule_plan plan = {
        .shape = shape, .rate_pps = rate_pps, .replay = replay, .frames = loops * replay->count};
    port = fake_open(false);
    memset(&counters, 0, sizeof counters);
    memset(&tx, 0, sizeof tx);
    tx.port = &port->base;
    tx.counters = &counters;
    tx.lateness = &lateness;
    tx.replay = replay;
    tx.frames_end = loops * replay->count;
    tx.counts = true;
    frame_template_build(&tx.template, &address, 64, 1, FRAME_DATA, 0, false);
    transmit_begin(&tx);
    pacing_begin(&tx.pacing, rate_pps, shape == SCHEDULE_RECORDED ? 1 : 8, 1e9, 1000, UINT64_MAX,
                 5000);
    pacing_take_shape(&tx.pacing, &plan, 1e9, 0);
    transmit_limit_burst(&tx);
}

static void check_replayed(const struct replay *replay, unsigned count)
{
    assert_int_equal(port->sent_count, count);
    for (unsigned i = 0; i < count; i++) {
        const struct replay_frame *frame = &replay->frames[i % replay->count];
        assert_int_equal(port->sent_length[i], frame->length);
        assert_memory_equal(port->sent[i], replay->bytes + frame->offset, frame->length);
    }
    assert_int_equal(counters.tx_bytes, count / 3 * (64 + 100 + 1518));
    assert_int_equal(counters.tx_intended, count);
    assert_true(transmit_is_over(&tx));
    fake_close(port);
}

/* Byte for byte, in rounds, and not one frame more, even if the ring is full at times. */
static void replay_sends_frames_unchanged(void **state)
{
    (void)state;
    put_three();
    struct replay replay = load();
    begin_replay(&replay, SCHEDULE_CONSTANT, 0, 5);
    for (uint64_t now = 1000; now < 2000; now++) {
        port->accepts = (unsigned)(now % 3);
        transmit_step(&tx, now);
    }
    check_replayed(&replay, 15);
    begin_replay(&replay, SCHEDULE_CONSTANT, 1e9, 5);
    for (uint64_t now = 1000; now < 2000; now++)
        transmit_step(&tx, now);
    check_replayed(&replay, 15);
    begin_replay(&replay, SCHEDULE_RECORDED, 0, 2);
    for (uint64_t now = 1000; now < 101000; now++) {
        const uint64_t due = 1000 + replay_time_ns(&replay, port->sent_count);
        assert_int_equal(transmit_step(&tx, now), now == due ? 1 : 0);
        if (now < 101000 - 1)
            assert_false(transmit_is_over(&tx));
    }
    transmit_step(&tx, 101000);
    check_replayed(&replay, 6);
    replay_free(&replay);
}

/* After a stall the next frame is the frame that is due, not a frame that was given up. */
static void replay_recorded_keeps_frames_with_times(void **state)
{
    (void)state;
    put_three();
    struct replay replay = load();
    begin_replay(&replay, SCHEDULE_RECORDED, 0, 1000);
    transmit_step(&tx, 1000);
    transmit_step(&tx,
                  1000 + 3 * 60000 + 10000 + 5001); /* gives up frames that were due 5 us ago */
    assert_int_equal(counters.tx_dropped, 3 * 3 + 2 - 1);
    transmit_step(&tx, 1000 + 3 * 60000 + 40000);
    assert_int_equal(port->sent_count, 2);
    assert_int_equal(port->sent_length[1], 1514);
    transmit_end(&tx, 1000 + 60000000 + 1);
    assert_int_equal(counters.tx_intended, 3000);
    assert_int_equal(counters.tx_dropped, 2998);
    fake_close(port);
    replay_free(&replay);
}

static void replay_stamped_frames_are_valid(void **state)
{
    (void)state;
    put_three();
    struct replay replay = load();
    assert_true(replay_stamp_all(&replay, 77, error, sizeof error));
    replay_set_epoch(&replay, 5);
    begin_replay(&replay, SCHEDULE_CONSTANT, 0, 2);
    while (transmit_step(&tx, 2000) > 0)
        continue;
    struct receiver rx = {.stream = __builtin_bswap16(77)};
    for (unsigned i = 0; i < 6; i++) {
        assert_true(receive_is_intact(&rx, port->sent[i], port->sent_length[i]));
        assert_int_equal(__builtin_bswap32(load32(port->sent[i] + 46)), i);
        assert_int_equal(port->sent[i][43], FRAME_DATA << 4 | 5);
    }
    fake_close(port);
    replay_free(&replay);
}

static void replay_unusable_files_are_refused(void **state)
{
    (void)state;
    const uint8_t arp[60] = {[12] = 8, [13] = 6};
    struct replay replay;
    assert_false(load_into(&replay, "/nonexistent"));
    assert_non_null(strstr(error, "--replay: /nonexistent No such file"));
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_false(load_into(&replay, pipe_path));
    assert_non_null(strstr(error, "/pipe is not a regular file"));
    put_header(0xa1b2c3d4, 1);
    write_file();
    assert_false(load_into(&replay, path));
    assert_non_null(strstr(error, "holds no frame"));
    put_frame(0, 0, arp, 60, 1500);
    write_file();
    assert_false(load_into(&replay, path));
    assert_non_null(strstr(error, "frame 1 was cut to 60 of 1500 bytes"));
    put_header(0xa1b2c3d4, 1);
    put_frame(0, 0, arp, 13, 13);
    write_file();
    assert_false(load_into(&replay, path));
    put_header(0xa1b2c3d4, 1);
    put_frame(0, 0, arp, 60, 60);
    replay = load();
    assert_false(replay_stamp_all(&replay, 1, error, sizeof error));
    assert_non_null(strstr(error, "frame 1 is not UDP over IPv4"));
    assert_int_equal(replay.length_ns, 0);
    replay_free(&replay);
}

static struct io_port *open_port(uint32_t longest)
{
    char argument_text[128];
    const struct io_config config = {.spec = "",
                                     .arguments = argument_text,
                                     .frame_length = 60,
                                     .frame_length_max = longest,
                                     .address = &address};

    snprintf(argument_text, sizeof argument_text, "read=%s", path);
    const struct io_ops *ops = io_of("pcap:", NULL);
    struct io_port *opened = ops->open(&config, error, sizeof error);
    assert_non_null(opened);
    opened->ops = ops;
    return opened;
}

/* A role may write into a received frame, even beyond its end; the next frame and the next trial
 * are unchanged. */
static void pcap_port_returns_copies(void **state)
{
    (void)state;
    static const uint8_t bytes[1515] = {1, 2, 3};
    const uint32_t lengths[] = {1, 60, 1515, 1514, 0, 13};
    struct io_frame frames[8];
    put_header(0xa1b2c3d4, 1);
    for (unsigned i = 0; i < 6; i++)
        put_frame(0, 0, bytes, lengths[i], lengths[i]);
    write_file();
    struct io_port *reading = open_port(1514);
    for (unsigned trial = 1; trial < 4; trial++) {
        reading->trial = 0;
        assert_int_equal(reading->ops->rx_burst(reading, frames, 8), 0);
        assert_false(reading->ended);
        reading->trial = trial;
        assert_int_equal(reading->ops->rx_burst(reading, frames, 8), 5);
        assert_true(reading->ended);
        for (unsigned i = 0; i < 5; i++) {
            assert_int_equal(frames[i].length, lengths[i + (i > 1)]);
            assert_memory_equal(frames[i].data, bytes, frames[i].length);
            memset(frames[i].data, 0xee, frames[i].length > 14 ? frames[i].length : 14);
        }
        assert_int_equal(reading->ops->rx_drops(reading), reading->trial); /* the longest frame */
    }
    reading->ops->close(reading);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pcap_every_kind_is_read),
        cmocka_unit_test(pcap_fcs_is_removed),
        cmocka_unit_test(pcap_other_formats_have_remedy),
        cmocka_unit_test(pcap_invalid_file_reports_place),
        cmocka_unit_test(pcap_random_bytes_are_handled),
        cmocka_unit_test(replay_has_times_of_file),
        cmocka_unit_test(replay_sends_frames_unchanged),
        cmocka_unit_test(replay_recorded_keeps_frames_with_times),
        cmocka_unit_test(replay_stamped_frames_are_valid),
        cmocka_unit_test(replay_unusable_files_are_refused),
        cmocka_unit_test(pcap_port_returns_copies),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
