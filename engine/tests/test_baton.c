/* Taking turns on a core: strictly one after the other, in rings of any length, and without the
 * dead, the silent and those that leave. */
#include "test.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "baton.h"
#include "measure/clock.h"

#define CORE 5
#define ROUNDS 2000
#define MEMBERS 5
#define TRIES 50

static char path[] = "/tmp/test-baton-XXXXXX";
static struct baton_round *rounds;

static int open_rounds(void **state)
{
    char error[160];

    (void)state;
    strcpy(path + strlen(path) - 6, "XXXXXX");
    const int fd = mkstemp(path);
    close(fd);
    rounds = baton_open(path, error, sizeof error);
    return rounds != NULL ? 0 : -1;
}

static int close_rounds(void **state)
{
    (void)state;
    baton_close(rounds);
    return unlink(path);
}

/* Who held the baton, turn by turn. */
static unsigned turns[ROUNDS * MEMBERS];
static atomic_uint taken, joined, waited;

static void *take_turns(void *argument)
{
    struct baton own;

    baton_join(&own, rounds, CORE);
    atomic_fetch_add(&joined, 1);
    while (atomic_load(&joined) < *(unsigned *)argument)
        sched_yield();
    /* Whose first turn comes before it waits for one hands that on at once: count only when each
     * has waited, from where it runs in its turn alone. */
    baton_pass(&own);
    atomic_fetch_add(&waited, 1);
    while (atomic_load(&waited) < *(unsigned *)argument)
        baton_pass(&own);
    for (unsigned i = 0; i < ROUNDS; i++) {
        turns[atomic_fetch_add(&taken, 1)] = own.place;
        baton_pass(&own);
    }
    const uint64_t silent = own.counts.silent;
    baton_leave(&own);
    return (void *)(uintptr_t)silent;
}

/* False: a thread was kept from any core for so long that it was put out. */
static bool go_round(unsigned members)
{
    pthread_t threads[MEMBERS];
    bool quiet = true;

    atomic_store(&taken, 0);
    atomic_store(&joined, 0);
    atomic_store(&waited, 0);
    for (unsigned i = 0; i < members; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_turns, &members), 0);
    for (unsigned i = 0; i < members; i++) {
        void *silent;
        pthread_join(threads[i], &silent);
        quiet &= silent == NULL;
    }
    for (unsigned i = members; quiet && i < ROUNDS * members; i++)
        assert_int_equal(turns[i], turns[i - members]);
    for (unsigned i = 1; quiet && i < members; i++)
        assert_int_not_equal(turns[i], turns[0]);
    return quiet;
}

static void go_round_undisturbed(unsigned members)
{
    for (unsigned tries = 0; tries < TRIES; tries++) {
        if (go_round(members))
            return;
    }
    fail_msg("the machine is too busy: every round was disturbed");
}

static void test_two_alternate(void **state)
{
    (void)state;
    go_round_undisturbed(2);
}

static void test_more_than_two_go_round(void **state)
{
    (void)state;
    go_round_undisturbed(MEMBERS);
}

static void test_alone_goes_on_at_once(void **state)
{
    (void)state;
    struct baton own, nobody = {0};

    assert_false(baton_pass(&nobody));
    baton_leave(&nobody);
    baton_join(&own, rounds, CORE);
    assert_false(baton_pass(&own));
    assert_int_equal(own.counts.passes, 0);
    baton_leave(&own);
    assert_false(baton_pass(&own));
}

static void test_cores_are_apart(void **state)
{
    (void)state;
    struct baton here, there, nowhere;

    baton_join(&here, rounds, CORE);
    baton_join(&there, rounds, CORE + 1);
    baton_join(&nowhere, rounds, BATON_CORES);
    assert_false(baton_pass(&here));
    assert_false(baton_pass(&there));
    assert_false(baton_pass(&nowhere));
}

/* In a process of its own, by the file: get the baton once, say so, and do as told. */
static pid_t start_partner(int *says, bool wakes_up)
{
    int pipes[2];

    assert_int_equal(pipe(pipes), 0);
    const pid_t child = fork();
    if (child == 0) {
        char error[160];
        struct baton own;
        struct baton_round *same = baton_open(path, error, sizeof error);
        baton_join(&own, same, CORE);
        if (write(pipes[1], "j", 1) != 1)
            _exit(1);
        while (!baton_pass(&own)) /* until it is handed to this one */
            continue;
        const struct timespec silence = {0, 4 * (long)BATON_SILENCE_NS};
        nanosleep(&silence, NULL);
        if (!wakes_up)
            pause();
        const bool again = baton_pass(&own);
        baton_leave(&own);
        _exit(again ? 7 : 1);
    }
    close(pipes[1]);
    *says = pipes[0];
    return child;
}

static void wait_for_word(int says)
{
    char word;

    assert_int_equal(read(says, &word, 1), 1);
    close(says);
}

/* Pass until the holder has been put out for its silence; each time is bounded. */
static void pass_until_silent(struct baton *own)
{
    const uint64_t begun_ns = clock_monotonic_ns();

    while (own->counts.silent == 0) {
        baton_pass(own);
        assert_true(clock_monotonic_ns() - begun_ns < 10 * NS_PER_S);
    }
    assert_true(own->counts.longest >= clock_ns_to_ticks(BATON_SILENCE_NS / 2));
}

static void test_goes_on_without_the_dead(void **state)
{
    (void)state;
    struct baton own;
    int says;

    baton_join(&own, rounds, CORE);
    const pid_t partner = start_partner(&says, false);
    wait_for_word(says);
    kill(partner, SIGKILL);
    waitpid(partner, NULL, 0);
    pass_until_silent(&own);
    assert_int_equal(own.counts.silent, 1);
    assert_false(baton_pass(&own)); /* it waits for the dead once */
    baton_leave(&own);
}

static void test_one_that_was_slow_joins_again(void **state)
{
    (void)state;
    struct baton own;
    int says, status;

    baton_join(&own, rounds, CORE);
    const pid_t partner = start_partner(&says, true);
    wait_for_word(says);
    pass_until_silent(&own);
    while (waitpid(partner, &status, WNOHANG) == 0) /* alone, then in turns again */
        baton_pass(&own);
    assert_int_equal(WEXITSTATUS(status), 7);
    baton_leave(&own);
}

static void test_who_leaves_hands_on(void **state)
{
    (void)state;
    struct baton own, other, third;

    baton_join(&own, rounds, CORE);
    baton_join(&other, rounds, CORE);
    baton_join(&third, rounds, CORE);
    assert_int_equal(rounds[CORE].turn & (BATON_MEMBERS - 1), own.place);
    baton_leave(&own);
    assert_int_equal(rounds[CORE].turn & (BATON_MEMBERS - 1), other.place);
    baton_leave(&third); /* it had nothing to hand on */
    assert_false(baton_pass(&other));
    baton_leave(&other);
}

static void test_a_vacant_turn_is_taken_at_once(void **state)
{
    (void)state;
    uint64_t shortest = UINT64_MAX;

    for (unsigned tries = 0; tries < TRIES; tries++) {
        struct baton own, other, third;
        const unsigned core = CORE + tries;
        baton_join(&own, rounds, core);
        baton_join(&other, rounds, core);
        baton_join(&third, rounds, core);
        atomic_store(&rounds[core].owners[own.place], 0); /* a leaver's, a moment too early */
        assert_true(baton_pass(&other));
        assert_int_equal(other.counts.silent, 0);
        shortest = other.counts.longest < shortest ? other.counts.longest : shortest;
    }
    assert_true(shortest < clock_ns_to_ticks(BATON_SILENCE_NS / 2));
}

static void test_no_room_is_no_round(void **state)
{
    (void)state;
    static struct baton many[BATON_MEMBERS], late;

    for (unsigned i = 0; i < BATON_MEMBERS; i++) {
        baton_join(&many[i], rounds, CORE);
        assert_non_null(many[i].round);
    }
    baton_join(&late, rounds, CORE);
    assert_null(late.round);
    assert_false(baton_pass(&late));
}

static void test_says_why_a_file_cannot_be(void **state)
{
    (void)state;
    char error[160];

    assert_null(baton_open("/nowhere/baton", error, sizeof error));
    assert_string_equal(error, "--baton /nowhere/baton: No such file or directory");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_rounds, close_rounds)

/* One alone never rests: nobody is kept from the core by its turns. */
static void test_a_round_is_quiet_when_nobody_has_had_work_for_long(void **state)
{
    (void)state;
    struct baton one, other, nobody = {0};
    const uint64_t now = clock_ticks(), long_after = now + 2 * clock_ns_to_ticks(BATON_QUIET_NS);

    baton_join(&one, rounds, CORE + 1);
    assert_false(baton_is_quiet(&one, long_after));
    baton_join(&other, rounds, CORE + 1);
    baton_note_work(&one, now);
    assert_false(baton_is_quiet(&one, now));
    assert_false(baton_is_quiet(&other, now + clock_ns_to_ticks(BATON_QUIET_NS) / 2));
    assert_true(baton_is_quiet(&one, long_after));
    assert_true(baton_is_quiet(&other, long_after));
    baton_note_work(&other, long_after);
    assert_false(baton_is_quiet(&one, long_after + 1));
    baton_leave(&other);
    baton_leave(&one);
    baton_note_work(&nobody, now);
    assert_false(baton_is_quiet(&nobody, long_after));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_two_alternate),
        CASE(test_more_than_two_go_round),
        CASE(test_alone_goes_on_at_once),
        CASE(test_cores_are_apart),
        CASE(test_goes_on_without_the_dead),
        CASE(test_one_that_was_slow_joins_again),
        CASE(test_who_leaves_hands_on),
        CASE(test_a_vacant_turn_is_taken_at_once),
        CASE(test_no_room_is_no_round),
        CASE(test_a_round_is_quiet_when_nobody_has_had_work_for_long),
        CASE(test_says_why_a_file_cannot_be),
    };
    clock_begin();
    clock_calibrate();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
