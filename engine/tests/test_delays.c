/* Delays and their variation as a receiver reports them, compared with lists of the times of every
 * frame: frames sent late or in time, lost, overtaken and duplicated, received in bursts. */
#include "test.h"

#include "fake_io.h"
#include "traffic/receive.h"

#define FRAMES 20000
#define DELAY 5000000 /* ns; a thousandth of it is more than the jitter */
#define JITTER 3000

static const struct frame_address peer = {
    .src_ip = 1, .dst_ip = 2, .src_udp = 3, .dst_udp = 4, .src_mac = {2}, .dst_mac = {2, 1}};
static struct counters counters;
static struct sequence_tracker tracker;
static struct histogram from_actual, from_intended;
static struct variation variation;
static struct frame_template t;

static struct arrival {
    uint64_t intended, sent, received;
    uint32_t sequence;
} arrivals[2 * FRAMES];
static unsigned count;

static int by_time(const void *a, const void *b)
{
    const struct arrival *x = a, *y = b;
    return x->received < y->received ? -1 : x->received > y->received;
}

static int rising(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Ticks are nanoseconds here. Frames that arrive together are received at one moment. */
static void make_arrivals(uint64_t *random)
{
    count = 0;
    for (uint32_t i = 0; i < FRAMES; i++) {
        if (test_random(random) % 50 == 0)
            continue;
        struct arrival a = {.sequence = i, .intended = 1000000 + i / 4 * 8000ULL};
        a.sent = a.intended + (test_random(random) % 10 == 0 ? test_random(random) % 100000 : 20);
        const uint64_t jitter = test_random(random) % JITTER;
        a.received = (a.sent + DELAY + jitter) / 500 * 500;
        arrivals[count++] = a;
        if (test_random(random) % 100 == 0) {
            a.received += 500 * (test_random(random) % 20);
            arrivals[count++] = a;
        }
    }
    qsort(arrivals, count, sizeof arrivals[0], by_time);
}

static void receive_all(void)
{
    struct receiver rx = {.counters = &counters,
                          .latency_wanted = true,
                          .tracker = &tracker,
                          .from_actual = &from_actual,
                          .from_intended = &from_intended,
                          .variation = &variation};
    const struct frame_address local = frame_address_swapped(&peer);
    static uint8_t bytes[IO_BURST_MAX][64];
    struct io_frame frames[IO_BURST_MAX];

    receive_expect(&rx, &local, false, false, false, false);
    receive_begin(&rx, 0, 0);
    frame_template_build(&t, &peer, 64, 0, FRAME_DATA, 1, false);
    for (unsigned at = 0, burst; at < count; at += burst) {
        for (burst = 0; burst < IO_BURST_MAX && at + burst < count &&
                        arrivals[at + burst].received == arrivals[at].received;
             burst++) {
            const struct arrival *a = &arrivals[at + burst];
            const struct frame_times times = frame_times_make(a->intended, a->sent);
            frame_stamp(&t, t.bytes, a->sequence, &times);
            memcpy(bytes[burst], t.bytes, t.length);
            frames[burst] = (struct io_frame){.data = bytes[burst], .length = t.length};
        }
        receive_burst(&rx, frames, burst, arrivals[at].received, NULL);
    }
    receive_end(&rx);
    assert_int_equal(counters.rx_frames, count);
}

static void near(uint64_t reported, uint64_t true_value)
{
    const uint64_t error = reported > true_value ? reported - true_value : true_value - reported;
    if (error * 1000 > true_value && error > 1)
        fail_msg("%llu, not %llu", (unsigned long long)reported, (unsigned long long)true_value);
}

static const double shares[] = {1, 25, 50, 90, 99, 99.9, 99.99, 100};

static uint64_t at_rank(const uint64_t *list, unsigned length, double share)
{
    return list[histogram_rank(length, share) - 1];
}

static uint64_t list[2 * FRAMES];

static void delays_are_those_of_the_list(void)
{
    for (unsigned from_sent = 0; from_sent < 2; from_sent++) {
        const struct histogram *h = from_sent ? &from_actual : &from_intended;
        uint64_t sum = 0;
        for (unsigned i = 0; i < count; i++) {
            const struct arrival *a = &arrivals[i];
            list[i] = a->received - (from_sent ? a->sent : a->intended);
            sum += list[i];
        }
        qsort(list, count, sizeof list[0], rising);
        assert_int_equal(h->count, count);
        assert_int_equal(h->min, list[0]);
        assert_int_equal(h->max, list[count - 1]);
        assert_true(h->sum == sum);
        for (unsigned i = 0; i < 8; i++)
            near(histogram_percentile(h, shares[i]), at_rank(list, count, shares[i]));
    }
    /* RFC 5481; the list has delays from the actual send time */
    for (unsigned i = 0; i < 8; i++)
        near(pdv_percentile(&variation.pdv, from_actual.min, shares[i]),
             at_rank(list, count, shares[i]) - list[0]);
}

/* RFC 3393: first copies in order whose neighbour by number also arrived in order. */
static void changes_are_those_of_the_list(void)
{
    static uint64_t shrunk[2 * FRAMES];
    static int64_t delays[FRAMES];
    unsigned grew = 0, fell = 0;
    int64_t highest = -1, mean_sum = 0;

    for (unsigned i = 0; i < FRAMES; i++)
        delays[i] = -1;
    for (unsigned i = 0; i < count; i++) {
        const struct arrival *a = &arrivals[i];
        if ((int64_t)a->sequence <= highest)
            continue;
        highest = a->sequence;
        delays[a->sequence] = (int64_t)(a->received - a->sent);
        if (a->sequence == 0 || delays[a->sequence - 1] < 0)
            continue;
        const int64_t change = delays[a->sequence] - delays[a->sequence - 1];
        mean_sum += change;
        if (change < 0)
            shrunk[fell++] = (uint64_t)-change;
        else
            list[grew++] = (uint64_t)change;
    }
    assert_true(grew > FRAMES / 100 && fell > FRAMES / 100);
    assert_int_equal(variation.grown.count, grew);
    assert_int_equal(variation.shrunk.count, fell);
    assert_int_equal((int64_t)variation.grown.sum - (int64_t)variation.shrunk.sum, mean_sum);
    qsort(list, grew, sizeof list[0], rising);
    qsort(shrunk, fell, sizeof shrunk[0], rising);
    for (unsigned i = 0; i < 8; i++) {
        near(histogram_percentile(&variation.grown, shares[i]), at_rank(list, grew, shares[i]));
        near(histogram_percentile(&variation.shrunk, shares[i]), at_rank(shrunk, fell, shares[i]));
    }
}

static void reported_delays_equal_list(void **state)
{
    (void)state;
    uint64_t random = 3;
    for (unsigned round = 0; round < 5; round++) {
        memset(&counters, 0, sizeof counters);
        make_arrivals(&random);
        receive_all();
        assert_true(tracker.reordered > 100 && tracker.duplicates > 100);
        delays_are_those_of_the_list();
        changes_are_those_of_the_list();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reported_delays_equal_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
