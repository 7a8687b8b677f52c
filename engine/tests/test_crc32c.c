/* CRC32C against the vectors of RFC 3720 and its definition. */
#include "test.h"

#include "traffic/crc32c.h"

static void crc32c_known_vectors(void **state)
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

/* The definition, bit by bit. */
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

static void crc32c_every_length_equals_definition(void **state)
{
    (void)state;
    uint8_t bytes[300];
    uint64_t random = 1;
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)test_random(&random);
    for (size_t length = 0; length <= sizeof bytes; length++)
        assert_int_equal(crc32c(7, bytes, length), slow_crc(7, bytes, length));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c_known_vectors),
        cmocka_unit_test(crc32c_every_length_equals_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
