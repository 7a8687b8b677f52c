/* A JSON writer that appends to a growing buffer: one object becomes one line of output. It is not
 * used on the hot path. */
#ifndef SM_JSON_H
#define SM_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json {
    char *text;
    size_t length, room;
    bool needs_comma;
    bool out_of_memory;
};

/* Keys are NULL in lists. Strings are escaped; bytes that are not ASCII become '?'. */
void json_begin(struct json *j); /* an object with the protocol version, "v" */
void json_object(struct json *j, const char *key);
void json_list(struct json *j, const char *key);
void json_end_object(struct json *j);
void json_end_list(struct json *j);
void json_string(struct json *j, const char *key, const char *value); /* NULL value: null */
/* Write the bytes as hex digits; `text` has room for two for each byte, and a 0. */
void json_hex(char *text, const uint8_t *bytes, size_t length);
void json_unsigned(struct json *j, const char *key, uint64_t value);
void json_signed(struct json *j, const char *key, int64_t value);
void json_number(struct json *j, const char *key, double value);
void json_bool(struct json *j, const char *key, bool value);
void json_null(struct json *j, const char *key);

/* End the line, write all of it to `fd`, and empty the buffer. False: writing failed. */
bool json_write(struct json *j, int fd);
void json_free(struct json *j);
#endif
