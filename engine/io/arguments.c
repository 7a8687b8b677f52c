/* Parses the arguments of a port by the table of its backend. */
#include "io/arguments.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "io/io.h"

static void append(char *text, size_t size, const char *piece)
{
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "%s", piece);
}

/* "dev=NAME, mmsg, qdisc=bypass|queue" */
static void describe(const struct io_key *keys, unsigned count, char *text, size_t size)
{
    text[0] = '\0';
    for (unsigned i = 0; i < count; i++) {
        append(text, size, i > 0 ? ", " : "");
        append(text, size, keys[i].name);
        if (keys[i].kind == IO_KEY_DEVICE)
            append(text, size, "=NAME");
        if (keys[i].kind == IO_KEY_NUMBER) {
            char range[40];
            snprintf(range, sizeof range, "=N (%u to %u)", keys[i].min, keys[i].max);
            append(text, size, range);
        }
        for (unsigned c = 0; keys[i].choices != NULL && keys[i].choices[c] != NULL; c++) {
            append(text, size, c == 0 ? "=" : "|");
            append(text, size, keys[i].choices[c]);
        }
    }
}

static bool read_number(const struct io_key *key, const char *value, unsigned *number)
{
    char *end;
    const unsigned long read = strtoul(value, &end, 10);

    if (*value < '0' || *value > '9' || *end != '\0' || read < key->min || read > key->max)
        return false;
    *number = (unsigned)read;
    return true;
}

static bool read_value(const struct io_key *key, const char *value, void *field)
{
    switch (key->kind) {
    case IO_KEY_DEVICE:
        if (*value == '\0' || strlen(value) >= IFNAMSIZ)
            return false;
        memcpy(field, value, strlen(value) + 1);
        return true;
    case IO_KEY_FLAG:
        *(bool *)field = true;
        return *value == '\0';
    case IO_KEY_NUMBER:
        return read_number(key, value, field);
    default:
        for (unsigned c = 0; key->choices[c] != NULL; c++) {
            if (strcmp(key->choices[c], value) == 0) {
                *(unsigned *)field = c;
                return true;
            }
        }
        return false;
    }
}

bool io_parse(const char *backend, const struct io_key *keys, unsigned count, const char *arguments,
              void *into, char *error, size_t size)
{
    char key[32], value[32], takes[200];
    bool bad = false;

    describe(keys, count, takes, sizeof takes);
    while ((arguments = io_next_argument(arguments, key, sizeof key, value, sizeof value, &bad))) {
        unsigned i = 0;
        while (i < count && strcmp(keys[i].name, key) != 0)
            i++;
        if (i == count || !read_value(&keys[i], value, (char *)into + keys[i].offset))
            return fail(error, size, "'%s%s%s' is not understood; %s takes %s", key,
                        *value != '\0' ? "=" : "", value, backend, takes);
    }
    if (bad)
        snprintf(error, size, "argument too long; %s takes %s", backend, takes);
    return !bad;
}
