/* One line of standard input as a command. */
#ifndef SM_CONTROL_COMMAND_H
#define SM_CONTROL_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "measure/sequence.h"
#include "options/options.h"
#include "traffic/row_table.h"

enum command_kind {
    COMMAND_VERIFY,
    COMMAND_VERIFY_BROADCAST,
    COMMAND_COUNTERS,
    COMMAND_INJECT,
    COMMAND_CAPTURE,
    COMMAND_TABLE,
    COMMAND_DENIED,
    COMMAND_TUNNELS,
    COMMAND_INTERVAL,
    COMMAND_START,
    COMMAND_STOP,
    COMMAND_EXIT,
    COMMAND_END
};

struct command {
    enum command_kind kind;
    unsigned count;         /* number of verification frames, or of frames to capture */
    uint64_t sent;          /* `stop`: frames for this receiver, or SENT_UNKNOWN */
    struct traffic traffic; /* traffic of the trial to start */
    unsigned port;          /* `inject`: number of the --port */
    uint8_t *data; /* allocated: frames of `inject`, each behind its length (4 bytes), or the rows
                      of a table */
    size_t size;   /* number of bytes of `data` */
    struct row_table_plan plan; /* `table` and `denied` without `data` */
};

/* The longest line, with its newline. */
#define COMMAND_LINE_BYTES 65536

/* Parse a line (without newline; it is changed). `base` is the command line, whose traffic a
 * `start` command may override. False: the line is not a command; `error` has the reason in one
 * line. */
bool command_parse(char *line, const struct options *base, struct command *command, char *error,
                   size_t error_size);

/* Free the data of a command that will not be used again. */
void command_free(struct command *command);

/* Take the next frame of `inject` from `*at`, and advance `*at`. Return false if no frame is left.
 */
bool command_next_frame(const struct command *command, size_t *at, const uint8_t **bytes,
                        uint32_t *length);
#endif
