/* CRC32C against the vectors of RFC 3720, and the lanes of the payload digest. */
#include "test.h"

#include "traffic/crc32c.h"

static void known_vectors(void **state)
{
    (void)state;
    uint8_t bytes[32];
    assert_int_equal(crc32c(0, (const uint8_t *)"123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(crc32c(0, bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(crc32c(0, bytes, 32), 0x62a8ab43);
    for (unsigned i = 0; i < 32; i++)
        bytes[i] = (uint8_t)i;
    assert_int_equal(crc32c(0, bytes, 32), 0x46dd794e);
    assert_int_equal(crc32c(crc32c(0, bytes, 13), bytes + 13, 19), 0x46dd794e);
}

/* The definition, bit by bit, without the tricks. */
static uint32_t slow_crc(uint32_t crc, const uint8_t *bytes, size_t length)
{
    crc = ~crc;
    for (size_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        for (unsigned bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78 : crc >> 1;
    }
    return ~crc;
}

static void digest_is_as_documented(void **state)
{
    (void)state;
    uint8_t bytes[1500];
    uint64_t random = 1;
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)test_random(&random);
    for (size_t length = 0; length <= sizeof bytes; length += length < 100 ? 1 : 37) {
        const size_t third = length / 24 * 8;
        uint8_t lanes[12];
        for (unsigned lane = 0; lane < 3; lane++) {
            const uint32_t crc = slow_crc(0, bytes + lane * third, third);
            for (unsigned i = 0; i < 4; i++)
                lanes[lane * 4 + i] = (uint8_t)(crc >> (8 * i));
        }
        const uint32_t wanted =
            slow_crc(slow_crc(0, lanes, 12), bytes + 3 * third, length - 3 * third);
        assert_int_equal(payload_digest(bytes, length), wanted);
    }
}

/* An additive checksum is blind to this: two words exchanged. */
static void exchanged_words_are_seen(void **state)
{
    (void)state;
    uint8_t bytes[96];
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7);
    const uint32_t before = payload_digest(bytes, sizeof bytes);
    uint8_t word[8];
    memcpy(word, bytes, 8);
    memcpy(bytes, bytes + 32, 8);
    memcpy(bytes + 32, word, 8);
    assert_int_not_equal(payload_digest(bytes, sizeof bytes), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_vectors),
        cmocka_unit_test(digest_is_as_documented),
        cmocka_unit_test(exchanged_words_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
