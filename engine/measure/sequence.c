/* The rare cases of sequence tracking: the first frame, gaps, late frames, duplicates, and frames
 * that are far from all others.
 *
 * Numbers on the wire have 32 bits. They are extended to 64 bits from an origin of 2^32, so that
 * frames older than the first do not become negative. */
#include "measure/sequence.h"

#include <stddef.h>
#include <string.h>

static uint64_t *word_of(struct sequence_tracker *t, uint64_t sequence)
{
    return &t->arrived[(sequence / 64) % SEQUENCE_WORDS];
}

static void set_arrived(struct sequence_tracker *t, uint64_t sequence)
{
    *word_of(t, sequence) |= 1ULL << (sequence & 63);
}

/* Clear the ring for [from, end): these numbers have not arrived. */
static void clear_range(struct sequence_tracker *t, uint64_t from, uint64_t end)
{
    if (end - from >= SEQUENCE_WINDOW) {
        memset(t->arrived, 0, sizeof t->arrived);
        return;
    }
    while (from < end && (from & 63) != 0) /* bits above `next` in its word are already clear */
        from++;
    for (; from < end; from += 64)
        *word_of(t, from) = 0;
}

/* Clear only the words in use: a short trial has few. Unused entries of gaps need no reset. */
void sequence_reset(struct sequence_tracker *t)
{
    if (t->started)
        clear_range(t, t->lowest & ~63ULL, t->next);
    memset(t, 0, offsetof(struct sequence_tracker, arrived));
}

static void start(struct sequence_tracker *t, uint32_t sequence, uint64_t now)
{
    t->started = true;
    t->first = SEQUENCE_ORIGIN + sequence;
    t->lowest = t->first;
    t->next = t->lowest + 1;
    t->unique = 1;
    t->first_tick = now;
    set_arrived(t, t->lowest);
}

static void jump_ahead(struct sequence_tracker *t, uint64_t sequence, uint64_t now)
{
    t->gaps[t->gap_count % SEQUENCE_GAPS] =
        (struct sequence_gap){t->next, sequence, .arrival = t->unique, .tick = now};
    t->gap_count++;
    clear_range(t, t->next, sequence + 1);
    set_arrived(t, sequence);
    t->next = sequence + 1;
    t->unique++;
}

/* The gap that the earliest frame with a higher number opened; NULL: none. */
static struct sequence_gap *find_gap(struct sequence_tracker *t, uint64_t sequence)
{
    const uint64_t oldest = t->gap_count > SEQUENCE_GAPS ? t->gap_count - SEQUENCE_GAPS : 0;
    uint64_t low = oldest, high = t->gap_count;

    while (low < high) { /* the first gap that ends above the sequence */
        const uint64_t middle = low + (high - low) / 2;
        if (t->gaps[middle % SEQUENCE_GAPS].end > sequence)
            high = middle;
        else
            low = middle + 1;
    }
    if (low == t->gap_count)
        return NULL;
    struct sequence_gap *gap = &t->gaps[low % SEQUENCE_GAPS];
    if (sequence < gap->first) /* its gap has left the ring; the true extent is larger */
        t->extent_is_lower_bound = true;
    return gap;
}

/* Process a late frame, and the frame that came too early, which is a discontinuity; `known`: it is
 * already counted. */
static void add_late(struct sequence_tracker *t, uint64_t sequence, uint64_t now, uint64_t arrival,
                     uint64_t tick, bool *known)
{
    if (!*known)
        reorder_add_discontinuity(&t->reorder, arrival, tick);
    *known = true;
    reorder_add(&t->reorder, sequence, t->unique, t->unique - arrival, now - tick);
}

/* The only number so far came too early: forget it and its copies. */
static void restart(struct sequence_tracker *t, uint32_t sequence, uint64_t now)
{
    const uint64_t early = t->early + 1 + t->duplicates;

    sequence_reset(t);
    start(t, sequence, now);
    t->early = early;
}

static enum sequence_arrival late(struct sequence_tracker *t, uint64_t sequence, uint64_t now)
{
    /* The ring forgets a whole word when `next` enters it. */
    const uint64_t newest_word_end = (t->next + 63) & ~63ULL;
    if (sequence + SEQUENCE_WINDOW < newest_word_end) {
        if (t->unique > 1) {
            t->beyond_window++;
            return SEQUENCE_BEYOND;
        }
        restart(t, (uint32_t)sequence, now);
        return SEQUENCE_RESTARTS;
    }
    if (*word_of(t, sequence) & 1ULL << (sequence & 63)) {
        t->duplicates++;
        return SEQUENCE_AGAIN;
    }
    set_arrived(t, sequence);
    if (sequence < t->first) { /* the first frame was the earliest with a higher number */
        add_late(t, sequence, now, 0, t->first_tick, &t->older_came);
    } else {
        struct sequence_gap *gap = find_gap(t, sequence);
        if (gap != NULL)
            add_late(t, sequence, now, gap->arrival, gap->tick, &gap->closing);
    }
    if (sequence < t->lowest)
        t->lowest = sequence;
    t->reordered++;
    t->unique++;
    return SEQUENCE_LATE;
}

static bool is_near(uint64_t a, uint64_t b)
{
    return a != b && (a > b ? a - b : b - a) < SEQUENCE_WINDOW - 64; /* one word less */
}

/* So far ahead that only another frame near it can prove that the numbers in between are missing.
 */
static enum sequence_arrival far_ahead(struct sequence_tracker *t, uint64_t sequence, uint64_t now)
{
    if (!t->has_early || !is_near(sequence, t->early_number)) {
        t->early++;
        t->early_number = sequence;
        t->has_early = true;
        return SEQUENCE_EARLY;
    }
    t->early--;
    t->has_early = false;
    jump_ahead(t, t->early_number, now);
    if (sequence < t->next)
        late(t, sequence, now);
    else if (sequence == t->next)
        sequence_advance(t);
    else
        jump_ahead(t, sequence, now);
    return SEQUENCE_CONFIRMS;
}

enum sequence_arrival sequence_out_of_order(struct sequence_tracker *t, uint32_t sequence,
                                            uint64_t now)
{
    if (!t->started) {
        start(t, sequence, now);
        return SEQUENCE_FIRST;
    }
    /* The nearest 64-bit number with these low 32 bits. */
    const uint64_t extended = t->next + (uint64_t)(int64_t)(int32_t)(sequence - (uint32_t)t->next);
    if (extended < t->next)
        return late(t, extended, now);
    if (extended - t->next >= SEQUENCE_WINDOW)
        return far_ahead(t, extended, now);
    jump_ahead(t, extended, now);
    return SEQUENCE_FIRST;
}

void sequence_finish(struct sequence_summary *s)
{
    const uint64_t unsure = s->beyond_window + s->early;

    s->lost_at_least = s->lost > unsure ? s->lost - unsure : 0;
}

struct sequence_summary sequence_summarise(const struct sequence_tracker *t)
{
    struct sequence_summary s = {0};

    if (!t->started)
        return s;
    s.any = true;
    s.expected = t->next - t->lowest;
    s.received_unique = t->unique;
    s.lost = s.expected > s.received_unique ? s.expected - s.received_unique : 0;
    s.duplicates = t->duplicates;
    s.reordered = t->reordered;
    s.beyond_window = t->beyond_window;
    s.early = t->early;
    sequence_finish(&s);
    s.extent_is_lower_bound = t->extent_is_lower_bound;
    s.first_sequence = t->lowest >= SEQUENCE_ORIGIN ? t->lowest - SEQUENCE_ORIGIN : t->lowest;
    s.last_sequence = t->next - 1 - (t->lowest >= SEQUENCE_ORIGIN ? SEQUENCE_ORIGIN : 0);
    s.begin = s.first_sequence;
    s.end = s.last_sequence + 1;
    return s;
}

void sequence_set_sent(struct sequence_summary *s, uint64_t sent)
{
    if (sent == SENT_UNKNOWN ||
        sent < s->expected) /* or the number of sent frames contradicts the received frames */
        return;
    s->begin = 0;
    s->end = s->expected = sent;
    s->lost = sent > s->received_unique ? sent - s->received_unique : 0;
    sequence_finish(s);
}
