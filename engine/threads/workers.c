/* Starts and joins the threads of a trial. */
#include "threads/workers.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "threads/idle.h"
#include "trial/loop.h"

static void pin(int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

/* The drain polls all ports, but begins only after the workers have ended. Frames that a port drops
 * until then are losses of the engine, so the time is recorded. */
static void receive_until_joined(struct trial *trial, unsigned index)
{
    struct end *end = &trial->ends[index];

    while (trial->options->role->drains && trial_end_tracks(trial, index) &&
           !atomic_load(&trial->threads.leave)) {
        if (end_receive(trial, end) == 0)
            sched_yield();
    }
    end->receiving.last_poll_tick = clock_ticks();
}

/* A worker is ready before the trial begins: on a busy core a new thread may wait long until it
 * runs first, and frames would wait for it. */
static void *run_worker(void *argument)
{
    struct worker *worker = argument;
    struct trial *trial = worker->trial;
    struct io_port *port = trial->ends[worker->index].port;

    worker->id = gettid();
    if (worker->index < trial->options->core_count)
        pin(trial->options->cores[worker->index]);
    if (port->ops->thread_enter != NULL)
        port->ops->thread_enter(port);
    atomic_fetch_add(&trial->threads.ready, 1);
    while (!atomic_load(&trial->threads.go))
        sched_yield();
    idle_begin(trial, worker->index);
    trial->options->role->run(trial, worker->index);
    idle_end(trial, worker->index);
    worker->run_delay_ns = cpu_own_run_delay_ns();
    receive_until_joined(trial, worker->index);
    return NULL;
}

bool workers_start(struct workers *workers, struct trial *trial, char *error, size_t size)
{
    int result = 0;

    workers->count = 0;
    atomic_store(&trial->threads.ready, 0);
    atomic_store(&trial->threads.leave, false);
    atomic_store(&trial->threads.go, false);
    for (unsigned i = 1; i < trial->threads.count && result == 0; i++) {
        struct worker *worker = &workers->each[workers->count];
        *worker = (struct worker){.trial = trial, .index = i};
        result = pthread_create(&worker->thread, NULL, run_worker, worker);
        workers->count += result == 0;
    }
    while (atomic_load(&trial->threads.ready) < workers->count)
        sched_yield();
    if (result == 0)
        return true;
    snprintf(error, size, "cannot start worker %u: %s", workers->count + 1, strerror(result));
    atomic_store(&trial->request.stop, REASON_FAILURE);
    workers_go(trial);
    workers_stop(trial);
    workers_join(workers);
    return false;
}

void workers_go(struct trial *trial)
{
    atomic_store(&trial->threads.go, true);
}

void workers_stop(struct trial *trial)
{
    atomic_store(&trial->threads.leave, true);
}

void workers_join(struct workers *workers)
{
    for (unsigned i = 0; i < workers->count; i++)
        pthread_join(workers->each[i].thread, NULL);
}

/* A thread that was joined may still be listed for a moment. */
uint64_t workers_run_delay_ns(const struct workers *workers)
{
    int ended[IO_QUEUES_MAX];
    uint64_t sum = 0;

    for (unsigned i = 0; i < workers->count; i++) {
        ended[i] = workers->each[i].id;
        sum += workers->each[i].run_delay_ns;
    }
    return sum + cpu_run_delay_ns(ended, workers->count);
}
