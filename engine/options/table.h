/* One row for each option. The command line, the `start` command and --help use this table. */
#ifndef SM_OPTIONS_TABLE_H
#define SM_OPTIONS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kind {
    KIND_FLAG,
    KIND_COUNT,
    KIND_SIZES,
    KIND_FLOWS,
    KIND_MODIFIER,
    KIND_VLAN,
    KIND_EXPECTED_VLAN,
    KIND_TUNNEL,
    KIND_MACS,
    KIND_IP_VERSION,
    KIND_PAYLOAD,
    KIND_RATE,       /* a rate or max */
    KIND_PROBE_RATE, /* a rate or none, but not max */
    KIND_LINE_RATE,
    KIND_SCHEDULE,
    KIND_TIME,
    KIND_MICROSECONDS,
    KIND_SHARE,
    KIND_JITTER,
    KIND_MAC,
    KIND_IP,
    KIND_UDP_PORT,
    KIND_PORT,
    KIND_CORES,
    KIND_IDLE,
    KIND_PAGES,
    KIND_START,
    KIND_ECHO,
    KIND_CLOCK,
    KIND_TEXT,
    KIND_EAL,
    KIND_TCP_ADDRESS,
    KIND_WORKLOAD
};

struct role;

struct option_row {
    const char *name;
    enum kind kind;
    const char *value; /* name of the value in the help; NULL: no value */
    uint64_t min, max; /* in the unit of the field */
    size_t offset;     /* offset of the value in struct options */
    size_t given;      /* offset of a bool that is set if the option is given; 0: none */
    bool per_trial;    /* a `start` command may override it */
    const char *help;
};

extern const struct option_row option_table[];
extern const unsigned option_rows;

/* Return true if the role takes the option: roles that use TCP sockets have other options than
 * those that send frames. */
bool option_is_taken_by(const struct option_row *row, const struct role *role);

/* Another spelling of an option's name. */
struct option_alias {
    const char *alias, *name;
};
extern const struct option_alias option_aliases[]; /* ended by NULL */

struct options;

/* Read the text of an option into its field (apply.c). False: one line in `error`. */
bool option_apply(struct options *o, const struct option_row *row, const char *text, char *error,
                  size_t error_size);
#endif
