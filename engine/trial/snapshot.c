/* Progress of a trial. One thread prints and others measure: the values to print are gathered here
 * once per interval, not once per burst. */
#include "trial/snapshot.h"

#include <string.h>
#include <unistd.h>

void snapshot_fill(struct trial *trial, struct snapshot *snapshot)
{
    trial_read_drops(trial);
    snapshot->index = trial->intervals.next_index++;
    snapshot->t_ns = trial_now_ns(trial);
    trial_totals(trial, &snapshot->totals);
    memset(snapshot->spent_ticks, 0, sizeof snapshot->spent_ticks);
    cpu_times_read(&snapshot->cpu);
    port_faults_check(trial, snapshot->t_ns);
    snapshot->lost_link = port_faults_lost_link(trial);
    if (trial->tcp != NULL)
        trial->options->role->snapshot(trial, &snapshot->tcp);
    for (unsigned i = 0; i < trial->end_count; i++) {
        const struct end *end = &trial->ends[i];
        const struct counters *c = &end->counters, *before = &end->before;
        struct io_port *port = end->port;
        for (unsigned useful = 0; useful < 2; useful++)
            snapshot->spent_ticks[useful] += counter_read(&end->spent_ticks[useful]);
        snapshot->ports[i] = (struct port_snapshot){
            .rx_frames = counter_read(&c->rx_frames) - before->rx_frames,
            .rx_socket_drops = counter_read(&c->rx_socket_drops) - before->rx_socket_drops,
            .tx_offered = counter_read(&c->tx_offered) - before->tx_offered,
            .tx_dropped = counter_read(&c->tx_dropped) - before->tx_dropped,
            .up = port_is_up(port),
        };
    }
}

void snapshot_take(struct trial *trial)
{
    const uint64_t written = atomic_load_explicit(&trial->intervals.written, memory_order_relaxed);
    const uint64_t read = atomic_load_explicit(&trial->intervals.read, memory_order_acquire);
    const uint64_t increment = 1;

    if (written - read == SNAPSHOTS)
        return; /* the reader is late: the next line also covers this interval */
    snapshot_fill(trial, &trial->intervals.ring[written % SNAPSHOTS]);
    atomic_store_explicit(&trial->intervals.written, written + 1, memory_order_release);
    if (write(trial->intervals.wake_fd, &increment, sizeof increment) < 0)
        return; /* the counter of the eventfd is full: the reader is awake anyway */
}
