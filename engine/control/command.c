/* Parses commands. */
#include "control/command.h"

#include <string.h>

#include "fail.h"
#include "options/value.h"

#define VERIFY_MAX 1000000

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

bool command_parse(char *line, const struct options *base, struct command *command, char *error,
                   size_t size)
{
    static const char *const names[] = {
        "verify", "verify-broadcast", "counters", "interval", "start", "stop", "exit", NULL};
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
                        : "; commands: verify, verify-broadcast, counters, interval, start, stop, "
                          "exit");
    }
    command->kind = (enum command_kind)kind;
    if (command->kind == COMMAND_VERIFY || command->kind == COMMAND_VERIFY_BROADCAST) {
        if (!parse_verify(&rest, command, error, size))
            return false;
    } else if (command->kind == COMMAND_START) {
        if (!parse_start(&rest, base, command, error, size))
            return false;
    } else if (command->kind == COMMAND_STOP) {
        if (!parse_stop(&rest, command, error, size))
            return false;
    }
    const char *extra = strtok_r(NULL, " \t\r", &rest);
    if (extra != NULL)
        return fail(error, size, "%s: '%.40s' is too much", name, extra);
    return true;
}
