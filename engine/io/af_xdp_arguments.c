#include "io/af_xdp_arguments.h"

#include "fail.h"
#include "io/arguments.h"

static const char *const mode_names[] = {"auto", "zerocopy", "copy", NULL};

#define AT(field) offsetof(struct xdp_arguments, field)
static const struct io_key keys[] = {
    {.name = "dev", .kind = IO_KEY_DEVICE, .offset = AT(device)},
    {.name = "queues",
     .kind = IO_KEY_NUMBER,
     .offset = AT(queues),
     .min = 1,
     .max = XDP_QUEUES_MAX},
    {.name = "queue", .kind = IO_KEY_NUMBER, .offset = AT(queue), .max = 255},
    {.name = "mode", .kind = IO_KEY_CHOICE, .offset = AT(mode), .choices = mode_names},
    {.name = "busy-poll", .kind = IO_KEY_FLAG, .offset = AT(busy_poll)},
    {.name = "block", .kind = IO_KEY_FLAG, .offset = AT(block)},
};
#define QUEUE_NOT_GIVEN 256U

bool xdp_parse(const char *text, struct xdp_arguments *arguments, char *error, size_t size)
{
    *arguments = (struct xdp_arguments){.queue = QUEUE_NOT_GIVEN};
    if (!io_parse("af_xdp", keys, sizeof keys / sizeof keys[0], text, arguments, error, size))
        return false;
    if (arguments->device[0] == '\0')
        return fail(error, size, "af_xdp needs dev=NAME");
    if (arguments->queue != QUEUE_NOT_GIVEN && arguments->queues != 0)
        return fail(error, size,
                    "queue=I is one queue, queues=N are the first N: give one of them");
    if (arguments->queues == 0)
        arguments->queues = 1;
    if (arguments->queue == QUEUE_NOT_GIVEN)
        arguments->queue = 0;
    return true;
}

bool xdp_check(const char *text, char *error, size_t size)
{
    struct xdp_arguments arguments;
    return xdp_parse(text, &arguments, error, size);
}
