/* The thread that listens while the worker works: it sleeps on standard input, the signals and
 * a wake-up from the worker, sets the trial's stop flag, queues commands for the idle worker,
 * and prints interval lines. So the hot loop makes no system call for any of these, nothing is
 * done in a signal handler (signals are read from a file), and on a shared core the thread
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
    bool printing; /* a trial is over, its result not yet printed */
    bool ending;   /* end of file, a signal, `exit`, `stop` without a trial, or a bad command */
    bool failed;   /* ... the last of these */
    bool closing;  /* the engine is done; the thread is to end */
    bool deaf;     /* standard input is closed or /dev/null: no command can come */
    bool heard;    /* a command has come */
    bool hung_up;  /* standard input has ended */
    bool narrowed; /* the thread has given up what it may */
    int wake_fd, signal_fd;
    char message[256]; /* the error of a bad command, to be printed after the result */
    char line[4096];
    size_t line_length;
};

/* Block the signals, in every thread to come, and start listening. `start_at_once`: as if the
 * first command were `start`. */
bool control_begin(struct control *control, struct trial *trial, bool start_at_once);

/* Begin to listen to standard input; before that only signals are heard. The thread that listens
 * has then no privileges any more. */
bool control_listen(struct control *control);

/* The next command, waiting at most `timeout_ns`; false: none came. Once `ending` is set and
 * the queue is empty, COMMAND_END. */
bool control_next(struct control *control, struct command *command, long timeout_ns);

/* Has standard input ended without a single command? */
bool control_ended_unheard(struct control *control);

/* The trial is over: another may start, before the result is printed or after. */
void control_trial_done(struct control *control);
void control_result_printed(struct control *control);

void control_end(struct control *control);
#endif
