/* Parses commands. */
#include "control/command.h"

#include <stdlib.h>
#include <string.h>

#include "control/base64.h"
#include "fail.h"
#include "io/io.h"
#include "options/value.h"
#include "role/role.h"
#include "traffic/frame.h"

#define VERIFY_MAX 1000000
#define CAPTURE_MAX 1000000

static bool parse_verify(char **rest, struct command *command, char *error, size_t size)
{
    const char *word = strtok_r(NULL, " \t\r", rest);
    uint64_t count = 0;

    if (word == NULL || !value_parse_count(word, &count) || count < 1 || count > VERIFY_MAX)
        return fail(error, size, "verify: '%.40s' is not a number from 1 to %d",
                    word != NULL ? word : "", VERIFY_MAX);
    command->count = (unsigned)count;
    return true;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    const char small = (char)(c | 0x20);
    return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

/* Append a frame, given by its bytes in hex, to the data of the command, which has room. */
static bool add_frame(struct command *command, const char *hex, char *error, size_t size)
{
    const size_t digits = strlen(hex);
    const uint32_t length = (uint32_t)(digits / 2);
    uint8_t *to = command->data + command->size + sizeof length;

    if (digits % 2 != 0 || length < IO_HEADER_BYTES || length > FRAME_LENGTH_MAX)
        return fail(error, size,
                    "inject: '%.20s%s' has %zu hex digits; a frame has %d to %d bytes, two digits "
                    "each",
                    hex, digits > 20 ? "..." : "", digits, IO_HEADER_BYTES, FRAME_LENGTH_MAX);
    memcpy(command->data + command->size, &length, sizeof length);
    for (uint32_t i = 0; i < length; i++) {
        const int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);
        if (high < 0 || low < 0)
            return fail(error, size, "inject: '%.2s' at byte %u of a frame is not a hex number",
                        hex + 2 * i, i);
        to[i] = (uint8_t)(high << 4 | low);
    }
    command->size += sizeof length + length;
    return true;
}

/* Return true if the ports of this engine take and give whole frames while it is idle. */
static bool has_frames(const struct options *base, const char *name, char *error, size_t size)
{
    if (base->role->stands_between || base->role->speaks_tcp)
        return fail(error, size, "%s: a %s has no such command; use a role that owns its ports",
                    name, base->role->name);
    for (unsigned i = 0; i < base->port_count; i++) {
        if ((io_capabilities(base->ports[i]) & IO_DATAGRAMS) != 0)
            return fail(error, size,
                        "%s: port %u (%s) has datagrams, whose headers the kernel writes; use a "
                        "port with whole frames, such as raw:dev=NAME",
                        name, i, base->ports[i]);
    }
    return true;
}

/* `inject [port=I] HEX [HEX ...]`. Each frame needs its length instead of a space, and half of its
 * digits, so that twice the length of the line is room enough. */
static bool parse_inject(char **rest, const struct options *base, struct command *command,
                         char *error, size_t size)
{
    static const char key[] = "port=";
    const char *word = strtok_r(NULL, " \t\r", rest);
    uint64_t port = 0;

    if (!has_frames(base, "inject", error, size))
        return false;
    if (word != NULL && strncmp(word, key, sizeof key - 1) == 0) {
        if (!value_parse_count(word + sizeof key - 1, &port) || port >= base->port_count)
            return fail(error, size, "inject: '%.40s': there are ports 0 to %u", word,
                        base->port_count - 1);
        word = strtok_r(NULL, " \t\r", rest);
    }
    command->port = (unsigned)port;
    if (word == NULL)
        return fail(error, size, "inject: no frame is given; add its bytes in hex, without FCS");
    command->data = malloc(2 * COMMAND_LINE_BYTES);
    if (command->data == NULL)
        return fail(error, size, "inject: out of memory");
    for (; word != NULL; word = strtok_r(NULL, " \t\r", rest)) {
        if (!add_frame(command, word, error, size))
            return false;
    }
    return true;
}

static bool parse_capture(char **rest, const struct options *base, struct command *command,
                          char *error, size_t size)
{
    const char *word = strtok_r(NULL, " \t\r", rest);
    uint64_t count = 0;

    if (!has_frames(base, "capture", error, size))
        return false;
    if (word == NULL || !value_parse_count(word, &count) || count > CAPTURE_MAX)
        return fail(error, size, "capture: '%.40s' is not a number from 0 to %d",
                    word != NULL ? word : "", CAPTURE_MAX);
    command->count = (unsigned)count;
    return true;
}

/* Why this engine takes no table of flows, or NULL. */
static const char *obstacle_to_table(const struct options *base, enum command_kind kind)
{
    if (kind == COMMAND_TUNNELS)
        return base->role->takes_encapsulation
                   ? NULL
                   : "only a sender, a receiver, a tester and a duplex take them";
    if (kind == COMMAND_DENIED && !base->role->sends)
        return "only a role that sends has denied flows; a receiver needs no table of them";
    if (!base->role->takes_table)
        return "only a sender, a receiver, a tester and a duplex take one";
    if (base->flows.count > 1)
        return "the engine has --flows, which it replaces; leave --flows out";
    if (base->queues > 1)
        return "only with one queue";
    if (base->bidirectional)
        return "its flows have one direction; leave --bidirectional out";
    if (base->replay_path != NULL)
        return "the frames of --replay have their own addresses; leave --replay out";
    return NULL;
}

/* `rows=N [zipf=S] [seed=N]`, of which `word` is the first. */
static bool parse_plan(const char *word, char **rest, struct row_table_plan *plan, char *error,
                       size_t size)
{
    uint64_t number = 0;
    const char *end;

    *plan = (struct row_table_plan){.seed = 1};
    for (; word != NULL; word = strtok_r(NULL, " \t\r", rest)) {
        if (strncmp(word, "rows=", 5) == 0 && value_parse_count(word + 5, &number) &&
            number <= ROWS_MAX) {
            plan->rows = (uint32_t)number;
        } else if (strncmp(word, "seed=", 5) == 0 && value_parse_count(word + 5, &number)) {
            plan->seed = number;
        } else if (strncmp(word, "zipf=", 5) == 0 &&
                   value_parse_decimal(word + 5, 9, &number, &end) && *end == '\0' &&
                   number <= 10 * VALUE_SHARE_WHOLE) {
            plan->is_zipf = true;
            plan->exponent = (double)number / VALUE_SHARE_WHOLE;
        } else {
            return fail(error, size,
                        "table: '%.40s' is not rows=N (0 to %u), zipf=S (0 to 10) or seed=N", word,
                        ROWS_MAX);
        }
    }
    return true;
}

/* `table rows=N [zipf=S] [seed=N]`, or `table BASE64`. */
static bool parse_table(char **rest, const struct options *base, struct command *command,
                        char *error, size_t size)
{
    const char *word = strtok_r(NULL, " \t\r", rest);
    const char *obstacle = obstacle_to_table(base, command->kind);

    if (obstacle != NULL)
        return fail(error, size, "%s: %s", command->kind == COMMAND_TUNNELS ? "tunnels" : "table",
                    obstacle);
    if (!has_frames(base, "table", error, size))
        return false;
    if (word == NULL)
        return fail(error, size, "table: give rows=N, or rows in base64");
    if (strncmp(word, "rows=", 5) == 0)
        return parse_plan(word, rest, &command->plan, error, size);
    command->data = malloc(COMMAND_LINE_BYTES);
    if (command->data == NULL)
        return fail(error, size, "table: out of memory");
    return base64_decode(word, command->data, &command->size) ||
           fail(error, size, "table: '%.20s...' is neither rows=N nor base64", word);
}

bool command_next_frame(const struct command *command, size_t *at, const uint8_t **bytes,
                        uint32_t *length)
{
    if (*at == command->size)
        return false;
    memcpy(length, command->data + *at, sizeof *length);
    *bytes = command->data + *at + sizeof *length;
    *at += sizeof *length + *length;
    return true;
}

void command_free(struct command *command)
{
    free(command->data);
    command->data = NULL;
    command->size = 0;
}

/* `stop` alone, or with the number of frames that were sent to this receiver. */
static bool parse_stop(char **rest, struct command *command, char *error, size_t size)
{
    static const char key[] = "sent=";
    const char *word = strtok_r(NULL, " \t\r", rest);

    if (word == NULL)
        return true;
    if (strncmp(word, key, sizeof key - 1) != 0 ||
        !value_parse_count(word + sizeof key - 1, &command->sent))
        return fail(error, size, "stop: '%.40s' is not sent= and a number of frames", word);
    return true;
}

static bool parse_start(char **rest, const struct options *base, struct command *command,
                        char *error, size_t size)
{
    command->traffic.rate_given = false; /* a ramp replaces the rate of the command line */
    for (;;) {
        const char *word = strtok_r(NULL, " \t\r", rest);
        if (word == NULL)
            return options_fit(base, &command->traffic, error, size);
        if (!options_override(&command->traffic, word, error, size))
            return false;
    }
}

/* Parse the arguments of a command. */
static bool parse_arguments(char **rest, const struct options *base, struct command *command,
                            char *error, size_t size)
{
    switch (command->kind) {
    case COMMAND_VERIFY:
    case COMMAND_VERIFY_BROADCAST:
        return parse_verify(rest, command, error, size);
    case COMMAND_INJECT:
        return parse_inject(rest, base, command, error, size);
    case COMMAND_CAPTURE:
        return parse_capture(rest, base, command, error, size);
    case COMMAND_TABLE:
    case COMMAND_DENIED:
    case COMMAND_TUNNELS:
        return parse_table(rest, base, command, error, size);
    case COMMAND_START:
        return parse_start(rest, base, command, error, size);
    case COMMAND_STOP:
        return parse_stop(rest, command, error, size);
    default:
        return true;
    }
}

bool command_parse(char *line, const struct options *base, struct command *command, char *error,
                   size_t size)
{
    static const char *const names[] = {
        "verify",  "verify-broadcast", "counters", "inject", "capture", "table", "denied",
        "tunnels", "interval",         "start",    "stop",   "exit",    NULL};
    char *rest = NULL;
    const char *name = strtok_r(line, " \t\r", &rest);
    unsigned kind = 0;

    *command = (struct command){.traffic = base->traffic, .sent = SENT_UNKNOWN};
    if (name == NULL)
        name = "";
    while (names[kind] != NULL && strcmp(names[kind], name) != 0)
        kind++;
    if (names[kind] == NULL) {
        const char *near = value_nearest(name, names);
        return fail(error, size, "unknown command '%.40s'%s%s%s", name,
                    near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
                    near != NULL
                        ? "'?"
                        : "; commands: verify, verify-broadcast, counters, inject, capture, "
                          "table, denied, tunnels, interval, start, stop, exit");
    }
    command->kind = (enum command_kind)kind;
    const char *extra = NULL;
    const bool good = parse_arguments(&rest, base, command, error, size);
    if (good)
        extra = strtok_r(NULL, " \t\r", &rest);
    if (good && extra == NULL)
        return true;
    command_free(command);
    return good ? fail(error, size, "%s: '%.40s' is too much", name, extra) : false;
}
