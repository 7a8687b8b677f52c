/* The subcommand `cache-line`. It waits between measurements, so that a measurement costs a
 * millisecond and no program start. */
#include "subcommands/distances.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "measure/cache_line.h"
#include "report/json.h"

static void put(struct json *j, const char *key, bool found, double value)
{
    if (found)
        json_number(j, key, value);
    else
        json_null(j, key);
}

static bool print_reading(const int *cores, unsigned count)
{
    struct json j = {0};
    double ns = 0;

    json_begin(&j);
    json_list(&j, "lines_ns");
    for (unsigned i = 1; i < count; i++) {
        const bool found = cache_line_ns(cores[0], cores[i], &ns);
        put(&j, NULL, found, ns);
    }
    json_end_list(&j);
    json_list(&j, "steps_ns");
    for (unsigned i = 0; i < count; i++) {
        const bool found = cache_line_step_ns(cores[i], &ns);
        put(&j, NULL, found, ns);
    }
    json_end_list(&j);
    const bool written = json_write(&j, STDOUT_FILENO);
    json_free(&j);
    return written;
}

int distances_serve(const int *cores, unsigned count)
{
    bool written = print_reading(cores, count);

    for (int c; written && (c = getchar()) != EOF;) {
        if (c == '\n')
            written = print_reading(cores, count);
    }
    return written ? EXIT_SUCCESS : EXIT_FAILURE;
}
