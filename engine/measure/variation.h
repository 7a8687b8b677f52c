/* Delay variation between consecutive frames (IPDV, RFC 3393): how much longer or shorter the delay
 * of a frame was than that of the frame sent right before it. The pairs are consecutive sequence
 * numbers that both arrived, in order; a frame that arrives late or twice makes no pair. Growing
 * and shrinking delays have separate histograms, so that the signed distribution is known, and the
 * magnitude is their sum. The other definition, PDV of RFC 5481, is the delay of each frame minus
 * the minimum (pdv.h). */
#ifndef SM_VARIATION_H
#define SM_VARIATION_H

#include <stdbool.h>

#include "measure/pdv.h"

struct variation {
    bool started;
    uint32_t next;    /* the sequence number that would make a pair with the last frame */
    int64_t delay_ns; /* delay of the last frame */
    struct histogram grown, shrunk; /* ns; no change counts as grown by 0 */
    struct pdv pdv;
};

static inline void variation_reset(struct variation *v)
{
    v->started = false;
    histogram_reset(&v->grown);
    histogram_reset(&v->shrunk);
    pdv_reset(&v->pdv);
}

static inline void variation_add(struct variation *v, uint32_t sequence, int64_t delay_ns)
{
    if (__builtin_expect(sequence != v->next || !v->started, 0)) {
        if (v->started && (int32_t)(sequence - v->next) < 0)
            return; /* late, or a second copy */
        v->started = true;
    } else {
        const int64_t change = delay_ns - v->delay_ns;
        histogram_record_magnitude(change < 0 ? &v->shrunk : &v->grown,
                                   (uint64_t)(change < 0 ? -change : change));
    }
    v->next = sequence + 1;
    v->delay_ns = delay_ns;
}

/* Process a frame that probably has the delay of the previous frame; true if the two make such a
 * pair, which variation_unchanged must then count, together with others. */
static inline bool variation_add_same(struct variation *v, uint32_t sequence, int64_t delay_ns)
{
    if (__builtin_expect(sequence != v->next || delay_ns != v->delay_ns, 0)) {
        variation_add(v, sequence, delay_ns);
        return false;
    }
    v->next = sequence + 1;
    return true;
}

/* Process the `count` frames after the last one, which have its delay; returns the number of pairs
 * for variation_unchanged. */
static inline uint64_t variation_add_next(struct variation *v, unsigned count)
{
    v->next += count;
    return count;
}

static inline void variation_unchanged(struct variation *v, uint64_t pairs)
{
    if (pairs > 0)
        histogram_count(&v->grown, 0, pairs);
}
#endif
