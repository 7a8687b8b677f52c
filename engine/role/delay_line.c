/* The heap of waiting frames. Buffers are not copied: entries exchange them. */
#include "role/delay_line.h"

#include <stdlib.h>
#include <string.h>

uint64_t delay_line_bytes(uint64_t slots, size_t room)
{
    return (slots + IO_BURST_MAX) * room + slots * sizeof(struct delayed);
}

bool delay_line_open(struct delay_line *line, uint64_t slots, size_t room)
{
    const uint64_t buffers = slots + IO_BURST_MAX;

    memset(line, 0, sizeof *line);
    line->slots = slots;
    line->heap = calloc(slots, sizeof *line->heap);
    line->memory = malloc(buffers * room);
    if (line->heap == NULL || line->memory == NULL) {
        delay_line_close(line);
        return false;
    }
    for (uint64_t i = 0; i < slots; i++)
        line->heap[i].bytes = line->memory + i * room;
    for (unsigned i = 0; i < IO_BURST_MAX; i++)
        line->ready[i].bytes = line->memory + (slots + i) * room;
    return true;
}

void delay_line_close(struct delay_line *line)
{
    free(line->heap);
    free(line->memory);
    line->heap = NULL;
    line->memory = NULL;
}

static bool is_before(const struct delayed *a, const struct delayed *b)
{
    return a->due < b->due || (a->due == b->due && a->order < b->order);
}

static void exchange(struct delayed *a, struct delayed *b)
{
    const struct delayed copy = *a;
    *a = *b;
    *b = copy;
}

bool delay_line_add(struct delay_line *line, const uint8_t *bytes, uint32_t length, uint64_t due,
                    unsigned faults)
{
    if (line->count + line->ready_count >= line->slots)
        return false;
    uint64_t at = line->count++;
    memcpy(line->heap[at].bytes, bytes, length);
    line->heap[at].faults = faults;
    line->heap[at].due = due;
    line->heap[at].length = length;
    line->heap[at].order = line->arrived++;
    for (; at > 0 && is_before(&line->heap[at], &line->heap[(at - 1) / 2]); at = (at - 1) / 2)
        exchange(&line->heap[at], &line->heap[(at - 1) / 2]);
    return true;
}

/* Move the first frame of the heap to the end of the ready frames; its place gets the free buffer
 * from there. */
static void take_first(struct delay_line *line)
{
    struct delayed *heap = line->heap;
    uint64_t at = 0;

    exchange(&line->ready[line->ready_count++], &heap[0]);
    exchange(&heap[0], &heap[--line->count]);
    for (;;) {
        uint64_t least = at;
        for (uint64_t child = 2 * at + 1; child <= 2 * at + 2 && child < line->count; child++) {
            if (is_before(&heap[child], &heap[least]))
                least = child;
        }
        if (least == at)
            return;
        exchange(&heap[at], &heap[least]);
        at = least;
    }
}

unsigned delay_line_ready(struct delay_line *line, uint64_t now)
{
    while (line->ready_count < IO_BURST_MAX && line->count > 0 && line->heap[0].due <= now)
        take_first(line);
    return line->ready_count;
}

void delay_line_sent(struct delay_line *line, unsigned count)
{
    struct delayed gone[IO_BURST_MAX];
    const unsigned left = line->ready_count - count;

    if (count == 0)
        return;
    memcpy(gone, line->ready, count * sizeof *gone);
    memmove(line->ready, line->ready + count, left * sizeof *gone);
    memcpy(line->ready + left, gone, count * sizeof *gone); /* the buffers are free again */
    line->ready_count = left;
}

uint64_t delay_line_next(const struct delay_line *line)
{
    if (line->ready_count > 0)
        return line->ready[0].due;
    return line->count > 0 ? line->heap[0].due : UINT64_MAX;
}
