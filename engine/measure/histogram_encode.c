/* HdrHistogram V2 compressed encoding, written from its published format: counts as ZigZag LEB128,
 * runs of zeros as one negative number, deflated, with two big-endian headers. */
#include "measure/histogram.h"

#include <arpa/inet.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define COOKIE_V2 0x1c849313U /* encoding V2, 8-byte words */
#define COOKIE_V2_COMPRESSED 0x1c849314U
#define HEADER_BYTES 40
#define OUTER_BYTES 8

static uint8_t *put_be32(uint8_t *at, uint32_t value)
{
    value = htonl(value);
    memcpy(at, &value, sizeof value);
    return at + sizeof value;
}

static uint8_t *put_be64(uint8_t *at, uint64_t value)
{
    value = htobe64(value);
    memcpy(at, &value, sizeof value);
    return at + sizeof value;
}

/* ZigZag, then seven bits per byte, low bits first; the ninth byte has eight bits. */
static uint8_t *put_zigzag(uint8_t *at, int64_t value)
{
    uint64_t rest = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);

    for (unsigned i = 0; i < 8 && rest >= 0x80; i++) {
        *at++ = (uint8_t)(rest | 0x80);
        rest >>= 7;
    }
    *at++ = (uint8_t)rest;
    return at;
}

static uint8_t *put_counts(uint8_t *at, const struct histogram *h)
{
    const uint32_t used = h->count == 0 ? 0 : histogram_index(h->max) + 1;

    for (uint32_t i = 0; i < used;) {
        int64_t zeros = 0;
        while (i < used && h->counts[i] == 0) {
            zeros++;
            i++;
        }
        if (zeros > 0)
            at = put_zigzag(at, -zeros);
        else
            at = put_zigzag(at, (int64_t)h->counts[i++]);
    }
    return at;
}

static size_t put_header(uint8_t *at, uint32_t payload_length)
{
    const double ratio = 1.0;
    uint64_t ratio_bits;

    memcpy(&ratio_bits, &ratio, sizeof ratio_bits);
    at = put_be32(at, COOKIE_V2);
    at = put_be32(at, payload_length);
    at = put_be32(at, 0); /* normalising offset */
    at = put_be32(at, HISTOGRAM_DIGITS);
    at = put_be64(at, HISTOGRAM_LOWEST);
    at = put_be64(at, HISTOGRAM_HIGHEST);
    put_be64(at, ratio_bits);
    return HEADER_BYTES;
}

static char *base64(const uint8_t *bytes, size_t length)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc((length + 2) / 3 * 4 + 1);
    char *at = text;

    if (text == NULL)
        return NULL;
    for (size_t i = 0; i < length; i += 3) {
        const size_t have = length - i;
        const uint32_t word = (uint32_t)bytes[i] << 16 |
                              (have > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                              (have > 2 ? (uint32_t)bytes[i + 2] : 0);
        *at++ = digits[word >> 18];
        *at++ = digits[word >> 12 & 63];
        *at++ = have > 1 ? digits[word >> 6 & 63] : '=';
        *at++ = have > 2 ? digits[word & 63] : '=';
    }
    *at = '\0';
    return text;
}

char *histogram_encode(const struct histogram *h)
{
    const size_t room = HEADER_BYTES + 9ULL * HISTOGRAM_COUNTS;
    uLongf packed_length = compressBound(room);
    uint8_t *plain = malloc(room);
    uint8_t *packed = malloc(OUTER_BYTES + packed_length);
    char *text = NULL;

    if (plain != NULL && packed != NULL) {
        const size_t counts_length =
            (size_t)(put_counts(plain + HEADER_BYTES, h) - plain) - HEADER_BYTES;
        const size_t length = put_header(plain, (uint32_t)counts_length) + counts_length;
        if (compress2(packed + OUTER_BYTES, &packed_length, plain, length, 6) == Z_OK) {
            put_be32(put_be32(packed, COOKIE_V2_COMPRESSED), (uint32_t)packed_length);
            text = base64(packed, OUTER_BYTES + packed_length);
        }
    }
    free(plain);
    free(packed);
    return text;
}
