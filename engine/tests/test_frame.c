/* Frames byte by byte: addresses in wire order, lengths, checksums calculated again by their
 * definition, stamps, echo. */
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

/* RFC 1071 as written. */
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

/* An earlier tool swapped bytes twice: 10.0.3.16 was sent as 16.3.0.10, port 13994 as 43574;
 * another exchanged source and destination. */
static void addresses_are_in_wire_order(void **state)
{
    (void)state;
    frame_template_build(&t, &address, 64, 7, FRAME_DATA, 3, false);
    const uint8_t expected_sum[] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00, 0x45};
    assert_memory_equal(t.bytes, expected_sum, sizeof expected_sum);
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

static void checksum_follows_stamp(void **state)
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

/* A sender that may catch up with minutes: the lateness in the stamp is exact to a few parts in
 * 100,000. */
static void lateness_is_unbounded_and_not_negative(void **state)
{
    (void)state;
    for (uint64_t late = 0; late < 1ULL << 46; late += 1 + late / 1000) {
        const int64_t decoded = lateness_decode(lateness_encode(late));
        assert_true(decoded <= (int64_t)late && late - (uint64_t)decoded <= late / 32768);
        if (late < 1ULL << 31)
            assert_int_equal(decoded, late);
    }
    frame_template_build(&t, &address, 64, 1, FRAME_DATA, 0, false);
    struct frame_times times = frame_times_make(1000, 1000 + (1ULL << 50));
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

static void echo_swaps_addresses_and_keeps_checksums(void **state)
{
    (void)state;
    uint8_t payload[1472];
    frame_template_build(&t, &address, 1518, 7, FRAME_DATA | FRAME_TOUCHED, 0, false);
    memcpy(payload, t.bytes + 42, sizeof payload);
    const struct frame_layout plain = {.ip = OFFSET_IP, .udp = OFFSET_UDP};
    frame_swap_addresses(t.bytes, &plain);
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
    for (unsigned kind = PAYLOAD_COUNTER; kind <= PAYLOAD_RANDOM; kind++) {
        frame_touch(payload_pattern((enum payload_kind)kind), first, sizeof first, 1);
        frame_touch(payload_pattern((enum payload_kind)kind), second, sizeof second, 2);
        for (unsigned i = STAMP_BYTES; i < 60; i++)
            assert_true(first[i] != second[i] || kind == PAYLOAD_RANDOM);
        assert_memory_not_equal(first + STAMP_BYTES, second + STAMP_BYTES, 42);
    }
}

/* Sums and digests come from tables: here they are calculated by their definitions. */
static void tables_equal_sums_of_bytes(void **state)
{
    (void)state;
    uint8_t payload[1600];
    for (unsigned kind = 0; kind < PAYLOAD_KINDS; kind++) {
        const struct payload_pattern *p = payload_pattern((enum payload_kind)kind);
        for (uint32_t length = STAMP_BYTES; length < sizeof payload;
             length += length < 90 ? 1 : 97) {
            memset(payload, 0xee, sizeof payload);
            for (unsigned i = 0; i < STAMP_BYTES; i++)
                payload[i] = (uint8_t)(length * 7 + i * 31);
            const uint32_t sequence = be16(payload + 4) << 16 | be16(payload + 6);
            uint64_t sum = frame_touch(p, payload, length, sequence);
            const unsigned expected_sum = slow_sum(payload + STAMP_BYTES, length - STAMP_BYTES, 0);
            assert_int_equal(__builtin_bswap16(sum_fold(sum)) % 0xffff, expected_sum % 0xffff);
            assert_true(frame_digest_is_right(payload, length));
            sum = 0;
            assert_true(frame_touched_alike(p, payload, length, &sum));
            assert_int_equal(__builtin_bswap16(sum_fold(sum)) % 0xffff, expected_sum % 0xffff);
            assert_int_equal(payload[length], 0xee); /* no write behind it */
            for (uint32_t i = 8; i < length && length >= STAMP_BYTES + DIGEST_BYTES; i++) {
                payload[i] ^= (uint8_t)(1 << i % 8);
                assert_false(frame_digest_is_right(payload, length));
                assert_false(frame_touched_alike(p, payload, length, &sum));
                payload[i] ^= (uint8_t)(1 << i % 8);
            }
        }
    }
}

/* The tables of a pattern take milliseconds and 3.5 MB. */
static void zeros_need_no_pattern(void **state)
{
    (void)state;
    frame_template_build(&t, &address, 128, 7, FRAME_DATA, 3, false);
    frame_template_fill(&t, PAYLOAD_FIXED);
    assert_null(t.pattern);
    frame_template_fill(&t, PAYLOAD_COUNTER);
    assert_ptr_equal(t.pattern, payload_pattern(PAYLOAD_COUNTER));
    frame_template_build(&t, &address, 128, 7, FRAME_DATA | FRAME_TOUCHED, 3, false);
    frame_template_fill(&t, PAYLOAD_FIXED);
    assert_ptr_equal(t.pattern, payload_pattern(PAYLOAD_FIXED));
}

static struct frame_address address_of(bool ip6, unsigned tags)
{
    struct frame_address a = address;
    a.ip6 = ip6;
    a.tags = (uint8_t)tags;
    a.vlan[0] = tags == 2 ? 200 : 100;
    a.vlan[1] = 100;
    memcpy(a.src_prefix, "\x20\x01\0\x02\0\0\0\0\0\0\0\0", 12);
    memcpy(a.dst_prefix, "\x20\x01\0\x02\0\0\0\0\0\0\0\1", 12);
    return a;
}

/* Every kind of frame compared with the RFCs, and parsed again. */
static void every_layout_is_right(void **state)
{
    (void)state;
    static const char *const types[] = {"\x08\x00", "\x81\x00\x00\x64\x08\x00",
                                        "\x88\xa8\x00\xc8\x81\x00\x00\x64\x08\x00"};
    for (unsigned i = 0; i < 12; i++) {
        const bool ip6 = i & 1, touch = i >= 6;
        const unsigned tags = i / 2 % 3;
        const struct frame_address a = address_of(ip6, tags);
        const uint32_t smallest = frame_size_min(&a);
        assert_int_equal(smallest, 64 + 4 * tags + (ip6 ? 20 : 0));
        for (uint32_t size = smallest; size < 1700; size += size < 100 ? 1 : 101) {
            frame_template_build(&t, &a, size, 7, FRAME_DATA | (touch ? FRAME_TOUCHED : 0), 3,
                                 false);
            frame_template_fill(&t, (enum payload_kind)(size % 3));
            const struct frame_times times = frame_times_make(0xfedcba987654ULL, 0xfedcba987700ULL);
            frame_stamp(&t, t.bytes, size, &times);
            assert_int_equal(t.length, size - 4);
            assert_int_equal(t.length + t.beside, size);
            assert_memory_equal(t.bytes + 12, types[tags], tags * 4);
            const uint8_t *ip = t.bytes + 14 + tags * 4, *udp = ip + (ip6 ? 40 : 20);
            assert_memory_equal(ip - 2, ip6 ? "\x86\xdd\x60" : "\x08\x00\x45", 3);
            const unsigned udp_length = be16(udp + 4);
            assert_int_equal(udp + udp_length - t.bytes, size - 4);
            if (ip6) {
                assert_int_equal(be16(ip + 4), udp_length);
                assert_int_equal(ip[6], 17);
                assert_memory_equal(ip + 8, "\x20\x01\0\x02\0\0\0\0\0\0\0\0\x0a\x00\x03\x10", 16);
                assert_int_equal(slow_sum(udp, udp_length, slow_sum(ip + 8, 32, 17 + udp_length)),
                                 0xffff);
            } else {
                assert_int_equal(be16(ip + 2), udp_length + 20);
                assert_int_equal(slow_sum(ip, 20, 0), 0xffff);
                assert_int_equal(slow_sum(udp, udp_length, slow_sum(ip + 12, 8, 17 + udp_length)),
                                 0xffff);
            }
            assert_int_not_equal(be16(udp + 6), 0);
            struct frame_layout at;
            assert_true(frame_parse(t.bytes, t.length, &at));
            assert_ptr_equal(t.bytes + at.ip, ip);
            assert_ptr_equal(t.bytes + at.udp, udp);
            assert_int_equal(at.ip6, ip6);
            for (uint32_t length = 0; length < t.payload + STAMP_BYTES; length++)
                assert_false(frame_parse(t.bytes, length, &at));
        }
    }
}

static void echo_swaps_every_layout(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        const struct frame_address a = address_of(i & 1, i / 2);
        const struct frame_address back = frame_address_swapped(&a);
        static struct frame_template other;
        struct frame_layout at;
        frame_template_build(&t, &a, 128, 7, FRAME_DATA, 3, false);
        frame_template_build(&other, &back, 128, 7, FRAME_DATA, 3, false);
        assert_true(frame_parse(t.bytes, t.length, &at));
        frame_swap_addresses(t.bytes, &at);
        assert_memory_equal(t.bytes, other.bytes, t.length);
    }
}

static void arbitrary_bytes_are_parsed_within_bounds(void **state)
{
    (void)state;
    uint64_t random = 9;
    for (unsigned i = 0; i < 200000; i++) {
        const uint32_t length = (uint32_t)(test_random(&random) % 100);
        uint8_t *bytes = malloc(length + 1); /* exact size, for the sanitizer */
        struct frame_layout at;
        for (uint32_t j = 0; j < length; j++)
            bytes[j] = (uint8_t)test_random(&random);
        if (length > 22) {
            memcpy(bytes + 12, i & 1 ? "\x81\x00" : "\x88\xa8", 2);
            memcpy(bytes + 16, i & 2 ? "\x81\x00" : "\x08\x00", 2);
            memcpy(bytes + 20, i & 4 ? "\x86\xdd" : "\x81\x00", 2);
        }
        if (frame_parse(bytes, length, &at))
            assert_true(at.udp + 8 + STAMP_BYTES <= length);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_in_wire_order),
        cmocka_unit_test(every_size_is_right),
        cmocka_unit_test(checksum_follows_stamp),
        cmocka_unit_test(lateness_is_unbounded_and_not_negative),
        cmocka_unit_test(payload_only_has_no_headers),
        cmocka_unit_test(echo_swaps_addresses_and_keeps_checksums),
        cmocka_unit_test(touched_payloads_differ),
        cmocka_unit_test(tables_equal_sums_of_bytes),
        cmocka_unit_test(zeros_need_no_pattern),
        cmocka_unit_test(every_layout_is_right),
        cmocka_unit_test(echo_swaps_every_layout),
        cmocka_unit_test(arbitrary_bytes_are_parsed_within_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
