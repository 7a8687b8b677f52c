/* Base64 (RFC 4648, section 4), with or without the padding at the end. */
#ifndef SM_CONTROL_BASE64_H
#define SM_CONTROL_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decode `text` into `bytes`, which has room for three quarters of its length; `length` gets the
 * number of bytes. False: the text is not base64. */
bool base64_decode(const char *text, uint8_t *bytes, size_t *length);
#endif
