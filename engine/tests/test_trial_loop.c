/* A requested interval ends now, even if another thread writes the tick of the next event at the
 * same time. */
#include "test.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "fake_io.h"
#include "trial/loop.h"

#define FAR (UINT64_MAX / 2)

static struct options options;
static struct trial trial;
static struct fake_port *port;

static int begin(void **state)
{
    (void)state;
    memset(&trial, 0, sizeof trial);
    options = (struct options){.role = &role_forwarder};
    trial.options = &options;
    trial.ends = aligned_alloc(64, sizeof(struct end));
    memset(trial.ends, 0, sizeof(struct end));
    trial.end_count = trial.threads.count = 1;
    port = fake_open(false);
    trial.ends->port = &port->base;
    trial.intervals.wake_fd = eventfd(0, EFD_NONBLOCK);
    trial.clock.interval_ticks = trial.clock.next_interval = trial.clock.end_tick = FAR;
    trial_set_next_event(&trial);
    return 0;
}

static int end(void **state)
{
    (void)state;
    close(trial.intervals.wake_fd);
    fake_close(port);
    free(trial.ends);
    return 0;
}

static void requested_interval_ends_in_next_round(void **state)
{
    (void)state;
    assert_true(trial_goes_on(&trial, 0, 1));
    assert_int_equal(trial.intervals.written, 0);
    trial_request_interval(&trial);
    assert_true(trial_goes_on(&trial, 0, 2));
    assert_int_equal(trial.intervals.written, 1);
    assert_true(trial_goes_on(&trial, 0, 3));
    assert_int_equal(trial.intervals.written, 1);
    assert_int_equal(trial.clock.next_interval, FAR);
}

/* The worker sets the tick of the next event right after the request. */
static void request_survives_new_event(void **state)
{
    (void)state;
    trial_request_interval(&trial);
    trial_set_next_event(&trial);
    assert_true(trial_goes_on(&trial, 0, 2));
    assert_int_equal(trial.intervals.written, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(requested_interval_ends_in_next_round, begin, end),
        cmocka_unit_test_setup_teardown(request_survives_new_event, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
