/* The threads of a trial beside the main one, which is worker 0. */
#ifndef SM_THREADS_WORKERS_H
#define SM_THREADS_WORKERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "io/io.h"

struct trial;

struct workers {
    unsigned count; /* running, besides the main thread */
    struct worker {
        struct trial *trial;
        unsigned index;
        pthread_t thread;
        int id;                /* the kernel's */
        uint64_t run_delay_ns; /* how long it had waited for a core when it ended */
    } each[IO_QUEUES_MAX];
};

/* Start workers 1, 2, ...; on return they are on their cores and wait for workers_go. */
bool workers_start(struct workers *workers, struct trial *trial, char *error, size_t size);
void workers_go(struct trial *trial);

/* Let them end: until then they receive, also after the end of the trial, so that no port is left
 * alone while the main thread is still busy. */
void workers_stop(struct trial *trial);
void workers_join(struct workers *workers);

/* How long all threads of the process have waited for a core, the workers that have been joined
 * among them. */
uint64_t workers_run_delay_ns(const struct workers *workers);
#endif
