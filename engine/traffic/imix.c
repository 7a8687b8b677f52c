/* Parses genomes. */
#include "traffic/imix.h"

#include <stdio.h>
#include <string.h>

#include "fail.h"
#include "options/value.h"
#include "traffic/frame.h"

/* Set the sizes of the standard letters; 0: no size. */
static void set_standard(uint16_t letters[128])
{
    static const uint16_t standard[] = {64, 128, 256, 512, 1024, 1280, 1518, 2112, 9000};

    memset(letters, 0, 128 * sizeof *letters);
    for (unsigned i = 0; i < sizeof standard / sizeof standard[0]; i++)
        letters['a' + i] = standard[i];
}

static bool may_be_set(char letter)
{
    return (letter >= 'A' && letter <= 'Z') || letter == 'z';
}

/* ":A=300:B=70" */
static bool read_letters(const char *text, uint16_t letters[128], char *error, size_t size)
{
    while (*text == ':') {
        uint64_t bytes = 0;
        const char letter = text[1];
        const size_t length = strcspn(text + 1, ":");

        if (!may_be_set(letter) || text[2] != '=' ||
            !value_parse_digits(text + 3, length - 2, &bytes) || bytes < FRAME_SIZE_MIN ||
            bytes > FRAME_SIZE_MAX)
            return fail(error, size,
                        "'%.*s' is not a letter's size such as A=300 (A to Z or z, %d to %d bytes)",
                        (int)(length < 40 ? length : 40), text + 1, FRAME_SIZE_MIN, FRAME_SIZE_MAX);
        letters[(unsigned char)letter] = (uint16_t)bytes;
        text += 1 + length;
    }
    return true;
}

/* Return the size of a letter, or 0 with the reason in `error`. */
static bool read_letter(char c, const uint16_t letters[128], char *error, size_t size)
{
    const unsigned char letter = (unsigned char)c;

    if (letter < 128 && letters[letter] != 0)
        return true;
    if (letter == 'j')
        snprintf(error, size, "letter 'j' is 16000 bytes, above the largest frame, %d",
                 FRAME_SIZE_MAX);
    else if (letter < 128 && may_be_set(c))
        snprintf(error, size, "letter '%c' has no size; add e.g. :%c=300", letter, letter);
    else
        snprintf(error, size, "'%c' is not a letter of a genome (a to i, z, A to Z)",
                 letter >= 32 && letter < 127 ? letter : '?');
    return false;
}

/* Return how often the letter after this number is repeated: 1 without a number; 0 if the number is
 * 0 or above `max`. */
static unsigned read_run(const char **text, unsigned max)
{
    unsigned run = 0;

    if (**text < '0' || **text > '9')
        return 1;
    for (; **text >= '0' && **text <= '9'; (*text)++)
        run = run > max ? run : run * 10 + (unsigned)(**text - '0');
    return run > max ? 0 : run;
}

unsigned imix_parse_genome(const char *text, uint16_t *sizes, unsigned max, char *error,
                           size_t error_size)
{
    uint16_t letters[128];
    const char *end = text + strcspn(text, ":");
    unsigned count = 0;

    set_standard(letters);
    if (!read_letters(end, letters, error, error_size))
        return 0;
    for (; text < end; text++) {
        const unsigned run = read_run(&text, max);
        if (run == 0 || run > max - count) {
            snprintf(error, error_size, "a genome has 1 to %u frames, and runs of 1 and more", max);
            return 0;
        }
        if (!read_letter(*text, letters, error, error_size))
            return 0;
        for (unsigned i = 0; i < run; i++)
            sizes[count++] = letters[(unsigned char)*text];
    }
    if (count == 0)
        snprintf(error, error_size, "a genome has 1 to %u frames, this one none", max);
    return count;
}
