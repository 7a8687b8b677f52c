/* Starts DPDK's environment abstraction layer (EAL) for measurements: fast, quiet, without leaving
 * anything on the machine, and without moving the calling thread from its core.
 *
 * Memory comes from memfd hugepages (--in-memory): no hugetlbfs mount is needed, and the kernel
 * frees them when the process ends for any reason. There is one file per segment list
 * (--single-file-segments), because a vhost-user peer accepts at most 8 memory regions.
 *
 * With --dpdk-pages 4KiB it is one memfd of ordinary pages (--no-huge), which EAL does not combine
 * with either option. --no-shconf then prevents that EAL writes files. */
#include <fcntl.h>
#include <glob.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/resource.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>

#include "fail.h"
#include "io/dpdk.h"
#include "measure/memory.h"

#define ARGUMENTS_MAX 64
#define FILES_MIN 64U

static pthread_mutex_t administration = PTHREAD_MUTEX_INITIALIZER;
static bool started;
static bool log_to_stderr;
static char first_error[200];

void dpdk_eal_lock(void)
{
    pthread_mutex_lock(&administration);
}

void dpdk_eal_unlock(void)
{
    pthread_mutex_unlock(&administration);
}

/* DPDK's log ends here and not in syslog or on the terminal, because its "errors" include normal
 * events such as a missing peer. The first error explains a failure best. */
static ssize_t log_write(void *cookie, const char *text, size_t size)
{
    (void)cookie;
    if (log_to_stderr)
        fwrite(text, 1, size, stderr);
    if (first_error[0] == '\0' && memmem(text, size, "/proc/self/dpdk", 15) == NULL) {
        size_t length = size < sizeof first_error ? size : sizeof first_error - 1;
        memcpy(first_error, text, length);
        first_error[length] = '\0';
        first_error[strcspn(first_error, "\n")] = '\0';
    }
    return (ssize_t)size;
}

const char *dpdk_eal_last_error(void)
{
    static char copy[sizeof first_error];

    memcpy(copy, first_error, sizeof copy);
    first_error[0] = '\0';
    return copy;
}

static bool log_capture(const struct io_config *config)
{
    const cookie_io_functions_t functions = {.write = log_write};
    FILE *stream = fopencookie(NULL, "w", functions);

    for (unsigned i = 0; i < config->dpdk.eal_argument_count; i++)
        log_to_stderr |= strncmp(config->dpdk.eal_arguments[i], "--log-level", 11) == 0;
    if (stream == NULL)
        return false;
    setvbuf(stream, NULL, _IOLBF, BUFSIZ);
    return rte_openlog_stream(stream) == 0;
}

/* Free hugepage memory in MB; -1 if the kernel does not report it. */
static long hugepages_free_mb(void)
{
    glob_t sizes;
    long total_mb = 0;

    if (glob("/sys/kernel/mm/hugepages/hugepages-*kB", 0, NULL, &sizes) != 0)
        return -1;
    for (size_t i = 0; i < sizes.gl_pathc; i++) {
        char path[128];
        long size_kb = 0, pages = 0;
        snprintf(path, sizeof path, "%s/free_hugepages", sizes.gl_pathv[i]);
        FILE *file = fopen(path, "r");
        if (file == NULL)
            continue;
        if (fscanf(file, "%ld", &pages) == 1 &&
            sscanf(path, "/sys/kernel/mm/hugepages/hugepages-%ldkB", &size_kb) == 1)
            total_mb += pages * (size_kb / 1024);
        fclose(file);
    }
    globfree(&sizes);
    return total_mb;
}

static unsigned reserved_pages(void)
{
    unsigned pages = 0;
    FILE *file = fopen("/proc/sys/vm/nr_hugepages", "r");

    if (file == NULL || fscanf(file, "%u", &pages) != 1)
        pages = 0;
    if (file != NULL)
        fclose(file);
    return pages;
}

static bool memory_is_there(unsigned memory_mb, char *error, size_t size)
{
    const long free_mb = hugepages_free_mb();

    if (free_mb < 0 || free_mb >= (long)memory_mb)
        return true;
    return fail(error, size,
                "needs %u MB of free hugepages, finds %ld; reserve %u more pages of 2 MB in "
                "/proc/sys/vm/nr_hugepages (now %u), lower --dpdk-memory-mb, or use "
                "--dpdk-pages 4KiB",
                memory_mb, free_mb, (memory_mb - (unsigned)free_mb + 1) / 2, reserved_pages());
}

/* The kernel provides ordinary pages when they are first touched, and kills a process if it has
 * none left. So the required memory is compared with the free memory before. */
static bool ordinary_memory_is_there(unsigned memory_mb, char *error, size_t size)
{
    return memory_suffices((uint64_t)memory_mb << 20, "DPDK on 4 KiB pages ", error, size);
}

static bool files_are_enough(char *error, size_t size)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= FILES_MIN)
        return true;
    return fail(error, size, "DPDK needs %u open files, this process may have %lu; see ulimit -n",
                FILES_MIN, (unsigned long)limit.rlim_cur);
}

/* "0@(3)" or "0@(0,2,5)": the only EAL thread is the caller, on the cores that it already has. */
static void lcores_argument(const struct io_config *config, char *text, size_t size)
{
    cpu_set_t cores;
    size_t length;

    if (config->core >= 0 || sched_getaffinity(0, sizeof cores, &cores) != 0) {
        snprintf(text, size, "0@%d", config->core >= 0 ? config->core : 0);
        return;
    }
    length = (size_t)snprintf(text, size, "0@(");
    for (int core = 0; core < CPU_SETSIZE && length + 8 < size; core++) {
        if (CPU_ISSET(core, &cores))
            length += (size_t)snprintf(text + length, size - length, "%d,", core);
    }
    text[length - 1] = ')';
}

/* If the CPU does not report the frequency of its TSC, as in most virtual machines, EAL sleeps for
 * 100 ms to measure it, and rounds to 10 MHz. A fiftieth of that time gives the same result. */
#define EAL_NAP_DIVISOR 50

int __real_nanosleep(const struct timespec *length, struct timespec *left);
int __wrap_nanosleep(const struct timespec *length, struct timespec *left);

static _Thread_local bool in_eal_init;

int __wrap_nanosleep(const struct timespec *length, struct timespec *left)
{
    const struct timespec nap = {0, length->tv_nsec / EAL_NAP_DIVISOR};

    return __real_nanosleep(in_eal_init && length->tv_sec == 0 ? &nap : length, left);
}

/* EAL creates a directory for files that it does not write with --in-memory. If it cannot create
 * it, it continues, so it gets a path in which a directory is impossible. */
#define NO_RUNTIME_DIRECTORY "/proc/self"

static int redirect(int from, int to)
{
    const int saved = dup(from);

    dup2(to, from);
    return saved;
}

static void redirect_back(int to, int saved)
{
    if (saved >= 0) {
        dup2(saved, to);
        close(saved);
    }
}

/* rte_eal_init prints its usage on standard output, which is reserved for JSON lines, and alerts on
 * standard error, where the engine prints one clear line. Its helper threads must not receive the
 * signals that the main thread waits for. */
static int eal_init_contained(int argc, char **argv)
{
    const int sink = log_to_stderr ? STDERR_FILENO : memfd_create("eal-output", MFD_CLOEXEC);
    sigset_t all, before;

    fflush(stdout);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    setenv("RUNTIME_DIRECTORY", NO_RUNTIME_DIRECTORY, 1);
    const int output = redirect(STDOUT_FILENO, sink);
    const int errors = redirect(STDERR_FILENO, sink);
    in_eal_init = true;
    const int result = rte_eal_init(argc, argv);
    in_eal_init = false;
    fflush(stdout);
    redirect_back(STDERR_FILENO, errors);
    redirect_back(STDOUT_FILENO, output);
    unsetenv("RUNTIME_DIRECTORY");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!log_to_stderr)
        close(sink);
    return result;
}

/* Find the first PCI function that a port needs. */
static bool find_pci(const struct io_config *config, struct dpdk_spec *spec)
{
    for (unsigned i = 0; i < config->spec_count; i++) {
        if (dpdk_spec_of(config, i, spec) && spec->kind == DPDK_PCI)
            return true;
    }
    return false;
}

static bool eal_init(const struct io_config *config, unsigned memory_mb, char *error, size_t size)
{
    char lcores[1024], memory[16], prefix[48], allow[sizeof "--allow=" + 256];
    struct dpdk_spec function;
    const bool small = config->dpdk.pages == IO_PAGES_SMALL;
    char *argv[ARGUMENTS_MAX] = {"switchmark-traffic",
                                 small ? "--no-huge" : "--in-memory",
                                 small ? "--no-shconf" : "--single-file-segments",
                                 "--no-telemetry",
                                 "--file-prefix",
                                 prefix,
                                 "--lcores",
                                 lcores,
                                 "-m",
                                 memory};
    int argc = 10;
    lcores_argument(config, lcores, sizeof lcores);
    snprintf(memory, sizeof memory, "%u", memory_mb);
    snprintf(prefix, sizeof prefix, "switchmark-%d", (int)getpid());
    if (!log_to_stderr)
        argv[argc++] = "--log-level=error";
    if (find_pci(config, &function)) {
        /* EAL would open every free function, including those of other programs. If one function is
         * allowed, EAL opens no other until the port that needs it is opened. */
        snprintf(allow, sizeof allow, "--allow=%s", function.target);
        argv[argc++] = allow;
    } else { /* a device may need physical addresses; only without devices the mode is known */
        argv[argc++] = "--no-pci";
        argv[argc++] = "--iova-mode=va";
    }
    for (unsigned i = 0; i < config->dpdk.eal_argument_count && argc < ARGUMENTS_MAX - 1; i++)
        argv[argc++] = (char *)(uintptr_t)config->dpdk.eal_arguments[i];
    if (eal_init_contained(argc, argv) < 0) {
        const char *reason = dpdk_eal_last_error();
        return fail(error, size, "DPDK does not start: %s",
                    *reason != '\0' ? reason : rte_strerror(rte_errno));
    }
    dpdk_eal_last_error(); /* discard errors of a successful start */
    return true;
}

bool dpdk_eal_start(const struct io_config *config, char *error, size_t size)
{
    /* Enough for the buffers of all ports, so that memory never grows while peers are attached:
     * each growth would be negotiated with every peer. */
    const unsigned memory_mb = dpdk_spec_memory_mb(config);

    if (started)
        return true;
    if (access("/sys/devices/system/cpu", R_OK) != 0)
        return fail(error, size,
                    "DPDK needs /sys; mount sysfs in this container (read-only will do)");
    const bool enough = config->dpdk.pages == IO_PAGES_SMALL
                            ? ordinary_memory_is_there(memory_mb, error, size)
                            : memory_is_there(memory_mb, error, size);
    if (!enough || !files_are_enough(error, size))
        return false;
    /* A peer that dies while DPDK writes to its socket must not end the engine. */
    signal(SIGPIPE, SIG_IGN);
    if (!log_capture(config))
        return fail(error, size, "out of memory");
    started = eal_init(config, memory_mb, error, size);
    return started;
}
