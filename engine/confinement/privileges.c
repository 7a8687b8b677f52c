/* Gives up capabilities with system calls: the two calls need no library. */
#include "confinement/privileges.h"

#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "confinement/call_filter.h"
#include "confinement/landlock.h"
#include "confinement/user.h"
#include "io/io.h"
#include "options/options.h"
#include "role/role.h"

#ifndef CAP_PERFMON /* Linux 5.8 */
#define CAP_PERFMON 38
#define CAP_BPF 39
#endif

#define BIT(number) ((uint64_t)1 << (number))
#define TO_LEAVE_ROOT (BIT(CAP_SETUID) | BIT(CAP_SETGID))
#define SOCKET_PATH_MAX 256

static const struct {
    const char *name;
    uint64_t bits;
} known[] = {
    {"all", UINT64_MAX},
    {"bpf", BIT(CAP_BPF)},
    {"dac_override", BIT(CAP_DAC_OVERRIDE)},
    {"ipc_lock", BIT(CAP_IPC_LOCK)},
    {"net_admin", BIT(CAP_NET_ADMIN)},
    {"net_raw", BIT(CAP_NET_RAW)},
    {"sys_admin", BIT(CAP_SYS_ADMIN)},
    {"sys_nice", BIT(CAP_SYS_NICE)},
};

static uint64_t bits_of(const char *names)
{
    uint64_t bits = 0;

    while (*names != '\0') {
        const size_t length = strcspn(names, ",");
        for (unsigned i = 0; i < sizeof known / sizeof known[0]; i++) {
            if (strlen(known[i].name) == length && memcmp(known[i].name, names, length) == 0)
                bits |= known[i].bits;
        }
        names += length + (names[length] == ',');
    }
    return bits;
}

/* Limit the capabilities of this thread; it gets no capability that it does not have. If the kernel
 * refuses, as may happen in a container, the thread had fewer capabilities anyway. */
static void keep(uint64_t capabilities, bool leaves_root)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct has[2] = {{0}};

    prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL);
    if (capabilities == UINT64_MAX)
        return;
    for (unsigned number = 0; number < 64; number++) {
        if ((capabilities & ~TO_LEAVE_ROOT & BIT(number)) == 0 &&
            prctl(PR_CAPBSET_DROP, (unsigned long)number) != 0)
            break; /* after the last capability, or without CAP_SETPCAP */
    }
    prctl(PR_CAP_AMBIENT, (unsigned long)PR_CAP_AMBIENT_CLEAR_ALL, 0UL, 0UL, 0UL);
    if (leaves_root)
        user_leave_root();
    if (syscall(SYS_capget, &header, has) != 0)
        return;
    for (unsigned half = 0; half < 2; half++) {
        has[half].permitted &= (uint32_t)(capabilities >> (32 * half));
        has[half].effective = has[half].permitted;
        has[half].inheritable = 0;
    }
    syscall(SYS_capset, &header, has);
}

/* Capabilities that each trial needs, for event counters of its core. */
static uint64_t of_trials(const struct options *o)
{
    return o->hardware_counters ? BIT(CAP_PERFMON) : 0;
}

/* DPDK drivers of devices may need their capabilities later, and DPDK's threads keep those that
 * they were started with. */
static bool lasts(const char *spec)
{
    return (io_capabilities(spec) & IO_KEEPS_PRIVILEGES) != 0;
}

static bool any_port(const struct options *o, unsigned capability)
{
    for (unsigned i = 0; i < o->port_count; i++) {
        if ((io_capabilities(o->ports[i]) & capability) != 0)
            return true;
    }
    return false;
}

static bool all_ports(const struct options *o, unsigned capability)
{
    for (unsigned i = 0; i < o->port_count; i++) {
        if ((io_capabilities(o->ports[i]) & capability) == 0)
            return false;
    }
    return true;
}

/* The threads of a library cannot be changed from here and share our memory. So if there are any,
 * all threads keep the user. */
static bool leaves_root(const struct options *o)
{
    return !any_port(o, IO_OWN_THREADS);
}

/* Return true if these EAL arguments are known to open nothing else. */
static bool eal_opens_no_more(const struct options *o)
{
    static const char *const harmless[] = {"--allow=", "--file-prefix=", "--log-level="};
    const unsigned count = sizeof harmless / sizeof harmless[0];

    for (unsigned i = 0; i < o->eal_argument_count; i++) {
        unsigned k = 0;
        while (k < count && strncmp(o->eal_arguments[i], harmless[k], strlen(harmless[k])) != 0)
            k++;
        if (k == count)
            return false;
    }
    return true;
}

/* A thread of a library shares our memory and could be abused, so it must be confined too.
 * Therefore confinement begins before the library starts its threads, if opening the ports needs no
 * more than confinement allows. */
static bool is_confined_before(const struct options *o)
{
    return all_ports(o, IO_OPENS_CONFINED) && any_port(o, IO_OWN_THREADS) && eal_opens_no_more(o);
}

static void confine_before(const struct options *o)
{
    char sockets[PORTS_MAX][SOCKET_PATH_MAX];
    const char *paths[PORTS_MAX];
    unsigned count = 0;

    for (unsigned i = 0; i < o->port_count; i++) {
        paths[count] = sockets[count];
        count += io_socket_made(o->ports[i], sockets[count], SOCKET_PATH_MAX);
    }
    confine(paths, count, 0);
}

static void confine_after(const struct options *o, uint64_t capabilities)
{
    const struct allowed_calls calls = {
        .bpf = (capabilities & BIT(CAP_BPF)) != 0,
        .perf = (capabilities & BIT(CAP_PERFMON)) != 0,
        .connect = any_port(o, IO_CONNECTS),
        .files = !is_confined_before(o),
    };

    if (any_port(o, IO_OWN_THREADS))
        call_filter_set(&calls);
    else
        confine(NULL, 0, o->role->sends_requests ? tcp_address_port(&o->tcp.connect) : 0);
}

void privileges_narrow(const struct options *o)
{
    const bool at_once = leaves_root(o) && all_ports(o, IO_OPENS_NO_FILE);
    uint64_t capabilities = of_trials(o) | (leaves_root(o) && !at_once ? TO_LEAVE_ROOT : 0);

    for (unsigned i = 0; i < o->port_count; i++)
        capabilities |= bits_of(io_privileges(o->ports[i]));
    keep(capabilities, at_once);
    if (is_confined_before(o))
        confine_before(o);
}

void privileges_drop(const struct options *o)
{
    uint64_t capabilities = of_trials(o);

    for (unsigned i = 0; i < o->port_count; i++)
        capabilities |= lasts(o->ports[i]) ? bits_of(io_privileges(o->ports[i])) : 0;
    keep(capabilities, leaves_root(o));
    confine_after(o, capabilities);
}

void privileges_drop_all(const struct options *o)
{
    keep(0, leaves_root(o));
    if (!any_port(o, IO_OWN_THREADS))
        confine(NULL, 0, 0);
}

void privileges_keep(const char *names)
{
    keep(bits_of(names), false);
}
