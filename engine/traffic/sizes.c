/* Parses sizes, and calculates properties of a mix. */
#include "traffic/sizes.h"

#include <stdio.h>
#include <string.h>

#include "fail.h"
#include "options/value.h"
#include "traffic/frame.h"
#include "traffic/imix.h"

#define RANDOM_TEXT_MAX 8192

static bool read_size(const char *text, size_t length, uint32_t *frame_size)
{
    uint64_t value = 0;

    if (!value_parse_digits(text, length, &value) || value < FRAME_SIZE_MIN ||
        value > FRAME_SIZE_MAX)
        return false;
    *frame_size = (uint32_t)value;
    return true;
}

void sizes_set(struct sizes *s, uint32_t frame_size)
{
    s->kind = SIZES_FIXED;
    s->smallest = s->largest = frame_size;
    s->cycle_length = 1;
    s->cycle[0] = (uint16_t)frame_size;
}

static void find_bounds(struct sizes *s)
{
    s->smallest = s->largest = s->cycle[0];
    for (unsigned i = 1; i < s->cycle_length; i++) {
        if (s->cycle[i] < s->smallest)
            s->smallest = s->cycle[i];
        if (s->cycle[i] > s->largest)
            s->largest = s->cycle[i];
    }
    s->kind = s->smallest == s->largest ? SIZES_FIXED : SIZES_CYCLE;
}

/* "64*7+570*4+1518" */
static bool parse_list(const char *text, struct sizes *s, char *error, size_t error_size)
{
    s->cycle_length = 0;
    for (;; text++) {
        const size_t length = strcspn(text, "+"), digits = strcspn(text, "*+");
        uint32_t bytes = 0;
        uint64_t times = 1;

        if (!read_size(text, digits, &bytes) ||
            (digits < length &&
             (!value_parse_digits(text + digits + 1, length - digits - 1, &times) || times < 1))) {
            snprintf(
                error, error_size,
                "'%.*s' is not a frame size from %d to %d, such as 64, or 64*7 for seven of them",
                (int)(length < 40 ? length : 40), text, FRAME_SIZE_MIN, FRAME_SIZE_MAX);
            return false;
        }
        if (times > SIZES_CYCLE_MAX - s->cycle_length)
            return fail(error, error_size, "a list has at most %d frames", SIZES_CYCLE_MAX);
        while (times-- > 0)
            s->cycle[s->cycle_length++] = (uint16_t)bytes;
        text += length;
        if (*text == '\0')
            break;
    }
    find_bounds(s);
    return true;
}

/* "64-1518" */
static bool parse_range(const char *text, struct sizes *s)
{
    const size_t low = strcspn(text, "-");

    s->kind = SIZES_RANDOM;
    return text[low] == '-' && read_size(text, low, &s->smallest) &&
           read_size(text + low + 1, strlen(text + low + 1), &s->largest) &&
           s->smallest < s->largest;
}

/* "imix", or a list; a single size is not random. */
static bool parse_drawn(const char *text, struct sizes *s, char *error, size_t error_size)
{
    if (!parse_list(strcmp(text, "imix") == 0 ? IMIX_SIMPLE : text, s, error, error_size) ||
        s->kind == SIZES_FIXED)
        return false;
    s->kind = SIZES_DRAWN;
    return true;
}

/* "64-1518[:seed=N]", "64*7+570*4+1518[:seed=N]" */
static bool parse_random(const char *text, struct sizes *s, char *error, size_t error_size)
{
    char sizes[RANDOM_TEXT_MAX] = "";
    const size_t length = strcspn(text, ":");
    const char *seed = text + length;
    const bool has_seed = strncmp(seed, ":seed=", 6) == 0 && value_parse_count(seed + 6, &s->seed);

    if (length < sizeof sizes && (*seed == '\0' || has_seed)) {
        memcpy(sizes, text, length);
        if (strchr(sizes, '-') != NULL ? parse_range(sizes, s)
                                       : parse_drawn(sizes, s, error, error_size))
            return true;
    }
    return fail(error, error_size,
                "'random:%.40s' is not a range of sizes such as random:64-1518, nor a list such as "
                "random:64*7+570*4+1518, :seed=2 behind it or not",
                text);
}

bool sizes_parse(const char *text, struct sizes *s, char *error, size_t error_size)
{
    memset(s, 0, sizeof *s);
    if (strcmp(text, "imix") == 0)
        text = IMIX_SIMPLE;
    if (strncmp(text, "random:", 7) == 0)
        return parse_random(text + 7, s, error, error_size);
    if (strncmp(text, "genome:", 7) != 0)
        return parse_list(text, s, error, error_size);
    s->cycle_length = imix_parse_genome(text + 7, s->cycle, SIZES_CYCLE_MAX, error, error_size);
    if (s->cycle_length > 0)
        find_bounds(s);
    return s->cycle_length > 0;
}

double sizes_mean(const struct sizes *s)
{
    uint64_t sum = 0;

    if (s->kind != SIZES_CYCLE && s->kind != SIZES_DRAWN)
        return (s->smallest + s->largest) / 2.0;
    for (unsigned i = 0; i < s->cycle_length; i++)
        sum += s->cycle[i];
    return (double)sum / s->cycle_length;
}

uint64_t sizes_count(const struct sizes *s, uint32_t frame_size, uint64_t frames)
{
    const uint64_t rounds = frames / s->cycle_length, rest = frames % s->cycle_length;
    uint64_t count = 0;

    for (unsigned i = 0; i < s->cycle_length; i++)
        count += s->cycle[i] == frame_size ? rounds + (i < rest) : 0;
    return count;
}
