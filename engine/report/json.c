/* The JSON writer. */
#include "report/json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "version.h"

static void append(struct json *j, const char *text, size_t length)
{
    if (j->length + length > j->room) {
        const size_t room = (j->length + length) * 2 + 1024;
        char *larger = realloc(j->text, room);
        if (larger == NULL) {
            j->out_of_memory = true;
            return;
        }
        j->text = larger;
        j->room = room;
    }
    memcpy(j->text + j->length, text, length);
    j->length += length;
}

static void append_string(struct json *j, const char *value)
{
    append(j, "\"", 1);
    for (; *value != '\0'; value++) {
        const unsigned char c = (unsigned char)*value;
        char escaped[8];
        if (c == '"' || c == '\\')
            snprintf(escaped, sizeof escaped, "\\%c", c);
        else if (c < 0x20)
            snprintf(escaped, sizeof escaped, "\\u%04x", c);
        else
            snprintf(escaped, sizeof escaped, "%c", c < 0x7f ? c : '?');
        append(j, escaped, strlen(escaped));
    }
    append(j, "\"", 1);
}

static void key_is(struct json *j, const char *key)
{
    if (j->needs_comma)
        append(j, ",", 1);
    j->needs_comma = true;
    if (key != NULL) {
        append_string(j, key);
        append(j, ":", 1);
    }
}

static void open_with(struct json *j, const char *key, const char *bracket)
{
    key_is(j, key);
    append(j, bracket, 1);
    j->needs_comma = false;
}

static void close_with(struct json *j, const char *bracket)
{
    append(j, bracket, 1);
    j->needs_comma = true;
}

void json_begin(struct json *j)
{
    j->length = 0;
    j->needs_comma = false;
    j->out_of_memory = false;
    open_with(j, NULL, "{");
    json_unsigned(j, "v", PROTOCOL_VERSION);
}

void json_object(struct json *j, const char *key)
{
    open_with(j, key, "{");
}

void json_list(struct json *j, const char *key)
{
    open_with(j, key, "[");
}

void json_end_object(struct json *j)
{
    close_with(j, "}");
}

void json_end_list(struct json *j)
{
    close_with(j, "]");
}

void json_string(struct json *j, const char *key, const char *value)
{
    if (value == NULL) {
        json_null(j, key);
        return;
    }
    key_is(j, key);
    append_string(j, value);
}

void json_hex(char *text, const uint8_t *bytes, size_t length)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < length; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[2 * length] = '\0';
}

void json_unsigned(struct json *j, const char *key, uint64_t value)
{
    char text[24];
    key_is(j, key);
    append(j, text, (size_t)snprintf(text, sizeof text, "%" PRIu64, value));
}

void json_signed(struct json *j, const char *key, int64_t value)
{
    char text[24];
    key_is(j, key);
    append(j, text, (size_t)snprintf(text, sizeof text, "%" PRId64, value));
}

void json_number(struct json *j, const char *key, double value)
{
    char text[40];
    key_is(j, key);
    append(j, text, (size_t)snprintf(text, sizeof text, "%.12g", isfinite(value) ? value : 0.0));
}

void json_bool(struct json *j, const char *key, bool value)
{
    key_is(j, key);
    append(j, value ? "true" : "false", value ? 4 : 5);
}

void json_null(struct json *j, const char *key)
{
    key_is(j, key);
    append(j, "null", 4);
}

bool json_write(struct json *j, int fd)
{
    size_t done = 0;

    close_with(j, "}");
    append(j, "\n", 1);
    if (j->out_of_memory)
        return false;
    while (done < j->length) {
        const ssize_t n = write(fd, j->text + done, j->length - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n == 0 ? EIO : errno;
            return false;
        }
        done += (size_t)n;
    }
    j->length = 0;
    return true;
}

void json_free(struct json *j)
{
    free(j->text);
    memset(j, 0, sizeof *j);
}
