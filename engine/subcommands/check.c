/* The subcommand `check`: reports for each command line whether it is valid. */
#include "subcommands/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ends/ends.h"
#include "options/options.h"
#include "options/replay_file.h"

#define WORDS_MAX 256

static struct options options; /* too large for a stack */

static void check_replay_file(char *error, size_t size)
{
    struct replay replay = {0};
    const int fd = replay_open(options.replay_path, error, size);

    if (fd >= 0 && replay_file_load(&replay, fd, &options, error, size))
        replay_free(&replay);
}

/* `error` stays empty if the command line is accepted. */
static void check_words(int count, char **arguments, char *error, size_t size)
{
    const enum parse_result result = options_parse(&options, count, arguments, error, size);

    if (result == PARSE_BAD)
        return;
    if (result != PARSE_OK)
        snprintf(error, size, "'%s' is not a role", arguments[1]);
    else if (ends_check_ports(&options, error, size) && options.replay_path != NULL)
        check_replay_file(error, size);
}

static void check_line(char *line)
{
    static char name[] = "switchmark-traffic";
    char *arguments[WORDS_MAX] = {name}, *rest = line;
    char error[512] = "";
    int count = 1;

    while (rest != NULL && count < WORDS_MAX)
        arguments[count++] = strsep(&rest, "\t");
    if (rest != NULL)
        snprintf(error, sizeof error, "more than %d words", WORDS_MAX - 1);
    else
        check_words(count, arguments, error, sizeof error);
    printf("%s\n", error);
}

bool check_command_lines(void)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length;

    while ((length = getline(&line, &room, stdin)) >= 0) {
        if (length > 0 && line[length - 1] == '\n')
            line[length - 1] = '\0';
        check_line(line);
    }
    const bool good = feof(stdin) != 0;
    free(line);
    return good;
}
