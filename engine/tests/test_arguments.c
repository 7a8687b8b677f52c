/* Arguments of port specifications: the table-driven parser, and the valid arguments of each kernel
 * backend. */
#include "test.h"

#include <stdio.h>
#include <string.h>

#include "io/arguments.h"
#include "io/io.h"

struct target {
    char device[IFNAMSIZ];
    bool flag;
    unsigned number, choice;
};

static const char *const choices[] = {"one", "two", NULL};
static const struct io_key keys[] = {
    {.name = "dev", .kind = IO_KEY_DEVICE, .offset = offsetof(struct target, device)},
    {.name = "flag", .kind = IO_KEY_FLAG, .offset = offsetof(struct target, flag)},
    {.name = "n", .kind = IO_KEY_NUMBER, .offset = offsetof(struct target, number), .max = 9},
    {.name = "c",
     .kind = IO_KEY_CHOICE,
     .offset = offsetof(struct target, choice),
     .choices = choices},
};

static bool parse(const char *text, struct target *target, char *error, size_t size)
{
    return io_parse("test", keys, sizeof keys / sizeof keys[0], text, target, error, size);
}

static void arguments_are_stored_in_fields(void **state)
{
    (void)state;
    struct target t = {.number = 7};
    char error[256] = "";

    assert_true(parse("", &t, error, sizeof error));
    assert_int_equal(t.number, 7); /* a key that is not given leaves its value unchanged */
    assert_true(parse("c=two,dev=eth0,flag,n=0", &t, error, sizeof error));
    assert_string_equal(t.device, "eth0");
    assert_true(t.flag);
    assert_int_equal(t.number, 0);
    assert_int_equal(t.choice, 1);
}

static void arguments_invalid_value_lists_valid_values(void **state)
{
    (void)state;
    const char *const bad[] = {"dev=",  "dev",   "flag=1", "n=10", "n=-1", "n=1x",
                               "n=",    "c=tow", "c",      "nix",  ",",    "dev=abcdefghijklmnop",
                               "dev=a,"};
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0] - 1; i++) {
        struct target t = {0};
        char error[256] = "";
        assert_false(parse(bad[i], &t, error, sizeof error));
        assert_non_null(strstr(error, "test takes dev=NAME, flag, n=N (0 to 9), c=one|two"));
    }
}

static void check_backend(const char *name, const char *const *good, const char *const *bad)
{
    const struct io_ops *ops = io_of(name, NULL);
    char error[256];

    if (ops == NULL) { /* then there is a reason */
        assert_non_null(io_missing_reason(name));
        return;
    }
    for (; *good != NULL; good++)
        assert_true(ops->check(*good, error, sizeof error));
    for (; *bad != NULL; bad++) {
        error[0] = '\0';
        assert_false(ops->check(*bad, error, sizeof error));
        assert_non_null(strstr(error, name));
    }
}

static void backends_check_arguments(void **state)
{
    (void)state;
    check_backend("raw", (const char *const[]){"dev=eth0", "dev=eth0,qdisc=queue,mmsg,block", NULL},
                  (const char *const[]){"dev=eth0,qdisc=", "dev=eth0,ring=v3", NULL});
    check_backend("udp", (const char *const[]){"", "dev=eth0,mmsg", NULL},
                  (const char *const[]){"qdisc=queue", NULL});
    check_backend(
        "packet_mmap",
        (const char *const[]){"dev=eth0", "dev=eth0,ring=v2,ring-mb=1,qdisc=bypass,block", NULL},
        (const char *const[]){"", "ring=v3", "dev=eth0,ring=v1", "dev=eth0,ring-mb=0",
                              "dev=eth0,ring-mb=1025", "dev=eth0,mmsg", NULL});
    check_backend("af_xdp",
                  (const char *const[]){"dev=eth0", "dev=eth0,queues=16", "dev=eth0,queue=0",
                                        "dev=eth0,mode=zerocopy,busy-poll,block", NULL},
                  (const char *const[]){"", "dev=eth0,queues=0", "dev=eth0,queues=17",
                                        "dev=eth0,mode=fast", "dev=eth0,queue", NULL});
    check_backend(
        "io_uring",
        (const char *const[]){"dev=eth0", "socket=udp", "dev=eth0,socket=raw,qdisc=queue", NULL},
        (const char *const[]){"", "dev=eth0,socket=tcp", "dev=eth0,mmsg", NULL});
}

static void backends_accept_number_of_queues(void **state)
{
    (void)state;
    const struct io_ops *ops = io_of("af_xdp:", NULL);
    char error[256] = "";

    if (ops == NULL)
        skip_because("this build has no af_xdp: its kernel headers lack it");
    assert_false(ops->check("dev=eth0,queue=1,queues=2", error, sizeof error));
    assert_non_null(strstr(error, "give one of them"));
}

static void missing_backends_have_reasons(void **state)
{
    (void)state;
    for (unsigned i = 0; io_missing[i] != NULL; i++) {
        assert_null(io_of(io_missing[i]->name, NULL));
        assert_non_null(strstr(io_missing[i]->missing, "rebuild"));
        assert_ptr_equal(io_missing_reason(io_missing[i]->name), io_missing[i]->missing);
    }
    assert_null(io_missing_reason("raw"));
    assert_null(io_missing_reason("nonsense"));
}

static void capabilities_follow_from_backend_and_arguments(void **state)
{
    (void)state;
    assert_int_equal(io_capabilities("udp:dev=eth0"), IO_DATAGRAMS | IO_OPENS_NO_FILE);
    assert_int_equal(io_capabilities("io_uring:dev=eth0,socket=udp"), IO_DATAGRAMS);
    assert_int_equal(io_capabilities("io_uring:socket=udp,block"), IO_DATAGRAMS);
    assert_int_equal(io_capabilities("io_uring:dev=eth0"), 0);
    assert_int_equal(io_capabilities("io_uring:dev=eth0,socket=raw"), 0);
    assert_int_equal(io_capabilities("raw:dev=eth0"), IO_OPENS_NO_FILE);
    assert_int_equal(io_capabilities("null:rx-rate=max"), IO_NO_PEER | IO_OPENS_NO_FILE);
    assert_int_equal(io_capabilities("pcap:read=a.pcap"), IO_NO_PEER | IO_UNTIMED);
    assert_int_equal(io_capabilities("nonsense:dev=eth0"), 0);
#ifdef HAVE_DPDK
    const unsigned dpdk = IO_HOLDS | IO_OWN_THREADS;
    assert_int_equal(io_capabilities("dpdk:queue-size=64"), dpdk);
    assert_int_equal(io_capabilities("dpdk:af-packet=eth0"),
                     dpdk | IO_OPENS_CONFINED | IO_NO_OUTER_TAG | IO_KEEPS_PRIVILEGES);
    assert_int_equal(io_capabilities("dpdk:pci=0000:03:00.1"),
                     dpdk | IO_PCI_FUNCTION | IO_KEEPS_PRIVILEGES | IO_HUGEPAGES_ONLY);
    assert_int_equal(io_capabilities("dpdk:vdev=net_null0"),
                     dpdk | IO_CONNECTS | IO_KEEPS_PRIVILEGES);
    assert_int_equal(io_capabilities("dpdk:memif=/run/a.sock"),
                     dpdk | IO_OPENS_CONFINED | IO_CONNECTS);
    assert_int_equal(io_capabilities("dpdk:vhost=/run/a.sock"), dpdk | IO_OPENS_CONFINED);
    assert_int_equal(io_capabilities("dpdk:vhost=/run/a.sock,client"),
                     dpdk | IO_OPENS_CONFINED | IO_CONNECTS);
#endif
}

static void backends_report_created_sockets(void **state)
{
    char path[256];
    (void)state;
    assert_false(io_socket_made("raw:dev=eth0", path, sizeof path));
    assert_false(io_socket_made("nonsense:vhost=/run/a", path, sizeof path));
#ifdef HAVE_DPDK
    assert_true(io_socket_made("dpdk:virtio-user=/run/a,server", path, sizeof path));
    assert_string_equal(path, "/run/a");
    assert_false(io_socket_made("dpdk:virtio-user=/run/a", path, sizeof path));
    assert_false(io_socket_made("dpdk:queue-size=64", path, sizeof path));
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_are_stored_in_fields),
        cmocka_unit_test(arguments_invalid_value_lists_valid_values),
        cmocka_unit_test(backends_check_arguments),
        cmocka_unit_test(backends_accept_number_of_queues),
        cmocka_unit_test(missing_backends_have_reasons),
        cmocka_unit_test(capabilities_follow_from_backend_and_arguments),
        cmocka_unit_test(backends_report_created_sockets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
