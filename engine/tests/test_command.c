/* Commands on standard input: valid, invalid and random. */
#include "test.h"

#include <stdio.h>

#include "control/command.h"
#include "role/role.h"

static struct options base = {
    .role = &role_client,
    .ports = {"null:"},
    .port_count = 1,
    .traffic = {.rate = {.amount = 5, .unit = RATE_PPS},
                .burst = 1,
                .frame_size = 64,
                .interval_ns = 1},
};
static struct command c;
static char error[256];

static bool parse(const char *text)
{
    char line[256];
    snprintf(line, sizeof line, "%s", text);
    error[0] = '\0';
    return command_parse(line, &base, &c, error, sizeof error);
}

static void valid_commands_are_parsed(void **state)
{
    (void)state;
    assert_true(parse("verify 10"));
    assert_int_equal(c.kind, COMMAND_VERIFY);
    assert_int_equal(c.count, 10);
    assert_true(parse("verify-broadcast 1\r"));
    assert_int_equal(c.kind, COMMAND_VERIFY_BROADCAST);
    assert_true(parse("  counters  "));
    assert_int_equal(c.kind, COMMAND_COUNTERS);
    assert_true(parse("interval"));
    assert_int_equal(c.kind, COMMAND_INTERVAL);
    assert_true(parse("stop"));
    assert_int_equal(c.kind, COMMAND_STOP);
    assert_int_equal(c.sent, SENT_UNKNOWN);
    assert_true(parse("stop sent=0"));
    assert_int_equal(c.sent, 0);
    assert_true(parse("stop sent=123456789012"));
    assert_int_equal(c.sent, 123456789012);
    assert_true(parse("start"));
    assert_int_equal(c.traffic.rate.amount, 5);
    assert_true(parse("start rate=2M burst=16 duration=3 frame-size=128 interval=0.2 at=99"));
    assert_int_equal(c.kind, COMMAND_START);
    assert_int_equal(c.traffic.rate.amount, 2000000);
    assert_int_equal(c.traffic.burst, 16);
    assert_int_equal(c.traffic.duration_ns, 3000000000);
    assert_int_equal(c.traffic.interval_ns, 200000000);
    assert_int_equal(c.traffic.at_ns, 99);
    assert_true(parse("start rate=50% line-rate=10Gbps schedule=on-off:10ms:90ms probe-rate=1k"));
    assert_int_equal(c.traffic.schedule.off_ns, 90000000);
    assert_int_equal(c.traffic.probe_rate.amount, 1000);
    base.role = &role_server;
    assert_true(parse("start latency=1 sender-clock=281474976710655:5000000000000:2999999999"));
    base.role = &role_client;
    assert_int_equal(c.traffic.sender_clock.ticks, 281474976710655);
    assert_int_equal(c.traffic.sender_clock.hz, 2999999999);
}

static void invalid_commands_have_reasons(void **state)
{
    (void)state;
    const char *const bad[][2] = {
        {"strat", "did you mean 'start'"},
        {"zzzzzzz", "commands: verify"},
        {"verify", "not a number"},
        {"verify 0", "from 1 to"},
        {"verify x", "'x' is not a number"},
        {"verify 1 2", "'2' is too much"},
        {"inject", "no frame is given"},
        {"inject port=0", "no frame is given"},
        {"inject port=1 00", "there are ports 0 to 0"},
        {"inject port=x 00", "there are ports 0 to 0"},
        {"inject 00112233445566778899aabbcc", "has 26 hex digits; a frame has 14 to 9014 bytes"},
        {"inject 00112233445566778899aabbccd", "has 27 hex digits"},
        {"inject 00112233445566778899aabbccdd0", "'00112233445566778899...' has 29"},
        {"inject 00112233445566778899aabbccdg", "'dg' at byte 13 of a frame"},
        {"inject 0011223344556677889\x80"
         "aabbccdd",
         "at byte 9 of a frame"},
        {"capture", "'' is not a number from 0 to"},
        {"capture -1", "'-1' is not a number"},
        {"capture 1000001", "is not a number from 0 to 1000000"},
        {"capture 1 2", "'2' is too much"},
        {"table rows=1", "only a sender, a receiver, a tester and a duplex"},
        {"tunnels rows=1", "tunnels: only a sender, a receiver, a tester and a duplex"},
        {"stop now", "'now' is not sent="},
        {"stop sent=", "'sent=' is not sent="},
        {"stop sent=-1", "'sent=-1' is not sent="},
        {"stop sent=1 2", "'2' is too much"},
        {"start rate", "not key=value"},
        {"start rate=0", "--rate"},
        {"start rate=50%", "give --line-rate 10Gbps"},
        {"start schedule=poisson rate=max", "needs a mean --rate"},
        {"start frame-size=9999999", "from 64 to 9018"},
        {"start duratoin=1", "did you mean 'duration'"},
    };
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(parse(bad[i][0]));
        if (strstr(error, bad[i][1]) == NULL)
            fail_msg("'%s' was refused with '%s'", bad[i][0], error);
    }
}

static void inject_has_its_frames(void **state)
{
    (void)state;
    static const uint8_t first[14] = {0,    0x11, 0x22, 0x33, 0x44, 0x55, 0x66,
                                      0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd};
    size_t at = 0;
    const uint8_t *bytes;
    uint32_t length;
    assert_true(parse("inject 00112233445566778899AAbbccdd  0102030405060708090a0b0c0d0e0f "));
    assert_int_equal(c.kind, COMMAND_INJECT);
    assert_int_equal(c.port, 0);
    assert_true(command_next_frame(&c, &at, &bytes, &length));
    assert_int_equal(length, 14);
    assert_memory_equal(bytes, first, sizeof first);
    assert_true(command_next_frame(&c, &at, &bytes, &length));
    assert_int_equal(length, 15);
    assert_int_equal(bytes[14], 15);
    assert_false(command_next_frame(&c, &at, &bytes, &length));
    command_free(&c);
    assert_true(parse("inject port=0 00112233445566778899aabbccdd"));
    command_free(&c);
    assert_true(parse("capture 0"));
    assert_int_equal(c.count, 0);
}

/* The longest line of the shortest frames has room. */
static void longest_inject_fits(void **state)
{
    (void)state;
    static char line[COMMAND_LINE_BYTES];
    size_t length = (size_t)snprintf(line, sizeof line, "inject");
    unsigned count = 0, read = 0;
    size_t at = 0;
    const uint8_t *bytes;
    uint32_t frame;
    while (length + 29 < sizeof line - 1) {
        memset(line + length, 'f', 29);
        line[length] = ' ';
        length += 29;
        count++;
    }
    line[length] = '\0';
    assert_true(command_parse(line, &base, &c, error, sizeof error));
    while (command_next_frame(&c, &at, &bytes, &frame))
        read++;
    assert_int_equal(read, count);
    assert_true(count <= COMMAND_LINE_BYTES / 28);
    command_free(&c);
}

static void raw_frames_need_ports_with_whole_frames(void **state)
{
    (void)state;
    static const struct role without_ports = {.name = "tcp-client", .speaks_tcp = true};
    base.ports[0] = "udp:";
    assert_false(parse("inject 00112233445566778899aabbccdd"));
    assert_non_null(strstr(error, "inject: port 0 (udp:) has datagrams"));
    assert_false(parse("capture 1"));
    base.ports[0] = "null:";
    base.role = &role_forwarder;
    assert_false(parse("capture 1"));
    assert_non_null(strstr(error, "a forwarder has no such command"));
    base.role = &without_ports;
    assert_false(parse("inject 00112233445566778899aabbccdd"));
    assert_non_null(strstr(error, "a tcp-client has no such command"));
    base.role = &role_client;
}

static void tables_are_parsed(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0, 1, 2, 0xfb, 0xff, 0x10};
    static const struct {
        const char *line, *because;
    } bad[] = {
        {"table", "give rows=N, or rows in base64"},
        {"table rows=", "'rows=' is not rows=N"},
        {"table rows=1048577", "is not rows=N (0 to 1048576)"},
        {"table rows=1 zipf=11", "'zipf=11' is not"},
        {"table rows=1 zipf=1x", "'zipf=1x' is not"},
        {"table rows=1 order=turn", "'order=turn' is not"},
        {"table AAAAA", "neither rows=N nor base64"},
        {"table AA=A", "neither rows=N nor base64"},
        {"table AA-A", "neither rows=N nor base64"},
        {"table AAAA AAAA", "'AAAA' is too much"},
    };
    base.role = &role_sender;
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(parse(bad[i].line));
        if (strstr(error, bad[i].because) == NULL)
            fail_msg("'%s' was refused with '%s'", bad[i].line, error);
    }
    assert_true(parse("table rows=1M zipf=0.9 seed=5"));
    assert_int_equal(c.kind, COMMAND_TABLE);
    assert_int_equal(c.plan.rows, 1000000);
    assert_true(c.plan.is_zipf && c.plan.exponent == 0.9 && c.plan.seed == 5);
    assert_null(c.data);
    for (unsigned i = 0; i < 5; i++) {
        static const char *const texts[] = {"AA==", "AAE=", "AAEC", "AAEC+w", "AAEC+/8Q"};
        static const unsigned lengths[] = {1, 2, 3, 4, 6};
        char line[40];
        snprintf(line, sizeof line, "denied %s", texts[i]);
        assert_true(parse(line));
        assert_int_equal(c.kind, COMMAND_DENIED);
        assert_int_equal(c.size, lengths[i]);
        assert_memory_equal(c.data, bytes, c.size);
        command_free(&c);
    }
    base.flows.count = 2;
    assert_false(parse("table rows=1"));
    assert_non_null(strstr(error, "leave --flows out"));
    base.flows.count = 0;
    base.role = &role_receiver;
    assert_false(parse("denied rows=1"));
    assert_non_null(strstr(error, "a receiver needs no table of them"));
    base.role = &role_client;
}

/* A trial also refuses values that the command line would refuse. */
static void start_values_fit_command_line(void **state)
{
    (void)state;
    static const struct {
        const struct role *role;
        const char *line, *because;
    } bad[] = {
        {&role_sender, "start probes=1", "only duplex, receiver and server"},
        {&role_tester, "start probes=1", "only duplex, receiver and server"},
        {&role_receiver, "start probe-rate=1k", "only client, duplex, sender and tester"},
        {&role_sender, "start probe-rate=1k probe-schedule=recorded", "use constant or poisson"},
        {&role_sender, "start probe-rate=1k probe-schedule=ramp:1:2:3", "use constant or poisson"},
        {&role_sender, "start schedule=recorded", "only with --replay"},
        {&role_sender, "start latency=1", "only duplex, receiver and server"},
        {&role_receiver, "start sender-clock=1:2:3", "nothing is timed"},
        {&role_sender, "start schedule=ramp:1k:2k:1s rate=1k", "a ramp has its own rates"},
    };
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        base.role = bad[i].role;
        assert_false(parse(bad[i].line));
        if (strstr(error, bad[i].because) == NULL)
            fail_msg("'%s' was refused with '%s'", bad[i].line, error);
    }
    base.role = &role_sender;
    base.traffic.rate_given = true; /* given on the command line: a ramp may replace it */
    assert_true(parse("start schedule=ramp:1k:2k:1s"));
    base.replay_path = "file.pcap";
    assert_true(parse("start schedule=recorded"));
    assert_false(parse("start schedule=recorded rate=1k"));
    base.replay_path = NULL;
    base.traffic.rate_given = false;
    base.role = &role_client;
}

static void random_lines_are_handled(void **state)
{
    (void)state;
    static const char alphabet[] = "startverify counters=0123456789.-kMG\t\xff%";
    uint64_t random = 99;
    unsigned refused = 0;
    for (unsigned i = 0; i < 100000; i++) {
        char line[200];
        const unsigned length = (unsigned)(test_random(&random) % 60);
        const unsigned prefix = i % 3 == 0 ? 6 : 0;
        memcpy(line, "start ", 6);
        for (unsigned j = prefix; j < prefix + length; j++)
            line[j] = alphabet[test_random(&random) % (sizeof alphabet - 1)];
        line[prefix + length] = '\0';
        error[0] = '\0';
        if (!command_parse(line, &base, &c, error, sizeof error)) {
            assert_true(error[0] != '\0');
            refused++;
        }
    }
    assert_true(refused > 50000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_commands_are_parsed),
        cmocka_unit_test(invalid_commands_have_reasons),
        cmocka_unit_test(inject_has_its_frames),
        cmocka_unit_test(longest_inject_fits),
        cmocka_unit_test(raw_frames_need_ports_with_whole_frames),
        cmocka_unit_test(tables_are_parsed),
        cmocka_unit_test(start_values_fit_command_line),
        cmocka_unit_test(random_lines_are_handled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
