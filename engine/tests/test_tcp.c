/* Addresses, HTTP and kernel counters of the TCP roles. */
#include "test.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tcp/address.h"
#include "tcp/figures.h"
#include "tcp/http.h"
#include "tcp/sockets.h"

static void address_is_parsed_and_printed(void **state)
{
    static const char *const good[] = {"198.18.0.2:5201", "127.0.0.1:1", "[2001:2::2]:65535",
                                       "[::1]:80"};
    struct tcp_address address;
    char text[TCP_ADDRESS_TEXT_MAX];

    (void)state;
    for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(tcp_address_parse(good[i], &address));
        tcp_address_print(&address, text);
        assert_string_equal(text, good[i]);
    }
    assert_true(tcp_address_parse("198.18.0.2:5201", &address));
    assert_int_equal(tcp_address_port(&address), 5201);
    assert_int_equal(address.any.sa_family, AF_INET);
    assert_int_equal(ntohl(address.v4.sin_addr.s_addr), 0xc6120002);
}

static void bad_address_is_refused(void **state)
{
    static const char *const bad[] = {"",
                                      ":",
                                      "1.2.3.4",
                                      "1.2.3.4:",
                                      "1.2.3.4:0",
                                      "1.2.3.4:65536",
                                      "1.2.3.4:080",
                                      "1.2.3.4:1x",
                                      "localhost:80",
                                      "1.2.3:80",
                                      "::1:80",
                                      "[::1]80",
                                      "[::1]:",
                                      "[::1:80",
                                      "[1.2.3.4]:80",
                                      "1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17.18.19:80",
                                      "1.2.3.4:-1",
                                      " 1.2.3.4:80"};
    struct tcp_address address;

    (void)state;
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (tcp_address_parse(bad[i], &address))
            fail_msg("'%s' was accepted", bad[i]);
        assert_int_equal(address.length, 0);
    }
}

/* Read a response in pieces of `step` bytes; returns its state, and the bytes that were used. */
static enum http_state read_in_steps(const char *text, size_t step, size_t *used)
{
    struct http_response response = {0};
    const size_t length = strlen(text);

    *used = 0;
    for (size_t at = 0; at < length && response.state < HTTP_DONE; at += step)
        *used += http_read(&response, text + at, length - at < step ? length - at : step);
    return response.state;
}

static void response_ends_at_its_length(void **state)
{
    static const char *const good[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 204 No Content\r\ncontent-length:0\r\n\r\n",
        "HTTP/1.1 200 OK\nServer: x\nCONTENT-LENGTH: \t3\nX: y\n\nabc",
        "HTTP/1.0 200 \r\nConnection: close\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n!",
    };
    size_t used;

    (void)state;
    for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++) {
        for (size_t step = 1; step < 80; step++) {
            assert_int_equal(read_in_steps(good[i], step, &used), HTTP_DONE);
            assert_int_equal(used, strlen(good[i]));
        }
    }
    struct http_response response = {0};
    const char *two = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1";
    assert_int_equal(http_read(&response, two, strlen(two)), strlen(two) - 8);
}

static void hostile_response_is_refused(void **state)
{
    static const char *const bad[] = {
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\nx",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 4294967296\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        "HTTP/1.1 2\r\n\r\n",
        "\r\n\r\n",
    };
    size_t used;

    (void)state;
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        for (size_t step = 1; step < 80; step += 7)
            assert_int_equal(read_in_steps(bad[i], step, &used), HTTP_BAD);
    }
}

static void endless_head_is_refused(void **state)
{
    static char head[HTTP_HEAD_MAX + 100];
    struct http_response response = {0};

    (void)state;
    memset(head, 'a', sizeof head);
    memcpy(head, "HTTP/1.1 200 OK\r\n", 17);
    http_read(&response, head, sizeof head);
    assert_int_equal(response.state, HTTP_BAD);
}

static void random_bytes_are_survived(void **state)
{
    static const char alphabet[] = "HTP/1. 20\r\n\r\nContent-Length: 19:x";
    uint64_t seed = 7;
    char text[300];

    (void)state;
    for (unsigned i = 0; i < 20000; i++) {
        struct http_response response = {0};
        const size_t length = test_random(&seed) % sizeof text;
        for (size_t k = 0; k < length; k++)
            text[k] = alphabet[test_random(&seed) % (sizeof alphabet - 1)];
        assert_true(http_read(&response, text, length) <= length);
        assert_true(response.line_length < HTTP_LINE_MAX);
    }
}

static void ends_of_requests_are_counted(void **state)
{
    char request[512];
    uint8_t matched = 0;
    unsigned ended = 0;

    (void)state;
    const size_t length = http_request(request, sizeof request, "198.18.0.2:80", "/x");
    assert_true(length > 0 && length == strlen(request));
    assert_non_null(strstr(request, "GET /x HTTP/1.1\r\nHost: 198.18.0.2:80\r\n"));
    for (unsigned round = 0; round < 3; round++) {
        for (size_t i = 0; i < length; i++)
            ended += http_requests_end(&matched, request + i, 1);
        assert_int_equal(ended, round + 1);
    }
    matched = 0;
    assert_int_equal(http_requests_end(&matched, "\r\r\n\r\n\r\n\r\n", 9), 2);
    assert_int_equal(http_request(request, 10, "host", "/"), 0);
    assert_true(http_response_head(request, sizeof request, 12345) > 0);
    assert_non_null(strstr(request, "Content-Length: 12345\r\n\r\n"));
}

static void accepted_socket_inherits_nodelay(void **state)
{
    struct tcp_options options = {.congestion = NULL};
    char text[TCP_ADDRESS_TEXT_MAX], error[128] = "";
    socklen_t length = sizeof options.listen.v4;
    int on = 0;
    socklen_t size = sizeof on;

    (void)state;
    assert_true(tcp_address_parse("127.0.0.1:1", &options.listen));
    options.listen.v4.sin_port = 0;
    const int listener = tcp_socket_listen(&options, error, sizeof error);
    assert_true(listener >= 0);
    assert_int_equal(getsockname(listener, &options.listen.any, &length), 0);
    tcp_address_print(&options.listen, text);
    assert_true(tcp_address_parse(text, &options.connect));
    const int client = tcp_socket_make(&options, &options.connect);
    connect(client, &options.connect.any, options.connect.length);
    struct pollfd waits = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&waits, 1, 10000), 1);
    const int accepted = accept(listener, NULL, NULL);
    assert_true(accepted >= 0);
    assert_int_equal(getsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &on, &size), 0);
    assert_true(on != 0);
    assert_int_equal(getsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, &size), 0);
    assert_true(on != 0);
    close(accepted);
    close(client);
    assert_int_equal(tcp_socket_listen(&options, error, sizeof error), -1);
    assert_non_null(strstr(error, text));
    close(listener);
}

static void unknown_congestion_control_is_refused(void **state)
{
    struct tcp_options options = {.congestion = "no-such-name"};
    char error[300] = "";

    (void)state;
    assert_true(tcp_address_parse("127.0.0.1:1", &options.connect));
    assert_false(tcp_congestion_is_permitted(&options, error, sizeof error));
    assert_non_null(strstr(error, "this kernel has no no-such-name"));
    options.congestion = "reno"; /* every kernel permits it to every user */
    assert_true(tcp_congestion_is_permitted(&options, error, sizeof error));
}

static void gauges_merge(void **state)
{
    struct tcp_kernel sum = {0}, none = {0};
    const struct tcp_kernel a = {.retransmits = 2, .connections = 1, .rtt_us = {50, 50, 50}},
                            b = {.retransmits = 3, .connections = 2, .rtt_us = {30, 10, 20}};

    (void)state;
    tcp_kernel_merge(&sum, &none);
    tcp_kernel_merge(&sum, &a);
    tcp_kernel_merge(&sum, &b);
    tcp_kernel_merge(&sum, &none);
    assert_int_equal(sum.retransmits, 5);
    assert_int_equal(sum.connections, 3);
    assert_int_equal(sum.rtt_us.sum, 80);
    assert_int_equal(sum.rtt_us.min, 10);
    assert_int_equal(sum.rtt_us.max, 50);
}

static void kernel_has_no_figures_of_other_sockets(void **state)
{
    struct tcp_kernel sum = {0};
    const int udp = socket(AF_INET, SOCK_DGRAM, 0), tcp = socket(AF_INET, SOCK_STREAM, 0);

    (void)state;
    assert_true(udp >= 0 && tcp >= 0);
    assert_false(tcp_kernel_add(&sum, udp));
    assert_false(tcp_kernel_add(&sum, -1));
    assert_int_equal(sum.connections, 0);
    assert_true(tcp_kernel_add(&sum, tcp));
    assert_int_equal(sum.connections, 1);
    close(udp);
    close(tcp);
}

static int64_t time_waits_of(const char *text)
{
    char path[] = "/tmp/switchmark-sockstat-XXXXXX";
    const int fd = mkstemp(path);

    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    const int64_t count = tcp_time_waits(path);
    close(fd);
    unlink(path);
    return count;
}

static void time_waits_are_read(void **state)
{
    (void)state;
    assert_int_equal(time_waits_of("sockets: used 9\nTCP: inuse 1 orphan 0 tw 2210 alloc 4 mem 1\n"
                                   "UDP: inuse 0 mem 0\n"),
                     2210);
    assert_int_equal(time_waits_of("UDP: inuse 0 tw 3\n"), -1);
    assert_int_equal(time_waits_of("TCP: inuse 1 tw -3\n"), -1);
    assert_int_equal(time_waits_of(""), -1);
    assert_int_equal(tcp_time_waits("/nonexistent"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(address_is_parsed_and_printed),
        cmocka_unit_test(bad_address_is_refused),
        cmocka_unit_test(response_ends_at_its_length),
        cmocka_unit_test(hostile_response_is_refused),
        cmocka_unit_test(endless_head_is_refused),
        cmocka_unit_test(random_bytes_are_survived),
        cmocka_unit_test(ends_of_requests_are_counted),
        cmocka_unit_test(accepted_socket_inherits_nodelay),
        cmocka_unit_test(unknown_congestion_control_is_refused),
        cmocka_unit_test(gauges_merge),
        cmocka_unit_test(kernel_has_no_figures_of_other_sockets),
        cmocka_unit_test(time_waits_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
