/* reference: a forwarder with set faults, so that methods can be tried on known truth. Data
 * frames of a direction are dropped, doubled, damaged or overtaken by their follower (faults.h
 * decides); all frames may be delayed, each by itself where the delay has a jitter; beyond a set
 * rate data frames are dropped (token bucket, no queue). Each may cost a set time. Verification
 * frames and what is not the engine's pass without faults: verification must not fail by design.
 * Frames are copied twice; this is an instrument, not a fast path. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "role/delay_line.h"
#include "role/faults.h"
#include "trial_loop.h"

#define ROOM_MIN 1522U
#define ROOM_MAX 16384U                /* no backend hands over more */
#define REORDER_PATIENCE_NS 2000000ULL /* a frame held for its follower leaves after so long */

/* One direction. */
struct path {
    struct end *from, *to;
    struct delay_line line;
    unsigned direction;
    uint32_t room; /* for a frame */
    uint8_t *held; /* a frame that waits for its follower */
    uint32_t held_length;
    uint64_t held_since, held_due; /* ticks: since when, and when it would leave otherwise */
    bool holds;
    uint64_t frames, data_frames; /* seen, the faults count by them */
    double tokens;
    uint64_t refilled; /* tick */
};

/* As long as either port's frames, or as those that were asked for. */
static uint32_t room_for_frames(const struct trial *trial, unsigned direction)
{
    const struct io_port *in = trial->ends[direction].port, *out = trial->ends[direction ^ 1U].port;
    const uint32_t mtu = in->mtu_bytes > out->mtu_bytes ? in->mtu_bytes : out->mtu_bytes;
    const uint32_t asked = (uint32_t)trial->options->traffic.frame_size;
    uint32_t room = mtu + 22 < ROOM_MAX ? mtu + 22 : ROOM_MAX; /* Ethernet with two tags */

    room = room > ROOM_MIN ? room : ROOM_MIN;
    return room > asked ? room : asked;
}

static bool path_open(struct path *path, struct trial *trial, unsigned direction)
{
    const struct options *o = trial->options;
    const uint32_t room = room_for_frames(trial, direction);

    *path = (struct path){.from = &trial->ends[direction],
                          .to = &trial->ends[direction ^ 1U],
                          .direction = direction,
                          .room = room,
                          .held = malloc(room),
                          .tokens = (double)o->reference.limit_burst,
                          .refilled = clock_ticks()};
    memset(&path->to->faults, 0, sizeof path->to->faults);
    return path->held != NULL && delay_line_open(&path->line, o->reference.queue, room);
}

static void path_close(struct path *path)
{
    free(path->held);
    delay_line_close(&path->line);
}

static bool is_data(const struct io_frame *frame)
{
    struct frame_layout at;

    if (!frame_parse(frame->data, frame->length, &at))
        return false;
    const uint8_t *payload = frame->data + at.udp + 8;
    return payload[0] == FRAME_MARK && (payload[1] >> 4 & 3) == FRAME_DATA;
}

static void drop(struct path *path, uint64_t *why)
{
    counter_add(&path->to->counters.tx_dropped, 1);
    ++*why;
}

static void put(struct path *path, const uint8_t *bytes, uint32_t length, uint64_t due)
{
    if (delay_line_add(&path->line, bytes, length, due) == NULL)
        drop(path, &path->to->faults.overflowed);
}

static void let_go(struct path *path, uint64_t due)
{
    if (path->holds)
        put(path, path->held, path->held_length, due);
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

static void hold(struct path *path, const struct io_frame *frame, uint64_t now, uint64_t due)
{
    memcpy(path->held, frame->data, frame->length);
    path->held_length = frame->length;
    path->held_since = now;
    path->held_due = due;
    path->holds = true;
}

/* What is left of the faults once a frame is to pass. */
static void pass(struct path *path, const struct reference *r, const struct io_frame *frame,
                 uint64_t number, uint64_t now, uint64_t due)
{
    uint64_t *did = path->to->faults.did;

    if (!path->holds && faults_strike(r, FAULT_REORDER, path->direction, number)) {
        hold(path, frame, now, due);
        did[FAULT_REORDER]++;
        return;
    }
    put(path, frame->data, frame->length, due);
    if (faults_strike(r, FAULT_DUPLICATE, path->direction, number)) {
        put(path, frame->data, frame->length, due);
        did[FAULT_DUPLICATE]++;
    }
    let_go(path, due);
}

/* The copies are damaged; the port gets its buffer back as it was. */
static void pass_damaged(struct path *path, const struct reference *r, struct io_frame *frame,
                         uint64_t number, uint64_t now, uint64_t due)
{
    struct frame_layout at = {0};

    frame_parse(frame->data, frame->length, &at); /* it is: is_data has looked */
    uint8_t *payload = frame->data + at.udp + 8;
    const uint64_t bit =
        faults_bit(r, path->direction, number, payload, frame->length - at.udp - 8);

    payload[bit / 8] ^= (uint8_t)(1U << bit % 8);
    pass(path, r, frame, number, now, due);
    payload[bit / 8] ^= (uint8_t)(1U << bit % 8);
    path->to->faults.did[FAULT_CORRUPT]++;
}

static void impair(struct path *path, const struct reference *r, struct io_frame *frame,
                   uint64_t now)
{
    const uint64_t due =
        now + clock_ns_to_ticks(faults_delay_ns(r, path->direction, path->frames++));

    if (frame->length > path->room || !io_fits(path->to->port, frame)) {
        drop(path, &path->to->faults.too_long);
        return;
    }
    if (!is_data(frame)) {
        put(path, frame->data, frame->length, due);
        return;
    }
    const uint64_t number = path->data_frames++;
    if (faults_strike(r, FAULT_DROP, path->direction, number))
        drop(path, &path->to->faults.did[FAULT_DROP]);
    else if (!within_limit(path, r))
        drop(path, &path->to->faults.limited);
    else if (faults_strike(r, FAULT_CORRUPT, path->direction, number))
        pass_damaged(path, r, frame, number, now, due);
    else
        pass(path, r, frame, number, now, due);
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

/* The port gives no buffer for the frame that is next: is it full, or is the frame too long? */
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

/* As many of the frames that are ready as the port takes now; a long one among them is taken by
 * itself, and dropped where it would be in the others' way for ever. */
static unsigned send_ready(struct path *path, const struct io_frame *frames, unsigned count)
{
    struct io_port *port = path->to->port;
    unsigned sent = count > 0 ? io_send_copies(port, frames, count) : 0;

    if (count == 0 || sent > 0)
        return sent;
    sent = io_send_copies(port, frames, 1);
    if (sent == 0 && is_too_long(port, frames[0].length)) {
        drop(path, &path->to->faults.too_long);
        delay_line_sent(&path->line, 1);
    }
    return sent;
}

static unsigned put_out(struct path *path, uint64_t now)
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
    delay_line_sent(&path->line, sent); /* the rest waits for its port */
    counter_add(&path->to->counters.tx_polls, count > 0);
    counter_add(&path->to->counters.ring_full_polls, sent < count);
    counter_add(&path->to->counters.tx_offered, sent);
    counter_add(&path->to->counters.tx_bytes, bytes);
    return sent;
}

/* What was done for these frames is part of their set cost: so it is the same whatever the machine
 * makes of the work itself. */
static void spend(const struct reference *r, uint64_t begun, unsigned frames)
{
    const uint64_t until = begun + clock_ns_to_ticks(frames * r->cost_ns);

    while (r->cost_ns > 0 && frames > 0 && clock_ticks() < until)
        clock_pause();
}

static unsigned step(struct trial *trial, struct path *path, uint64_t *due)
{
    const uint64_t begun = clock_ticks();
    const unsigned taken = take_in(trial, path);
    const uint64_t now = clock_ticks();

    if (path->holds && clock_ticks_to_ns(now - path->held_since) > REORDER_PATIENCE_NS)
        let_go(path, path->held_due > now ? path->held_due : now);
    const unsigned sent = put_out(path, now);
    spend(&trial->options->reference, begun, taken);
    const uint64_t next = delay_line_next(&path->line);
    *due = next < *due ? next : *due;
    return taken + sent;
}

/* They fill while a trial runs: what they may come to is to be there. */
static bool queues_fit(const struct trial *trial, char *error, size_t size)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < trial->end_count; i++)
        bytes += delay_line_bytes(trial->options->reference.queue, room_for_frames(trial, i));
    return memory_suffices(bytes, "--queue: ", error, size);
}

static void run(struct trial *trial, unsigned worker)
{
    struct path *paths = calloc(trial->end_count, sizeof *paths);
    char *failure = trial->ends[0].port->failure;
    bool good = paths != NULL && queues_fit(trial, failure, sizeof trial->ends[0].port->failure);

    for (unsigned i = 0; good && i < trial->end_count; i++)
        good = path_open(&paths[i], trial, i);
    if (!good && failure[0] == '\0')
        snprintf(failure, sizeof trial->ends[0].port->failure,
                 "no memory for a queue of %llu frames",
                 (unsigned long long)trial->options->reference.queue);
    trial_check_port(trial, trial->ends[0].port);
    struct spell spell = idle_spell(trial);
    uint64_t now = clock_ticks();
    while (trial_goes_on(trial, worker, now)) {
        uint64_t due = UINT64_MAX;
        unsigned moved = 0;
        for (unsigned i = 0; i < trial->end_count; i++)
            moved += step(trial, &paths[i], &due);
        if (idle_is_due(&spell, moved))
            trial_idle(trial, spell.worked, NULL, now, due);
        now = trial_round(&trial->ends[0], now, moved > 0);
    }
    for (unsigned i = 0; paths != NULL && i < trial->end_count; i++) {
        trial->ends[i ^ 1U].faults.waiting =
            paths[i].line.count + paths[i].line.ready_count + paths[i].holds;
        path_close(&paths[i]);
    }
    free(paths);
}

const struct role role_reference = {
    .name = "reference",
    .summary =
        "a forwarder with set delay, jitter, loss, rate, cost, disorder, duplicates, bit errors",
    .ports = 2,
    .pairs = true,
    .stands_between = true,
    .run = run,
};
