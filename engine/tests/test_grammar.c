/* The engine reads values as tests/grammar.txt specifies, and so does the bench. */
#include "test.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "options/options.h"
#include "options/table.h"
#include "options/value.h"
#include "traffic/flows.h"
#include "traffic/rate.h"
#include "traffic/schedule.h"
#include "traffic/sizes.h"

#define FRAME_BYTES 64.0
#define VALUE_BYTES 96

static const char *path;

/* A reader writes its interpretation into `value`, or returns false. */
typedef bool reader(const char *text, char *value);

static bool read_count(const char *text, char *value)
{
    uint64_t count = 0;
    const bool good = value_parse_count(text, &count);
    snprintf(value, VALUE_BYTES, "%" PRIu64, count);
    return good;
}

static bool read_time(const char *text, char *value)
{
    uint64_t ns = 0;
    const bool good = value_parse_time(text, &ns);
    snprintf(value, VALUE_BYTES, "%" PRIu64, ns);
    return good;
}

static bool read_share(const char *text, char *value)
{
    uint64_t billionths = 0;
    const bool good = value_parse_share(text, &billionths);
    snprintf(value, VALUE_BYTES, "%" PRIu64, billionths);
    return good;
}

static bool read_rate(const char *text, char *value)
{
    const struct schedule constant = {.shape = SCHEDULE_CONSTANT};
    struct rate rate;
    char error[400];

    if (!rate_parse(text, &rate, error, sizeof error) ||
        !schedule_fits(&constant, &rate, 0, error, sizeof error))
        return false;
    if (rate.amount == 0)
        snprintf(value, VALUE_BYTES, "max");
    else
        snprintf(value, VALUE_BYTES, "%.0f", rate_pps(&rate, 0, FRAME_BYTES));
    return true;
}

static bool read_size(const char *text, char *value)
{
    struct sizes sizes;
    char error[400];
    const bool good = sizes_parse(text, &sizes, error, sizeof error);

    snprintf(value, VALUE_BYTES, "%u-%u/%.2f", sizes.smallest, sizes.largest,
             good ? sizes_mean(&sizes) : 0.0);
    return good;
}

static bool read_flows(const char *text, char *value)
{
    struct flow_set flows;
    char error[400];
    const bool good = flows_parse(text, &flows, error, sizeof error);

    snprintf(value, VALUE_BYTES, "%u", flows.count);
    return good;
}

static bool read_vlan(const char *text, char *value)
{
    uint16_t ids[2] = {0};
    const unsigned count = value_parse_vlan(text, ids);

    snprintf(value, VALUE_BYTES, count == 2 ? "%u.%u" : "%u", ids[0], ids[1]);
    return count > 0;
}

static bool read_schedule(const char *text, char *value)
{
    const struct rate rate = {.amount = 1, .unit = RATE_PPS};
    struct schedule s;
    char error[400];

    if (!schedule_parse(text, &s, error, sizeof error) ||
        !schedule_fits(&s, &rate, 0, error, sizeof error))
        return false;
    const char *name = schedule_name(s.shape);
    if (s.shape == SCHEDULE_ON_OFF)
        snprintf(value, VALUE_BYTES, "%s:%" PRIu64 ":%" PRIu64, name, s.on_ns, s.off_ns);
    else if (s.shape == SCHEDULE_RAMP)
        snprintf(value, VALUE_BYTES, "%s:%.0f:%.0f:%" PRIu64, name,
                 rate_pps(&s.from, 0, FRAME_BYTES), rate_pps(&s.to, 0, FRAME_BYTES), s.over_ns);
    else if (strchr(text, ':') != NULL)
        snprintf(value, VALUE_BYTES, "%s:%" PRIu64, name, s.seed);
    else
        snprintf(value, VALUE_BYTES, "%s", name);
    return true;
}

/* The value of an option, in the form of its kind. */
static void show_option(const struct option_row *row, const struct options *o, const char *text,
                        char *value)
{
    const void *field = (const char *)o + row->offset;

    switch (row->kind) {
    case KIND_RATE:
    case KIND_PROBE_RATE: {
        const struct rate *rate = field;
        const char *absent = row->kind == KIND_RATE ? "max" : "none";
        if (rate->amount == 0)
            snprintf(value, VALUE_BYTES, "%s", absent);
        else
            snprintf(value, VALUE_BYTES, "%.0f", rate_pps(rate, 0, FRAME_BYTES));
        break;
    }
    case KIND_VLAN:
        if (o->address.tags == 0)
            snprintf(value, VALUE_BYTES, "none");
        else
            read_vlan(text, value);
        break;
    case KIND_SIZES:
        snprintf(value, VALUE_BYTES, "%u-%u/%.2f", o->traffic.sizes.smallest,
                 o->traffic.sizes.largest, sizes_mean(&o->traffic.sizes));
        break;
    case KIND_FLOWS:
        snprintf(value, VALUE_BYTES, "%u", o->flows.count);
        break;
    case KIND_SCHEDULE:
        read_schedule(text, value);
        break;
    case KIND_IDLE:
        snprintf(value, VALUE_BYTES, "%s", idle_name(*(const uint64_t *)field));
        break;
    default:
        snprintf(value, VALUE_BYTES, "%" PRIu64, *(const uint64_t *)field);
    }
}

static bool read_option(const char *name, const char *text, char *value)
{
    struct options o = {0};
    char error[400];

    for (unsigned i = 0; option_aliases[i].alias != NULL; i++) {
        if (strcmp(option_aliases[i].alias, name) == 0)
            name = option_aliases[i].name;
    }
    for (unsigned i = 0; i < option_rows; i++) {
        if (strcmp(option_table[i].name, name) != 0)
            continue;
        const bool good = option_apply(&o, &option_table[i], text, error, sizeof error);
        if (good)
            show_option(&option_table[i], &o, text, value);
        return good;
    }
    fail_msg("--%s: no such option", name);
    return false;
}

static const struct {
    const char *kind;
    reader *read;
} readers[] = {
    {"count", read_count}, {"time", read_time},         {"share", read_share},
    {"rate", read_rate},   {"size", read_size},         {"flows", read_flows},
    {"vlan", read_vlan},   {"schedule", read_schedule},
};

static void check(const char *kind, const char *expected, const char *text)
{
    char value[VALUE_BYTES] = "";

    if (strncmp(kind, "--", 2) == 0) {
        const bool good = read_option(kind + 2, text, value);
        if (strcmp(good ? value : "refused", expected) != 0)
            fail_msg("%s '%s': read as %s, not %s", kind, text, good ? value : "refused", expected);
        return;
    }
    for (unsigned i = 0; i < sizeof readers / sizeof readers[0]; i++) {
        if (strcmp(readers[i].kind, kind) != 0)
            continue;
        const bool good = readers[i].read(text, value);
        if (strcmp(good ? value : "refused", expected) != 0)
            fail_msg("%s '%s': read as %s, not %s", kind, text, good ? value : "refused", expected);
        return;
    }
    fail_msg("%s: no such kind", kind);
}

static void every_example_is_parsed(void **state)
{
    (void)state;
    FILE *file = fopen(path, "r");
    char line[200], kind[24], expected[VALUE_BYTES];
    unsigned examples = 0;
    int text = 0;

    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '\0' || line[0] == '#')
            continue;
        assert_int_equal(sscanf(line, "%23s %95s %n", kind, expected, &text), 2);
        check(kind, expected, line + text);
        examples++;
    }
    fclose(file);
    assert_true(examples > 100);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_example_is_parsed)};

    path = argc > 1 ? argv[1] : "tests/grammar.txt";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
