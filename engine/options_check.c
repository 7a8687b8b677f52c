/* Options that must fit together: workers, queues and cores. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "io/io.h"
#include "options.h"
#include "role/role.h"

__attribute__((format(printf, 3, 4))) static bool fail(char *error, size_t size, const char *format,
                                                       ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error, size, format, arguments);
    va_end(arguments);
    return false;
}

bool options_check_workers(const struct options *o, char *error, size_t size)
{
    const char *spec = o->ports[0];
    const struct io_ops *ops = io_find(spec, strcspn(spec, ":"));

    if (o->queues > 1 && !o->role->queues)
        return fail(error, size, "--queues: only a sender or a receiver has several workers");
    if (o->queues > 1 && (ops == NULL || o->queues > ops->queues_max))
        return fail(error, size, "--queues: %.*s ports have one queue", (int)strcspn(spec, ":"),
                    spec);
    if (o->queues > 1 && o->stream + o->queues > 65536)
        return fail(error, size, "--stream: %llu leaves no numbers for %llu queues",
                    (unsigned long long)o->stream, (unsigned long long)o->queues);
    if (o->queues > 1 &&
        (o->replay_path != NULL || o->traffic.probes || o->traffic.probe_rate.amount > 0))
        return fail(error, size, "--queues: replay and probe streams have one worker");
    if (o->core_count > 1 && o->core_count != o->queues && strcmp(o->role->name, "tester") != 0)
        return fail(error, size,
                    "--core: %u cores for %llu workers; only a tester uses two cores, others as "
                    "many as --queues",
                    o->core_count, (unsigned long long)o->queues);
    if (o->core_count > 2 && strcmp(o->role->name, "tester") == 0)
        return fail(error, size, "--core: a tester uses one core or two, not %u", o->core_count);
    return true;
}
