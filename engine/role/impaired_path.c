/* Applies the faults to frames; faults.h decides which faults. */
#include "role/impaired_path.h"

#include <stdlib.h>
#include <string.h>

#define ROOM_MIN 1522U
#define ROOM_MAX 16384U /* no backend hands over longer frames */
#define REORDER_PATIENCE_NS                                                                        \
    2000000ULL /* a frame that waits for its follower leaves after this time */

/* The longest frame of either port, or the configured size if that is larger. */
static uint32_t room_for_frames(const struct trial *trial, unsigned direction)
{
    const struct io_port *in = trial->ends[direction].port, *out = trial->ends[direction ^ 1U].port;
    const uint32_t mtu = in->mtu_bytes > out->mtu_bytes ? in->mtu_bytes : out->mtu_bytes;
    const uint32_t configured = (uint32_t)trial->options->traffic.frame_size;
    uint32_t room = mtu < ROOM_MAX - IO_HEADER_BYTES_MAX ? mtu + IO_HEADER_BYTES_MAX : ROOM_MAX;

    room = room > ROOM_MIN ? room : ROOM_MIN;
    return room > configured ? room : configured;
}

bool impaired_path_open(struct impaired_path *path, struct trial *trial, unsigned direction)
{
    const struct options *o = trial->options;
    const uint32_t room = room_for_frames(trial, direction);

    *path = (struct impaired_path){.from = &trial->ends[direction],
                                   .to = &trial->ends[direction ^ 1U],
                                   .direction = direction,
                                   .room = room,
                                   .waiting_frame = malloc(room),
                                   .tokens = (double)o->reference.limit_burst,
                                   .refilled = clock_ticks()};
    memset(&path->to->faults, 0, sizeof path->to->faults);
    return path->waiting_frame != NULL && delay_line_open(&path->line, o->reference.queue, room);
}

void impaired_path_close(struct impaired_path *path)
{
    free(path->waiting_frame);
    delay_line_close(&path->line);
}

static bool is_data(const struct io_frame *frame)
{
    struct frame_layout at;

    if (!frame_parse(frame->data, frame->length, &at))
        return false;
    const uint8_t *payload = frame->data + at.udp + 8;
    return payload[0] == FRAME_SIGNATURE && (payload[1] >> 4 & 3) == FRAME_DATA;
}

void impaired_path_drop(struct impaired_path *path, uint64_t *why)
{
    counter_add(&path->to->counters.tx_dropped, 1);
    ++*why;
}

static bool put(struct impaired_path *path, const uint8_t *bytes, uint32_t length, uint64_t due,
                unsigned faults)
{
    if (delay_line_add(&path->line, bytes, length, due, faults))
        return true;
    impaired_path_drop(path, &path->to->faults.overflowed);
    return false;
}

static void let_go(struct impaired_path *path, uint64_t due, unsigned more_faults)
{
    if (path->has_waiting)
        put(path, path->waiting_frame, path->waiting_length, due,
            path->waiting_faults | more_faults);
    path->has_waiting = false;
}

void impaired_path_refill(struct impaired_path *path, const struct reference *r, uint64_t now,
                          bool paused)
{
    path->tokens += (double)(now - path->refilled) * (double)r->limit_pps / engine_clock.hz;
    path->refilled = now;
    if (paused && path->tokens > (double)r->limit_burst)
        path->tokens = (double)r->limit_burst;
}

static bool within_limit(struct impaired_path *path, const struct reference *r)
{
    if (r->limit_pps == 0)
        return true;
    if (path->tokens < 1)
        return false;
    path->tokens -= 1;
    return true;
}

static void hold(struct impaired_path *path, const struct io_frame *frame, uint64_t now,
                 uint64_t due, unsigned faults)
{
    memcpy(path->waiting_frame, frame->data, frame->length);
    path->waiting_length = frame->length;
    path->waiting_faults = faults;
    path->waiting_since = now;
    path->waiting_due = due;
    path->has_waiting = true;
}

/* Apply the remaining faults to a frame that passes. A fault counts when its frame is sent. If the
 * frame is dropped because the queue is full, the fault does not count. */
static void pass(struct impaired_path *path, const struct reference *r,
                 const struct io_frame *frame, uint64_t number, uint64_t now, uint64_t due,
                 unsigned faults)
{
    if (!path->has_waiting && faults_strike(r, FAULT_REORDER, path->direction, number)) {
        hold(path, frame, now, due, faults);
        return;
    }
    const bool passed = put(path, frame->data, frame->length, due, faults);
    if (passed && faults_strike(r, FAULT_DUPLICATE, path->direction, number))
        delay_line_add(&path->line, frame->data, frame->length, due, 1U << FAULT_DUPLICATE);
    let_go(path, due, passed ? 1U << FAULT_REORDER : 0);
}

/* The copies are damaged; the buffer of the port is restored. */
static void pass_damaged(struct impaired_path *path, const struct reference *r,
                         struct io_frame *frame, uint64_t number, uint64_t now, uint64_t due)
{
    struct frame_layout at = {0};

    frame_parse(frame->data, frame->length, &at); /* is_data has parsed it before */
    uint8_t *payload = frame->data + at.udp + 8;
    const uint64_t bit =
        faults_bit(r, path->direction, number, payload, frame->length - at.udp - 8);

    payload[bit / 8] ^= (uint8_t)(1U << bit % 8);
    pass(path, r, frame, number, now, due, 1U << FAULT_CORRUPT);
    payload[bit / 8] ^= (uint8_t)(1U << bit % 8);
}

void impaired_path_sent(struct impaired_path *path, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const unsigned faults = path->line.ready[i].faults;
        for (unsigned fault = 0; faults != 0 && fault < FAULTS; fault++)
            path->to->faults.did[fault] += faults >> fault & 1;
    }
    delay_line_sent(&path->line, count);
}

void impaired_path_take(struct impaired_path *path, const struct reference *r,
                        struct io_frame *frame, uint64_t now)
{
    const uint64_t due =
        now + clock_ns_to_ticks(faults_delay_ns(r, path->direction, path->frames++));

    if (frame->length > path->room || !io_fits(path->to->port, frame)) {
        impaired_path_drop(path, &path->to->faults.too_long);
        counter_add(&path->to->counters.tx_misfits, 1);
        return;
    }
    if (!is_data(frame)) {
        put(path, frame->data, frame->length, due, 0);
        return;
    }
    const uint64_t number = path->data_frames++;
    if (faults_strike(r, FAULT_DROP, path->direction, number))
        impaired_path_drop(path, &path->to->faults.did[FAULT_DROP]);
    else if (!within_limit(path, r))
        impaired_path_drop(path, &path->to->faults.limited);
    else if (faults_strike(r, FAULT_CORRUPT, path->direction, number))
        pass_damaged(path, r, frame, number, now, due);
    else
        pass(path, r, frame, number, now, due, 0);
}

void impaired_path_release_late(struct impaired_path *path, uint64_t now)
{
    if (path->has_waiting && clock_ticks_to_ns(now - path->waiting_since) > REORDER_PATIENCE_NS)
        let_go(path, path->waiting_due > now ? path->waiting_due : now, 0);
}

uint64_t impaired_path_bytes(const struct trial *trial, unsigned direction)
{
    return delay_line_bytes(trial->options->reference.queue, room_for_frames(trial, direction));
}

uint64_t impaired_path_waiting(const struct impaired_path *path)
{
    return path->line.count + path->line.ready_count + path->has_waiting;
}
