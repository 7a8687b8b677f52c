/* Decodes base64. */
#include "control/base64.h"

#include <string.h>

static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool base64_decode(const char *text, uint8_t *bytes, size_t *length)
{
    size_t characters = strlen(text);
    uint32_t bits = 0;

    *length = 0;
    if (characters % 4 == 0 && characters > 0 && text[characters - 1] == '=')
        characters -= text[characters - 2] == '=' ? 2 : 1;
    if (characters % 4 == 1)
        return false;
    for (size_t i = 0; i < characters; i++) {
        const int value = value_of(text[i]);
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
        if (i % 4 != 0)
            bytes[(*length)++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    return true;
}
