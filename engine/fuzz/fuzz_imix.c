/* Mixes of frame sizes, including IMIX genomes, from arbitrary text: accepted mixes have valid
 * frame sizes, and their counts add up. */
#include "fuzz.h"

#include "traffic/frame.h"
#include "traffic/imix.h"
#include "traffic/sizes.h"

static void check_sizes(const struct sizes *sizes)
{
    must(sizes->smallest >= FRAME_SIZE_MIN && sizes->largest <= FRAME_SIZE_MAX);
    must(sizes->smallest <= sizes->largest);
    must(sizes_mean(sizes) >= sizes->smallest && sizes_mean(sizes) <= sizes->largest);
    for (uint64_t sequence = 0; sequence < 64; sequence++) {
        const uint32_t size = sizes_at(sizes, sequence * 0x9e3779b9U);
        must(size >= sizes->smallest && size <= sizes->largest);
    }
    if (sizes->kind == SIZES_CYCLE || sizes->kind == SIZES_DRAWN)
        must(sizes->cycle_length >= 1 && sizes->cycle_length <= SIZES_CYCLE_MAX);
}

static void parse_genome(const char *text)
{
    uint16_t sizes[8];
    char error[256] = "";
    const unsigned count = imix_parse_genome(text, sizes, 8, error, sizeof error);

    must(count <= 8);
    must(count > 0 || error[0] != '\0');
    for (unsigned i = 0; i < count; i++)
        must(sizes[i] >= FRAME_SIZE_MIN && sizes[i] <= FRAME_SIZE_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sizes sizes;
    char error[256] = "";
    char *text = malloc(size + 1);

    must(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    if (sizes_parse(text, &sizes, error, sizeof error))
        check_sizes(&sizes);
    else
        must(error[0] != '\0');
    parse_genome(text);
    free(text);
    return 0;
}
