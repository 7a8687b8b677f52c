/* The option parser, port specifications and commands on standard input, from arbitrary text. An
 * error has one line, and accepted values are within their bounds. */
#include "fuzz.h"

#include "control/command.h"
#include "ends/ends.h"
#include "options/options.h"
#include "role/role.h"

#define WORDS_MAX 80

static struct options options;

static void check_error(const char *error)
{
    must(error[0] != '\0');
    must(strchr(error, '\n') == NULL);
}

static void check_accepted(void)
{
    char error[512] = "";

    must(options.role != NULL);
    must(options.role->speaks_tcp ? options.port_count == 0 : options.port_count >= 1);
    must(options.port_count <= PORTS_MAX);
    must(options.traffic.frame_size >= FRAME_SIZE_MIN &&
         options.traffic.frame_size <= FRAME_SIZE_MAX);
    must(options.traffic.burst >= 1 && options.queues >= 1 && options.queues <= IO_QUEUES_MAX);
    must(options.core_count <= CORES_MAX);
    must(options.stream + options.queues <= 65536);
    if (!ends_check_ports(&options, error, sizeof error))
        check_error(error);
}

/* Arguments are separated by newlines. */
static void parse_words(char *text)
{
    char *arguments[WORDS_MAX + 1] = {"switchmark-traffic"};
    char error[512] = "";
    int count = 1;

    for (char *word = strtok(text, "\n"); word != NULL && count < WORDS_MAX;
         word = strtok(NULL, "\n"))
        arguments[count++] = word;
    switch (options_parse(&options, count, arguments, error, sizeof error)) {
    case PARSE_OK:
        check_accepted();
        break;
    case PARSE_BAD:
        check_error(error);
        break;
    default:
        break;
    }
}

static void parse_command(char *line)
{
    static const struct options base = {
        .role = &role_sender,
        .ports = {"null:"},
        .port_count = 1,
        .traffic = {.burst = 32, .frame_size = 64, .interval_ns = NS_PER_S},
    };
    struct command command;
    char error[512] = "";

    if (!command_parse(line, &base, &command, error, sizeof error))
        check_error(error);
    else if (command.kind == COMMAND_START)
        must(command.traffic.burst >= 1 && command.traffic.frame_size >= FRAME_SIZE_MIN);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    must(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    if (size > 0 && text[0] == '>') { /* a command; otherwise it is a command line */
        text[strcspn(text, "\n")] = '\0';
        parse_command(text + 1);
    } else {
        parse_words(text);
    }
    free(text);
    return 0;
}
