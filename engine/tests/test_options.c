/* The command line: valid and invalid options, error messages, and random text. */
#include "test.h"

#include <stdio.h>

#include "measure/clock.h"
#include "options/options.h"
#include "options/table.h"
#include "role/role.h"

static struct options o;
static char error[512];

/* Parse arguments separated by blanks. */
static enum parse_result parse(const char *text)
{
    static char copy[1024];
    static char *arguments[64];
    int count = 1;
    char *rest = NULL;

    snprintf(copy, sizeof copy, "%s", text);
    arguments[0] = copy;
    for (char *w = strtok_r(copy, " ", &rest); w != NULL && count < 63;
         w = strtok_r(NULL, " ", &rest))
        arguments[count++] = w;
    arguments[count] = NULL;
    error[0] = '\0';
    return options_parse(&o, count, arguments, error, sizeof error);
}

static void refused(const char *text, const char *because)
{
    assert_int_equal(parse(text), PARSE_BAD);
    if (strstr(error, because) == NULL)
        fail_msg("'%s' was refused with '%s', not '%s'", text, error, because);
    assert_null(strchr(error, '\n'));
}

static void all_options_are_parsed(void **state)
{
    (void)state;
    assert_int_equal(
        parse(
            "client --port raw:dev=eth0,mmsg --src-mac 02:00:00:00:00:0a "
            "--dst-mac=02:00:00:00:00:0B --src-ip 10.0.3.16 --dst-ip 10.0.3.17 "
            "--src-port 13994 --dst-port 1 --frame-size 9018 --stream 65535 --touch "
            "--rate 1.5M --burst 7 --duration 0.25 --interval 0.1 --patience 40ms --catch-up-us 50 "
            "--idle yield --core 3 --start now --session --dpdk-memory-mb 64 --dpdk-pages 4KiB "
            "--eal -v --eal --log-level=1"),
        PARSE_OK);
    assert_ptr_equal(o.role, &role_client);
    assert_string_equal(o.ports[0], "raw:dev=eth0,mmsg");
    assert_int_equal(o.address.dst_mac[5], 0x0b);
    assert_int_equal(o.address.src_ip, 0x0a000310);
    assert_int_equal(o.address.src_udp, 13994);
    assert_int_equal(o.traffic.frame_size, 9018);
    assert_int_equal(o.stream, 65535);
    assert_int_equal(o.traffic.rate.amount, 1500000);
    assert_int_equal(o.traffic.burst, 7);
    assert_int_equal(o.traffic.duration_ns, 250000000);
    assert_int_equal(o.traffic.interval_ns, 100000000);
    assert_int_equal(o.traffic.patience_ns, 40000000);
    assert_int_equal(o.catch_up_ns, 50000);
    assert_int_equal(o.idle, IDLE_YIELD);
    assert_int_equal(o.cores[0], 3);
    assert_true(o.touch && o.start_now && o.session && o.src_mac_given && o.src_udp_given);
    assert_int_equal(o.dpdk_memory_mb, 64);
    assert_int_equal(o.dpdk_pages, IO_PAGES_SMALL);
    assert_int_equal(o.eal_argument_count, 2);
    assert_string_equal(o.eal_arguments[1], "--log-level=1");
    assert_int_equal(o.queues, 1);
}

static void small_pages_refuse_drivers_that_need_hugepages(void **state)
{
    (void)state;
    refused("sender --port null: --dpdk-pages 2MiB", "is not one of huge|4KiB");
#ifdef HAVE_DPDK
    refused("sender --port dpdk:pci=0000:03:00.0 --dst-mac 02:00:00:00:00:01 --dpdk-pages 4KiB",
            "dpdk:pci=0000:03:00.0, whose driver needs hugepages");
    assert_int_equal(parse("receiver --port dpdk:memif=/run/a,role=client --dpdk-pages 4KiB"),
                     PARSE_OK);
    /* If the driver cannot do zero-copy, the port specification is invalid. */
    parse("receiver --port dpdk:memif=/run/a,role=client,zero-copy --dpdk-pages huge");
    if (strstr(error, "writes beyond its ring") == NULL)
        refused("receiver --port dpdk:memif=/run/a,role=client,zero-copy --dpdk-pages 4KiB",
                "needs hugepages");
#endif
}

static void pci_functions_are_named_or_blocked(void **state)
{
    (void)state;
#ifdef HAVE_DPDK
    const char *ports = "forwarder --port dpdk:vhost=/run/a --port dpdk:pci=0000:03:00.0";
    char text[256];

    snprintf(text, sizeof text, "%s --eal --block=0000:04:00.0", ports);
    refused(text, "--eal --block=0000:04:00.0: with a port dpdk:pci=");
    snprintf(text, sizeof text, "%s --eal -b --eal 0000:04:00.0", ports);
    refused(text, "--eal -b: ");
    snprintf(text, sizeof text, "%s --eal --allow=0000:04:00.0 --eal --base-virtaddr=1", ports);
    assert_int_equal(parse(text), PARSE_OK);
    assert_int_equal(parse("receiver --port dpdk:af-packet=a --eal --block=0000:04:00.0"),
                     PARSE_OK);
#else
    skip_because("this build has no DPDK");
#endif
}

/* Earlier tools divided by a rate of 0, permitted sizes below the headers, and read only 32 bits.
 */
static void bounds_are_checked(void **state)
{
    (void)state;
    refused("sender --port null: --rate 0", "--rate: '0' is neither 'max' nor a rate");
    refused("sender --port null: --rate -1", "--rate");
    refused("sender --port null: --rate 1e6", "--rate");
    refused("sender --port null: --rate 11G", "--rate");
    refused("sender --port null: --rate 99999999999999999999", "--rate");
    refused("sender --port null: --frame-size 63", "from 64 to 9018");
    refused("sender --port null: --frame-size 0", "from 64 to 9018");
    refused("sender --port null: --frame-size 9019", "from 64 to 9018");
    refused("sender --port null: --burst 0", "from 1 to 65536");
    refused("sender --port null: --catch-up-us 0", "from 10 to 1000000000");
    refused("sender --port null: --stream 65536", "--stream");
    refused("sender --port null: --src-port 0", "--src-port");
    refused("sender --port null: --duration -1", "--duration");
    refused("sender --port null: --interval 0", "--interval: '0' is not a time from 0.001");
    assert_int_equal(parse("sender --port null: --rate 5G"), PARSE_OK);
    assert_int_equal(o.traffic.rate.amount, 5000000000ULL);
    assert_int_equal(parse("sender --port null: --rate max"), PARSE_OK);
    assert_int_equal(o.traffic.rate.amount, 0);
}

static void schedules_and_rates_fit(void **state)
{
    (void)state;
    assert_int_equal(parse("sender --port null: --rate 80% --line-rate 10Gbps"), PARSE_OK);
    assert_int_equal(o.traffic.rate.unit, RATE_LINE_SHARE);
    assert_int_equal(o.traffic.line_bps, 10000000000ULL);
    assert_int_equal(parse("sender --port null: --schedule ramp:1k:1Gbps-l2:10s"), PARSE_OK);
    assert_int_equal(o.traffic.schedule.to.unit, RATE_L2_BPS);
    refused("sender --port null: --rate 1Gbps", "--rate: '1Gbps' does not name its layer");
    refused("sender --port null: --rate 80%", "--rate: a share of which line?");
    refused("sender --port null: --line-rate 10G", "--line-rate: '10G' is not a line rate");
    refused("sender --port null: --schedule poisson", "poisson needs a mean --rate");
    refused("sender --port null: --schedule ramp:1:2:3 --rate 5", "--rate: a ramp has its own");
    refused("sender --port null: --schedule poison --rate 5", "'poison' is not a schedule");
}

static void probe_options_need_right_role(void **state)
{
    (void)state;
    assert_int_equal(parse("client --port null: --probe-rate 1k"), PARSE_OK);
    assert_int_equal(o.traffic.probe_schedule.shape, SCHEDULE_POISSON);
    assert_int_equal(parse("server --port null: --probes 1 --echo all"), PARSE_OK);
    assert_int_equal(o.traffic.echo, ECHO_ALL);
    refused("receiver --port null: --probe-rate 1k",
            "--probe-rate: the role receiver does not take this option, only client");
    refused("sender --port null: --probes 1",
            "--probes: the role sender does not take this option, only duplex, ");
    assert_int_equal(parse("duplex --port null: --probe-rate 1k --probes 1 --sender-clock 1:2:3"),
                     PARSE_OK);
    refused("duplex --port null: --probes 1", "--probes: this role also sends probes");
    refused("client --port null: --probe-rate max", "--probe-rate: 'max'");
    assert_int_equal(parse("client --port null: --probe-rate none"), PARSE_OK);
    assert_int_equal(o.traffic.probe_rate.amount, 0);
    refused("client --port null: --rate none", "--rate: 'none'");
    refused("server --port null: --stream 5 --probe-stream 5",
            "--probe-stream: 5 is the --stream of the load");
    refused("client --port null: --probe-schedule on-off:1:1", "constant or poisson");
    assert_int_equal(parse("server --port null: --latency 1 --sender-clock 12:34:3000000000"),
                     PARSE_OK);
    assert_int_equal(o.traffic.sender_clock.ticks, 12);
    assert_int_equal(o.traffic.sender_clock.at_ns, 34);
    assert_int_equal(o.traffic.sender_clock.hz, 3000000000);
    refused("receiver --port null: --latency 1 --sender-clock 1:2", "three numbers, TICKS:NS:HZ");
    refused("receiver --port null: --latency 1 --sender-clock 1:2:0", "three numbers");
    refused("receiver --port null: --sender-clock 1:2:3", "nothing is timed");
    refused("client --port null: --latency 1", "only duplex, receiver and server");
    refused("server --port null: --echo none", "--echo: 'none' is not one of probes|all");
}

static void refused_with_many_ports(void)
{
    char *arguments[2 + 65] = {"switchmark-traffic", "forwarder"};
    for (unsigned i = 2; i < 67; i++)
        arguments[i] = "--port=null:";
    assert_int_equal(options_parse(&o, 66, arguments, error, sizeof error), PARSE_OK);
    assert_int_equal(o.port_count, 64);
    assert_int_equal(options_parse(&o, 67, arguments, error, sizeof error), PARSE_BAD);
    assert_non_null(strstr(error, "one port too many; at most 64"));
}

static void errors_have_remedies(void **state)
{
    (void)state;
    refused("", "no role given");
    refused("sendr --port null:", "did you mean 'sender'");
    refused("xyzzyplugh", "use client, duplex");
    refused("sender --port nul:", "did you mean 'null'");
    refused("sender --port null: --packet-szie 64", "did you mean '--packet-size'");
    refused("sender --port null: --qqqqqqqq 1", "see --help");
    refused("sender --port null: stray", "'stray' is not an option");
    refused("sender --port null: --rate", "--rate needs a value: RATE|max");
    refused("sender --port null: --touch=1", "takes no value");
    refused("sender", "sender takes 1 --port, not 0");
    refused("tester --port null:", "tester takes 2 --port, not 1");
    refused("sender --port null: --port null:", "sender takes 1 --port, not 2");
    refused("forwarder --port null: --port null: --port null:", "takes pairs of --port");
    refused_with_many_ports();
    refused("sender --port null: --idle nap", "poll|yield|sleep");
    refused("sender --port null: --start later", "now|command");
    refused("sender --port null: --src-mac 02:00:00:00:00", "MAC address");
    refused("sender --port null: --src-ip 10.0.3.256", "address such as 198.18.0.1");
    refused("sender --port raw:dev=x", "needs --dst-mac");
    refused("sender --port udp: --vlan 5 --frame-size 68", "--vlan: with udp the kernel writes");
    refused("sender --port io_uring:socket=udp --flows 5", "--flows: with udp the kernel writes");
    assert_int_equal(parse("sender --port udp: --dst-ip 2001:db8::1 --frame-size 84"), PARSE_OK);
    refused("sender --port null: --bidirectional", "only tester");
    refused("sender --port null: --core 0,1", "give one core for each of --queues");
    refused("sender --port null: --queues 3 --core 0,1", "2 cores for 3 workers");
    refused("tester --port null: --port null: --core 0,1,2", "one core or two, not 3");
    refused("sender --port null: --queues 17", "from 1 to 16");
    refused("client --port null: --queues 2", "only receiver and sender");
    refused("sender --port udp: --queues 2", "udp ports have one queue for a worker");
    refused("sender --port null: --queues 2 --stream 65535", "leaves no numbers");
    refused("list --jsn", "'--jsn' does not fit");
    refused("forwarder --port null: --port null: --mac-update", "needs --src-mac and --dst-mac");
    refused("receiver --port null: --mac-update", "only forwarder");
    refused("receiver --port null: --gather-us 100", "only forwarder");
    refused("forwarder --port null: --port null: --gather-us 100", "use dpdk ports");
}

/* Replayed frames keep their sizes; the size of probes next to them must have room for a stamp. */
static void probes_with_a_replay(void **state)
{
    (void)state;
    assert_int_equal(parse("sender --port null: --replay f --ip-version 6 --probe-rate 1k"),
                     PARSE_OK);
    assert_int_equal(o.traffic.frame_size, 84);
    assert_int_equal(parse("sender --port null: --replay f --frame-size 256 --probe-rate 1k"),
                     PARSE_OK);
    assert_int_equal(o.traffic.sizes.smallest, 256);
    assert_int_equal(parse("sender --port raw:dev=x --replay f"), PARSE_OK);
    refused("sender --port raw:dev=x --replay f --probe-rate 1k", "needs --dst-mac");
    refused("sender --port null: --probe-rate 1k --probe-schedule recorded",
            "recorded is not possible");
}

static void help_and_version(void **state)
{
    (void)state;
    assert_int_equal(parse("--help"), PARSE_HELP);
    assert_int_equal(parse("sender --help"), PARSE_HELP);
    assert_int_equal(parse("--version"), PARSE_VERSION);
    assert_int_equal(parse("--man"), PARSE_MANUAL);
    assert_int_equal(parse("list"), PARSE_LIST);
    assert_false(o.list_json);
    assert_int_equal(parse("list --json"), PARSE_LIST);
    assert_true(o.list_json);
    assert_int_equal(parse("cache-line 0,3"), PARSE_CACHE_LINE);
    assert_int_equal(o.core_count, 2);
    assert_int_equal(o.cores[1], 3);
    assert_int_equal(parse("cache-line"), PARSE_BAD);
    assert_int_equal(parse("cache-line 0"), PARSE_BAD);
    assert_int_equal(parse("cache-line 0,1 --json"), PARSE_BAD);
    assert_int_equal(parse("sender --port null: --queues 4 --core 0,1,0,1"), PARSE_OK);
    assert_int_equal(o.queues, 4);
    assert_int_equal(o.cores[3], 1);
}

/* The help of every option with a value names its default, and giving that default changes nothing.
 */
static void defaults_equal_help(void **state)
{
    (void)state;
    static struct options as_said;
    for (unsigned i = 0; i < option_rows; i++) {
        const struct option_row *row = &option_table[i];
        const char *default_text = strstr(row->help, "(default");
        char word[32];
        if (row->kind == KIND_FLAG)
            continue;
        if (default_text == NULL && strstr(row->help, "needed") == NULL)
            fail_msg("--%s: no default in '%s'", row->name, row->help);
        if (default_text == NULL || sscanf(default_text, "(default %31[^ ,;:)]", word) != 1)
            continue; /* described in words */
        assert_int_equal(parse("sender --port null:"), PARSE_OK);
        as_said = o;
        assert_true(option_apply(&as_said, row, word, error, sizeof error));
        if (row->given != 0)
            *((bool *)&as_said + row->given) = false;
        as_said.ip4_given = false;
        if (row->kind == KIND_FLOWS)
            as_said.flows = o.flows;
        if (as_said.traffic.schedule.shape == SCHEDULE_CONSTANT) /* the other values are not used */
            as_said.traffic.schedule = o.traffic.schedule;
        if (strcmp(row->name, "dpdk-memory-mb") == 0) /* 0 until the backend is opened */
            as_said.dpdk_memory_mb = 0;
        if (memcmp(&as_said, &o, sizeof o) != 0)
            fail_msg("--%s: the default is not %s", row->name, word);
    }
}

/* An earlier tool lost the last CPU of every range: "2-3" became core 2. */
static void core_lists_include_last_core(void **state)
{
    (void)state;
    int cores[8];
    assert_int_equal(options_parse_cores("2-3", cores, 8), 2);
    assert_int_equal(cores[1], 3);
    assert_int_equal(options_parse_cores("1,3,4-8", cores, 8), 7);
    assert_int_equal(cores[6], 8);
    assert_int_equal(options_parse_cores("127", cores, 8), 1);
    assert_int_equal(cores[0], 127);
    const char *const bad[] = {"",   ",",   "1,",  ",1",  "a",           "1-",
                               "-1", "3-2", "0-9", "1;2", "99999999999", "1--2"};
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(options_parse_cores(bad[i], cores, 8), 0);
    assert_int_equal(parse("tester --port null: --port null: --core 2-3"), PARSE_OK);
    assert_int_equal(o.core_count, 2);
    assert_int_equal(o.cores[1], 3);
}

static void overrides_change_only_traffic(void **state)
{
    (void)state;
    struct traffic t = {.rate = {.amount = 1, .unit = RATE_PPS}, .burst = 2, .frame_size = 64};
    assert_true(options_override(&t, "rate=max", error, sizeof error));
    assert_true(options_override(&t, "frame-size=1518", error, sizeof error));
    assert_true(options_override(&t, "at=123456789012345", error, sizeof error));
    assert_true(options_override(&t, "duration=1.5", error, sizeof error));
    assert_int_equal(t.rate.amount, 0);
    assert_int_equal(t.frame_size, 1518);
    assert_int_equal(t.at_ns, 123456789012345);
    assert_int_equal(t.duration_ns, 1500000000);
    const char *const bad[] = {"rate",    "rate=",  "rate=0", "frame-size=1", "core=1",
                               "touch=1", "raet=1", "=",      "at=-1"};
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(options_override(&t, bad[i], error, sizeof error));
    assert_false(options_override(&t, "raet=1", error, sizeof error));
    assert_non_null(strstr(error, "did you mean 'rate'"));
    assert_int_equal(t.burst, 2);
}

static void random_options_are_handled(void **state)
{
    (void)state;
    static const char *const pieces[] = {"sender",    "tester",
                                         "--port",    "null:",
                                         "raw:dev=",  ":",
                                         "--rate",    "1k",
                                         "max",       "--",
                                         "-",         "=",
                                         "--core",    "0-",
                                         "--eal",     "--duration",
                                         "1.5.5",     "99999999999999999999999",
                                         "--src-mac", "ff:ff:ff:ff:ff:ff",
                                         "--src-ip",  "\xff\xfe",
                                         "%s%n",      "--frame-size=",
                                         "--idle",    "--help!"};
    uint64_t random = 77;
    for (unsigned i = 0; i < 50000; i++) {
        static char words_text[24][64];
        char *arguments[25];
        const int count = 1 + (int)(test_random(&random) % 23);
        for (int w = 0; w < count; w++) {
            snprintf(words_text[w], sizeof words_text[w], "%s",
                     pieces[test_random(&random) % (sizeof pieces / sizeof pieces[0])]);
            if (test_random(&random) % 4 == 0 && words_text[w][0] != '\0')
                words_text[w][test_random(&random) % strlen(words_text[w])] =
                    (char)(1 + test_random(&random) % 255);
            arguments[w] = words_text[w];
        }
        arguments[count] = NULL;
        error[0] = '\0';
        const enum parse_result result = options_parse(&o, count, arguments, error, sizeof error);
        assert_true((result == PARSE_BAD) == (error[0] != '\0'));
    }
}

static void fault_options_are_checked(void **state)
{
    (void)state;
    const char *ports = "reference --port raw:dev=a --port raw:dev=b ";
    char text[512];

    snprintf(text, sizeof text,
             "%s--delay-us 100 --jitter-us 20 --jitter normal --drop-share 0.001 "
             "--duplicate-share 1 --reorder-every 7 --corrupt-share 0.5 --fault-seed 12",
             ports);
    assert_int_equal(parse(text), PARSE_OK);
    assert_int_equal(o.reference.jitter_ns, 20000);
    assert_int_equal(o.reference.jitter, JITTER_NORMAL);
    assert_int_equal(o.reference.share[FAULT_DROP], 1000000);
    assert_int_equal(o.reference.share[FAULT_DUPLICATE], FAULT_SHARE_WHOLE);
    assert_int_equal(o.reference.share[FAULT_CORRUPT], 500000000);
    assert_int_equal(o.reference.every[FAULT_REORDER], 7);
    assert_int_equal(o.reference.seed, 12);
    assert_int_equal(parse("reference --port raw:dev=a --port raw:dev=b"), PARSE_OK);
    assert_int_equal(o.reference.seed, 1);
    refused("reference --port raw:dev=a --port raw:dev=b --drop-share 1.1", "a probability");
    refused("reference --port raw:dev=a --port raw:dev=b --drop-share -1", "a probability");
    refused("reference --port raw:dev=a --port raw:dev=b --jitter gauss", "uniform|normal");
    refused("reference --port raw:dev=a --port raw:dev=b --jitter-us 9", "below 0");
    refused("reference --port raw:dev=a --port raw:dev=b --reorder-every 1", "2 or more");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_options_are_parsed),
        cmocka_unit_test(small_pages_refuse_drivers_that_need_hugepages),
        cmocka_unit_test(pci_functions_are_named_or_blocked),
        cmocka_unit_test(bounds_are_checked),
        cmocka_unit_test(errors_have_remedies),
        cmocka_unit_test(schedules_and_rates_fit),
        cmocka_unit_test(probe_options_need_right_role),
        cmocka_unit_test(probes_with_a_replay),
        cmocka_unit_test(help_and_version),
        cmocka_unit_test(defaults_equal_help),
        cmocka_unit_test(core_lists_include_last_core),
        cmocka_unit_test(overrides_change_only_traffic),
        cmocka_unit_test(random_options_are_handled),
        cmocka_unit_test(fault_options_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
