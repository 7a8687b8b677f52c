/* Several queues of one port, each with a worker and an end of its own (`--queues`).
 *
 * Every worker of a sender sends a stream of its own: --stream and the numbers after it, each
 * with its own sequence. A receiving queue may get frames of any of them, however the switch
 * spreads them, so each receiving end tells all the streams apart; what the queues saw of one
 * stream is put together after the trial. With one queue there is one stream, the end's own. */
#ifndef SM_ENDS_QUEUES_H
#define SM_ENDS_QUEUES_H

#include "measure/histogram.h"
#include "measure/sequence.h"
#include "measure/variation.h"
#include "traffic/receive.h"

struct end;
struct trial;

/* One stream as it came to one queue. */
struct queue_stream {
    struct receiver rx;
    struct sequence_tracker tracker;
    struct histogram from_actual, from_intended;
    struct variation variation;
};

/* Make room for the streams beside an end's own. False: no memory. */
bool queues_make(struct end *end, unsigned count);
void queues_free(struct end *end);

/* Call after the end's own receiver is set up: the others are as it is, but for their IDs. */
void queues_join(struct end *end, unsigned first_stream);

void queues_begin(struct end *end);
void queues_start(struct end *end, uint64_t start_tick);
void queues_end(struct end *end);

/* What receive_burst does, each frame counted in its stream. */
void queues_receive(struct end *end, const struct io_frame *frames, unsigned count, uint64_t now);

/* All streams over all queues; `all` gets the latencies, their variation, and the metrics of
 * reordering (its tracker's `reorder`). A frame that a switch doubled, the copies on different
 * queues, counts as a duplicate once every frame of its stream has come, and hides a loss before.
 */
struct sequence_summary queues_summarise(const struct trial *trial, struct end *all);
#endif
