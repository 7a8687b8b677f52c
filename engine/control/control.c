/* The control thread. */
#include "control/control.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "confinement/privileges.h"
#include "report/events.h"
#include "trial/loop.h"

/* Call it with the lock held. */
static void stop_trial(struct control *c, enum reason reason)
{
    if (c->running)
        trial_stop(c->trial, reason);
}

static void end_with(struct control *c, enum reason reason)
{
    pthread_mutex_lock(&c->lock);
    c->ending = true;
    c->failed |= reason == REASON_FAILURE;
    stop_trial(c, reason);
    pthread_cond_signal(&c->arrived);
    pthread_mutex_unlock(&c->lock);
}

/* Report the error of a command. The result of a running trial is printed first, so the message
 * waits for it. */
static void fail(struct control *c, const char *message)
{
    pthread_mutex_lock(&c->lock);
    const bool waits = c->running || c->printing;
    if (waits && c->message[0] == '\0')
        snprintf(c->message, sizeof c->message, "%s", message);
    pthread_mutex_unlock(&c->lock);
    if (!waits)
        event_error(message);
    end_with(c, REASON_FAILURE);
}

/* Call it with the lock held; returns NULL or the error. */
static const char *take_command(struct control *c, const struct command *command)
{
    if (command->kind == COMMAND_STOP) {
        if (c->running) {
            atomic_store(&c->trial->request.sent,
                         command->sent); /* before the stop flag: drain() reads it after the flag */
            stop_trial(c, REASON_STOP);
        } else if (!c->trial->options->session) {
            c->ending = true;
        } /* Otherwise the trial has ended by itself in the meantime. */
        return NULL;
    }
    if (command->kind == COMMAND_EXIT) {
        stop_trial(c, REASON_STOP);
        c->ending = true;
        return NULL;
    }
    if (command->kind == COMMAND_INTERVAL) { /* there is no interval without a trial */
        if (c->running)
            trial_request_interval(c->trial);
        return NULL;
    }
    if (c->running)
        return "command refused: a trial runs; send stop and wait for its result";
    if (c->queued == COMMANDS_QUEUED)
        return "command refused: too many are waiting";
    if (command->kind == COMMAND_START) {
        c->running = true;
        atomic_store(&c->trial->request.interval, false);
        atomic_store(&c->trial->request.sent, SENT_UNKNOWN);
        atomic_store(&c->trial->request.stop, REASON_NONE);
    }
    c->queue[c->queued++] = *command;
    return NULL;
}

static void take_line(struct control *c, char *line)
{
    struct command command;
    char error[256];

    if (line[strspn(line, " \t\r")] == '\0')
        return;
    if (!command_parse(line, c->trial->options, &command, error, sizeof error)) {
        fail(c, error);
        return;
    }
    pthread_mutex_lock(&c->lock);
    c->got_command = true;
    const char *refused = take_command(c, &command);
    pthread_cond_signal(&c->arrived);
    pthread_mutex_unlock(&c->lock);
    if (refused == NULL)
        return;
    command_free(&command);
    fail(c, refused);
}

/* If standard input was closed, main has opened /dev/null in its place, whose end of file has no
 * meaning. */
static bool stdin_is_void(void)
{
    struct stat input, null;
    return fstat(STDIN_FILENO, &input) != 0 ||
           (stat("/dev/null", &null) == 0 && S_ISCHR(input.st_mode) &&
            input.st_rdev == null.st_rdev);
}

/* Returns false at end of file. */
static bool read_lines(struct control *c)
{
    const ssize_t n =
        read(STDIN_FILENO, c->line + c->line_length, sizeof c->line - 1 - c->line_length);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    if (n <= 0) {
        c->line[c->line_length] = '\0';
        take_line(c, c->line); /* a last line without newline */
        pthread_mutex_lock(&c->lock);
        c->hung_up = true;
        pthread_mutex_unlock(&c->lock);
        end_with(c, REASON_EOF);
        return false;
    }
    c->line_length += (size_t)n;
    char *begin = c->line, *newline;
    while ((newline = memchr(begin, '\n', c->line_length - (size_t)(begin - c->line))) != NULL) {
        *newline = '\0';
        take_line(c, begin);
        begin = newline + 1;
    }
    c->line_length -= (size_t)(begin - c->line);
    memmove(c->line, begin, c->line_length);
    if (c->line_length == sizeof c->line - 1) {
        char message[64];
        c->line_length = 0;
        snprintf(message, sizeof message, "command is longer than %d characters",
                 COMMAND_LINE_BYTES - 2);
        fail(c, message);
    }
    return true;
}

static void read_signal(struct control *c)
{
    struct signalfd_siginfo info;
    if (read(c->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        end_with(c, REASON_SIGNAL);
}

static bool is_closing(struct control *c)
{
    pthread_mutex_lock(&c->lock);
    const bool closing = c->closing;
    pthread_mutex_unlock(&c->lock);
    return closing;
}

static void *listen_to_all(void *argument)
{
    struct control *c = argument;
    struct pollfd fds[3] = {{.fd = c->wake_fd, .events = POLLIN},
                            {.fd = c->signal_fd, .events = POLLIN},
                            {.fd = STDIN_FILENO, .events = POLLIN}};

    privileges_drop_all(c->trial->options);
    pthread_mutex_lock(&c->lock);
    c->narrowed = true;
    pthread_cond_signal(&c->arrived);
    pthread_mutex_unlock(&c->lock);
    if (c->has_no_input)
        fds[2].fd = -1;
    while (!is_closing(c)) {
        if (poll(fds, 3, -1) < 0)
            continue;
        if (fds[0].revents != 0) {
            uint64_t wakes;
            if (read(c->wake_fd, &wakes, sizeof wakes) > 0)
                event_intervals(c->trial);
            if (!events_are_read())
                end_with(c, events_are_lost() ? REASON_FAILURE : REASON_EOF);
        }
        if (fds[1].revents != 0)
            read_signal(c);
        if (fds[2].revents != 0 && !read_lines(c))
            fds[2].fd = -1;
    }
    return NULL;
}

bool control_begin(struct control *c, struct trial *trial, bool start_at_once)
{
    pthread_condattr_t monotonic;
    struct sigaction hangup;
    sigset_t signals;

    memset(c, 0, sizeof *c);
    c->trial = trial;
    c->has_no_input = stdin_is_void();
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    if (sigaction(SIGHUP, NULL, &hangup) != 0 || hangup.sa_handler != SIG_IGN)
        sigaddset(&signals, SIGHUP); /* If it were blocked, it would arrive in spite of nohup. */
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    trial->intervals.wake_fd = c->wake_fd;
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&c->arrived, &monotonic);
    atomic_store(&trial->request.sent, SENT_UNKNOWN);
    if (start_at_once) {
        c->running = true;
        c->queue[c->queued++] =
            (struct command){.kind = COMMAND_START, .traffic = trial->options->traffic};
    }
    return c->wake_fd >= 0 && c->signal_fd >= 0;
}

bool control_listen(struct control *c)
{
    if (pthread_create(&c->thread, NULL, listen_to_all, c) != 0)
        return false;
    pthread_mutex_lock(&c->lock);
    while (!c->narrowed)
        pthread_cond_wait(&c->arrived, &c->lock);
    pthread_mutex_unlock(&c->lock);
    return true;
}

bool control_next(struct control *c, struct command *command, long timeout_ns)
{
    bool got = true;

    pthread_mutex_lock(&c->lock);
    if (c->queued == 0 && !c->ending) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += timeout_ns;
        if (until.tv_nsec >= 1000000000L) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000L;
        }
        pthread_cond_timedwait(&c->arrived, &c->lock, &until);
    }
    if (c->queued > 0) {
        *command = c->queue[0];
        memmove(c->queue, c->queue + 1, --c->queued * sizeof c->queue[0]);
    } else if (c->ending) {
        *command = (struct command){.kind = COMMAND_END};
    } else {
        got = false;
    }
    pthread_mutex_unlock(&c->lock);
    return got;
}

bool control_ended_without_command(struct control *c)
{
    pthread_mutex_lock(&c->lock);
    const bool unheard = c->hung_up && !c->got_command;
    pthread_mutex_unlock(&c->lock);
    return unheard;
}

void control_trial_done(struct control *c)
{
    pthread_mutex_lock(&c->lock);
    c->running = false;
    c->printing = true;
    pthread_mutex_unlock(&c->lock);
}

void control_result_printed(struct control *c)
{
    char message[sizeof c->message];

    pthread_mutex_lock(&c->lock);
    c->printing = false;
    memcpy(message, c->message, sizeof message);
    c->message[0] = '\0';
    pthread_mutex_unlock(&c->lock);
    if (message[0] != '\0')
        event_error(message);
}

void control_end(struct control *c)
{
    const uint64_t increment = 1;

    pthread_mutex_lock(&c->lock);
    c->closing = true;
    pthread_mutex_unlock(&c->lock);
    if (write(c->wake_fd, &increment, sizeof increment) == (ssize_t)sizeof increment)
        pthread_join(c->thread, NULL);
    for (unsigned i = 0; i < c->queued; i++)
        command_free(&c->queue[i]);
    close(c->wake_fd);
    close(c->signal_fd);
}
