/* Reads responses, byte by byte in the head and in one step in the body. The server is not
 * trusted, so each length has a bound. */
#include "tcp/http.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "options/value.h"

static bool read_status(struct http_response *r)
{
    const char *line = r->line;

    /* HTTP/1.1 200 */
    if (r->line_length < 12 || strncmp(line, "HTTP/1.", 7) != 0 || line[8] != ' ' || line[9] != '2')
        return false;
    r->closes = line[7] == '0';
    for (unsigned i = 9; i < 12; i++) {
        if (line[i] < '0' || line[i] > '9')
            return false;
        r->status = (uint16_t)(r->status * 10 + (line[i] - '0'));
    }
    return true;
}

/* The value of a header line if it has this name, otherwise NULL. */
static const char *value_of(const struct http_response *r, const char *name)
{
    const size_t length = strlen(name);

    if (strncasecmp(r->line, name, length) != 0 || r->line[length] != ':')
        return NULL;
    const char *value = r->line + length + 1;
    return value + strspn(value, " \t");
}

static bool read_header(struct http_response *r)
{
    const char *length = value_of(r, "content-length");
    const char *connection = value_of(r, "connection");
    uint64_t number = 0;

    if (value_of(r, "transfer-encoding") != NULL)
        return false;
    if (connection != NULL && strncasecmp(connection, "close", 5) == 0)
        r->closes = true;
    if (length == NULL)
        return true;
    if (!value_parse_digits(length, strspn(length, "0123456789"), &number) || number > UINT32_MAX ||
        (r->has_length && number != r->body_left))
        return false;
    r->has_length = true;
    r->body_left = number;
    return true;
}

static uint8_t state_after_line(struct http_response *r)
{
    if (r->state == HTTP_STATUS)
        return read_status(r) ? HTTP_HEADERS : HTTP_BAD;
    if (r->line_length > 0)
        return read_header(r) ? HTTP_HEADERS : HTTP_BAD;
    if (!r->has_length)
        return HTTP_BAD;
    return r->body_left > 0 ? HTTP_BODY : HTTP_DONE;
}

static void read_head_byte(struct http_response *r, char byte)
{
    if (++r->head_bytes > HTTP_HEAD_MAX) {
        r->state = HTTP_BAD;
        return;
    }
    if (byte != '\n') {
        if (r->line_length < HTTP_LINE_MAX - 1)
            r->line[r->line_length++] = byte;
        return;
    }
    if (r->line_length > 0 && r->line[r->line_length - 1] == '\r')
        r->line_length--;
    r->line[r->line_length] = '\0';
    r->state = state_after_line(r);
    r->line_length = 0;
}

size_t http_read(struct http_response *r, const char *bytes, size_t count)
{
    size_t used = 0;

    while (used < count && r->state < HTTP_BODY)
        read_head_byte(r, bytes[used++]);
    if (r->state == HTTP_BODY) {
        const size_t taken = count - used < r->body_left ? count - used : (size_t)r->body_left;
        used += taken;
        r->body_left -= taken;
        if (r->body_left == 0)
            r->state = HTTP_DONE;
    }
    return used;
}

static size_t length_or_0(int length, size_t size)
{
    return length > 0 && (size_t)length < size ? (size_t)length : 0;
}

size_t http_request(char *text, size_t size, const char *host, const char *path)
{
    return length_or_0(snprintf(text, size,
                                "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: switchmark\r\n\r\n",
                                path, host),
                       size);
}

size_t http_response_head(char *text, size_t size, uint64_t body_bytes)
{
    return length_or_0(snprintf(text, size,
                                "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
                                "Content-Length: %llu\r\n\r\n",
                                (unsigned long long)body_bytes),
                       size);
}

unsigned http_requests_end(uint8_t *matched, const char *bytes, size_t count)
{
    static const char end[] = "\r\n\r\n";
    unsigned ended = 0;

    for (size_t i = 0; i < count; i++) {
        *matched = bytes[i] == end[*matched] ? *matched + 1 : bytes[i] == '\r';
        if (*matched == 4) {
            *matched = 0;
            ended++;
        }
    }
    return ended;
}
