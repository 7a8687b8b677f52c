/* Several queues of one port, each with its own worker and end (`--queues`).
 *
 * Each worker of a sender sends its own stream: --stream and the following numbers, each with its
 * own sequence numbers. A receiving queue may get frames of any stream, because the switch decides
 * how it spreads them. So each receiving end distinguishes all streams, and the results of all
 * queues for one stream are merged after the trial. With one queue there is one stream, that of the
 * end. */
#ifndef SM_ENDS_QUEUES_H
#define SM_ENDS_QUEUES_H

#include "measure/histogram.h"
#include "measure/sequence.h"
#include "measure/variation.h"
#include "traffic/receive.h"

struct end;
struct trial;

/* One stream as one queue received it. */
struct queue_stream {
    struct receiver rx;
    struct sequence_tracker tracker;
    struct histogram from_actual, from_intended;
    struct variation variation;
};

/* Allocate the streams after the first; false if memory is missing. */
bool queues_make(struct end *end, unsigned count);
void queues_free(struct end *end);

/* Call it after the receiver of the end was set up: the other receivers are copies with other
 * stream IDs. */
void queues_join(struct end *end, unsigned first_stream);

void queues_begin(struct end *end);
void queues_start(struct end *end, uint64_t start_tick);
void queues_end(struct end *end);

/* The same as receive_burst, but each frame is counted in its stream. */
void queues_receive(struct end *end, const struct io_frame *frames, unsigned count, uint64_t now);

/* Return the sum of all streams over all queues. `all` gets the latencies, their variation, and the
 * metrics of reordering (in its tracker). If a switch duplicates a frame and the copies arrive on
 * different queues, the copy counts as a duplicate once every frame of its stream has arrived;
 * before, it hides a lost frame. */
struct sequence_summary queues_summarise(const struct trial *trial, struct end *all);
#endif
