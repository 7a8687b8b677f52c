/* reference: a forwarder with set faults, so that methods can be tried on known truth. Every
 * n-th data frame of a direction is dropped, doubled or overtaken by its follower; all frames
 * may be delayed; beyond a set rate data frames are dropped (token bucket, no queue). Probes
 * and frames that are not the engine's pass without faults: verification must not fail by
 * design. Frames are copied twice; this is an instrument, not a fast path. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trial.h"

#define REORDER_PATIENCE_NS 2000000ULL /* a frame held for its follower leaves after so long */

struct slot {
    uint64_t due; /* tick */
    uint32_t length;
    uint8_t *bytes;
};

/* One direction: a ring of frames that wait for their time. */
struct path {
    struct end *from, *to;
    struct slot *slots;
    uint64_t head, tail, mask; /* head: next to leave */
    uint8_t *memory;
    struct slot held; /* waits for its follower */
    bool holds;
    uint64_t data_frames; /* seen, the faults count by them */
    double tokens;
    uint64_t refilled; /* tick */
};

static bool path_open(struct path *path, struct end *from, struct end *to, const struct options *o)
{
    const uint64_t slots = o->reference.queue;
    const size_t room = o->traffic.frame_size > 1518 ? o->traffic.frame_size : 1518;

    *path = (struct path){.from = from, .to = to, .mask = slots - 1};
    path->slots = calloc(slots, sizeof *path->slots);
    path->memory = malloc((slots + 1) * room);
    if (path->slots == NULL || path->memory == NULL)
        return false;
    for (uint64_t i = 0; i < slots; i++)
        path->slots[i].bytes = path->memory + i * room;
    path->held.bytes = path->memory + slots * room;
    path->tokens = (double)o->reference.limit_burst;
    path->refilled = clock_ticks();
    return true;
}

static bool is_data(const struct io_frame *frame)
{
    struct frame_layout at;

    if (!frame_parse(frame->data, frame->length, &at))
        return false;
    const uint8_t *payload = frame->data + at.udp + 8;
    return payload[0] == FRAME_MARK && (payload[1] >> 4 & 3) == FRAME_DATA;
}

static void drop(struct path *path)
{
    counter_add(&path->to->counters.tx_dropped, 1);
}

static void put(struct path *path, const uint8_t *bytes, uint32_t length, uint64_t due)
{
    if (path->tail - path->head > path->mask) {
        drop(path);
        return;
    }
    struct slot *slot = &path->slots[path->tail++ & path->mask];
    slot->due = due;
    slot->length = length;
    memcpy(slot->bytes, bytes, length);
}

static void let_go(struct path *path, uint64_t due)
{
    if (path->holds)
        put(path, path->held.bytes, path->held.length, due);
    path->holds = false;
}

/* Tokens come with time, all of them: what waits in the port after this process was kept from
 * running arrived meanwhile. Only a look that finds nothing proves a pause, and what was saved
 * up in it is cut to the set depth. So never more passes than rate * time + depth. */
static void refill(struct path *path, const struct reference *r, uint64_t now, bool paused)
{
    path->tokens += (double)(now - path->refilled) * (double)r->limit_pps / engine_clock.hz;
    path->refilled = now;
    if (paused && path->tokens > (double)r->limit_burst)
        path->tokens = (double)r->limit_burst;
}

static bool within_limit(struct path *path, const struct reference *r)
{
    if (r->limit_pps == 0)
        return true;
    if (path->tokens < 1)
        return false;
    path->tokens -= 1;
    return true;
}

/* Half-way through each n, so that the last frame of a run is not the one to be overtaken. */
static bool is_nth(uint64_t count, uint64_t n)
{
    return n > 0 && count % n == n / 2;
}

static void impair(struct path *path, const struct reference *r, const struct io_frame *frame,
                   uint64_t now)
{
    const uint64_t due = now + clock_ns_to_ticks(r->delay_ns);

    if (!is_data(frame)) {
        put(path, frame->data, frame->length, due);
        return;
    }
    const uint64_t count = path->data_frames++;
    if (is_nth(count, r->drop_every) || !within_limit(path, r)) {
        drop(path);
        return;
    }
    if (is_nth(count, r->reorder_every) && !path->holds) {
        path->held.length = frame->length;
        path->held.due = now;
        memcpy(path->held.bytes, frame->data, frame->length);
        path->holds = true;
        return;
    }
    put(path, frame->data, frame->length, due);
    if (is_nth(count, r->duplicate_every))
        put(path, frame->data, frame->length, due);
    let_go(path, due);
}

static unsigned take_in(struct trial *trial, struct path *path)
{
    struct io_frame frames[IO_BURST_MAX];
    struct io_port *port = path->from->port;
    const unsigned count = port->ops->rx_burst(port, frames, IO_BURST_MAX);
    const uint64_t now = clock_ticks();
    uint64_t bytes = (uint64_t)count * FCS_BYTES;

    refill(path, &trial->options->reference, now, count == 0);
    if (count == 0) {
        counter_add(&path->from->counters.idle_polls, 1);
        trial_check_port(trial, port);
        return 0;
    }
    for (unsigned i = 0; i < count; i++) {
        bytes += frames[i].length;
        impair(path, &trial->options->reference, &frames[i], now);
    }
    port->ops->rx_release(port, frames, count);
    counter_add(&path->from->counters.useful_polls, 1);
    counter_add(&path->from->counters.rx_frames, count);
    counter_add(&path->from->counters.rx_bytes, bytes);
    counter_add(&path->to->counters.tx_intended, count);
    return count;
}

static unsigned put_out(struct path *path, uint64_t now)
{
    struct io_frame out[IO_BURST_MAX];
    struct io_port *port = path->to->port;
    unsigned count = 0;
    uint32_t longest = 0;
    uint64_t bytes = 0;

    for (; count < IO_BURST_MAX && path->head + count < path->tail; count++) {
        const struct slot *slot = &path->slots[(path->head + count) & path->mask];
        if ((int64_t)(slot->due - now) > 0)
            break;
        longest = slot->length > longest ? slot->length : longest;
    }
    const unsigned got = count > 0 ? port->ops->tx_acquire(port, out, count, longest) : 0;
    for (unsigned i = 0; i < got; i++) {
        const struct slot *slot = &path->slots[(path->head + i) & path->mask];
        memcpy(out[i].data, slot->bytes, slot->length);
        out[i].length = slot->length;
    }
    const unsigned sent = got > 0 ? port->ops->tx_send(port, out, got) : 0;
    for (unsigned i = 0; i < sent; i++)
        bytes += out[i].length + FCS_BYTES;
    if (sent < got)
        port->ops->tx_release(port, out + sent, got - sent);
    path->head += sent; /* the rest waits for its port */
    counter_add(&path->to->counters.tx_polls, count > 0);
    counter_add(&path->to->counters.ring_full_polls, sent < count);
    counter_add(&path->to->counters.tx_offered, sent);
    counter_add(&path->to->counters.tx_bytes, bytes);
    return sent;
}

static unsigned step(struct trial *trial, struct path *path, uint64_t *due)
{
    unsigned moved = take_in(trial, path);
    const uint64_t now = clock_ticks();

    if (path->holds && clock_ticks_to_ns(now - path->held.due) > REORDER_PATIENCE_NS)
        let_go(path, now);
    moved += put_out(path, now);
    if (path->head < path->tail && path->slots[path->head & path->mask].due < *due)
        *due = path->slots[path->head & path->mask].due;
    return moved;
}

static void run(struct trial *trial, unsigned worker)
{
    struct path *paths = calloc(trial->end_count, sizeof *paths);
    bool good = paths != NULL;

    for (unsigned i = 0; good && i < trial->end_count; i++)
        good = path_open(&paths[i], &trial->ends[i], &trial->ends[i ^ 1U], trial->options);
    if (!good)
        snprintf(trial->ends[0].port->failure, sizeof trial->ends[0].port->failure,
                 "no memory for a queue of %llu frames",
                 (unsigned long long)trial->options->reference.queue);
    trial_check_port(trial, trial->ends[0].port);
    uint64_t now = clock_ticks();
    while (trial_goes_on(trial, worker, now)) {
        uint64_t due = UINT64_MAX;
        unsigned moved = 0;
        for (unsigned i = 0; i < trial->end_count; i++)
            moved += step(trial, &paths[i], &due);
        if (moved == 0)
            trial_idle(trial, NULL, now, due);
        now = clock_ticks();
    }
    for (unsigned i = 0; paths != NULL && i < trial->end_count; i++) {
        free(paths[i].slots);
        free(paths[i].memory);
    }
    free(paths);
}

const struct role role_reference = {
    .name = "reference",
    .summary = "a forwarder with set delay, loss, rate, reordering, duplicates",
    .ports = 2,
    .pairs = true,
    .stands_between = true,
    .run = run,
};
