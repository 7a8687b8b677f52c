/* Lines of standard input in parts of any size, while trials begin and end: the queue keeps its
 * bounds, at most one trial is running or queued, and after the end of file the engine ends. The
 * first byte decides whether a trial runs from the start; before each part, one byte has its
 * length, and one the action of the engine after it. */
#include "fuzz.h"

/* Copies, so that the functions that read a line can be called without a thread. */
#define control_begin fuzzed_begin
#define control_end fuzzed_end
#define control_ended_without_command fuzzed_ended_unheard
#define control_listen fuzzed_listen
#define control_next fuzzed_next
#define control_result_printed fuzzed_result_printed
#define control_trial_done fuzzed_trial_done
#include "../control/control.c"

#include <fcntl.h>
#include <sys/ioctl.h>

#include "role/role.h"

static struct control control;
static struct trial trial;
static struct options options;
static bool under_way; /* the engine has received a start command */

static void prepare(bool start_at_once)
{
    static bool silent;

    if (!silent)
        must(dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO) == STDOUT_FILENO);
    silent = true;
    options = (struct options){.role = &role_sender, .ports = {"null:"}, .port_count = 1};
    options.traffic.burst = 32;
    options.traffic.frame_size = 64;
    options.traffic.interval_ns = 1000000000;
    memset(&control, 0, sizeof control);
    memset(&trial, 0, sizeof trial);
    trial.options = &options;
    control.trial = &trial;
    under_way = false;
    pthread_mutex_init(&control.lock, NULL);
    pthread_cond_init(&control.arrived, NULL);
    if (start_at_once) {
        control.running = true;
        control.queue[control.queued++] = (struct command){.kind = COMMAND_START};
    }
}

static void check_state(void)
{
    unsigned starts = 0;

    must(control.queued <= COMMANDS_QUEUED);
    must(control.line_length < sizeof control.line);
    must(!control.failed || control.ending);
    for (unsigned i = 0; i < control.queued; i++)
        starts += control.queue[i].kind == COMMAND_START;
    must(starts <= (control.running ? 1 : 0));
}

static void hear(const uint8_t *piece, size_t size, int to)
{
    int left = 0;

    must(write(to, piece, size) == (ssize_t)size);
    do {
        must(read_lines(&control));
        check_state();
        must(ioctl(STDIN_FILENO, FIONREAD, &left) == 0);
    } while (left > 0);
}

/* An action of the engine in the meantime: nothing, its next command, or the end of the running
 * trial. */
static void act(unsigned action)
{
    struct command command;

    if (action % 3 == 1 && fuzzed_next(&control, &command, 0)) {
        under_way |= command.kind == COMMAND_START;
        command_free(&command);
    }
    if (action % 3 == 2 && under_way) {
        fuzzed_trial_done(&control);
        under_way = false;
    }
    check_state();
}

static void hang_up(int to)
{
    struct command command;
    unsigned left;

    close(to);
    must(!read_lines(&control));
    must(control.ending && control.hung_up);
    for (left = control.queued; left > 0; left--) {
        must(fuzzed_next(&control, &command, 0) && command.kind != COMMAND_END);
        command_free(&command);
    }
    must(fuzzed_next(&control, &command, 0) && command.kind == COMMAND_END);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    int ends[2];

    must(pipe(ends) == 0 && dup2(ends[0], STDIN_FILENO) == STDIN_FILENO);
    close(ends[0]);
    prepare(input_byte(&in) & 1);
    while (in.left > 2) {
        size_t length = 1 + 16 * (size_t)input_byte(&in);
        const unsigned action = input_byte(&in);

        if (length > in.left)
            length = in.left;
        hear(in.at, length, ends[1]);
        in.at += length;
        in.left -= length;
        act(action);
    }
    hang_up(ends[1]);
    pthread_cond_destroy(&control.arrived);
    pthread_mutex_destroy(&control.lock);
    return 0;
}
