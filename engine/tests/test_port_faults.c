/* A result is partial if, and only if, a fault made it incomplete. */
#include "test.h"

#include <stdio.h>

#include "fake_io.h"
#include "role/role.h"
#include "trial/loop.h"

#define SECOND NS_PER_S

static struct options options;
static struct trial *trial;
static struct fake_port *port;
static struct io_ops ops;
static bool link_is_up, device_is_up;

static bool link_up(struct io_port *base)
{
    (void)base;
    return link_is_up;
}

static bool device_up(struct io_port *base)
{
    (void)base;
    return device_is_up;
}

static void begin(const struct role *role)
{
    options = (struct options){.role = role, .queues = 1};
    trial = calloc(1, sizeof *trial);
    trial->options = &options;
    trial->ends = aligned_alloc(64, sizeof(struct end));
    memset(trial->ends, 0, sizeof(struct end));
    trial->end_count = 1;
    port = fake_open(false);
    ops = *port->base.ops;
    ops.link_up = link_up;
    ops.device_up = device_up;
    port->base.ops = &ops;
    snprintf(port->base.spec, sizeof port->base.spec, "fake:");
    trial->ends[0].port = &port->base;
    trial->outcome.started_ns = 10 * SECOND;
    link_is_up = device_is_up = true;
    port_faults_begin(trial);
}

/* An interval in which the port accepted `offered` frames and the ring was full `refused` times. */
static void interval(unsigned end_s, uint64_t offered, uint64_t refused)
{
    trial->ends[0].counters.tx_offered += offered;
    trial->ends[0].counters.ring_full_polls += refused;
    trial->outcome.ended_ns = (10 + end_s) * SECOND;
    port_faults_check(trial, trial->outcome.ended_ns);
}

/* Judge, clean up, and return true if the result is partial and the fault has this text. */
static bool partial(const char *text)
{
    port_faults_judge(trial);
    const bool found = trial->outcome.partial && strstr(trial->outcome.fault, text) != NULL;
    assert_int_equal(trial->outcome.partial, trial->outcome.fault[0] != '\0');
    fake_close(port);
    free(trial->ends);
    free(trial);
    return found;
}

static bool whole(void)
{
    return !partial("");
}

static void trial_without_fault_is_complete(void **state)
{
    (void)state;
    begin(&role_sender);
    interval(1, 1000, 0);
    interval(2, 1000, 50); /* full at times */
    interval(3, 0, 0);     /* a slow schedule */
    assert_true(whole());
    begin(&role_receiver);
    interval(1, 0, 0);
    assert_true(whole());
}

static void full_ring_makes_result_partial(void **state)
{
    (void)state;
    begin(&role_sender);
    interval(1, 1000, 0);
    interval(3, 0, 100000);
    interval(4, 1000, 0);
    assert_true(partial("took nothing for 2.0 s"));
    begin(&role_sender); /* from its begin, however short */
    trial->ends[0].counters.ring_full_polls += 5;
    trial->outcome.ended_ns = trial->outcome.started_ns + SECOND / 10;
    port_faults_check(trial, trial->outcome.ended_ns);
    assert_true(partial("took nothing for 0.1 s"));
}

static void lost_peer_makes_result_partial(void **state)
{
    (void)state;
    begin(&role_sender); /* and returns before the next check */
    interval(1, 1000, 0);
    port->base.links_lost++;
    interval(2, 1000, 0);
    assert_true(partial("went away during the trial and came back"));
    begin(&role_sender);
    interval(1, 1000, 0);
    link_is_up = false;
    interval(2, 0, 100);
    assert_true(partial("went away during the trial"));
}

static void sender_may_end_before_receiver(void **state)
{
    (void)state;
    begin(&role_receiver);
    interval(1, 0, 0);
    link_is_up = false;
    port->base.links_lost++;
    interval(2, 0, 0);
    assert_true(whole());
    begin(&role_receiver);
    trial->traffic.duration_ns = 5 * SECOND; /* it should have been connected until then */
    interval(1, 0, 0);
    link_is_up = false;
    interval(2, 0, 0);
    assert_true(partial("went away"));
}

static void lost_device_counts_for_every_receiver(void **state)
{
    (void)state;
    begin(&role_receiver); /* without a set duration */
    interval(1, 0, 0);
    assert_false(port_faults_lost_link(trial));
    device_is_up = false;
    interval(2, 0, 0);
    assert_true(port_faults_lost_link(trial));
    assert_true(partial("its peer or device went away during the trial"));
    begin(&role_receiver); /* noticed by the backend alone */
    interval(1, 0, 0);
    io_lost_link(&port->base.links_lost);
    assert_true(port_faults_lost_link(trial));
    assert_true(partial("and came back"));
}

static void failed_port_is_named(void **state)
{
    (void)state;
    begin(&role_sender);
    interval(1, 1000, 0);
    snprintf(port->base.failure, sizeof port->base.failure, "send: Network is down");
    trial->outcome.reason = REASON_FAILURE;
    assert_true(partial("port 0 (fake:): send: Network is down"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trial_without_fault_is_complete),
        cmocka_unit_test(full_ring_makes_result_partial),
        cmocka_unit_test(lost_peer_makes_result_partial),
        cmocka_unit_test(sender_may_end_before_receiver),
        cmocka_unit_test(lost_device_counts_for_every_receiver),
        cmocka_unit_test(failed_port_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
