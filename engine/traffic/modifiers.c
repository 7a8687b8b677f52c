/* Parses and compiles field modifiers. */
#include "traffic/modifiers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "measure/memory.h"
#include "options/value.h"
#include "traffic/flows.h"
#include "traffic/frame.h"

#define WORD_BYTES 48 /* more than any value has */

static const char *const kind_names[] = {"values", "increment", "decrement", "random", NULL};

/* Copy the text up to the next comma; returns the text behind it, or NULL if the text ended. A word
 * that is too long becomes empty, which is not a value. */
static const char *take_word(const char *text, char word[WORD_BYTES])
{
    const size_t length = strcspn(text, ",");

    snprintf(word, WORD_BYTES, "%.*s", length < WORD_BYTES ? (int)length : 0, text);
    return text[length] == ',' ? text + length + 1 : NULL;
}

static const struct header_field *find_name(const char *name)
{
    for (unsigned i = 0; i < header_field_count; i++) {
        if (strcmp(header_fields[i].name, name) == 0)
            return &header_fields[i];
    }
    return NULL;
}

static header_value from_bytes(const uint8_t *bytes, unsigned count)
{
    header_value value = 0;

    for (unsigned i = 0; i < count; i++)
        value = value << 8 | bytes[i];
    return value;
}

/* A number: decimal with a suffix, or hexadecimal with 0x. */
static bool read_number(const char *word, header_value *value)
{
    uint64_t number = 0;

    if (strncmp(word, "0x", 2) != 0) {
        if (!value_parse_count(word, &number))
            return false;
        *value = number;
        return true;
    }
    const size_t digits = strspn(word + 2, "0123456789abcdefABCDEF");
    if (digits == 0 || digits > 16 || word[2 + digits] != '\0')
        return false;
    *value = strtoull(word + 2, NULL, 16);
    return true;
}

/* A value in the format of its field; addresses decide between IPv4 and IPv6. */
static bool read_value(const char *word, enum header_format *format, header_value *value)
{
    uint8_t bytes[16];
    uint32_t ip;

    switch (*format) {
    case FORMAT_NUMBER:
        return read_number(word, value);
    case FORMAT_MAC:
        *value = value_parse_mac(word, bytes) ? from_bytes(bytes, 6) : 0;
        return value_parse_mac(word, bytes);
    default:
        break;
    }
    if (value_parse_ipv4(word, &ip)) {
        *format = FORMAT_IPV4;
        *value = ip;
        return true;
    }
    if (!value_parse_ipv6(word, bytes))
        return false;
    *format = FORMAT_IPV6;
    *value = from_bytes(bytes, 16);
    return true;
}

/* A step is a number, or written as a value of the field is. */
static bool read_step(const char *word, const struct modifier *m, header_value *step)
{
    enum header_format format = m->format;

    return read_number(word, step) || (read_value(word, &format, step) && format == m->format);
}

static const char *example_of(enum header_format format)
{
    return format == FORMAT_NUMBER ? "a number such as 5 or 0x1f"
           : format == FORMAT_MAC  ? "a MAC address such as 02:00:00:00:00:01"
                                   : "an address such as 198.18.0.1 or 2001:2::1";
}

static bool bad_value(const struct modifier *m, const char *word, char *error, size_t size)
{
    return fail(error, size, "%s: '%s' is not %s", m->name, word, example_of(m->format));
}

/* Read the first value, which decides the format, and the others, which must have the same. */
static bool take_value(struct modifier *m, bool is_first, const char **text, header_value *value,
                       char *error, size_t size)
{
    char word[WORD_BYTES];
    enum header_format format = m->format;
    const char *rest = take_word(*text, word);

    if (!read_value(word, &format, value))
        return bad_value(m, word, error, size);
    if (!is_first && format != m->format)
        return fail(error, size, "%s: %s mixes IPv4 and IPv6", m->name, word);
    m->format = format;
    *text = rest;
    return true;
}

static bool parse_values(struct modifier *m, const char *text, char *error, size_t size)
{
    header_value value = 0;

    m->values = text;
    for (m->count = 0; text != NULL; m->count++) {
        if (m->count == MODIFIER_VALUES_MAX)
            return fail(error, size, "%s: has more than %u values", m->name, MODIFIER_VALUES_MAX);
        if (!take_value(m, m->count == 0, &text, &value, error, size))
            return false;
        m->highest = value > m->highest ? value : m->highest;
    }
    return true;
}

static bool parse_count(struct modifier *m, const char **text, char *error, size_t size)
{
    char word[WORD_BYTES] = "";
    uint64_t count = 0;

    if (*text != NULL)
        *text = take_word(*text, word);
    if (!value_parse_count(word, &count) || count < 1 || count > UINT32_MAX)
        return fail(error, size, "%s: '%s' is not a number of values from 1 to %u", m->name, word,
                    UINT32_MAX);
    m->count = (uint32_t)count;
    return true;
}

/* START,STEP,COUNT */
static bool parse_counter(struct modifier *m, const char *text, char *error, size_t size)
{
    char word[WORD_BYTES] = "";

    if (!take_value(m, true, &text, &m->start, error, size))
        return false;
    if (text != NULL)
        text = take_word(text, word);
    if (!read_step(word, m, &m->step))
        return fail(error, size, "%s: step '%s' is not %s", m->name, word, example_of(m->format));
    m->highest = m->start;
    return parse_count(m, &text, error, size) &&
           (text == NULL ||
            fail(error, size, "%s: '%s' is too much; give START,STEP,COUNT", m->name, text));
}

/* LOW,HIGH,COUNT[,SEED] */
static bool parse_random(struct modifier *m, const char *text, char *error, size_t size)
{
    if (!take_value(m, true, &text, &m->start, error, size))
        return false;
    if (text == NULL)
        return fail(error, size, "%s: give random,LOW,HIGH,COUNT", m->name);
    if (!take_value(m, false, &text, &m->step, error, size) || !parse_count(m, &text, error, size))
        return false;
    if (m->step < m->start)
        return fail(error, size, "%s: the highest random value is below the lowest", m->name);
    if (text != NULL && !value_parse_count(text, &m->seed))
        return fail(error, size, "%s: '%s' is not a seed", m->name, text);
    m->highest = m->step;
    return true;
}

static bool parse_kind(struct modifier *m, const char *text, char *error, size_t size)
{
    char word[WORD_BYTES];
    const char *rest = take_word(text, word);
    unsigned kind = 0;

    while (kind_names[kind] != NULL && strcmp(kind_names[kind], word) != 0)
        kind++;
    m->kind = kind_names[kind] != NULL ? (enum modifier_kind)kind : MODIFIER_VALUES;
    if (kind_names[kind] == NULL) /* FIELD=VALUE */
        return rest == NULL ? parse_values(m, text, error, size)
                            : fail(error, size,
                                   "%s: '%s' is not a kind; use increment, decrement, values or "
                                   "random",
                                   m->name, word);
    if (rest == NULL)
        return fail(error, size, "%s: %s needs values", m->name, word);
    return m->kind == MODIFIER_VALUES   ? parse_values(m, rest, error, size)
           : m->kind == MODIFIER_RANDOM ? parse_random(m, rest, error, size)
                                        : parse_counter(m, rest, error, size);
}

bool modifiers_parse(struct modifiers *modifiers, const char *text, char *error, size_t size)
{
    const size_t length = strcspn(text, "=");
    struct modifier m = {.seed = 1};

    if (modifiers->count == MODIFIERS_MAX)
        return fail(error, size, "more than %d modifiers", MODIFIERS_MAX);
    if (length < sizeof m.name)
        memcpy(m.name, text, length);
    const struct header_field *field = find_name(m.name);
    if (field == NULL || text[length] != '=') {
        const char *names[64] = {NULL};
        for (unsigned i = 0; i < header_field_count && i < 63; i++)
            names[i] = header_fields[i].name;
        const char *near = field == NULL ? value_nearest(m.name, names) : NULL;
        return fail(error, size,
                    "'%.40s' does not begin with FIELD=, a header field%s%s%s; list --json has all",
                    text, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    m.format = field->format;
    if (!parse_kind(&m, text + length + 1, error, size))
        return false;
    modifiers->given[modifiers->count++] = m;
    return true;
}

static bool is_in_format(const struct modifier *m, const struct header_field *field)
{
    return field->format == m->format || field->format == FORMAT_NUMBER;
}

static bool find_field(struct modifier *m, const struct frame_address *address, bool has_outer,
                       char *error, size_t size)
{
    enum header_part part;
    const struct header_field *other = NULL;

    for (unsigned i = 0; i < header_field_count; i++) {
        const struct header_field *field = &header_fields[i];
        if (strcmp(field->name, m->name) != 0)
            continue;
        other = field;
        if (header_layer_offset(field->layer, address, has_outer, &part) < 0)
            continue;
        if (!is_in_format(m, field))
            return fail(error, size, "%s: frames are IPv%d, its values are not", m->name,
                        address->ip6 ? 6 : 4);
        m->field = field;
        return true;
    }
    return fail(error, size, "%s: frames have no %s header", m->name,
                header_layer_names[other->layer]);
}

/* The bits of a field, counted from the begin of its layer. */
static bool overlap(const struct header_field *a, const struct header_field *b)
{
    const unsigned first = a->offset * 8U + a->first_bit, second = b->offset * 8U + b->first_bit;

    return a->layer == b->layer && first < second + b->bits && second < first + a->bits;
}

static bool is_varied_by_flows(const struct flow_set *flows, const struct header_field *field)
{
    static const char *const names[FLOW_FIELDS] = {"src-mac",  "dst-mac",  "src-ip", "dst-ip",
                                                   "src-port", "dst-port", "vlan"};

    for (unsigned i = 0; i < FLOW_FIELDS && flows->count > 1; i++) {
        if (flows->fields[i].varies && strcmp(names[i], field->name) == 0)
            return true;
    }
    return false;
}

bool modifiers_bind(struct modifiers *modifiers, const struct frame_address *address,
                    bool has_outer, const struct flow_set *flows, char *error, size_t size)
{
    for (unsigned i = 0; i < modifiers->count; i++) {
        struct modifier *m = &modifiers->given[i];
        if (!find_field(m, address, has_outer, error, size))
            return false;
        if (m->field->bits < 128 && m->highest >> m->field->bits != 0)
            return fail(error, size, "%s: a value is above %llu, the highest of %u bits", m->name,
                        (unsigned long long)(UINT64_MAX >> (64 - m->field->bits)), m->field->bits);
        if (is_varied_by_flows(flows, m->field))
            return fail(error, size, "%s: --flows varies this field; leave one of the two out",
                        m->name);
        for (unsigned before = 0; before < i; before++) {
            if (overlap(modifiers->given[before].field, m->field))
                return fail(error, size, "%s: overlaps %s; keep one", m->name,
                            modifiers->given[before].name);
        }
    }
    return true;
}

bool modifiers_change(const struct modifiers *m, uint32_t wrong)
{
    for (unsigned i = 0; i < m->count; i++) {
        if ((wrong & 1U << m->given[i].field->wrong) != 0)
            return true;
    }
    return false;
}

/* The value number `at` of a counter or of random numbers of up to 128 bits. */
static header_value calculated_value(const struct modifier *m, uint32_t at)
{
    if (m->kind == MODIFIER_INCREMENT)
        return m->start + m->step * at;
    if (m->kind == MODIFIER_DECREMENT)
        return m->start - m->step * at;
    const uint64_t key = m->seed + 2 * at * ZIPF_STEP;
    const header_value random = (header_value)zipf_mix(key) << 64 | zipf_mix(key + ZIPF_STEP);
    const header_value range = m->step - m->start + 1;
    return m->start + (range == 0 ? random : random % range);
}

/* The writes of a field of 128 bits, of which `high` writes the upper half. */
static bool fill_arrays(const struct modifier *m, struct field_write *high, struct field_write *low,
                        char *error, size_t size)
{
    const size_t bytes = (size_t)m->count * sizeof(uint64_t);
    const bool is_wide = high != NULL;
    const char *text = m->values;
    struct modifier reader = *m;

    if (m->count > MODIFIER_VALUES_MAX)
        return fail(error, size,
                    "%s: these values carry beyond 64 bits, or are random in more; "
                    "at most %u such values are possible",
                    m->name, MODIFIER_VALUES_MAX);
    if (!memory_suffices(2 * bytes, "--modify: out of memory: its values ", error, size))
        return false;
    low->bits = malloc(bytes);
    if (is_wide)
        high->bits = malloc(bytes);
    if (low->bits == NULL || (is_wide && high->bits == NULL))
        return fail(error, size, "--modify: no memory for %u values", m->count);
    for (uint32_t at = 0; at < m->count; at++) {
        header_value value = 0;
        if (m->kind != MODIFIER_VALUES)
            value = calculated_value(m, at);
        else if (!take_value(&reader, at == 0, &text, &value, error, size))
            return false;
        low->bits[at] = __builtin_bswap64(((uint64_t)value & low->mask) << low->shift);
        if (is_wide)
            high->bits[at] = __builtin_bswap64((uint64_t)(value >> 64));
    }
    return true;
}

/* Return true if only the lower 64 bits differ from value to value. */
static bool is_narrow(const struct modifier *m)
{
    if (m->kind == MODIFIER_RANDOM)
        return m->start >> 64 == m->step >> 64;
    if (m->step >> 64 != 0)
        return m->count == 1;
    const header_value way = (header_value)(uint64_t)m->step * (m->count - 1);
    const uint64_t start = (uint64_t)m->start;
    return m->kind == MODIFIER_INCREMENT ? way <= UINT64_MAX - start : way <= start;
}

static void calculate(const struct modifier *m, struct field_write *w)
{
    w->is_random = m->kind == MODIFIER_RANDOM;
    w->start = (uint64_t)m->start;
    w->step = w->is_random                    ? (uint64_t)m->step - w->start + 1
              : m->kind == MODIFIER_DECREMENT ? 0 - (uint64_t)m->step
                                              : (uint64_t)m->step;
    w->seed = zipf_mix(m->seed + ZIPF_STEP);
}

static struct field_write *add_write(struct field_writes *w, const struct modifier *m,
                                     uint32_t offset, enum header_part part, unsigned first_bit,
                                     unsigned bits)
{
    const struct header_field *field = m->field;
    struct field_write *write = &w->write[w->count++];
    const uint64_t mask = bits == 64 ? UINT64_MAX : (1ULL << bits) - 1;
    const unsigned shift = 64 - first_bit - bits;

    *write = (struct field_write){
        .field = field,
        .part = part,
        .offset = offset,
        .count = m->count,
        .shift = shift,
        .keep = ~__builtin_bswap64(mask << shift),
        .mask = mask,
        .in_udp = field->sums == SUMS_UDP || field->sums == SUMS_BOTH ? UINT64_MAX : 0,
        .in_ipv4 = field->sums == SUMS_IP || field->sums == SUMS_BOTH ? UINT64_MAX : 0,
    };
    return write;
}

static bool compile(struct field_writes *w, const struct modifier *m, uint32_t offset,
                    enum header_part part, char *error, size_t size)
{
    const struct header_field *field = m->field;

    offset += field->offset;
    w->wrong |= 1U << field->wrong;
    if (field->bits < 128) {
        struct field_write *only = add_write(w, m, offset, part, field->first_bit, field->bits);
        if (m->kind == MODIFIER_VALUES)
            return fill_arrays(m, NULL, only, error, size);
        calculate(m, only);
        return true;
    }
    struct field_write *high = add_write(w, m, offset, part, 0, 64);
    struct field_write *low = add_write(w, m, offset + 8, part, 0, 64);
    if (m->kind == MODIFIER_VALUES || !is_narrow(m))
        return fill_arrays(m, high, low, error, size);
    high->start = (uint64_t)(m->start >> 64);
    high->count = 1;
    calculate(m, low);
    return true;
}

bool field_writes_make(struct field_writes *w, const struct modifiers *modifiers,
                       const struct frame_address *address, bool has_outer, char *error,
                       size_t size)
{
    field_writes_free(w);
    for (unsigned i = 0; i < modifiers->count; i++) {
        const struct modifier *m = &modifiers->given[i];
        enum header_part part;
        const int offset = header_layer_offset(m->field->layer, address, has_outer, &part);
        if (!compile(w, m, (uint32_t)offset, part, error, size))
            return false;
    }
    return true;
}

void field_writes_free(struct field_writes *w)
{
    for (unsigned i = 0; i < w->count; i++)
        free(w->write[i].bits);
    *w = (struct field_writes){0};
}
