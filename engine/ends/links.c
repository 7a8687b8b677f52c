/* Links outside of trials: waits for the peers of ports, and sends verification frames to them. */
#include <sched.h>
#include <string.h>

#include "ends/end.h"
#include "ends/ends.h"
#include "fail.h"

#define LINK_WAIT_NS (10ULL * NS_PER_S)
#define VERIFY_WAIT_NS (1ULL * NS_PER_S)

static const struct io_port *port_without_link(const struct trial *trial)
{
    for (unsigned i = 0; i < trial->end_count; i++) {
        struct io_port *port = trial->ends[i].port;
        if (port->ops->link_up != NULL && !port->ops->link_up(port))
            return port;
    }
    return NULL;
}

static const struct io_port *wait_for_links(const struct trial *trial, uint64_t longest_ns)
{
    const struct timespec nap = {0, 1000000};
    const uint64_t last_ns = clock_monotonic_ns() + longest_ns;
    const struct io_port *missing = port_without_link(trial);

    while (missing != NULL && clock_monotonic_ns() < last_ns &&
           atomic_load(&trial->request.stop) == 0) {
        nanosleep(&nap, NULL);
        missing = port_without_link(trial);
    }
    return missing;
}

bool ends_wait_for_links(struct trial *trial, char *error, size_t size)
{
    if (!trial->options->role->sends)
        return true;
    const struct io_port *missing = wait_for_links(trial, LINK_WAIT_NS);
    if (missing != NULL && atomic_load(&trial->request.stop) == 0)
        return fail(error, size, "port %s: nothing is connected to it after 10 s", missing->spec);
    return true;
}

static unsigned verify_end(const struct trial *trial, unsigned index, unsigned count,
                           bool broadcast)
{
    static struct frame_template frame; /* 9 kB; only the idle worker calls this function */
    struct end *end = &trial->ends[index];
    struct frame_address address = end_sent_address(trial, end, index);
    const uint64_t last_ns = clock_monotonic_ns() + VERIFY_WAIT_NS;
    unsigned sent = 0;

    if (broadcast)
        memset(address.dst_mac, 0xff, 6);
    frame_template_build(&frame, &address, frame_size_min(&address),
                         (uint16_t)trial->options->stream, FRAME_VERIFICATION, 0,
                         end->port->udp_payload_only);
    while (sent < count && clock_monotonic_ns() < last_ns && end->port->failure[0] == '\0') {
        const unsigned went =
            transmit_now(end->port, &frame, broadcast ? IO_FRAME_BROADCAST : 0, sent, count - sent);
        sent += went;
        if (went == 0)
            sched_yield();
    }
    return sent;
}

unsigned ends_verify(struct trial *trial, unsigned count, bool broadcast)
{
    unsigned sent = 0;

    wait_for_links(trial, VERIFY_WAIT_NS);
    const unsigned probing = trial->options->queues > 1 ? 1 : trial->end_count;
    for (unsigned i = 0; i < probing; i++)
        sent += verify_end(trial, i, count, broadcast);
    return sent;
}

bool ends_inject(struct trial *trial, unsigned port, const uint8_t *bytes, uint32_t length,
                 uint64_t last_ns)
{
    uint8_t copy[FRAME_LENGTH_MAX]; /* io_send_copies takes frames that may be changed */
    const struct io_frame frame = {.data = copy, .length = length};
    struct io_port *to = trial->ends[port].port;
    const uint64_t now_ns = clock_monotonic_ns();

    memcpy(copy, bytes, length);
    if (!io_fits(to, &frame))
        return false;
    if (now_ns < last_ns)
        wait_for_links(trial, last_ns - now_ns);
    while (io_send_copies(to, &frame, 1) == 0) {
        if (clock_monotonic_ns() >= last_ns || to->failure[0] != '\0')
            return false;
        sched_yield();
    }
    return true;
}
