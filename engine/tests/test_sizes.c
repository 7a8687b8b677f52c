/* The forms of sizes, and that a mix has exactly the given frames. */
#include "test.h"

#include "traffic/imix.h"
#include "traffic/sizes.h"

static struct sizes sizes;
static char error[200];

static void is_bad(const char *text, const char *reason)
{
    assert_false(sizes_parse(text, &sizes, error, sizeof error));
    if (strstr(error, reason) == NULL)
        fail_msg("'%s': %s", text, error);
}

static uint64_t counted(uint32_t size, uint64_t frames)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < frames; i++)
        count += sizes_at(&sizes, i) == size;
    return count;
}

static void sizes_one_size(void **state)
{
    (void)state;
    assert_true(sizes_parse("1518", &sizes, error, sizeof error));
    assert_int_equal(sizes.kind, SIZES_FIXED);
    assert_int_equal(sizes_at(&sizes, 12345), 1518);
    assert_true(sizes_mean(&sizes) == 1518);
    assert_int_equal(sizes_count(&sizes, 1518, 77), 77);
    assert_true(sizes_parse("64*3", &sizes, error, sizeof error));
    assert_int_equal(sizes.kind, SIZES_FIXED);
}

static void simple_imix_is_7_to_4_to_1(void **state)
{
    (void)state;
    assert_true(sizes_parse("imix", &sizes, error, sizeof error));
    assert_int_equal(sizes.cycle_length, 12);
    assert_int_equal(sizes_count(&sizes, 64, 12), 7);
    assert_int_equal(sizes_count(&sizes, 570, 12), 4);
    assert_int_equal(sizes_count(&sizes, 1518, 12), 1);
    assert_true(sizes_mean(&sizes) == (7 * 64 + 4 * 570 + 1518) / 12.0);
    assert_int_equal(sizes.smallest, 64);
    assert_int_equal(sizes.largest, 1518);
}

static void counts_are_exact_at_every_frame(void **state)
{
    (void)state;
    assert_true(sizes_parse("64*7+570*4+1518", &sizes, error, sizeof error));
    for (uint64_t frames = 0; frames < 100; frames++) {
        assert_int_equal(sizes_count(&sizes, 64, frames), counted(64, frames));
        assert_int_equal(sizes_count(&sizes, 570, frames), counted(570, frames));
        assert_int_equal(sizes_count(&sizes, 1518, frames), counted(1518, frames));
    }
    assert_int_equal(sizes_count(&sizes, 64, 12000000000ULL), 7000000000ULL);
}

/* RFC 6985, section 4: "aaafag" is 64, 64, 64, 1280, 64, 1518. */
static void sizes_genomes(void **state)
{
    (void)state;
    assert_true(sizes_parse("genome:aaafag", &sizes, error, sizeof error));
    const uint16_t expected[] = {64, 64, 64, 1280, 64, 1518};
    assert_int_equal(sizes.cycle_length, 6);
    assert_memory_equal(sizes.cycle, expected, sizeof expected);
    assert_true(sizes_parse("genome:bcdehi", &sizes, error, sizeof error));
    const uint16_t others[] = {128, 256, 512, 1024, 2112, 9000};
    assert_memory_equal(sizes.cycle, others, sizeof others);
    assert_true(sizes_parse("genome:aABz:A=300:B=70:z=1522", &sizes, error, sizeof error));
    const uint16_t custom[] = {64, 300, 70, 1522};
    assert_memory_equal(sizes.cycle, custom, sizeof custom);
    assert_true(sizes_parse("genome:3afa1g", &sizes, error, sizeof error)); /* section 6.1: runs */
    assert_int_equal(sizes.cycle_length, 6);
    assert_memory_equal(sizes.cycle, expected, sizeof expected);
    assert_true(sizes_parse("genome:12a1000A12a:A=300", &sizes, error, sizeof error));
    assert_int_equal(sizes.cycle_length, 1024);
    assert_int_equal(sizes_count(&sizes, 300, 1024), 1000);
    is_bad("genome:", "1 to 1024 frames");
    is_bad("genome:1025a", "1 to 1024 frames");
    is_bad("genome:1000a25b", "1 to 1024 frames");
    is_bad("genome:0a", "runs of 1 and more");
    is_bad("genome:4294967297a", "1 to 1024 frames");
    is_bad("genome:3", "'?' is not a letter");
    is_bad("genome:3:A=300", "':' is not a letter");
    is_bad("genome:aaj", "16000");
    is_bad("genome:aak", "'k' is not a letter");
    is_bad("genome:a\xc3", "is not a letter");
    is_bad("genome:aA", "'A' has no size");
    is_bad("genome:z", "'z' has no size");
    is_bad("genome:A:A=63", "A=63");
    is_bad("genome:A:A=9019", "A=9019");
    is_bad("genome:A:A=", "'A='");
    is_bad("genome:A:a=100", "a=100");
    is_bad("genome:A:A=100x", "A=100x");
    is_bad("genome:A:", "''");
}

static void sizes_invalid_lists_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",      "63",     "9019", "64+",   "+64",  "64*0",
                                      "64*",   "64*7*2", "*",    "64,64", "64x2", "64+63",
                                      "imixx", "random", "-1",   "64 "};
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
        is_bad(bad[i], "from 64 to 9018");
    is_bad("64*1025", "at most 1024");
    is_bad("64*1000+65*25", "at most 1024");
}

/* Every size occurs, about equally often, and equally for the same seed. */
static void random_sizes(void **state)
{
    (void)state;
    static uint32_t hits[9019];
    assert_true(sizes_parse("random:64-1518", &sizes, error, sizeof error));
    memset(hits, 0, sizeof hits);
    const uint32_t frames = 1455 * 200;
    for (uint32_t i = 0; i < frames; i++) {
        const uint32_t size = sizes_at(&sizes, i);
        assert_in_range(size, 64, 1518);
        hits[size]++;
    }
    double chi_square = 0; /* 1454 degrees of freedom: mean 1454, standard deviation 54 */
    for (uint32_t size = 64; size <= 1518; size++)
        chi_square += (hits[size] - 200.0) * (hits[size] - 200.0) / 200.0;
    assert_true(chi_square > 1454 - 5 * 54 && chi_square < 1454 + 5 * 54);
    assert_true(sizes_mean(&sizes) == 791);

    struct sizes other;
    unsigned same = 0;
    assert_true(sizes_parse("random:64-1518:seed=2", &other, error, sizeof error));
    for (uint32_t i = 0; i < 10000; i++)
        same += sizes_at(&sizes, i) == sizes_at(&other, i);
    assert_true(same < 30);
    is_bad("random:1518-64", "range");
    is_bad("random:64-64", "range");
    is_bad("random:64-", "range");
    is_bad("random:64", "range");
    is_bad("random:63-100", "range");
    is_bad("random:64-100:seed=", "range");
    is_bad("random:64-100:sed=1", "range");
}

/* RFC 6985, sections 6.2 and 6.5: proportions, in pseudorandom order. */
static void sizes_drawn_from_a_list(void **state)
{
    (void)state;
    enum { FRAMES = 1200000 };
    uint32_t small = 0, medium = 0, after_small = 0;
    assert_true(sizes_parse("random:64*7+570*4+1518:seed=9", &sizes, error, sizeof error));
    assert_true(sizes_mean(&sizes) == (7 * 64 + 4 * 570 + 1518) / 12.0);
    for (uint32_t i = 0; i < FRAMES; i++) {
        const uint32_t size = sizes_at(&sizes, i);
        assert_true(size == 64 || size == 570 || size == 1518);
        small += size == 64;
        medium += size == 570;
        after_small += i > 0 && size == 64 && sizes_at(&sizes, i - 1) == 64;
    }
    assert_in_range(small, FRAMES * 7 / 12 - 2200,
                    FRAMES * 7 / 12 + 2200); /* 4 standard deviations */
    assert_in_range(medium, FRAMES / 3 - 2100, FRAMES / 3 + 2100);
    assert_in_range(after_small, FRAMES * 49.0 / 144 - 2500, FRAMES * 49.0 / 144 + 2500);
    struct sizes other;
    unsigned same = 0;
    assert_true(sizes_parse("random:64*7+570*4+1518:seed=8", &other, error, sizeof error));
    for (uint32_t i = 0; i < 10000; i++)
        same += sizes_at(&sizes, i) == sizes_at(&other, i);
    assert_in_range(same, 4300, 4900); /* 66 of 144 */
    assert_true(sizes_parse("random:imix", &sizes, error, sizeof error));
    assert_int_equal(sizes.largest, 1518);
    is_bad("random:64*3", "nor a list");
    is_bad("random:64+63", "nor a list");
    is_bad("random:64+65:seed=x", "nor a list");
}

static void sizes_random_text_is_handled(void **state)
{
    (void)state;
    static const char letters[] = "genome:radi-mx+*=0123456789aAzZ:seed";
    uint64_t random = 3;
    for (unsigned i = 0; i < 300000; i++) {
        char text[24];
        const size_t length = test_random(&random) % sizeof text;
        for (size_t j = 0; j < length; j++)
            text[j] = letters[test_random(&random) % (sizeof letters - 1)];
        if (i % 3 == 0 && length > 7)
            memcpy(text, i & 1 ? "genome:" : "random:", 7);
        text[length < sizeof text ? length : sizeof text - 1] = '\0';
        if (sizes_parse(text, &sizes, error, sizeof error)) {
            assert_in_range(sizes.smallest, 64, sizes.largest);
            assert_in_range(sizes.largest, 64, 9018);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_one_size),
        cmocka_unit_test(simple_imix_is_7_to_4_to_1),
        cmocka_unit_test(counts_are_exact_at_every_frame),
        cmocka_unit_test(sizes_genomes),
        cmocka_unit_test(sizes_invalid_lists_are_refused),
        cmocka_unit_test(random_sizes),
        cmocka_unit_test(sizes_drawn_from_a_list),
        cmocka_unit_test(sizes_random_text_is_handled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
