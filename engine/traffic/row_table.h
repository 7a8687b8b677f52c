/* A table of flows: the addresses and ports of each flow, and its next hop and tunnel. A bench
 * sends it before a trial, for destinations that follow from no formula, such as the prefixes of a
 * routing table.
 *
 * A row has, in network byte order, the source and the destination address (4 or 16 bytes each),
 * the source and the destination port (2 each), the index of the next hop and of the tunnel (2
 * each). In frames, addresses and ports follow each other in the same order without a gap, so they
 * are copied and compared as one piece. */
#ifndef SM_ROW_TABLE_H
#define SM_ROW_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "traffic/checksum.h"
#include "traffic/zipf.h"

#define ROWS_MAX (1U << 20)
#define ROW_BYTES_IP4 16
#define ROW_BYTES_IP6 40
#define ROW_INDEX_BYTES 4 /* next hop and tunnel */

/* How many rows ahead a row is fetched: a core waits for about as many cache lines at a time, and
 * may drop the fetches of more. */
#define ROWS_FETCHED_AHEAD 16

struct row_table {
    uint8_t *rows;
    uint32_t count;     /* 0: there is no table */
    uint32_t loaded;    /* number of rows that have arrived */
    uint32_t row_bytes; /* ROW_BYTES_... */
    bool is_zipf;       /* flows follow Zipf's law; otherwise they are sent in turn */
    uint64_t seed;      /* mixed */
    struct zipf zipf;
};

/* The properties of a table, before its rows follow. */
struct row_table_plan {
    uint32_t rows;
    bool is_zipf;
    double exponent;
    uint64_t seed;
};

/* Begin a table of so many rows, in place of the table before; 0 rows: none. */
bool row_table_begin(struct row_table *t, const struct row_table_plan *plan, uint32_t row_bytes,
                     char *error, size_t size);

/* Append rows; each next hop must be below `next_hops` unless that is 0. */
bool row_table_add(struct row_table *t, const uint8_t *bytes, size_t length, uint32_t next_hops,
                   char *error, size_t size);
void row_table_free(struct row_table *t);

/* Return true if there is a table, and all of its rows have arrived. */
static inline bool row_table_is_complete(const struct row_table *t)
{
    return t->count > 0 && t->loaded == t->count;
}

static inline const uint8_t *row_table_row(const struct row_table *t, uint32_t flow)
{
    return t->rows + (size_t)flow * t->row_bytes;
}

/* The flow of frame number `sequence`. */
static inline uint32_t row_table_flow(const struct row_table *t, uint64_t sequence)
{
    return t->is_zipf ? zipf_rank(&t->zipf, t->seed + sequence * ZIPF_STEP)
                      : (uint32_t)(sequence % t->count);
}

/* Fetch a row that is needed after some others. */
static inline void row_table_fetch(const struct row_table *t, uint32_t flow)
{
    const uint8_t *row = row_table_row(t, flow);

    __builtin_prefetch(row);
    if (t->row_bytes > ROW_BYTES_IP4) /* it may lie in two cache lines */
        __builtin_prefetch(row + ROW_BYTES_IP6 - 1);
}

/* Choose the flows of consecutive frames. */
void row_table_choose(const struct row_table *t, uint64_t sequence, uint32_t *flows,
                      unsigned count);

static inline uint16_t row_next_hop(const struct row_table *t, const uint8_t *row)
{
    return __builtin_bswap16(load16(row + t->row_bytes - ROW_INDEX_BYTES));
}

static inline uint16_t row_tunnel(const struct row_table *t, const uint8_t *row)
{
    return __builtin_bswap16(load16(row + t->row_bytes - 2));
}
#endif
