/* switchmark-traffic: opens the ports, then executes commands: verification frames, counters,
 * trials. The main thread is worker 0; control.h describes the thread that reads the commands. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "build.h"
#include "confinement/privileges.h"
#include "control/control.h"
#include "ends/ends.h"
#include "fail.h"
#include "options/options.h"
#include "options/replay_file.h"
#include "report/events.h"
#include "subcommands/check.h"
#include "subcommands/distances.h"
#include "subcommands/list.h"
#include "trial/loop.h"
#include "trial/trial.h"
#include "version.h"

#define IDLE_WAIT_NS 1000000L
#define IDLE_WAIT_MAX_NS 32000000L
#define INJECT_WAIT_NS NS_PER_S /* for a peer, or for room in the ring of the port */
#define EXIT_USAGE 2            /* bad arguments */

static struct trial trial;
static struct control control;
static struct options options;

static unsigned frames_to_capture; /* received frames that will still be printed */

/* Receive one burst, and print the frames to capture; returns the number of received frames. */
static unsigned receive_and_capture(unsigned index)
{
    struct io_frame frames[IO_BURST_MAX];
    struct end *end = &trial.ends[index];
    const unsigned count = end_poll(&trial, end, frames);

    for (unsigned i = 0; i < count && frames_to_capture > 0; i++, frames_to_capture--)
        event_captured(end->port, options.queues > 1 ? 0 : index, &frames[i]);
    if (count > 0)
        end_take(end, frames, count);
    return count;
}

/* Returns the number of received frames. */
static unsigned receive_while_idle(void)
{
    unsigned received = 0;

    for (unsigned i = 0; i < trial.end_count; i++) {
        unsigned count = 1;
        for (unsigned polls = 0; polls < 16 && count > 0; polls++)
            received += count = receive_and_capture(i);
    }
    return received;
}

/* Frames that have already arrived belong to the state before the command. */
static void capture(unsigned count)
{
    receive_while_idle();
    frames_to_capture = count;
    event_capturing(count);
}

static void inject(const struct command *command)
{
    static bool accepted[COMMAND_LINE_BYTES / (2 * IO_HEADER_BYTES)];
    const uint64_t last_ns = clock_monotonic_ns() + INJECT_WAIT_NS;
    const uint8_t *bytes;
    uint32_t length;
    size_t at = 0;
    unsigned count = 0;

    while (command_next_frame(command, &at, &bytes, &length))
        accepted[count++] = ends_inject(&trial, command->port, bytes, length, last_ns);
    event_injected(accepted, count);
}

/* The interval between polls of an idle port doubles each time, because hundreds of engines may
 * wait on one core. A command ends the wait at once. */
static long longer_wait(long wait_ns)
{
    return 2 * wait_ns < IDLE_WAIT_MAX_NS ? 2 * wait_ns : IDLE_WAIT_MAX_NS;
}

/* Run one trial and print its result; false if the engine cannot continue. */
static bool run_trial(const struct command *command)
{
    char error[512];

    trial.traffic = command->traffic;
    if (!ends_fit_tunnels(&trial, error, sizeof error) || !ends_fit(&trial, error, sizeof error) ||
        !ends_wait_for_links(&trial, error, sizeof error)) {
        event_error(error);
        return false;
    }
    const bool good = trial_run(&trial, error, sizeof error);
    /* Before the result is printed: a client that has read it may start the next trial at once. */
    control_trial_done(&control);
    event_result(&trial);
    control_result_printed(&control);
    if (!good)
        event_error(error);
    return good;
}

/* Begin a table, or append its rows; false if the engine cannot continue. */
static bool take_table(const struct command *command)
{
    struct row_table *table = command->kind == COMMAND_TUNNELS  ? &trial.tunnels
                              : command->kind == COMMAND_DENIED ? &trial.denied
                                                                : &trial.table;
    char error[256];
    const bool good =
        command->data == NULL
            ? ends_begin_table(&trial, table, &command->plan, error, sizeof error)
            : ends_load_table(&trial, table, command->data, command->size, error, sizeof error);

    if (good)
        event_table(table == &trial.tunnels  ? "tunnels"
                    : table == &trial.denied ? "denied"
                                             : "table",
                    table);
    else
        event_error(error);
    return good;
}

static int exit_code(void)
{
    return control.failed || events_are_lost() ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Execute commands until the last; returns the exit code. */
static int execute_commands(void)
{
    long wait_ns = IDLE_WAIT_NS;

    while (events_are_read()) {
        struct command command;
        if (!control_next(&control, &command, wait_ns)) {
            wait_ns = receive_while_idle() > 0 || frames_to_capture > 0 ? IDLE_WAIT_NS
                                                                        : longer_wait(wait_ns);
            continue;
        }
        wait_ns = IDLE_WAIT_NS;
        switch (command.kind) {
        case COMMAND_VERIFY:
        case COMMAND_VERIFY_BROADCAST:
            event_verification(
                ends_verify(&trial, command.count, command.kind == COMMAND_VERIFY_BROADCAST));
            break;
        case COMMAND_COUNTERS:
            receive_while_idle();
            trial_read_drops(&trial);
            event_counters(&trial);
            break;
        case COMMAND_INJECT:
            inject(&command);
            break;
        case COMMAND_CAPTURE:
            capture(command.count);
            break;
        case COMMAND_TABLE:
        case COMMAND_DENIED:
        case COMMAND_TUNNELS:
            if (!take_table(&command)) {
                command_free(&command);
                return EXIT_FAILURE;
            }
            break;
        case COMMAND_START:
            frames_to_capture = 0;
            if (!run_trial(&command))
                return EXIT_FAILURE;
            if (!options.session)
                return exit_code();
            break;
        default:
            return exit_code();
        }
        command_free(&command);
    }
    return exit_code();
}

static void pin_worker(void)
{
    cpu_set_t set;

    prctl(PR_SET_TIMERSLACK, 1UL); /* otherwise the kernel prolongs short sleeps */
    if (options.core_count == 0)
        return;
    CPU_ZERO(&set);
    CPU_SET(options.cores[0], &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

/* Read the file of --replay, which is already open. An error in the file is an error of the command
 * line. The file may be malicious, so it is parsed without privileges, as frames are. */
static bool load_replay(int fd, char *error, size_t size)
{
    return options.replay_path == NULL ||
           replay_file_load(&trial.replay, fd, &options, error, size);
}

static bool open_tokens(char *error, size_t size)
{
    if (options.token_path != NULL)
        trial.threads.tokens = core_token_open(options.token_path, error, size);
    return options.token_path == NULL || trial.threads.tokens != NULL;
}

/* Open the files of the command line, with the rights of the user, which the engine gives up
 * afterwards. */
static bool open_files(int *replay, char *error, size_t size)
{
    if (options.replay_path != NULL &&
        (*replay = replay_open(options.replay_path, error, size)) < 0)
        return false;
    return open_tokens(error, size);
}

/* A user at a terminal reads which command the engine waits for. */
static void announce(void)
{
    if (!options.start_now && isatty(STDIN_FILENO))
        fprintf(stderr, "switchmark-traffic: ready; type start to begin, stop to "
                        "end the trial, exit to leave (--start now begins at once)\n");
}

/* Return true if a `start` command can come. */
static bool can_start(char *error, size_t size)
{
    if (options.start_now || !control.has_no_input)
        return true;
    return fail(
        error, size,
        "no start command can come, since standard input is closed or /dev/null; add --start "
        "now to begin at once");
}

/* Execute commands with all ports open; returns the exit code. */
static int serve(char *error, size_t size)
{
    clock_calibrate();
    event_ready(&trial);
    announce();
    const int code = execute_commands();
    if (code == EXIT_SUCCESS && !ends_flush(&trial, error, size)) {
        event_error(error);
        return EXIT_FAILURE;
    }
    if (!options.start_now && control_ended_without_command(&control))
        fprintf(stderr, "switchmark-traffic: nothing was measured: standard input ended before a "
                        "start command came (--start now begins at once)\n");
    return code;
}

static int run(void)
{
    char error[512];

    clock_begin();
    trial.options = &options;
    if (!control_begin(&control, &trial, options.start_now)) {
        fprintf(stderr, "switchmark-traffic: cannot make event descriptors\n");
        return EXIT_FAILURE;
    }
    if (!control_listen(&control)) {
        fprintf(stderr, "switchmark-traffic: cannot start the control thread\n");
        return EXIT_FAILURE;
    }
    int code = EXIT_FAILURE;
    if (!ends_check_cores(&options, error, sizeof error)) {
        event_error(error);
    } else {
        pin_worker();
        const bool open = ends_open(&trial, &options, error, sizeof error);
        privileges_drop(&options);
        if (!open) {
            event_error(error);
        } else if (!can_start(error, sizeof error)) {
            fprintf(stderr, "switchmark-traffic: %s\n", error);
            code = EXIT_USAGE;
        } else {
            code = serve(error, sizeof error);
        }
    }
    control_end(&control);
    ends_close(&trial);
    core_token_close(trial.threads.tokens);
    return code;
}

/* Open /dev/null as each standard stream that is closed: otherwise the next file that is opened
 * would take its number. */
static void fill_standard_streams(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= 2);
    if (fd >= 0)
        close(fd);
}

/* Return the exit code after a text was printed: success if all of it was written. */
static int end_of_text(bool written)
{
    if (written && fflush(stdout) == 0 && !ferror(stdout))
        return EXIT_SUCCESS;
    fprintf(stderr, "switchmark-traffic: cannot write to standard output: %s\n", strerror(errno));
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    char error[512] = "";

    fill_standard_streams();
    switch (options_parse(&options, argc, argv, error, sizeof error)) {
    case PARSE_HELP:
        options_print_help();
        return end_of_text(true);
    case PARSE_VERSION:
        printf("switchmark-traffic %s\n", engine_version);
        engine_build_print();
        return end_of_text(true);
    case PARSE_MANUAL:
        options_print_manual();
        return end_of_text(true);
    case PARSE_LIST:
        return end_of_text(list_print(options.list_json));
    case PARSE_CHECK:
        privileges_keep(""); /* the files are read with the rights of the user */
        return end_of_text(check_command_lines());
    case PARSE_CACHE_LINE:
        privileges_keep("sys_nice"); /* real-time priority */
        return distances_serve(options.cores, options.core_count);
    case PARSE_BAD:
        fprintf(stderr, "switchmark-traffic: %s\n", error);
        return EXIT_USAGE;
    default:
        break;
    }
    int replay = -1;
    const bool good =
        ends_check_ports(&options, error, sizeof error) && open_files(&replay, error, sizeof error);
    privileges_narrow(&options);
    if (!good || !load_replay(replay, error, sizeof error)) {
        fprintf(stderr, "switchmark-traffic: %s\n", error);
        return EXIT_USAGE;
    }
    return run();
}
