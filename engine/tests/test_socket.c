/* Sockets: port arguments, and partial sends of sendmmsg and send, which are wrapped here and
 * accept as many frames as the test sets. */
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "io/socket.h"
#include "traffic/frame.h"

static unsigned takes;       /* frames that the next calls accept */
static int then_error;       /* errno after these frames */
static uint32_t taken[4096]; /* first four bytes of each accepted frame */
static unsigned taken_count;
static const struct frame_address address;
static const struct io_config config = {.address = &address};

int __wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags);
ssize_t __wrap_sendto(int fd, const void *bytes, size_t length, int flags,
                      const struct sockaddr *to, socklen_t size);

ssize_t __wrap_sendto(int fd, const void *bytes, size_t length, int flags,
                      const struct sockaddr *to, socklen_t size)
{
    (void)to;
    (void)size;
    return __wrap_send(fd, bytes, length, flags);
}

int __wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    (void)fd;
    (void)flags;
    unsigned sent = 0;
    for (; sent < count && takes > 0; sent++, takes--)
        memcpy(&taken[taken_count++], messages[sent].msg_hdr.msg_iov->iov_base, 4);
    if (sent == 0) {
        errno = then_error;
        return -1;
    }
    return (int)sent;
}

ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags)
{
    (void)fd;
    (void)flags;
    if (takes == 0) {
        errno = then_error;
        return -1;
    }
    takes--;
    memcpy(&taken[taken_count++], bytes, 4);
    return (ssize_t)length;
}

/* Number frames like a sender, offer them, and accept parts of them. */
static void check_parts(bool mmsg)
{
    const struct socket_arguments arguments = {.mmsg = mmsg};
    char error[200] = "";
    const unsigned parts[] = {1, 31, 0, 7, 64, 0, 0, 33, 128};
    struct socket_port *port =
        socket_port_make(dup(0), &arguments, &config, 1514, error, sizeof error);
    uint32_t next = 0;

    assert_non_null(port);
    taken_count = 0;
    for (unsigned i = 0; i < 90; i++) {
        struct io_frame frames[64];
        assert_int_equal(socket_tx_acquire(&port->base, frames, 64, 60), 64);
        for (unsigned j = 0; j < 64; j++) {
            const uint32_t number = next + j;
            memcpy(frames[j].data, &number, 4);
        }
        takes = parts[i % 9];
        then_error = EAGAIN;
        const unsigned sent = socket_tx_send(&port->base, frames, 64);
        assert_int_equal(sent, parts[i % 9] < 64 ? parts[i % 9] : 64);
        next += sent;
        takes = 0;
    }
    assert_int_equal(taken_count, next);
    for (uint32_t i = 0; i < taken_count; i++)
        assert_int_equal(taken[i], i);
    assert_string_equal(port->base.failure, "");
    socket_close(&port->base);
}

static void partial_sends_lose_and_repeat_nothing(void **state)
{
    (void)state;
    check_parts(true);
    check_parts(false);
}

static void unsent_frames_keep_their_place(void **state)
{
    (void)state;
    const struct socket_arguments arguments = {.mmsg = true};
    char error[200] = "";
    struct io_frame frames[8], again[8];
    struct socket_port *port =
        socket_port_make(dup(0), &arguments, &config, 1514, error, sizeof error);
    socket_tx_acquire(&port->base, frames, 8, 60);
    for (unsigned i = 0; i < 8; i++)
        frames[i].data[0] = (uint8_t)i;
    takes = 3;
    assert_int_equal(socket_tx_send(&port->base, frames, 8), 3);
    socket_tx_acquire(&port->base, again, 8, 60);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(again[i].data[0], i + 3);
    socket_close(&port->base);
}

/* Every header that the kernel has written is prepared again, and no other. */
static void only_used_headers_are_prepared_again(void **state)
{
    (void)state;
    enum { UNTOUCHED = 1000 };
    const struct socket_arguments arguments = {.mmsg = true};
    const unsigned bursts[] = {3, 0, 7, 1, IO_BURST_MAX, 2};
    char error[200] = "";
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair), 0);
    struct socket_port *port =
        socket_port_make(pair[0], &arguments, &config, 1514, error, sizeof error);
    assert_non_null(port);
    for (unsigned i = 0; i < IO_BURST_MAX; i++)
        port->rx_messages[i].msg_hdr.msg_name = &port->rx_from[i];
    unsigned most = IO_BURST_MAX; /* before the first call all are prepared */
    for (unsigned b = 0; b < sizeof bursts / sizeof bursts[0]; b++) {
        struct io_frame frames[IO_BURST_MAX];
        unsigned got = 0;
        for (unsigned i = most; i < IO_BURST_MAX; i++)
            port->rx_messages[i].msg_hdr.msg_namelen = UNTOUCHED;
        while (got < bursts[b]) { /* the queue of such a socket is short */
            const uint32_t number = got;
            assert_int_equal(write(pair[1], &number, sizeof number), sizeof number);
            got++;
            if (got < bursts[b] && got % 8 != 0)
                continue;
            const unsigned burst = got % 8 == 0 ? 8 : got % 8;
            assert_int_equal(socket_rx_burst(&port->base, frames, IO_BURST_MAX), burst);
            for (unsigned i = 0; i < burst; i++)
                assert_int_equal(frames[i].length, sizeof number);
            for (unsigned i = most > burst ? most : burst; i < IO_BURST_MAX; i++)
                assert_int_equal(port->rx_messages[i].msg_hdr.msg_namelen, UNTOUCHED);
            most = burst;
            for (unsigned i = most; i < IO_BURST_MAX; i++)
                port->rx_messages[i].msg_hdr.msg_namelen = UNTOUCHED;
        }
        if (bursts[b] == 0) {
            assert_int_equal(socket_rx_burst(&port->base, frames, IO_BURST_MAX), 0);
            for (unsigned i = 0; i < most; i++)
                assert_int_equal(port->rx_messages[i].msg_hdr.msg_namelen, sizeof port->rx_from[0]);
            most = 0;
        }
    }
    close(pair[1]);
    socket_close(&port->base);
}

static void only_permanent_errors_are_failures(void **state)
{
    (void)state;
    const struct socket_arguments arguments = {.mmsg = true};
    char error[200] = "";
    struct io_frame frame;
    struct socket_port *port =
        socket_port_make(dup(0), &arguments, &config, 1514, error, sizeof error);
    const int passing[] = {EAGAIN, ENOBUFS, ECONNREFUSED, EINTR};
    takes = 0;
    for (unsigned i = 0; i < 4; i++) {
        then_error = passing[i];
        socket_tx_acquire(&port->base, &frame, 1, 60);
        assert_int_equal(socket_tx_send(&port->base, &frame, 1), 0);
        assert_string_equal(port->base.failure, "");
    }
    then_error = EMSGSIZE;
    assert_int_equal(socket_tx_send(&port->base, &frame, 1), 0);
    assert_non_null(strstr(port->base.failure, "sendmmsg: "));
    socket_close(&port->base);
}

/* Datagrams that are echoed, with one call each: an echo that cannot be sent is not mistaken for a
 * full queue. */
static void echo_without_route_is_a_failure(void **state)
{
    (void)state;
    char error[200] = "";
    struct sockaddr_in from = {.sin_family = AF_INET};
    const struct io_config open = {
        .spec = "udp:", .arguments = "", .frame_length_max = 1514, .address = &address};
    struct io_port *port = io_of("udp:", NULL)->open(&open, error, sizeof error);
    assert_non_null(port);
    struct io_frame frame = {.data = (uint8_t[64]){0}, .length = 64, .cookie = &from};

    takes = 0;
    then_error = EAGAIN;
    assert_int_equal(io_udp.forward(port, port, &frame, 1), 0);
    assert_string_equal(port->failure, "");
    then_error = ENETUNREACH;
    assert_int_equal(io_udp.forward(port, port, &frame, 1), 0);
    assert_non_null(strstr(port->failure, "sendto: Network is unreachable"));
    io_udp.close(port);
}

static void arguments_are_checked(void **state)
{
    (void)state;
    struct socket_arguments a;
    char error[200] = "";
    assert_true(socket_parse("raw", true, "dev=eth0,mmsg,block", &a, error, sizeof error));
    assert_string_equal(a.device, "eth0");
    assert_true(a.mmsg && a.block);
    assert_true(socket_parse("udp", false, "", &a, error, sizeof error));
    assert_false(a.mmsg || a.block);
    const char *const bad[] = {"dev=",
                               "dev",
                               "dev=a-name-much-too-long",
                               "mmsg=1",
                               "mmgs",
                               "dev=eth0,,",
                               "averyveryverylongkeythatdoesnotfitatall=1"};
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        error[0] = '\0';
        assert_false(socket_parse("raw", true, bad[i], &a, error, sizeof error));
        assert_true(error[0] != '\0');
    }
}

static void missing_devices_are_named(void **state)
{
    (void)state;
    struct network_device device = {0};
    char error[200] = "";
    assert_false(socket_device("no-such-dev", &device, error, sizeof error));
    assert_non_null(strstr(error, "device 'no-such-dev'"));
    assert_true(socket_device("lo", &device, error, sizeof error));
    assert_true(device.mtu_bytes > 1000);
}

static uint32_t buffer_of(int fd, int set_by, int option)
{
    const int requested = 64 << 20;
    int granted = 0;
    socklen_t length = sizeof granted;

    if (set_by != 0 && setsockopt(fd, SOL_SOCKET, set_by, &requested, sizeof requested) != 0)
        return 0;
    assert_int_equal(getsockopt(fd, SOL_SOCKET, option, &granted, &length), 0);
    return (uint32_t)granted;
}

/* The kernel grants different sizes on different machines and to different users; the reported
 * sizes are those in force. */
static void granted_buffers_are_those_in_force(void **state)
{
    (void)state;
    for (unsigned unforced = 0; unforced < 2; unforced++) {
        const int fd = socket(AF_INET, SOCK_DGRAM, 0), other = socket(AF_INET, SOCK_DGRAM, 0);
        assert_true(fd >= 0 && other >= 0);
        const uint32_t by_user = buffer_of(other, SO_RCVBUF, SO_RCVBUF);
        const uint32_t by_force = buffer_of(other, SO_RCVBUFFORCE, SO_RCVBUF);
        const struct io_buffers buffers = socket_tune(fd, false, unforced != 0);

        assert_int_equal(buffers.asked_bytes, 128 << 20);
        assert_int_equal(buffers.receive_bytes, buffer_of(fd, 0, SO_RCVBUF));
        assert_int_equal(buffers.send_bytes, buffer_of(fd, 0, SO_SNDBUF));
        assert_int_equal(buffers.receive_bytes, unforced || by_force == 0 ? by_user : by_force);
        assert_false(buffers.busy_poll);
        close(fd);
        close(other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(partial_sends_lose_and_repeat_nothing),
        cmocka_unit_test(unsent_frames_keep_their_place),
        cmocka_unit_test(only_used_headers_are_prepared_again),
        cmocka_unit_test(only_permanent_errors_are_failures),
        cmocka_unit_test(echo_without_route_is_a_failure),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(missing_devices_are_named),
        cmocka_unit_test(granted_buffers_are_those_in_force),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
