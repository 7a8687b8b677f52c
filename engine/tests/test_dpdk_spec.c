/* Valid and invalid `dpdk` port specifications; no port is opened. */
#include "test.h"

#include "io/dpdk_slots.h"
#include "io/io.h"
#include "traffic/frame.h"

static char error[256];

static bool fits(const char *arguments)
{
    const struct io_ops *ops = io_of("dpdk:", NULL);

    assert_non_null(ops);
    error[0] = '\0';
    return ops->check(arguments, error, sizeof error);
}

static void refused(const char *arguments, const char *because)
{
    assert_false(fits(arguments));
    if (strstr(error, because) == NULL)
        fail_msg("'%s' was refused with '%s', not '%s'", arguments, error, because);
    assert_null(strchr(error, '\n'));
}

static void every_kind_is_parsed(void **state)
{
    (void)state;
    static const char *const good[] = {
        "virtio-user=/tmp/a",
        "virtio-user=/tmp/a,server,packed,in-order=off,mergeable=off,queue-size=1024",
        "virtio-user=/tmp/a,in-order=on,mergeable=on",
        "vhost=/tmp/a,client",
        "memif=/tmp/a,role=server,id=3,queue-size=64",
        "af-packet=eth0",
        "af-xdp=eth0,queue-size=2048",
        "tap=tap7",
        "pci=0000:03:00.1",
        "pci=03:1f.7,queue-size=4096",
        "vdev=net_null0,size=60,copy=1",
    };
    for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++) {
        if (!fits(good[i]))
            fail_msg("'%s' was refused: %s", good[i], error);
    }
}

/* Some releases of DPDK have a driver with a bug. */
static void zero_copy_needs_fixed_driver(void **state)
{
    (void)state;
    if (!fits("memif=/tmp/a,role=client,id=4294967294,zero-copy"))
        assert_non_null(strstr(error, "writes beyond its ring"));
}

static void keys_are_valid_for_their_kinds(void **state)
{
    (void)state;
    refused("", "virtio-user=PATH");
    refused("nonsense=/tmp/a", "virtio-user=PATH");
    refused("virtio-user=", "virtio-user=PATH");
    refused("virtio-user=/tmp/a,client", "'client'");
    refused("virtio-user=/tmp/a,packed=yes", "'packed=yes'");
    refused("virtio-user=/tmp/a,in-order=1", "'in-order=1'");
    refused("virtio-user=/tmp/a,mergeable", "'mergeable'");
    refused("virtio-user=/tmp/a,zero-copy", "'zero-copy'");
    refused("virtio-user=/tmp/a,queue-size=100", "'queue-size=100'");
    refused("virtio-user=/tmp/a,queue-size=65536", "'queue-size=65536'");
    refused("vhost=/tmp/a,queue-size=256", "'queue-size=256'");
    refused("vhost=/tmp/a,packed", "'packed'");
    refused("memif=/tmp/a,role=boss", "'role=boss'");
    refused("memif=/tmp/a,zero-copy", "add role=client");
    refused("memif=/tmp/a,role=client,role=server,zero-copy", "add role=client");
    refused("af-packet=eth0,server", "'server'");
}

static void pci_addresses_are_checked(void **state)
{
    (void)state;
    static const char *const bad[] = {"pci=eth0", "pci=0000:03:20.0", "pci=0000:03:00.8",
                                      "pci=03:00", "pci=0000:03:00.1x"};
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refused(bad[i], "is not a PCI address");
}

/* A block consists of whole pages, a slot divides it, and the smallest ring fills its blocks. */
static void slots_fill_blocks_of_whole_pages(void **state)
{
    (void)state;
    static const uint32_t pages[] = {4096, 16384, 65536};

    for (unsigned i = 0; i < 3; i++) {
        for (uint32_t longest = 60; longest <= FRAME_LENGTH_MAX; longest++) {
            const uint32_t slot = dpdk_slot_bytes(longest, pages[i]);
            const uint32_t block = dpdk_slot_round_up(slot, pages[i]);
            assert_true(slot > longest + DPDK_SLOT_HEAD_RECEIVE);
            assert_int_equal(block % slot, 0);
            assert_int_equal(64 % (block / slot), 0);
        }
    }
    assert_int_equal(dpdk_slot_bytes(1514, 4096), 2048);
    assert_int_equal(dpdk_slot_bytes(9000, 4096), 12288);
    assert_int_equal(dpdk_slot_bytes(9000, 65536), 16384);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_fill_blocks_of_whole_pages),
        cmocka_unit_test(every_kind_is_parsed),
        cmocka_unit_test(zero_copy_needs_fixed_driver),
        cmocka_unit_test(keys_are_valid_for_their_kinds),
        cmocka_unit_test(pci_addresses_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
