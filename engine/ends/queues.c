/* The streams that each queue of a receiving port distinguishes, and their sum. */
#include "ends/queues.h"

#include <arpa/inet.h>
#include <stdlib.h>

#include "trial/state.h"

bool queues_make(struct end *end, unsigned count)
{
    end->receiving.stream_count = count;
    if (count < 2)
        return true;
    end->receiving.streams = calloc(count - 1, sizeof *end->receiving.streams);
    return end->receiving.streams != NULL;
}

void queues_free(struct end *end)
{
    free(end->receiving.streams);
    end->receiving.streams = NULL;
}

void queues_join(struct end *end, unsigned first_stream)
{
    end->receiving.first_stream = (uint16_t)first_stream;
    for (unsigned i = 1; i < end->receiving.stream_count; i++) {
        struct queue_stream *stream = &end->receiving.streams[i - 1];
        stream->rx = end->receiving.rx;
        stream->rx.stream = htons((uint16_t)(first_stream + i));
        stream->rx.tracker = &stream->tracker;
        stream->rx.from_actual = &stream->from_actual;
        stream->rx.from_intended = &stream->from_intended;
        stream->rx.variation = &stream->variation;
    }
}

void queues_begin(struct end *end)
{
    for (unsigned i = 1; i < end->receiving.stream_count; i++) {
        struct receiver *rx = &end->receiving.streams[i - 1].rx;
        rx->latency_wanted = end->receiving.rx.latency_wanted;
        rx->sender_clock = end->receiving.rx.sender_clock;
        receive_begin(rx, 0, 0);
    }
}

/* Frames that were due before the trial began do not belong to the trial. */
void queues_start(struct end *end, uint64_t start_tick)
{
    for (unsigned i = 1; i < end->receiving.stream_count; i++)
        end->receiving.streams[i - 1].rx.lock_intended = start_tick;
}

void queues_end(struct end *end)
{
    for (unsigned i = 1; i < end->receiving.stream_count; i++)
        receive_end(&end->receiving.streams[i - 1].rx);
}

static struct receiver *receiver_of(struct end *end, const struct io_frame *frame)
{
    if (!receive_is_ours(&end->receiving.rx, frame))
        return &end->receiving.rx;
    const uint16_t stream = ntohs(load16(receive_payload(&end->receiving.rx, frame) + 2));
    const unsigned index = (uint16_t)(stream - end->receiving.first_stream);
    return index > 0 && index < end->receiving.stream_count ? &end->receiving.streams[index - 1].rx
                                                            : &end->receiving.rx;
}

/* Frames of one stream arrive in bursts, so a burst has few sections. */
void queues_receive(struct end *end, const struct io_frame *frames, unsigned count, uint64_t now)
{
    unsigned first = 0;

    while (first < count) {
        struct receiver *rx = receiver_of(end, &frames[first]);
        unsigned next = first + 1;
        while (next < count && receiver_of(end, &frames[next]) == rx)
            next++;
        receive_burst(rx, frames + first, next - first, now, NULL);
        first = next;
    }
}

static const struct sequence_tracker *tracker_of(const struct end *end, unsigned index)
{
    return index == 0 ? &end->receiving.tracker : &end->receiving.streams[index - 1].tracker;
}

/* Merge what two queues received of one stream. */
static void join_queues(struct sequence_summary *to, const struct sequence_summary *from)
{
    if (!from->any)
        return;
    if (!to->any) {
        *to = *from;
        return;
    }
    if (from->first_sequence < to->first_sequence)
        to->first_sequence = from->first_sequence;
    if (from->last_sequence > to->last_sequence)
        to->last_sequence = from->last_sequence;
    to->received_unique += from->received_unique;
    to->duplicates += from->duplicates;
    to->reordered += from->reordered;
    to->beyond_window += from->beyond_window;
    to->early += from->early;
    to->extent_is_lower_bound |= from->extent_is_lower_bound;
}

/* The loss of a stream can be calculated only after the results of all queues were merged. */
static void settle(struct sequence_summary *s)
{
    if (!s->any)
        return;
    s->expected = s->last_sequence - s->first_sequence + 1;
    if (s->received_unique > s->expected) {
        s->duplicates += s->received_unique - s->expected;
        s->received_unique = s->expected;
    }
    s->lost = s->expected - s->received_unique;
}

static void add_stream(struct sequence_summary *to, const struct sequence_summary *stream)
{
    const uint64_t expected = to->expected + stream->expected;
    const uint64_t lost = to->lost + stream->lost;

    join_queues(to, stream);
    to->expected = expected;
    to->lost = lost;
}

static void add_reordering(struct reorder *to, const struct reorder *from)
{
    if (from->max_extent > to->max_extent)
        to->max_extent = from->max_extent;
    if (from->max_late_ticks > to->max_late_ticks)
        to->max_late_ticks = from->max_late_ticks;
    if (from->max_degree > to->max_degree)
        to->max_degree = from->max_degree;
    to->extent_sum += from->extent_sum;
    to->late_ticks_sum += from->late_ticks_sum;
    to->gaps += from->gaps;
    to->gap_frames += from->gap_frames;
    to->gap_ticks += from->gap_ticks;
    if (from->longest_run > to->longest_run)
        to->longest_run = from->longest_run;
    to->runs += from->runs;
    to->run_frames += from->run_frames;
    to->run_squares += from->run_squares;
    for (unsigned i = 0; i < REORDER_DEGREES; i++)
        to->degrees[i] += from->degrees[i];
}

static void add_delays(struct end *all, const struct end *end, unsigned index)
{
    const struct queue_stream *extra = index == 0 ? NULL : &end->receiving.streams[index - 1];
    const struct variation *v = index == 0 ? &end->receiving.variation : &extra->variation;

    histogram_add(&all->receiving.from_actual,
                  index == 0 ? &end->receiving.from_actual : &extra->from_actual);
    histogram_add(&all->receiving.from_intended,
                  index == 0 ? &end->receiving.from_intended : &extra->from_intended);
    histogram_add(&all->receiving.variation.grown, &v->grown);
    histogram_add(&all->receiving.variation.shrunk, &v->shrunk);
    pdv_merge(&all->receiving.variation.pdv, &v->pdv);
}

struct sequence_summary queues_summarise(const struct trial *trial, struct end *all)
{
    struct sequence_summary sum = {0};

    sequence_reset(&all->receiving.tracker);
    histogram_reset(&all->receiving.from_actual);
    histogram_reset(&all->receiving.from_intended);
    variation_reset(&all->receiving.variation);
    pdv_finish(
        &all->receiving.variation.pdv); /* its base is the base of the first stream with frames */
    for (unsigned index = 0; index < trial->ends[0].receiving.stream_count; index++) {
        struct sequence_summary stream = {0};
        for (unsigned i = 0; i < trial->end_count; i++) {
            const struct sequence_tracker *tracker = tracker_of(&trial->ends[i], index);
            const struct sequence_summary s = sequence_summarise(tracker);
            join_queues(&stream, &s);
            add_reordering(&all->receiving.tracker.reorder, &tracker->reorder);
            add_delays(all, &trial->ends[i], index);
        }
        settle(&stream);
        add_stream(&sum, &stream);
    }
    sequence_finish(&sum);
    return sum;
}
