/* The registry of packet I/O backends, and the parser of port arguments that they share. */
#include "io/io.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "measure/clock.h"

const struct io_ops *io_backends[IO_BACKENDS_MAX + 1], *io_missing[IO_BACKENDS_MAX + 1];

/* In the order of names, so that no text depends on the order in which files were linked. */
void io_register(const struct io_ops *ops)
{
    const struct io_ops **list = ops->missing != NULL ? io_missing : io_backends;
    unsigned count = 0, at = 0;

    while (list[count] != NULL)
        count++;
    if (count == IO_BACKENDS_MAX)
        abort();
    while (at < count && strcmp(list[at]->name, ops->name) < 0)
        at++;
    memmove(list + at + 1, list + at, (count - at) * sizeof *list);
    list[at] = ops;
}

const char *io_missing_reason(const char *name)
{
    for (const struct io_ops *const *ops = io_missing; *ops != NULL; ops++) {
        if (strcmp((*ops)->name, name) == 0)
            return (*ops)->missing;
    }
    return NULL;
}

void io_release_nothing(struct io_port *port, struct io_frame *frames, unsigned count)
{
    (void)port;
    (void)frames;
    (void)count;
}

int io_poll(struct pollfd *files, unsigned count, uint64_t timeout_ns)
{
    const struct timespec timeout = {(time_t)(timeout_ns / NS_PER_S),
                                     (long)(timeout_ns % NS_PER_S)};
    return ppoll(files, count, &timeout, NULL);
}

unsigned io_send_or_release(struct io_port *to, struct io_frame *frames, unsigned count)
{
    const unsigned sent = count > 0 ? to->ops->tx_send(to, frames, count) : 0;

    if (sent < count)
        to->ops->tx_release(to, frames + sent, count - sent);
    return sent;
}

unsigned io_send_copies(struct io_port *to, const struct io_frame *frames, unsigned count)
{
    struct io_frame out[IO_BURST_MAX];
    uint32_t longest = 0;

    for (unsigned i = 0; i < count; i++)
        longest = frames[i].length > longest ? frames[i].length : longest;
    const unsigned got = to->ops->tx_acquire(to, out, count, longest);
    for (unsigned i = 0; i < got; i++) {
        memcpy(out[i].data, frames[i].data, frames[i].length);
        out[i].length = frames[i].length;
    }
    return io_send_or_release(to, out, got);
}

const struct io_ops *io_of(const char *spec, const char **arguments)
{
    const size_t length = strcspn(spec, ":");

    if (arguments != NULL)
        *arguments = spec[length] == ':' ? spec + length + 1 : "";
    for (const struct io_ops **ops = io_backends; *ops != NULL; ops++) {
        if (strlen((*ops)->name) == length && memcmp((*ops)->name, spec, length) == 0)
            return *ops;
    }
    return NULL;
}

unsigned io_capabilities(const char *spec)
{
    const char *arguments;
    const struct io_ops *ops = io_of(spec, &arguments);

    if (ops == NULL)
        return 0;
    return ops->capabilities | (ops->capabilities_of != NULL ? ops->capabilities_of(arguments) : 0);
}

const char *io_privileges(const char *spec)
{
    const char *arguments;
    const struct io_ops *ops = io_of(spec, &arguments);
    const char *found = NULL;

    if (ops != NULL)
        found = ops->privileges_of != NULL ? ops->privileges_of(arguments) : ops->privileges;
    return found != NULL ? found : "";
}

bool io_socket_made(const char *spec, char *path, size_t size)
{
    const char *arguments;
    const struct io_ops *ops = io_of(spec, &arguments);

    return ops != NULL && ops->socket_made != NULL && ops->socket_made(arguments, path, size);
}

const char *io_next_argument(const char *arguments, char *key, size_t key_size, char *value,
                             size_t value_size, bool *error)
{
    if (arguments == NULL || *arguments == '\0')
        return NULL;
    const size_t piece = strcspn(arguments, ",");
    const char *equals = memchr(arguments, '=', piece);
    const size_t key_length = equals != NULL ? (size_t)(equals - arguments) : piece;
    const size_t value_length = equals != NULL ? piece - key_length - 1 : 0;

    if (key_length >= key_size || value_length >= value_size) {
        *error = true;
        return NULL;
    }
    memcpy(key, arguments, key_length);
    key[key_length] = '\0';
    if (value_length > 0)
        memcpy(value, equals + 1, value_length);
    value[value_length] = '\0';
    arguments += piece;
    return *arguments == ',' ? arguments + 1 : arguments;
}

bool io_fits(const struct io_port *port, const struct io_frame *frame)
{
    const uint8_t *type = frame->data + IO_HEADER_BYTES - 2;

    if (frame->length < IO_HEADER_BYTES)
        return false;
    return frame->length <=
               port->mtu_bytes + io_bytes_outside_mtu(type[0] == 0x81 && type[1] == 0x00) &&
           io_has_room(port, frame->length);
}
