/* The parser that walks the option table (table.c); apply.c reads the values. */
#include "options/options.h"

#include <stdio.h>
#include <string.h>

#include "fail.h"
#include "measure/clock.h"
#include "options/table.h"
#include "options/value.h"
#include "role/role.h"

#define NAMES_MAX 120 /* names of options, aliases too */

/* The bench writes names with '_' where options have '-': both are accepted. */
static bool is_name(const char *known, const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (known[i] == '\0' || known[i] != (name[i] == '_' ? '-' : name[i]))
            return false;
    }
    return known[length] == '\0';
}

static const struct option_row *find_row(const char *name, size_t length)
{
    for (const struct option_alias *a = option_aliases; a->alias != NULL; a++) {
        if (is_name(a->alias, name, length))
            return find_row(a->name, strlen(a->name));
    }
    for (unsigned i = 0; i < option_rows; i++) {
        if (is_name(option_table[i].name, name, length))
            return &option_table[i];
    }
    return NULL;
}

static bool unknown(const char *kind, const char *name, size_t length, bool per_trial, char *error,
                    size_t size)
{
    const char *names[NAMES_MAX + 2];
    unsigned count = 0;
    char word[64];

    for (unsigned i = 0; i < option_rows && count < NAMES_MAX; i++) {
        if (!per_trial || option_table[i].per_trial)
            names[count++] = option_table[i].name;
    }
    for (const struct option_alias *a = option_aliases; a->alias != NULL && count < NAMES_MAX; a++)
        names[count++] = a->alias;
    names[count++] = per_trial ? "at" : "help";
    names[count] = NULL;
    snprintf(word, sizeof word, "%.*s", (int)(length < 63 ? length : 63), name);
    const char *near = value_nearest(word, names);
    const char *dashes = per_trial ? "" : "--";
    return fail(error, size, "unknown %s '%s%s'%s%s%s%s", kind, dashes, word,
                near ? "; did you mean '" : "; see --help", near ? dashes : "", near ? near : "",
                near ? "'?" : "");
}

bool options_override(struct traffic *traffic, const char *assignment, char *error, size_t size)
{
    struct options scratch = {.traffic = *traffic};
    const char *equals = strchr(assignment, '=');

    if (equals == NULL)
        return fail(error, size, "start: '%s' is not key=value", assignment);
    const size_t length = (size_t)(equals - assignment);
    if (length == 2 && memcmp(assignment, "at", 2) == 0) {
        if (!value_parse_count(equals + 1, &traffic->at_ns))
            return fail(error, size, "start: at: '%s' is not a time in ns", equals + 1);
        return true;
    }
    const struct option_row *row = find_row(assignment, length);
    if (row == NULL || !row->per_trial)
        return unknown("key of start", assignment, length, true, error, size);
    if (!option_apply(&scratch, row, equals + 1, error, size))
        return false;
    *traffic = scratch.traffic;
    return true;
}

static void set_defaults(struct options *o)
{
    memset(o, 0, sizeof *o);
    o->address.src_ip = 0xc6120001; /* 198.18.0.0/15 is reserved for benchmarks (RFC 2544) */
    o->address.dst_ip = 0xc6120002;
    o->address.src_udp = 5000;
    o->address.dst_udp = 5000;
    o->address.ttl = 64;
    memset(o->address.dst_mac, 0xff, 6);
    o->catch_up_ns = 1000000;
    o->queues = 1;
    o->traffic.burst = 32;
    o->traffic.frame_size = FRAME_SIZE_MIN;
    sizes_set(&o->traffic.sizes, FRAME_SIZE_MIN);
    o->flows.count = 1;
    o->traffic.interval_ns = NS_PER_S;
    o->traffic.patience_ns = 150ULL * 1000 * 1000;
    o->reference.seed = 1;
    o->loops = 1;
    o->tcp.timeout_ns = TCP_TIMEOUT_NS;
    o->traffic.probe_schedule = (struct schedule){.shape = SCHEDULE_POISSON, .seed = 1};
    o->reference.limit_burst = 256;
    o->reference.queue = 8192;
}

static enum parse_result parse_arguments(struct options *o, int argc, char **argv, char *error,
                                         size_t size)
{
    for (int i = 2; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
            return PARSE_HELP;
        if (strncmp(name, "--", 2) != 0) {
            fail(error, size, "'%s' is not an option; options begin with --", name);
            return PARSE_BAD;
        }
        name += 2;
        const char *equals = strchr(name, '=');
        const size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
        const struct option_row *row = find_row(name, length);
        if (row == NULL) {
            unknown("option", name, length, false, error, size);
            return PARSE_BAD;
        }
        if (!option_is_taken_by(row, o->role)) {
            fail(error, size, "--%s: the role %s does not take this option", row->name,
                 o->role->name);
            return PARSE_BAD;
        }
        const char *text = equals != NULL ? equals + 1 : NULL;
        if (row->kind == KIND_FLAG && text != NULL) {
            fail(error, size, "--%s takes no value", row->name);
            return PARSE_BAD;
        }
        if (row->kind != KIND_FLAG && text == NULL) {
            if (++i == argc) {
                fail(error, size, "--%s needs a value: %s", row->name, row->value);
                return PARSE_BAD;
            }
            text = argv[i];
        }
        if (!option_apply(o, row, text, error, size))
            return PARSE_BAD;
    }
    return options_check(o, error, size) ? PARSE_OK : PARSE_BAD;
}

/* list [--json] */
static enum parse_result parse_list(struct options *o, int argc, char **argv, char *error,
                                    size_t size)
{
    o->list_json = argc == 3 && strcmp(argv[2], "--json") == 0;
    if (argc == 2 || o->list_json)
        return PARSE_LIST;
    fail(error, size, "list: '%s' does not fit here; it takes --json or nothing", argv[2]);
    return PARSE_BAD;
}

/* cache-line CORES */
static enum parse_result parse_cache_line(struct options *o, int argc, char **argv, char *error,
                                          size_t size)
{
    if (argc == 3)
        o->core_count = options_parse_cores(argv[2], o->cores, CORES_MAX);
    if (o->core_count >= 2)
        return PARSE_CACHE_LINE;
    fail(error, size, "cache-line: takes the cores, at least two, and nothing else; e.g. 0,1");
    return PARSE_BAD;
}

static enum parse_result unknown_role(const char *text, const char *const *names, char *error,
                                      size_t size)
{
    const char *near = value_nearest(text, names);
    char list[256] = "";

    for (size_t length = 0; *names != NULL && length < sizeof list; names++)
        length += (size_t)snprintf(list + length, sizeof list - length, "%s, ", *names);
    if (near != NULL)
        fail(error, size, "unknown role '%.40s'; did you mean '%s'?", text, near);
    else
        fail(error, size, "unknown role '%.40s'; use %sor list, check, cache-line", text, list);
    return PARSE_BAD;
}

enum parse_result options_parse(struct options *o, int argc, char **argv, char *error, size_t size)
{
    const char *names[ROLES_MAX + 1] = {NULL};

    set_defaults(o);
    if (argc < 2) {
        fail(error, size, "no role given; try --help");
        return PARSE_BAD;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return PARSE_HELP;
    if (strcmp(argv[1], "--version") == 0)
        return PARSE_VERSION;
    if (strcmp(argv[1], "--man") == 0)
        return PARSE_MANUAL;
    if (strcmp(argv[1], "list") == 0)
        return parse_list(o, argc, argv, error, size);
    if (strcmp(argv[1], "check") == 0 && argc == 2)
        return PARSE_CHECK;
    if (strcmp(argv[1], "cache-line") == 0)
        return parse_cache_line(o, argc, argv, error, size);
    for (unsigned i = 0; roles[i] != NULL; i++) {
        names[i] = roles[i]->name;
        if (strcmp(argv[1], roles[i]->name) == 0)
            o->role = roles[i];
    }
    if (o->role == NULL)
        return unknown_role(argv[1], names, error, size);
    return parse_arguments(o, argc, argv, error, size);
}
