/* Landlock through its system calls: the C library has no functions for them, and old headers lack
 * newer rights. */
#include "confinement/landlock.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

/* linux/landlock.h; the numbers are the same on every architecture */
#define CREATE_RULESET 444
#define ADD_RULE 445
#define RESTRICT_SELF 446
#define ASK_VERSION 1U
#define RULE_PATH_BENEATH 1
#define RULE_NET_PORT 2 /* version 4 */
#define CONNECT_TCP ((uint64_t)1 << 1)
#define READ_FILE ((uint64_t)1 << 2)
#define READ_DIR ((uint64_t)1 << 3)
#define REMOVE_FILE ((uint64_t)1 << 5)
#define MAKE_SOCKET ((uint64_t)1 << 9)

struct ruleset {
    uint64_t files, tcp, scopes;
};

struct path_beneath {
    uint64_t allowed;
    int32_t folder;
} __attribute__((packed));

struct port_rule {
    uint64_t allowed, port;
};

/* All rights that a kernel with this version of Landlock can forbid. */
static struct ruleset all_of(long version)
{
    struct ruleset all = {.files = ((uint64_t)1 << 13) - 1};

    all.files |= version >= 2 ? (uint64_t)1 << 13 : 0; /* move files between directories */
    all.files |= version >= 3 ? (uint64_t)1 << 14 : 0; /* truncate files */
    all.files |=
        version >= 5 ? (uint64_t)1 << 15 : 0; /* ioctl on devices that are opened from now on */
    all.tcp = version >= 4 ? 3 : 0;           /* bind, connect */
    all.scopes = version >= 6 ? 3 : 0;        /* abstract sockets, signals */
    return all;
}

static void allow(long rules, const char *folder, uint64_t rights)
{
    struct path_beneath rule = {.allowed = rights};

    rule.folder = open(folder, O_PATH | O_CLOEXEC);
    if (rule.folder < 0)
        return;
    syscall(ADD_RULE, rules, RULE_PATH_BENEATH, &rule, 0U);
    close(rule.folder);
}

/* Each trial reads CPU times and memory, and the C library loads another library when a thread
 * ends. */
static void allow_reading(long rules)
{
    static const char *const readable[] = {"/proc", "/sys", "/usr", "/lib", "/lib64"};

    for (unsigned i = 0; i < sizeof readable / sizeof readable[0]; i++)
        allow(rules, readable[i], READ_FILE | READ_DIR);
}

static void allow_socket(long rules, const char *path)
{
    char folder[PATH_MAX];

    if (snprintf(folder, sizeof folder, "%s", path) < (int)sizeof folder)
        allow(rules, dirname(folder), MAKE_SOCKET | REMOVE_FILE);
}

static void allow_connect(long rules, uint16_t port)
{
    const struct port_rule rule = {.allowed = CONNECT_TCP, .port = port};

    if (port != 0)
        syscall(ADD_RULE, rules, RULE_NET_PORT, &rule, 0U);
}

void confine(const char *const *paths, unsigned count, uint16_t port)
{
    const long version = syscall(CREATE_RULESET, NULL, (size_t)0, ASK_VERSION);

    if (version < 1)
        return;
    const struct ruleset all = all_of(version);
    const long rules = syscall(CREATE_RULESET, &all, sizeof all, 0U);
    if (rules < 0)
        return;
    allow_reading(rules);
    for (unsigned i = 0; i < count; i++)
        allow_socket(rules, paths[i]);
    allow_connect(rules, port);
    syscall(RESTRICT_SELF, rules, 0U);
    close((int)rules);
}
