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
        cmocka_unit_test(start_values_fit_command_line),
        cmocka_unit_test(random_lines_are_handled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
