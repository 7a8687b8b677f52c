/* Frames byte by byte: addresses in wire order and the right way round, lengths, checksums
 * computed again from their definition, stamps, echo. */
#include "test.h"

#include "traffic/frame.h"

static const struct frame_address address = {
    .src_mac = {2, 0, 0, 0, 0, 1},
    .dst_mac = {2, 0, 0, 0, 0, 2},
    .src_ip = 0x0a000310, /* 10.0.3.16 */
    .dst_ip = 0x0a000311,
    .src_udp = 13994,
    .dst_udp = 5001,
};

static struct frame_template t;

static unsigned be16(const uint8_t *p)
{
    return (unsigned)p[0] << 8 | p[1];
}

/* RFC 1071 as it is written down. */
static unsigned slow_sum(const uint8_t *p, size_t length, unsigned sum)
{
    for (size_t i = 0; i < length; i++)
        sum += i & 1 ? p[i] : (unsigned)p[i] << 8;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

static void check_checksums(const uint8_t *f)
{
    const unsigned udp_length = be16(f + 38);
    assert_int_equal(slow_sum(f + 14, 20, 0), 0xffff);
    assert_int_equal(slow_sum(f + 34, udp_length, slow_sum(f + 26, 8, 17 + udp_length)), 0xffff);
    assert_int_not_equal(be16(f + 40), 0);
}

/* An earlier tool swapped bytes twice: 10.0.3.16 went out as 16.3.0.10, port 13994 as 43574;
 * another had source and destination exchanged. */
static void addresses_are_in_wire_order(void **state)
{
    (void)state;
    frame_template_build(&t, &address, 64, 7, FRAME_DATA, 3, false);
    const uint8_t wanted[] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00, 0x45};
    assert_memory_equal(t.bytes, wanted, sizeof wanted);
    assert_memory_equal(t.bytes + 26, "\x0a\x00\x03\x10\x0a\x00\x03\x11", 8);
    assert_int_equal(be16(t.bytes + 34), 13994);
    assert_int_equal(be16(t.bytes + 36), 5001);
    assert_int_equal(t.bytes[42], 0x53);
    assert_int_equal(t.bytes[43], FRAME_DATA << 4 | 3);
    assert_int_equal(be16(t.bytes + 44), 7);
}

static void every_size_is_right(void **state)
{
    (void)state;
    for (uint32_t size = 64; size <= 9018; size += size < 200 ? 1 : 61) {
        for (unsigned touch = 0; touch < 2; touch++) {
            frame_template_build(&t, &address, size, 65535,
                                 FRAME_DATA | (touch ? FRAME_TOUCHED : 0), 15, false);
            const struct frame_times times = frame_times_make(0xfedcba987654ULL, 0xfedcba9876ffULL);
            assert_int_equal(t.length, size - 4);
            frame_stamp(&t, t.bytes, 0xdeadbeef, &times);
            assert_int_equal(be16(t.bytes + 16), size - 18);
            assert_int_equal(be16(t.bytes + 38), size - 38);
            check_checksums(t.bytes);
            assert_memory_equal(t.bytes + 46, "\xde\xad\xbe\xef\xfe\xdc\xba\x98\x76\x54\0\0\0\xab",
                                14);
            assert_true(frame_digest_is_right(t.bytes + 42, t.payload_length) || !touch);
        }
    }
}

static void checksum_follows_the_stamp(void **state)
{
    (void)state;
    uint64_t random = 42;
    frame_template_build(&t, &address, 64, 1, FRAME_DATA, 0, false);
    for (unsigned i = 0; i < 200000; i++) {
        const uint64_t intended = test_random(&random);
        const struct frame_times times =
            frame_times_make(intended, intended + (test_random(&random) >> (i % 64)));
        frame_stamp(&t, t.bytes, (uint32_t)test_random(&random), &times);
        check_checksums(t.bytes);
    }
}

static void lateness_saturates_and_is_never_negative(void **state)
{
    (void)state;
    frame_template_build(&t, &address, 64, 1, FRAME_DATA, 0, false);
    struct frame_times times = frame_times_make(1000, 1000 + (1ULL << 40));
    frame_stamp(&t, t.bytes, 0, &times);
    assert_memory_equal(t.bytes + 56, "\xff\xff\xff\xff", 4);
    times = frame_times_make(1000, 900);
    frame_stamp(&t, t.bytes, 0, &times);
    assert_memory_equal(t.bytes + 56, "\0\0\0\0", 4);
}

static void payload_only_has_no_headers(void **state)
{
    (void)state;
    frame_template_build(&t, &address, 64, 7, FRAME_DATA, 0, true);
    assert_int_equal(t.length, 18);
    assert_int_equal(t.bytes[0], 0x53);
    frame_template_build(&t, &address, 1518, 7, FRAME_DATA | FRAME_TOUCHED, 0, true);
    assert_int_equal(t.length, 1472);
    assert_true(frame_digest_is_right(t.bytes, t.payload_length));
}

static void echo_turns_all_addresses_and_keeps_checksums(void **state)
{
    (void)state;
    uint8_t payload[1472];
    frame_template_build(&t, &address, 1518, 7, FRAME_DATA | FRAME_TOUCHED, 0, false);
    memcpy(payload, t.bytes + 42, sizeof payload);
    frame_swap_addresses(t.bytes);
    check_checksums(t.bytes);
    assert_memory_equal(t.bytes, "\2\0\0\0\0\1\2\0\0\0\0\2", 12);
    assert_memory_equal(t.bytes + 26, "\x0a\x00\x03\x11\x0a\x00\x03\x10", 8);
    assert_int_equal(be16(t.bytes + 34), 5001);
    assert_int_equal(be16(t.bytes + 36), 13994);
    assert_memory_equal(t.bytes + 42, payload, sizeof payload);
    const struct frame_address back = frame_address_swapped(&address);
    assert_int_equal(back.src_udp, 5001);
    assert_int_equal(back.dst_ip, address.src_ip);
}

static void touched_payloads_differ(void **state)
{
    (void)state;
    uint8_t first[64], second[64];
    memset(first, 0, sizeof first);
    memset(second, 0, sizeof second);
    frame_touch(first, sizeof first, 1);
    frame_touch(second, sizeof second, 2);
    assert_memory_not_equal(first + STAMP_BYTES, second + STAMP_BYTES, 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_in_wire_order),
        cmocka_unit_test(every_size_is_right),
        cmocka_unit_test(checksum_follows_the_stamp),
        cmocka_unit_test(lateness_saturates_and_is_never_negative),
        cmocka_unit_test(payload_only_has_no_headers),
        cmocka_unit_test(echo_turns_all_addresses_and_keeps_checksums),
        cmocka_unit_test(touched_payloads_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
