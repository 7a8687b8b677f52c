/* The thread that reads commands while the worker works. It sleeps until standard input, a signal
 * or a wake-up of the worker arrives; it sets the stop flag of the trial, queues commands for the
 * idle worker, and prints interval lines. So the hot loop makes no system call for any of these, no
 * code runs in a signal handler (signals are read from a file), and on a shared core the thread
 * costs nothing while it sleeps. */
#ifndef SM_CONTROL_CONTROL_H
#define SM_CONTROL_CONTROL_H

#include <pthread.h>
#include <stdbool.h>

#include "control/command.h"
#include "trial/state.h"

#define COMMANDS_QUEUED 64

struct control {
    struct trial *trial;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    struct command queue[COMMANDS_QUEUED];
    unsigned queued;
    bool running;  /* a trial runs or is queued */
    bool printing; /* a trial is over and its result is not yet printed */
    bool ending;  /* end of file, a signal, `exit`, `stop` without a trial, or an invalid command */
    bool failed;  /* an invalid command */
    bool closing; /* the engine is about to exit; the thread must end */
    bool has_no_input; /* standard input is closed or /dev/null: no command can come */
    bool got_command;  /* at least one command came */
    bool hung_up;      /* standard input is at end of file */
    bool narrowed;     /* the thread has given up its privileges */
    int wake_fd, signal_fd;
    char message[256]; /* the error of an invalid command, printed after the result */
    char line[COMMAND_LINE_BYTES];
    size_t line_length;
};

/* Block the signals, in every thread created later, and prepare the thread. `start_at_once`: behave
 * as if the first command were `start`. */
bool control_begin(struct control *control, struct trial *trial, bool start_at_once);

/* Start reading standard input; before, only signals are received. The thread then has no
 * privileges. */
bool control_listen(struct control *control);

/* Return the next command, which the caller frees by command_free, after at most `timeout_ns`;
 * false: no command came. If `ending` is set and the queue is empty, the command is COMMAND_END. */
bool control_next(struct control *control, struct command *command, long timeout_ns);

/* Return true if standard input ended without a command. */
bool control_ended_without_command(struct control *control);

/* The trial is over: another trial may start, before or after the result is printed. */
void control_trial_done(struct control *control);
void control_result_printed(struct control *control);

void control_end(struct control *control);
#endif
