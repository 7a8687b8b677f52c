/* What the fuzz targets share: reading numbers and pieces from the fuzzer's bytes. Each target is
 * one file with one LLVMFuzzerTestOneInput; the seeds lie in tests/fuzz. */
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

/* 0 when there is nothing left. */
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

/* A property that must hold whatever comes in. */
static inline void must(int holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
#endif
