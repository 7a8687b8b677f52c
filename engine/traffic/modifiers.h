/* Field modifiers: header fields whose value follows from the sequence number of a frame. A
 * modifier counts up or down, takes the values of a list in turn, or random values. All modifiers
 * advance by one value from frame to frame, each from its last value to its first.
 *
 * A modifier is compiled into at most two writes, each of some bits of eight bytes. Counted and
 * random values are calculated; only lists, and addresses of 128 bits that carry over 64 bits, have
 * arrays. */
#ifndef SM_MODIFIERS_H
#define SM_MODIFIERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "traffic/checksum.h"
#include "traffic/header_fields.h"
#include "traffic/zipf.h"

#define MODIFIERS_MAX 32
#define MODIFIER_VALUES_MAX (1U << 20) /* limit of lists and arrays */

struct frame_address;
struct flow_set;

enum modifier_kind { MODIFIER_VALUES, MODIFIER_INCREMENT, MODIFIER_DECREMENT, MODIFIER_RANDOM };

__extension__ typedef unsigned __int128 header_value;

/* A modifier as it was given: FIELD=increment,START,STEP,COUNT or FIELD=decrement,... or
 * FIELD=values,V,V,... or FIELD=random,LOW,HIGH,COUNT[,SEED] or FIELD=VALUE. */
struct modifier {
    char name[24];
    const char *values; /* MODIFIER_VALUES: the text of the list, which outlives the modifier */
    enum modifier_kind kind;
    enum header_format format; /* that of its first value, which decides between IPv4 and IPv6 */
    header_value start, step;  /* MODIFIER_RANDOM: lowest value, highest value */
    header_value highest;      /* highest value that is written */
    uint32_t count;
    uint64_t seed;
    const struct header_field *field; /* set by modifiers_bind */
};

struct modifiers {
    unsigned count;
    struct modifier given[MODIFIERS_MAX];
};

/* Some bits of eight bytes. */
struct field_write {
    const struct header_field *field;
    enum header_part part;
    uint32_t offset; /* in the part */
    uint32_t count;  /* number of values */
    uint32_t shift;  /* bits below the value in the window */
    uint64_t keep;   /* bits of other fields, as on the wire */
    uint64_t mask;   /* highest value */
    bool is_random;
    uint64_t start, step; /* is_random: lowest value, number of possible values (0: 2^64) */
    uint64_t seed;
    uint64_t *bits;           /* values as on the wire; NULL: they are calculated */
    uint64_t in_udp, in_ipv4; /* all ones if the checksum includes the field, otherwise 0 */
};

struct field_writes {
    unsigned count;
    uint32_t wrong; /* counters (bits of enum wrong_field) that these writes decide */
    struct field_write write[2 * MODIFIERS_MAX];
};

/* Append one modifier. False: one line in `error`. */
bool modifiers_parse(struct modifiers *m, const char *text, char *error, size_t error_size);

/* Find the fields in frames with this address. Each field must be there, have room for its values,
 * and be modified once; `flows` must not vary it. */
bool modifiers_bind(struct modifiers *m, const struct frame_address *address, bool has_outer,
                    const struct flow_set *flows, char *error, size_t error_size);

/* The fields that rows of a table have. */
#define FIELDS_OF_ROWS                                                                             \
    (1U << WRONG_src_ip | 1U << WRONG_dst_ip | 1U << WRONG_src_port | 1U << WRONG_dst_port)

/* Return true if a modifier changes one of these counters. */
bool modifiers_change(const struct modifiers *m, uint32_t wrong);

/* Compile bound modifiers, and free them. */
bool field_writes_make(struct field_writes *w, const struct modifiers *m,
                       const struct frame_address *address, bool has_outer, char *error,
                       size_t error_size);
void field_writes_free(struct field_writes *w);

static inline uint64_t field_random(const struct field_write *w, uint32_t at)
{
    const uint64_t random = zipf_mix(w->seed + at * ZIPF_STEP);
    const uint64_t below = w->step == 0 ? random : (uint64_t)((header_value)random * w->step >> 64);
    return w->start + below;
}

/* The bits of value `at`, as on the wire. */
static inline uint64_t field_bits(const struct field_write *w, uint32_t at)
{
    if (w->bits != NULL)
        return w->bits[at];
    const uint64_t value = w->is_random ? field_random(w, at) : w->start + w->step * at;
    return __builtin_bswap64((value & w->mask) << w->shift);
}

/* Compare a received frame, whose parts begin at these addresses (NULL: unknown), with the values
 * of its number. Returns bits of enum wrong_field. */
static inline uint32_t field_writes_check(const struct field_writes *writes,
                                          const uint8_t *const parts[HEADER_PARTS],
                                          uint64_t sequence)
{
    uint32_t wrong = 0;

    for (unsigned i = 0; i < writes->count; i++) {
        const struct field_write *w = &writes->write[i];
        const uint8_t *part = parts[w->part];
        if (part == NULL ||
            (load64(part + w->offset) & ~w->keep) != field_bits(w, (uint32_t)(sequence % w->count)))
            wrong |= 1U << w->field->wrong;
    }
    return wrong;
}
#endif
