/* Taking turns on a core: strictly one after the other, in rings of any length, and without the
 * dead, the silent and those that leave. Nobody can say when a busy machine runs whom: where no
 * silence is to be met, the futex waits without end here, and a partner is silent until it is told
 * to go on. */
#include "test.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "measure/clock.h"
#include "threads/core_token.h"

#define CORE 5
#define ROUNDS 2000
#define MEMBERS 5
#define TRIES 3000

static char path[] = "/tmp/test-baton-XXXXXX";
static struct core_round *rounds;
static bool patient; /* sleepers wait until they are woken */
static atomic_uint sleeps;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

/* As the C library's, it hands on six words, however many there are: a sanitizer would mind. */
__attribute__((no_sanitize("address"))) long __wrap_syscall(long number, ...)
{
    va_list given;

    va_start(given, number);
    void *word = va_arg(given, void *);
    const int call = va_arg(given, int);
    const uint32_t value = va_arg(given, uint32_t);
    const struct timespec *until = va_arg(given, const struct timespec *);
    void *none = va_arg(given, void *);
    const uint32_t bits = va_arg(given, uint32_t);
    va_end(given);
    if (number == SYS_futex && call == FUTEX_WAIT_BITSET) {
        atomic_fetch_add(&sleeps, 1);
        until = patient ? NULL : until;
    }
    return __real_syscall(number, word, call, value, until, none, bits);
}

static int open_rounds(void **state)
{
    char error[160];

    (void)state;
    strcpy(path + strlen(path) - 6, "XXXXXX");
    const int fd = mkstemp(path);
    close(fd);
    rounds = core_token_open(path, error, sizeof error);
    patient = false;
    return rounds != NULL ? 0 : -1;
}

static int close_rounds(void **state)
{
    (void)state;
    core_token_close(rounds);
    return unlink(path);
}

/* Who held the baton, turn by turn. */
static unsigned turns[ROUNDS * MEMBERS];
static atomic_uint taken, joined, waited;

static void *take_turns(void *argument)
{
    struct core_token own;

    core_token_join(&own, rounds, CORE);
    atomic_fetch_add(&joined, 1);
    while (atomic_load(&joined) < *(unsigned *)argument)
        sched_yield();
    /* Whose first turn comes before it waits for one hands that on at once: count only when each
     * has waited, from where it runs in its turn alone. */
    core_token_pass(&own);
    atomic_fetch_add(&waited, 1);
    while (atomic_load(&waited) < *(unsigned *)argument)
        core_token_pass(&own);
    for (unsigned i = 0; i < ROUNDS; i++) {
        turns[atomic_fetch_add(&taken, 1)] = own.place;
        core_token_pass(&own);
    }
    const uint64_t silent = own.counts.silent;
    core_token_leave(&own);
    return (void *)(uintptr_t)silent;
}

static void go_round(unsigned members)
{
    pthread_t threads[MEMBERS];

    patient = true; /* until the next test */
    atomic_store(&taken, 0);
    atomic_store(&joined, 0);
    atomic_store(&waited, 0);
    for (unsigned i = 0; i < members; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_turns, &members), 0);
    for (unsigned i = 0; i < members; i++) {
        void *silent;
        pthread_join(threads[i], &silent);
        assert_null(silent);
    }
    for (unsigned i = members; i < ROUNDS * members; i++)
        assert_int_equal(turns[i], turns[i - members]);
    for (unsigned i = 1; i < members; i++)
        assert_int_not_equal(turns[i], turns[0]);
}

static void test_two_alternate(void **state)
{
    (void)state;
    go_round(2);
}

static void test_more_than_two_go_round(void **state)
{
    (void)state;
    go_round(MEMBERS);
}

static void test_alone_goes_on_at_once(void **state)
{
    (void)state;
    struct core_token own, free_place = {0};

    assert_false(core_token_pass(&free_place));
    core_token_leave(&free_place);
    core_token_join(&own, rounds, CORE);
    assert_false(core_token_pass(&own));
    assert_int_equal(own.counts.passes, 0);
    core_token_leave(&own);
    assert_false(core_token_pass(&own));
}

static void test_cores_are_apart(void **state)
{
    (void)state;
    struct core_token here, there, nowhere;

    core_token_join(&here, rounds, CORE);
    core_token_join(&there, rounds, CORE + 1);
    core_token_join(&nowhere, rounds, TOKEN_CORES);
    assert_false(core_token_pass(&here));
    assert_false(core_token_pass(&there));
    assert_false(core_token_pass(&nowhere));
}

/* In a process of its own, by the file: it says when it has joined, gets the baton, keeps it until
 * it is told to go on, and passes it once more. */
struct partner {
    pid_t process;
    int says, hears;
};

static void be_partner(int says, int hears)
{
    const struct timespec rest = {0, 10000000};
    char error[160], word;
    struct core_token own;

    core_token_join(&own, core_token_open(path, error, sizeof error), CORE);
    if (write(says, "j", 1) != 1)
        _exit(1);
    while (!core_token_pass(&own)) /* until it is handed to this one */
        continue;
    if (read(hears, &word, 1) != 1)
        _exit(1);
    bool again = core_token_pass(&own);
    /* Alone at first, if it has just put the other one out, which comes back. */
    for (unsigned tries = 0; tries < TRIES && !again; tries++) {
        nanosleep(&rest, NULL);
        again = core_token_pass(&own);
    }
    core_token_leave(&own);
    _exit(again ? 7 : 1);
}

static struct partner start_partner(void)
{
    int said[2], told[2];
    char word;

    assert_int_equal(pipe(said), 0);
    assert_int_equal(pipe(told), 0);
    const struct partner partner = {.process = fork(), .says = said[0], .hears = told[1]};
    assert_true(partner.process >= 0);
    if (partner.process == 0)
        be_partner(said[1], told[0]);
    close(said[1]);
    close(told[0]);
    assert_int_equal(read(partner.says, &word, 1), 1);
    return partner;
}

static void close_pipes(const struct partner *partner)
{
    close(partner->says);
    close(partner->hears);
}

/* Pass until the holder has been put out for its silence. */
static void pass_until_silent(struct core_token *own)
{
    while (own->counts.silent == 0)
        core_token_pass(own);
    assert_true(own->counts.longest >= clock_ns_to_ticks(TOKEN_SILENCE_NS / 2));
}

static void test_goes_on_without_the_dead(void **state)
{
    (void)state;
    struct core_token own;

    core_token_join(&own, rounds, CORE);
    const struct partner partner = start_partner();
    kill(partner.process, SIGKILL);
    waitpid(partner.process, NULL, 0);
    pass_until_silent(&own);
    assert_int_equal(own.counts.silent, 1);
    assert_false(core_token_pass(&own)); /* it waits for the dead once */
    core_token_leave(&own);
    close_pipes(&partner);
}

static void test_one_that_was_slow_joins_again(void **state)
{
    (void)state;
    struct core_token own;
    int status;

    core_token_join(&own, rounds, CORE);
    const struct partner partner = start_partner();
    pass_until_silent(&own);
    assert_int_equal(write(partner.hears, "g", 1), 1);
    while (waitpid(partner.process, &status, WNOHANG) == 0) /* alone, then in turns again */
        core_token_pass(&own);
    assert_int_equal(WEXITSTATUS(status), 7);
    core_token_leave(&own);
    close_pipes(&partner);
}

static void test_who_leaves_hands_on(void **state)
{
    (void)state;
    struct core_token own, other, third;

    core_token_join(&own, rounds, CORE);
    core_token_join(&other, rounds, CORE);
    core_token_join(&third, rounds, CORE);
    assert_int_equal(rounds[CORE].turn & (TOKEN_MEMBERS - 1), own.place);
    core_token_leave(&own);
    assert_int_equal(rounds[CORE].turn & (TOKEN_MEMBERS - 1), other.place);
    core_token_leave(&third); /* it had nothing to hand on */
    assert_false(core_token_pass(&other));
    core_token_leave(&other);
}

static void test_a_vacant_turn_is_taken_at_once(void **state)
{
    (void)state;
    struct core_token own, other, third;

    core_token_join(&own, rounds, CORE);
    core_token_join(&other, rounds, CORE);
    core_token_join(&third, rounds, CORE);
    atomic_store(&rounds[CORE].owners[own.place], 0); /* a leaver's, a moment too early */
    atomic_store(&sleeps, 0);
    assert_true(core_token_pass(&other));
    assert_int_equal(atomic_load(&sleeps), 0);
    assert_int_equal(other.counts.silent, 0);
}

static void test_no_room_is_no_round(void **state)
{
    (void)state;
    static struct core_token many[TOKEN_MEMBERS], late;

    for (unsigned i = 0; i < TOKEN_MEMBERS; i++) {
        core_token_join(&many[i], rounds, CORE);
        assert_non_null(many[i].round);
    }
    core_token_join(&late, rounds, CORE);
    assert_null(late.round);
    assert_false(core_token_pass(&late));
}

static void test_says_why_a_file_cannot_be(void **state)
{
    (void)state;
    char error[160];

    assert_null(core_token_open("/nowhere/baton", error, sizeof error));
    assert_string_equal(error, "--baton /nowhere/baton: No such file or directory");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_rounds, close_rounds)

/* One alone never rests: free_place is kept from the core by its turns. */
static void test_a_round_is_quiet_when_nobody_has_had_work_for_long(void **state)
{
    (void)state;
    struct core_token one, other, free_place = {0};
    const uint64_t now = clock_ticks(), long_after = now + 2 * clock_ns_to_ticks(TOKEN_QUIET_NS);

    core_token_join(&one, rounds, CORE + 1);
    assert_false(core_token_is_quiet(&one, long_after));
    core_token_join(&other, rounds, CORE + 1);
    core_token_note_work(&one, now);
    assert_false(core_token_is_quiet(&one, now));
    assert_false(core_token_is_quiet(&other, now + clock_ns_to_ticks(TOKEN_QUIET_NS) / 2));
    assert_true(core_token_is_quiet(&one, long_after));
    assert_true(core_token_is_quiet(&other, long_after));
    core_token_note_work(&other, long_after);
    assert_false(core_token_is_quiet(&one, long_after + 1));
    core_token_leave(&other);
    core_token_leave(&one);
    core_token_note_work(&free_place, now);
    assert_false(core_token_is_quiet(&free_place, long_after));
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
