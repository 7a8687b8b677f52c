/* The cost of a row of a large flow table, by the distance by which rows are fetched ahead:
 *
 *     cc -O3 -march=native -D_GNU_SOURCE -o rows bench/engine/rows.c && ./rows
 *
 * Bursts choose random rows of a table with a million rows, and read each after some work. Rows of
 * 16 bytes are those of IPv4, rows of 40 bytes those of IPv6. The figure is the CPU time of this
 * thread per row, work included, of the best of 200 rounds, so that other programs disturb it
 * little.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define ROWS (1U << 20)
#define ROUND 8192U
#define ROUNDS 200
#define WORK 20 /* multiplications per row, about 10 ns */
#define BURST_MAX 256
#define HUGE_PAGE ((size_t)2 << 20)

static double cpu_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static uint32_t row_number(uint64_t frame)
{
    frame *= 0x9e3779b97f4a7c15ULL;
    frame ^= frame >> 29;
    frame *= 0xbf58476d1ce4e5b9ULL;
    return (uint32_t)(frame >> 32) & (ROWS - 1);
}

static uint64_t load(const uint8_t *bytes)
{
    uint64_t value;

    memcpy(&value, bytes, sizeof value);
    return value;
}

static void fetch(const uint8_t *row, unsigned bytes)
{
    __builtin_prefetch(row);
    if (bytes > 16) /* it may be in two cache lines */
        __builtin_prefetch(row + bytes - 1);
}

static double best_ns(const uint8_t *rows, unsigned bytes, unsigned stride, unsigned burst,
                      unsigned distance)
{
    uint32_t numbers[BURST_MAX];
    uint64_t frame = 0;
    double best = 1e9;

    for (unsigned round = 0; round < ROUNDS; round++) {
        const double begun = cpu_ns();
        for (unsigned k = 0; k < ROUND / burst; k++, frame += burst) {
            for (unsigned i = 0; i < burst; i++)
                numbers[i] = row_number(frame + i);
            for (unsigned i = 0; i < burst && i < distance; i++)
                fetch(rows + (size_t)numbers[i] * stride, bytes);
            for (unsigned i = 0; i < burst; i++) {
                if (distance > 0 && i + distance < burst)
                    fetch(rows + (size_t)numbers[i + distance] * stride, bytes);
                const uint8_t *row = rows + (size_t)numbers[i] * stride;
                uint64_t value = load(row), last = load(row + bytes - 8);
                for (unsigned w = 0; w < WORK; w++) {
                    value = value * 0x9e3779b1U + last;
                    __asm__ volatile("" : "+r"(value));
                }
            }
        }
        const double each = (cpu_ns() - begun) / ROUND;
        best = each < best ? each : best;
    }
    return best;
}

static void print_row(unsigned bytes, unsigned stride, unsigned burst, bool huge)
{
    static const unsigned distances[] = {0, 4, 8, 16, 32, 64};
    const size_t size = ((size_t)ROWS * stride + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    uint8_t *rows = aligned_alloc(HUGE_PAGE, size);

    if (rows == NULL)
        exit(1);
    madvise(rows, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    memset(rows, 7, size);
    printf("| %u, every %u | %u | %s |", bytes, stride, burst, huge ? "2 MiB" : "4 KiB");
    for (unsigned i = 0; i < sizeof distances / sizeof distances[0]; i++)
        printf(" %.1f |", best_ns(rows, bytes, stride, burst, distances[i]));
    printf("\n");
    free(rows);
}

int main(void)
{
    printf("| bytes of a row | burst | pages | no fetch | 4 | 8 | 16 | 32 | 64 rows ahead |\n");
    printf("|---|---:|---|---:|---:|---:|---:|---:|---:|\n");
    for (unsigned burst = 32; burst <= BURST_MAX; burst *= 8) {
        print_row(16, 16, burst, true);
        print_row(16, 16, burst, false);
        print_row(16, 32, burst, true);
        print_row(40, 40, burst, true);
        print_row(40, 64, burst, true);
    }
    return 0;
}
