/* Processes a late frame: extent, late time offset, degree of n-reordering, the run that it ends;
 * and the gaps between discontinuities. */
#include "measure/reorder.h"

#include <math.h>

const unsigned reorder_degrees[REORDER_DEGREES] = {1, 2, 3, 4, 8, 16, 32, 64};

/* Arrival + 1 of the latest late frame with a lower number; 0: none. */
static uint64_t after_lower(struct reorder *r, uint64_t sequence)
{
    while (r->top > r->bottom && r->stack[(r->top - 1) % REORDER_STACK].sequence > sequence)
        r->top--; /* higher and earlier: the new frame replaces it */
    if (r->top > r->bottom)
        return r->stack[(r->top - 1) % REORDER_STACK].arrival + 1;
    return r->forgotten;
}

static void push(struct reorder *r, uint64_t sequence, uint64_t arrival)
{
    if (r->top - r->bottom == REORDER_STACK)
        r->forgotten = r->stack[r->bottom++ % REORDER_STACK].arrival + 1;
    r->stack[r->top % REORDER_STACK].sequence = sequence;
    r->stack[r->top++ % REORDER_STACK].arrival = arrival;
}

static void end_run(struct reorder *r, uint64_t arrival)
{
    const uint64_t frames = arrival - r->run_begun;

    r->runs++;
    r->run_frames += frames;
    r->run_squares += (double)frames * (double)frames;
    if (frames > r->longest_run)
        r->longest_run = frames;
    r->run_begun = arrival + 1;
}

void reorder_add(struct reorder *r, uint64_t sequence, uint64_t arrival, uint64_t extent,
                 uint64_t late_ticks)
{
    const uint64_t higher_since = arrival - after_lower(r, sequence);
    const uint64_t degree = higher_since < extent ? higher_since : extent;

    push(r, sequence, arrival);
    end_run(r, arrival);
    r->extent_sum += extent;
    r->late_ticks_sum += late_ticks;
    if (extent > r->max_extent)
        r->max_extent = extent;
    if (late_ticks > r->max_late_ticks)
        r->max_late_ticks = late_ticks;
    if (degree > r->max_degree)
        r->max_degree = degree;
    for (unsigned i = 0; i < REORDER_DEGREES && degree >= reorder_degrees[i]; i++)
        r->degrees[i]++;
}

void reorder_add_discontinuity(struct reorder *r, uint64_t arrival, uint64_t tick)
{
    if (!r->discontinuous) {
        r->discontinuous = true;
        r->first_at = r->last_at = arrival;
        r->first_tick = r->last_tick = tick;
        return;
    }
    r->gaps++;
    if (arrival > r->last_at) {
        r->gap_frames += arrival - r->last_at;
        r->gap_ticks += tick - r->last_tick;
        r->last_at = arrival;
        r->last_tick = tick;
    } else if (arrival < r->first_at) {
        r->gap_frames += r->first_at - arrival;
        r->gap_ticks += r->first_tick - tick;
        r->first_at = arrival;
        r->first_tick = tick;
    }
}

double reorder_run_stdev(const struct reorder *r)
{
    if (r->runs == 0)
        return 0.0;
    const double mean = (double)r->run_frames / (double)r->runs;
    const double variance = r->run_squares / (double)r->runs - mean * mean;
    return variance > 0 ? sqrt(variance) : 0.0;
}
