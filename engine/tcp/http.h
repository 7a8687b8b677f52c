/* The part of HTTP/1.1 that a client with a fixed GET request needs: the length of a response. */
#ifndef SM_TCP_HTTP_H
#define SM_TCP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_HEAD_MAX 8192
#define HTTP_LINE_MAX 128 /* longer header lines are cut */

enum http_state { HTTP_STATUS, HTTP_HEADERS, HTTP_BODY, HTTP_DONE, HTTP_BAD };

/* One response. All zero: nothing has been read. */
struct http_response {
    uint8_t state; /* enum http_state */
    bool has_length, closes;
    uint16_t status;
    uint32_t head_bytes, line_length;
    uint64_t body_left;
    char line[HTTP_LINE_MAX];
};

/* Read bytes of a response; returns how many belong to it. A response without Content-Length, or
 * with another status than 2xx, is HTTP_BAD, because such a response may be an error page. */
size_t http_read(struct http_response *response, const char *bytes, size_t count);

/* Write the request; returns its length, or 0 if it does not fit. */
size_t http_request(char *text, size_t size, const char *host, const char *path);

/* Write the head of a response with this body length; returns its length. */
size_t http_response_head(char *text, size_t size, uint64_t body_bytes);

/* Feed bytes of requests to the state of a connection (0 at its begin); returns the number of
 * requests that ended in these bytes. */
unsigned http_requests_end(uint8_t *matched, const char *bytes, size_t count);
#endif
