/* Prints values and the encoded histogram of them, for decode_histogram.py to compare. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "measure/histogram.h"
#include "test_values.h"

int main(void)
{
    static struct histogram h;

    for (unsigned set = 0; set < 3; set++) {
        histogram_reset(&h);
        printf("values");
        for (unsigned i = 0; i < test_value_count(set); i++) {
            const uint64_t value = test_value(set, i);
            histogram_record(&h, (int64_t)value);
            printf(" %" PRIu64, value);
        }
        char *text = histogram_encode(&h);
        if (text == NULL)
            return EXIT_FAILURE;
        printf("\n%s\n%" PRIu64 " %" PRIu64 " %.6f\n", text, histogram_percentile(&h, 50),
               histogram_percentile(&h, 99), histogram_mean(&h));
        free(text);
    }
    return EXIT_SUCCESS;
}
