/* Loads tables of flows. */
#include "traffic/row_table.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "fail.h"
#include "measure/memory.h"

#define HUGE_PAGE ((size_t)2 << 20)

bool row_table_begin(struct row_table *t, const struct row_table_plan *plan, uint32_t row_bytes,
                     char *error, size_t size)
{
    const size_t bytes = (size_t)plan->rows * row_bytes;
    const size_t page = bytes < HUGE_PAGE ? 64 : HUGE_PAGE; /* random rows then need one entry of
                                                               the TLB per 2 MB */
    const size_t whole = (bytes + page - 1) / page * page;

    row_table_free(t);
    if (plan->rows == 0)
        return true;
    if (!memory_suffices(whole, "table: out of memory: its rows ", error, size))
        return false;
    t->rows = aligned_alloc(page, whole);
    if (t->rows == NULL)
        return fail(error, size, "table: out of memory: its rows need %zu MB", bytes >> 20);
    if (page == HUGE_PAGE)
        madvise(t->rows, whole, MADV_HUGEPAGE); /* the table also works without */
    t->count = plan->rows;
    t->row_bytes = row_bytes;
    t->is_zipf = plan->is_zipf;
    t->seed = zipf_mix(plan->seed + ZIPF_STEP);
    if (t->is_zipf)
        zipf_make(&t->zipf, t->count, plan->exponent);
    return true;
}

bool row_table_add(struct row_table *t, const uint8_t *bytes, size_t length, uint32_t next_hops,
                   char *error, size_t size)
{
    const size_t rows = t->count > 0 ? length / t->row_bytes : 0;

    if (t->count == 0)
        return fail(error, size, "table: its number of rows is unknown; begin with rows=N");
    if (length % t->row_bytes != 0)
        return fail(error, size, "table: %zu bytes are not a multiple of %u, the size of a row",
                    length, t->row_bytes);
    if (rows > t->count - t->loaded)
        return fail(error, size, "table: row %zu is one too many; the table has %u rows",
                    t->loaded + rows, t->count);
    for (size_t i = 0; i < rows && next_hops > 0; i++) {
        const uint16_t hop = row_next_hop(t, bytes + i * t->row_bytes);
        if (hop >= next_hops)
            return fail(error, size,
                        "table: row %zu has next hop %u; --next-hops has %u addresses, from 0",
                        t->loaded + i, hop, next_hops);
    }
    memcpy(t->rows + (size_t)t->loaded * t->row_bytes, bytes, length);
    t->loaded += (uint32_t)rows;
    return true;
}

void row_table_choose(const struct row_table *t, uint64_t sequence, uint32_t *flows, unsigned count)
{
    if (t->is_zipf) {
        zipf_ranks(&t->zipf, t->seed + sequence * ZIPF_STEP, flows, count);
        return;
    }
    uint32_t flow = (uint32_t)(sequence % t->count);
    for (unsigned i = 0; i < count; i++) {
        flows[i] = flow;
        flow = flow + 1 == t->count ? 0 : flow + 1;
    }
}

void row_table_free(struct row_table *t)
{
    free(t->rows);
    *t = (struct row_table){0};
}
