/* Taking turns on a core: strictly one after the other, in rings of any length, and without dead,
 * silent and leaving members. The order in which a busy machine runs threads is not predictable. So
 * if no silence is expected, the futex waits without limit here, and a partner stays silent until
 * the test continues it. */
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

/* Like that of the C library it passes six arguments, however many there are: a sanitizer would
 * complain. */
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

/* The holder of the token, turn by turn. */
static unsigned turns[ROUNDS * MEMBERS];
static atomic_uint taken, joined, waited;

static void *take_turns(void *argument)
{
    struct core_token token;

    core_token_join(&token, rounds, CORE);
    atomic_fetch_add(&joined, 1);
    while (atomic_load(&joined) < *(unsigned *)argument)
        sched_yield();
    /* A member whose first turn comes before it waits passes that turn on at once. So turns are
     * counted only after each member has waited. */
    core_token_pass(&token);
    atomic_fetch_add(&waited, 1);
    while (atomic_load(&waited) < *(unsigned *)argument)
        core_token_pass(&token);
    for (unsigned i = 0; i < ROUNDS; i++) {
        turns[atomic_fetch_add(&taken, 1)] = token.place;
        core_token_pass(&token);
    }
    const uint64_t silent = token.counts.silent;
    core_token_leave(&token);
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

static void two_members_alternate(void **state)
{
    (void)state;
    go_round(2);
}

static void many_members_take_turns_in_order(void **state)
{
    (void)state;
    go_round(MEMBERS);
}

static void single_member_continues_at_once(void **state)
{
    (void)state;
    struct core_token token, free_place = {0};

    assert_false(core_token_pass(&free_place));
    core_token_leave(&free_place);
    core_token_join(&token, rounds, CORE);
    assert_false(core_token_pass(&token));
    assert_int_equal(token.counts.passes, 0);
    core_token_leave(&token);
    assert_false(core_token_pass(&token));
}

static void cores_are_independent(void **state)
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

/* A member in a separate process that uses the file. It reports when it has joined, gets the token,
 * keeps it until the test continues it, and passes it on once more. */
struct partner {
    pid_t process;
    int says, hears;
};

static void be_partner(int says, int hears)
{
    const struct timespec rest = {0, 10000000};
    char error[160], word;
    struct core_token token;

    core_token_join(&token, core_token_open(path, error, sizeof error), CORE);
    if (write(says, "j", 1) != 1)
        _exit(1);
    while (!core_token_pass(&token)) /* until this member gets it */
        continue;
    if (read(hears, &word, 1) != 1)
        _exit(1);
    bool again = core_token_pass(&token);
    /* It is alone at first if it has just removed the other member, which then joins again. */
    for (unsigned tries = 0; tries < TRIES && !again; tries++) {
        nanosleep(&rest, NULL);
        again = core_token_pass(&token);
    }
    core_token_leave(&token);
    _exit(again ? 7 : 1);
}

static struct partner start_partner(void)
{
    int ready_pipe[2], go_pipe[2];
    char word;

    assert_int_equal(pipe(ready_pipe), 0);
    assert_int_equal(pipe(go_pipe), 0);
    const struct partner partner = {.process = fork(), .says = ready_pipe[0], .hears = go_pipe[1]};
    assert_true(partner.process >= 0);
    if (partner.process == 0)
        be_partner(ready_pipe[1], go_pipe[0]);
    close(ready_pipe[1]);
    close(go_pipe[0]);
    assert_int_equal(read(partner.says, &word, 1), 1);
    return partner;
}

static void close_pipes(const struct partner *partner)
{
    close(partner->says);
    close(partner->hears);
}

/* Pass until the holder has been removed because of its silence. */
static void pass_until_silent(struct core_token *token)
{
    while (token->counts.silent == 0)
        core_token_pass(token);
    assert_true(token->counts.longest >= clock_ns_to_ticks(TOKEN_SILENCE_NS / 2));
}

static void dead_member_is_removed(void **state)
{
    (void)state;
    struct core_token token;

    core_token_join(&token, rounds, CORE);
    const struct partner partner = start_partner();
    kill(partner.process, SIGKILL);
    waitpid(partner.process, NULL, 0);
    pass_until_silent(&token);
    assert_int_equal(token.counts.silent, 1);
    assert_false(core_token_pass(&token)); /* it waits for the dead member once */
    core_token_leave(&token);
    close_pipes(&partner);
}

static void slow_member_joins_again(void **state)
{
    (void)state;
    struct core_token token;
    int status;

    core_token_join(&token, rounds, CORE);
    const struct partner partner = start_partner();
    pass_until_silent(&token);
    assert_int_equal(write(partner.hears, "g", 1), 1);
    while (waitpid(partner.process, &status, WNOHANG) == 0) /* alone, then in turns again */
        core_token_pass(&token);
    assert_int_equal(WEXITSTATUS(status), 7);
    core_token_leave(&token);
    close_pipes(&partner);
}

static void leaving_member_passes_token_on(void **state)
{
    (void)state;
    struct core_token token, other, third;

    core_token_join(&token, rounds, CORE);
    core_token_join(&other, rounds, CORE);
    core_token_join(&third, rounds, CORE);
    assert_int_equal(rounds[CORE].turn & (TOKEN_MEMBERS - 1), token.place);
    core_token_leave(&token);
    assert_int_equal(rounds[CORE].turn & (TOKEN_MEMBERS - 1), other.place);
    core_token_leave(&third); /* it had nothing to pass on */
    assert_false(core_token_pass(&other));
    core_token_leave(&other);
}

static void free_turn_is_taken_at_once(void **state)
{
    (void)state;
    struct core_token token, other, third;

    core_token_join(&token, rounds, CORE);
    core_token_join(&other, rounds, CORE);
    core_token_join(&third, rounds, CORE);
    atomic_store(&rounds[CORE].owners[token.place], 0); /* a member leaves, a moment too early */
    atomic_store(&sleeps, 0);
    assert_true(core_token_pass(&other));
    assert_int_equal(atomic_load(&sleeps), 0);
    assert_int_equal(other.counts.silent, 0);
}

static void full_ring_is_not_joined(void **state)
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

static void invalid_file_has_reason(void **state)
{
    (void)state;
    char error[160];

    assert_null(core_token_open("/nowhere/baton", error, sizeof error));
    assert_string_equal(error, "--baton /nowhere/baton: No such file or directory");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_rounds, close_rounds)

/* A single member never rests, because its turns take the core from no other thread. */
static void ring_is_quiet_after_long_time_without_work(void **state)
{
    (void)state;
    struct core_token member, other, free_place = {0};
    const uint64_t now = clock_ticks(), long_after = now + 2 * clock_ns_to_ticks(TOKEN_QUIET_NS);

    core_token_join(&member, rounds, CORE + 1);
    assert_false(core_token_is_quiet(&member, long_after));
    core_token_join(&other, rounds, CORE + 1);
    core_token_note_work(&member, now);
    assert_false(core_token_is_quiet(&member, now));
    assert_false(core_token_is_quiet(&other, now + clock_ns_to_ticks(TOKEN_QUIET_NS) / 2));
    assert_true(core_token_is_quiet(&member, long_after));
    assert_true(core_token_is_quiet(&other, long_after));
    core_token_note_work(&other, long_after);
    assert_false(core_token_is_quiet(&member, long_after + 1));
    core_token_leave(&other);
    core_token_leave(&member);
    core_token_note_work(&free_place, now);
    assert_false(core_token_is_quiet(&free_place, long_after));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(two_members_alternate),           CASE(many_members_take_turns_in_order),
        CASE(single_member_continues_at_once), CASE(cores_are_independent),
        CASE(dead_member_is_removed),          CASE(slow_member_joins_again),
        CASE(leaving_member_passes_token_on),  CASE(free_turn_is_taken_at_once),
        CASE(full_ring_is_not_joined),         CASE(ring_is_quiet_after_long_time_without_work),
        CASE(invalid_file_has_reason),
    };
    clock_begin();
    clock_calibrate();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
