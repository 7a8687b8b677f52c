/* The options of the TCP roles. */
#include "test.h"

#include <stdio.h>

#include "options/options.h"
#include "role/role.h"

static struct options o;
static char error[512];

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

static void client_has_defaults(void **state)
{
    (void)state;
    assert_int_equal(parse("tcp-client --connect 198.18.0.2:5201"), PARSE_OK);
    assert_int_equal(o.tcp.workload, TCP_RR);
    assert_int_equal(o.tcp.connections, 1);
    assert_int_equal(o.tcp.request_bytes, 64);
    assert_int_equal(o.tcp.response_bytes, 64);
    assert_int_equal(o.tcp.timeout_ns, 5000000000ULL);
    assert_int_equal(o.idle, IDLE_SLEEP);
    assert_int_equal(o.traffic.rate.amount, 0);
    assert_int_equal(
        parse("tcp-client --connect [::1]:1 --workload stream --streams 4 --idle poll"), PARSE_OK);
    assert_int_equal(o.tcp.connections, 4);
    assert_int_equal(o.tcp.request_bytes, 131072);
    assert_int_equal(o.tcp.response_bytes, 0);
    assert_int_equal(o.idle, IDLE_POLL);
}

static void server_has_defaults(void **state)
{
    (void)state;
    assert_int_equal(parse("tcp-server --listen 0.0.0.0:80 --workload crr --server-spin-us 500 "
                           "--request-size 100 --response-size 200"),
                     PARSE_OK);
    assert_int_equal(o.tcp.spin_ns, 500000);
    assert_int_equal(o.tcp.connections, 4096);
    assert_int_equal(o.tcp.request_bytes, 100);
    assert_int_equal(o.tcp.response_bytes, 200);
}

static void options_of_other_roles_are_refused(void **state)
{
    (void)state;
    refused("tcp-client", "tcp-client needs --connect IP:PORT");
    refused("tcp-server", "tcp-server needs --listen IP:PORT");
    refused("tcp-client --connect 1.2.3.4:5 --listen 1.2.3.4:5", "--listen: the role tcp-client");
    refused("tcp-server --connect 1.2.3.4:5", "--connect: the role tcp-server");
    refused("tcp-client --connect 1.2.3.4:5 --server-spin-us 5", "only the server");
    refused("tcp-server --listen 1.2.3.4:5 --rate 1k", "--rate: only the client");
    refused("tcp-server --listen 1.2.3.4:5 --workload http --path /x", "--path: only the client");
    refused("tcp-client --port null:", "--port: the role tcp-client does not take this option");
    refused("tcp-client --flows 8", "--flows: the role tcp-client does not take this option");
    refused("tcp-client --queues 2", "--queues: the role tcp-client does not take this option");
    refused("sender --port null: --connect 1.2.3.4:5", "--connect: the role sender does not take");
    refused("sender --port null: --workload rr", "--workload: the role sender does not take");
}

static void bad_values_are_refused(void **state)
{
    (void)state;
    refused("tcp-client --connect web:80", "is not an address with a port");
    refused("tcp-client --connect 1.2.3.4:5 --workload bulk", "is not one of rr|crr|stream|http");
    refused("tcp-client --connect 1.2.3.4:5 --connections 0", "is not a number from 1 to 10000");
    refused("tcp-client --connect 1.2.3.4:5 --request-size 1048577", "from 1 to 1048576");
    refused("tcp-client --connect 1.2.3.4:5 --rate 1Gbps-l1", "requests per second");
    assert_int_equal(parse("tcp-client --connect 1.2.3.4:5"), PARSE_OK);
    struct traffic traffic = o.traffic;
    assert_true(options_override(&traffic, "rate=500Mbps-l2", error, sizeof error));
    assert_false(options_fit(&o, &traffic, error, sizeof error));
    refused("tcp-client --connect 1.2.3.4:5 --schedule recorded", "only with --replay");
    refused("tcp-client --connect 1.2.3.4:5 --path /x", "only with --workload http");
    refused("tcp-client --connect 1.2.3.4:5 --workload http --path x", "begins with /");
    refused("tcp-client --connect 1.2.3.4:5 --workload http --request-size 5", "leave it out");
    refused("tcp-client --connect 1.2.3.4:5 --workload http --response-size 5", "leave it out");
    refused("tcp-client --connect 1.2.3.4:5 --workload stream --response-size 5", "no response");
    refused("tcp-client --connect 1.2.3.4:5 --core 0,1", "2 cores for 1 workers");
}

/* A blank or a line break in the path would end the request line. */
static void path_with_control_character_is_refused(void **state)
{
    char name[] = "switchmark-traffic", role[] = "tcp-client", connect[] = "--connect=1.2.3.4:5",
         workload[] = "--workload=http", path[] = "--path=/a\r\nX: y";
    char *arguments[] = {name, role, connect, workload, path};

    (void)state;
    assert_int_equal(options_parse(&o, 5, arguments, error, sizeof error), PARSE_BAD);
    assert_non_null(strstr(error, "printable ASCII"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(client_has_defaults),
        cmocka_unit_test(server_has_defaults),
        cmocka_unit_test(options_of_other_roles_are_refused),
        cmocka_unit_test(bad_values_are_refused),
        cmocka_unit_test(path_with_control_character_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
