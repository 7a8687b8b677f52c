/* The threads of a trial next to the main thread, which is worker 0. */
#ifndef SM_THREADS_WORKERS_H
#define SM_THREADS_WORKERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "io/io.h"

struct trial;

struct workers {
    unsigned count; /* running threads, without the main thread */
    struct worker {
        struct trial *trial;
        unsigned index;
        pthread_t thread;
        int id;                /* thread number of the kernel */
        uint64_t run_delay_ns; /* how long the thread had waited for a core when it ended */
    } each[IO_QUEUES_MAX];
};

/* Start workers 1, 2, ...; on return they are on their cores and wait for workers_go. */
bool workers_start(struct workers *workers, struct trial *trial, char *error, size_t size);
void workers_go(struct trial *trial);

/* Let them end: until then they receive, also after the end of the trial, so that no port is
 * without a worker while the main thread is busy. */
void workers_stop(struct trial *trial);
void workers_join(struct workers *workers);

/* How long all threads of the process have waited for a core, including the joined workers. */
uint64_t workers_run_delay_ns(const struct workers *workers);
#endif
