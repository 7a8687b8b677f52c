/* Shared by the fuzz targets: reading numbers and parts from the input of the fuzzer. Each target
 * is one file with one LLVMFuzzerTestOneInput; the seeds are in tests/fuzz. */
#ifndef SM_FUZZ_H
#define SM_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct input {
    const uint8_t *at;
    size_t left;
};

/* Returns 0 at the end of the input. */
static inline uint8_t input_byte(struct input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->at++;
}

static inline uint32_t input_number(struct input *in, unsigned bytes)
{
    uint32_t value = 0;

    while (bytes-- > 0)
        value = value << 8 | input_byte(in);
    return value;
}

/* A property that must hold for every input. */
static inline void must(int holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
#endif
