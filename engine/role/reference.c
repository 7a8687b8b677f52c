/* reference: a forwarder with configured faults, so that methods can be tested against known
 * values. Data frames of a direction are dropped, duplicated, damaged or overtaken by their
 * follower (faults.h decides). All frames may be delayed, each frame differently if there is
 * jitter. Data frames above a configured rate are dropped (token bucket, no queue). Each frame may
 * cost a configured time. Verification frames and foreign frames pass without faults, because
 * verification must not fail by design. Frames are copied twice: this role is for measurements of
 * faults, not for speed. */
#include <stdio.h>
#include <stdlib.h>

#include "measure/memory.h"
#include "role/impaired_path.h"

static unsigned take_in(struct trial *trial, struct impaired_path *path)
{
    struct io_frame frames[IO_BURST_MAX];
    struct io_port *port = path->from->port;
    const unsigned count = port->ops->rx_burst(port, frames, IO_BURST_MAX);
    const uint64_t now = clock_ticks();
    uint64_t bytes = (uint64_t)count * FCS_BYTES;

    impaired_path_refill(path, &trial->options->reference, now, count == 0);
    if (count == 0) {
        counter_add(&path->from->counters.idle_polls, 1);
        trial_check_port(trial, port);
        return 0;
    }
    for (unsigned i = 0; i < count; i++) {
        bytes += frames[i].length;
        impaired_path_take(path, &trial->options->reference, &frames[i], now);
    }
    port->ops->rx_release(port, frames, count);
    counter_add(&path->from->counters.useful_polls, 1);
    counter_add(&path->from->counters.rx_frames, count);
    counter_add(&path->from->counters.rx_bytes, bytes);
    counter_add(&path->to->counters.tx_intended, count);
    return count;
}

/* The port has no buffer for the next frame: return true if the frame is too long, false if the
 * port is full. */
static bool is_too_long(struct io_port *port, uint32_t length)
{
    struct io_frame frame;

    for (unsigned attempt = 0; attempt < 2; attempt++) {
        const bool shortest = attempt == 1;
        if (port->ops->tx_acquire(port, &frame, 1, shortest ? FRAME_SIZE_MIN : length) > 0) {
            port->ops->tx_release(port, &frame, 1);
            return shortest;
        }
    }
    return false;
}

/* Send as many of the ready frames as the port accepts now. A long frame among them is sent alone,
 * and dropped if it would block the others for ever. */
static unsigned send_ready(struct impaired_path *path, const struct io_frame *frames,
                           unsigned count)
{
    struct io_port *port = path->to->port;
    unsigned sent = count > 0 ? io_send_copies(port, frames, count) : 0;

    if (count == 0 || sent > 0)
        return sent;
    sent = io_send_copies(port, frames, 1);
    if (sent == 0 && is_too_long(port, frames[0].length)) {
        impaired_path_drop(path, &path->to->faults.too_long);
        counter_add(&path->to->counters.tx_misfits, 1);
        delay_line_sent(&path->line, 1);
    }
    return sent;
}

static unsigned put_out(struct impaired_path *path, uint64_t now)
{
    struct io_frame frames[IO_BURST_MAX];
    const unsigned count = delay_line_ready(&path->line, now);
    uint64_t bytes = 0;

    for (unsigned i = 0; i < count; i++)
        frames[i] = (struct io_frame){.data = path->line.ready[i].bytes,
                                      .length = path->line.ready[i].length};
    const unsigned sent = send_ready(path, frames, count);
    for (unsigned i = 0; i < sent; i++)
        bytes += frames[i].length + FCS_BYTES;
    impaired_path_sent(path, sent); /* the other frames wait for their port */
    counter_add(&path->to->counters.tx_polls, count > 0);
    counter_add(&path->to->counters.ring_full_polls, sent < count);
    counter_add(&path->to->counters.tx_offered, sent);
    counter_add(&path->to->counters.tx_bytes, bytes);
    return sent;
}

/* Wait until the configured cost of these frames is reached. The work for the frames is part of the
 * cost, so that the cost does not depend on the machine. */
static void spend(const struct reference *r, uint64_t begun, unsigned frames)
{
    const uint64_t until = begun + clock_ns_to_ticks(frames * r->cost_ns);

    while (r->cost_ns > 0 && frames > 0 && clock_ticks() < until)
        clock_pause();
}

static unsigned step(struct trial *trial, struct impaired_path *path, uint64_t *due)
{
    const uint64_t begun = clock_ticks();
    const unsigned taken = take_in(trial, path);
    const uint64_t now = clock_ticks();

    impaired_path_release_late(path, now);
    const unsigned sent = put_out(path, now);
    spend(&trial->options->reference, begun, taken);
    const uint64_t next = delay_line_next(&path->line);
    *due = next < *due ? next : *due;
    return taken + sent;
}

/* The queues fill while a trial runs, so the memory for full queues must exist. */
static bool queues_fit(const struct trial *trial, char *error, size_t size)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < trial->end_count; i++)
        bytes += impaired_path_bytes(trial, i);
    return memory_suffices(bytes, "--queue: ", error, size);
}

static void run(struct trial *trial, unsigned worker)
{
    struct impaired_path *paths = calloc(trial->end_count, sizeof *paths);
    char *failure = trial->ends[0].port->failure;
    bool good = paths != NULL && queues_fit(trial, failure, sizeof trial->ends[0].port->failure);

    for (unsigned i = 0; good && i < trial->end_count; i++)
        good = impaired_path_open(&paths[i], trial, i);
    if (!good && failure[0] == '\0')
        snprintf(failure, sizeof trial->ends[0].port->failure,
                 "no memory for a queue of %llu frames",
                 (unsigned long long)trial->options->reference.queue);
    trial_check_port(trial, trial->ends[0].port);
    struct quantum quantum = idle_quantum(trial);
    uint64_t now = clock_ticks();
    while (trial_goes_on(trial, worker, now)) {
        uint64_t due = UINT64_MAX;
        unsigned moved = 0;
        for (unsigned i = 0; i < trial->end_count; i++)
            moved += step(trial, &paths[i], &due);
        if (idle_is_due(&quantum, moved))
            trial_idle(trial, quantum.worked, NULL, now, due);
        now = trial_round(&trial->ends[0], now, moved > 0);
    }
    for (unsigned i = 0; paths != NULL && i < trial->end_count; i++) {
        trial->ends[i ^ 1U].faults.waiting = impaired_path_waiting(&paths[i]);
        impaired_path_close(&paths[i]);
    }
    free(paths);
}

const struct role role_reference = {
    .name = "reference",
    .summary =
        "a forwarder with set delay, jitter, loss, rate, cost, disorder, duplicates, bit errors",
    .ports = 2,
    .stands_between = true,
    .applies_faults = true,
    .takes_pairs = true,
    .run = run,
};

ROLE(role_reference);
