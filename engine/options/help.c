/* --help and the man page, generated from the option table, the roles and the backends. */
#include <stdio.h>
#include <string.h>

#include "io/io.h"
#include "options/options.h"
#include "options/table.h"
#include "role/role.h"
#include "version.h"

#define COLUMNS 100
#define PORT_TEXT 15 /* column at which the description begins */
#define OPTION_TEXT 27
#define TEXT_MAX 1024 /* description of a backend */

#define USAGE "ROLE --port SPEC [--port SPEC] [options]"

static const struct {
    const char *purpose;
    const char *command; /* the continuation lines are indented */
} examples[] = {
    {"the maximum rate of the engine on this core",
     "switchmark-traffic sender --port null: --duration 2 --start now"},
    {"count the frames that arrive at eth0 until interrupted",
     "switchmark-traffic receiver --port raw:dev=eth0,mmsg --start now"},
    {"100,000 frames per second of 512 bytes to a peer",
     "switchmark-traffic sender --port raw:dev=eth0,mmsg --dst-mac 02:00:00:00:00:02 \\\n"
     "    --rate 100k --burst 8 --packet-size 512 --duration 10 --start now"},
    {"round-trip times through a switch between two UDP sockets, each on its host",
     "switchmark-traffic server --port udp:dev=eth0 --src-ip 198.18.0.2 \\\n"
     "    --dst-ip 198.18.0.1 --start now\n"
     "switchmark-traffic client --port udp:dev=eth0 --src-ip 198.18.0.1 \\\n"
     "    --dst-ip 198.18.0.2 --rate 1k --burst 1 --duration 10 --start now"},
    {"both ends of a vhost-user switch in one process, 64 MiB of hugepages",
     "switchmark-traffic tester --port dpdk:virtio-user=/run/a.sock,server \\\n"
     "    --port dpdk:virtio-user=/run/b.sock,server --rate 1M --duration 10 --start now"},
    {"two queues on two cores over packed rings",
     "switchmark-traffic sender --port dpdk:virtio-user=/run/a.sock,packed --queues 2 \\\n"
     "    --core 0,1 --dst-mac 02:00:00:00:00:02 --duration 10 --start now"},
    {"a million flows of mixed sizes with VLAN 100, a few frequent and most rare (Zipf)",
     "switchmark-traffic sender --port dpdk:virtio-user=/run/a.sock --duration 10 \\\n"
     "    --dst-mac 02:00:00:00:00:02 --packet-size 68*7+570*4+1522 --vlan 100 \\\n"
     "    --flows 1M:src-ip+src-port:zipf=1.0 --start now"},
};

#define EXAMPLES (sizeof examples / sizeof examples[0])

static const char commands[] =
    "verify N, verify-broadcast N, counters, interval, inject HEX, capture N,\n"
    "table rows=N, denied rows=N, tunnels rows=N,\n"
    "start [key=value ...] (the options marked *, and at=NS), stop, exit.\n";

static void print_indented(const char *text, const char *indent)
{
    while (*text != '\0') {
        const size_t length = strcspn(text, "\n");
        printf("%s%.*s\n", indent, (int)length, text);
        text += length + (text[length] == '\n');
    }
}

/* Print text from column `indent`, with the cursor at column `at`; lines break between words. */
static void print_wrapped(const char *text, int indent, int at)
{
    bool first = true;

    while (*text != '\0') {
        const int length = (int)strcspn(text, " ");
        if (at < indent) {
            at += printf("%*s", indent - at, "");
        } else if (first ? at > indent : at + 1 + length > COLUMNS) {
            at = printf("\n%*s", indent, "") - 1;
        } else if (!first) {
            at += printf(" ");
        }
        first = false;
        printf("%.*s", length, text);
        at += length;
        text += length + (text[length] == ' ');
    }
    putchar('\n');
}

/* "summary: keys" */
static void describe_backend(const struct io_ops *ops, char *text, size_t size)
{
    snprintf(text, size, "%s: %s", ops->summary, ops->keys);
}

void options_print_help(void)
{
    char text[TEXT_MAX];

    printf("switchmark-traffic: the traffic engine of switchmark\n\n"
           "Usage: switchmark-traffic " USAGE "\n"
           "       switchmark-traffic list [--json]\n"
           "       switchmark-traffic cache-line CORES\n"
           "       switchmark-traffic check\n\nRoles:\n");
    for (unsigned i = 0; roles[i] != NULL; i++)
        printf("  %-10s %s\n", roles[i]->name, roles[i]->summary);
    printf("\nPorts (the default is the first choice, or the number in brackets):\n");
    for (unsigned i = 0; io_backends[i] != NULL; i++) {
        describe_backend(io_backends[i], text, sizeof text);
        print_wrapped(text, PORT_TEXT, printf("  %s", io_backends[i]->name));
    }
    printf("\nOptions (* a `start` command may change it for one trial):\n");
    for (unsigned i = 0; i < option_rows; i++) {
        char left[64];
        snprintf(left, sizeof left, "--%s %s", option_table[i].name,
                 option_table[i].value != NULL ? option_table[i].value : "");
        const int at = printf("  %-23s %s", left, option_table[i].per_trial ? "*" : "");
        print_wrapped(option_table[i].help, OPTION_TEXT, at);
    }
    printf("  %-24s %s\n  %-24s %s\n  %-24s %s\n", "--help", "this text", "--man",
           "the same as a man page", "--version", "the version");
    printf("\nCommands on standard input: %s"
           "Events are JSON lines on standard output; docs/engine-protocol.md describes both.\n\n"
           "Examples:\n",
           commands);
    for (unsigned i = 0; i < EXAMPLES; i++) {
        printf("  %s\n", examples[i].purpose);
        print_indented(examples[i].command, "    ");
    }
}

/* Text in roff: a leading dot or quote would be a request, and a hyphen is not a minus. */
static void put_roff(const char *text)
{
    bool at_line_start = true;

    for (; *text != '\0'; text++) {
        if (at_line_start && (*text == '.' || *text == '\''))
            printf("\\&");
        if (*text == '\\')
            printf("\\e");
        else if (*text == '-')
            printf("\\-");
        else
            putchar(*text);
        at_line_start = *text == '\n';
    }
}

static void put_entry(const char *name, const char *value, const char *text)
{
    printf(".TP\n\\fB");
    put_roff(name);
    printf("\\fR");
    if (value != NULL) {
        printf(" \\fI");
        put_roff(value);
        printf("\\fR");
    }
    putchar('\n');
    put_roff(text);
    putchar('\n');
}

static void put_options(void)
{
    char name[64];

    printf(".SH OPTIONS\nA start command can change the options marked * for one trial.\n");
    for (unsigned i = 0; i < option_rows; i++) {
        snprintf(name, sizeof name, "--%s%s", option_table[i].name,
                 option_table[i].per_trial ? " *" : "");
        put_entry(name, option_table[i].value, option_table[i].help);
    }
    put_entry("--help", NULL, "print a summary and end");
    put_entry("--man", NULL, "print this page and end");
    put_entry("--version", NULL, "print the version and end");
}

void options_print_manual(void)
{
    printf(".TH SWITCHMARK\\-TRAFFIC 1 \"\" \"switchmark %s\" \"User Commands\"\n"
           ".SH NAME\nswitchmark\\-traffic \\- the traffic engine of switchmark\n"
           ".SH SYNOPSIS\n.B switchmark\\-traffic\n",
           engine_version);
    put_roff(USAGE);
    printf("\n.br\n.B switchmark\\-traffic list\n[\\-\\-json]\n.SH DESCRIPTION\n"
           "Has one role in a measurement of a virtual switch: it sends, receives, echoes or "
           "forwards Ethernet frames over the given ports, prints events as JSON lines "
           "and executes commands from standard input.\n"
           ".B list\nprints the compiled backends, and the reasons for missing ones.\n.SH ROLES\n");
    for (unsigned i = 0; roles[i] != NULL; i++)
        put_entry(roles[i]->name, NULL, roles[i]->summary);
    printf(".SH PORTS\nA port is BACKEND:key=value,... The default is the first choice, or "
           "the number in brackets.\n");
    for (unsigned i = 0; io_backends[i] != NULL; i++) {
        char text[TEXT_MAX];
        describe_backend(io_backends[i], text, sizeof text);
        put_entry(io_backends[i]->name, NULL, text);
    }
    put_options();
    printf(".SH COMMANDS\n");
    put_roff(commands);
    printf(".SH EXIT STATUS\n0: done. 1: a port or the trial failed. 2: bad arguments.\n"
           ".SH EXAMPLES\n");
    for (unsigned i = 0; i < EXAMPLES; i++) {
        printf(".PP\n");
        put_roff(examples[i].purpose);
        printf("\n.PP\n.nf\n.RS\n");
        put_roff(examples[i].command);
        printf("\n.RE\n.fi\n");
    }
    printf(".SH SEE ALSO\nThe engine protocol: docs/engine\\-protocol.md of switchmark.\n");
}
