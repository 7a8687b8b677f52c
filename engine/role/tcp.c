/* Memory, connections and waiting of the TCP roles. */
#include "role/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fail.h"
#include "threads/idle.h"

#ifndef SYS_epoll_pwait2 /* Linux 5.11; the number is the same on every architecture */
#define SYS_epoll_pwait2 441
#endif

#define LONG_NAP_NS 10000000U /* the longest time that a stop waits */
#define SHORT_NAP_NS 5000U    /* timers are not exact for shorter waits */
#define LIVE_CONNECTIONS_MAX 256
#define FILLER 'x'

bool tcp_state_open(struct trial *trial, uint64_t connections, char *error, size_t size)
{
    const bool client = trial->options->role->sends_requests;
    const struct tcp_options *o = &trial->options->tcp;

    if (!tcp_sockets_suffice(&connections, o->connections_given, error, size) ||
        !tcp_congestion_is_permitted(o, error, size))
        return false;
    struct tcp_state *s = calloc(1, sizeof *s);
    if (s == NULL)
        return fail(error, size, "out of memory");
    trial->tcp = s;
    s->listener = -1;
    s->connection_count = (unsigned)connections;
    s->connections = calloc(connections, sizeof *s->connections);
    s->unused = calloc(connections, sizeof *s->unused);
    s->message = calloc(1, TCP_MESSAGE_MAX + HTTP_HEAD_MAX);
    s->received = calloc(1, TCP_RECEIVE_BYTES);
    s->times = client ? calloc(1, sizeof *s->times) : NULL;
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (s->connections == NULL || s->unused == NULL || s->message == NULL || s->received == NULL ||
        (client && s->times == NULL))
        return fail(error, size, "out of memory: %llu connections",
                    (unsigned long long)connections);
    /* Pages that were never written are one page of zeros, which stays in the nearest cache: the
     * kernel would copy it faster than the data of an application. */
    memset(s->message, FILLER, TCP_MESSAGE_MAX + HTTP_HEAD_MAX);
    for (unsigned i = 0; i < s->connection_count; i++)
        s->connections[i].fd = -1;
    return s->epoll >= 0 || fail(error, size, "epoll: %s", strerror(errno));
}

void tcp_state_close(struct trial *trial)
{
    struct tcp_state *s = trial->tcp;

    if (s == NULL)
        return;
    for (unsigned i = 0; s->connections != NULL && i < s->connection_count; i++) {
        if (s->connections[i].fd >= 0)
            close(s->connections[i].fd);
    }
    if (s->listener >= 0)
        close(s->listener);
    if (s->epoll >= 0)
        close(s->epoll);
    free(s->connections);
    free(s->unused);
    free(s->message);
    free(s->received);
    free(s->times);
    free(s);
    trial->tcp = NULL;
}

void tcp_state_reset(struct tcp_state *s)
{
    memset(&s->counters, 0, sizeof s->counters);
    memset(&s->closed, 0, sizeof s->closed);
    memset(s->spent_ticks, 0, sizeof s->spent_ticks);
    if (s->times != NULL) {
        histogram_reset(&s->times->from_due);
        histogram_reset(&s->times->from_sent);
        histogram_reset(&s->times->connect);
        histogram_reset(&s->times->first_byte);
        histogram_reset(&s->times->lateness);
        histogram_reset(&s->times->unanswered);
    }
    s->unsent = s->unfinished = s->not_before = s->next_timeout = 0;
    s->last_error = 0;
    s->congestion[0] = '\0';
    s->congestion_varies = s->sending_ended = false;
    s->unused_first = s->unused_count = 0;
    for (unsigned i = 0; i < s->connection_count; i++) {
        s->connections[i] = (struct tcp_connection){.fd = -1};
        tcp_put_unused(s, &s->connections[i]);
    }
}

bool tcp_watch(struct tcp_state *s, struct tcp_connection *connection, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = connection};

    if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, connection->fd, &event) != 0)
        return false;
    s->open++;
    return true;
}

static void note_congestion(struct tcp_state *s, int fd)
{
    char name[TCP_CONGESTION_NAME_MAX];

    tcp_socket_congestion(fd, name);
    if (s->congestion[0] == '\0')
        memcpy(s->congestion, name, sizeof name);
    s->congestion_varies |= strcmp(s->congestion, name) != 0;
}

void tcp_close(struct tcp_state *s, struct tcp_connection *connection)
{
    if (tcp_kernel_add(&s->closed, connection->fd))
        note_congestion(s, connection->fd);
    close(connection->fd); /* which also ends its registration */
    connection->fd = -1;
    connection->phase = TCP_CLOSED;
    s->open--;
}

void tcp_put_unused(struct tcp_state *s, struct tcp_connection *connection)
{
    const unsigned place = (s->unused_first + s->unused_count) % s->connection_count;

    s->unused[place] = (uint32_t)(connection - s->connections);
    s->unused_count++;
}

struct tcp_connection *tcp_take_unused(struct tcp_state *s)
{
    struct tcp_connection *connection = &s->connections[s->unused[s->unused_first]];

    s->unused_first = (s->unused_first + 1) % s->connection_count;
    s->unused_count--;
    return connection;
}

void tcp_count_failure(struct tcp_state *s, int error)
{
    uint64_t *counter = &s->counters.failed_otherwise;

    s->last_error = error;
    switch (error) {
    case ECONNREFUSED:
        counter = &s->counters.refused;
        break;
    case ECONNRESET:
    case EPIPE:
        counter = &s->counters.reset;
        break;
    case ETIMEDOUT:
        counter = &s->counters.timed_out;
        break;
    case ENOTCONN:
        counter = &s->counters.closed;
        break;
    case EHOSTUNREACH:
    case ENETUNREACH:
        counter = &s->counters.unreachable;
        break;
    case EBADMSG:
        counter = &s->counters.malformed;
        break;
    default:
        break;
    }
    counter_add(counter, 1);
}

static uint64_t nap_ns(const struct trial *trial, uint64_t now, uint64_t until)
{
    const uint64_t event = __atomic_load_n(&trial->clock.next_event, __ATOMIC_RELAXED);
    const uint64_t last = event < until ? event : until;
    uint64_t rest_ns = LONG_NAP_NS;

    if (last != UINT64_MAX)
        rest_ns = last > now ? clock_ticks_to_ns(last - now) : 0;
    if (rest_ns > LONG_NAP_NS)
        rest_ns = LONG_NAP_NS;
    return rest_ns < SHORT_NAP_NS ? 0 : rest_ns;
}

/* A kernel without epoll_pwait2 waits in milliseconds: the rest is spent in this loop. */
static int wait_ns(int epoll, struct epoll_event *events, uint64_t rest_ns)
{
    const struct timespec rest = {0, (long)rest_ns};

    if (rest_ns == 0)
        return epoll_wait(epoll, events, TCP_EVENTS, 0);
    const long count = syscall(SYS_epoll_pwait2, epoll, events, TCP_EVENTS, &rest, NULL, (size_t)0);
    if (count < 0 && errno == ENOSYS)
        return epoll_wait(epoll, events, TCP_EVENTS, (int)(rest_ns / 1000000));
    return (int)count;
}

unsigned tcp_wait(struct trial *trial, struct epoll_event *events, bool worked, uint64_t now,
                  uint64_t until)
{
    const bool sleeps = trial->threads.idle == IDLE_SLEEP;
    const uint64_t rest_ns = sleeps ? nap_ns(trial, now, until) : 0;
    const uint64_t begun = clock_ticks();
    const int count = wait_ns(trial->tcp->epoll, events, rest_ns);

    if (rest_ns > 0)
        trial->tcp->slept = clock_ticks() - begun;

    if (count <= 0 && !sleeps && until > now)
        trial_idle(trial, worked, NULL, now, until);
    return count > 0 ? (unsigned)count : 0;
}

ssize_t tcp_send(struct tcp_state *s, const struct tcp_connection *connection, uint64_t left)
{
    const ssize_t sent = send(connection->fd, s->message + (s->message_bytes - left), left,
                              MSG_NOSIGNAL | MSG_DONTWAIT);

    if (sent > 0)
        counter_add(&s->counters.sent_bytes, (uint64_t)sent);
    return sent;
}

/* Many connections are not read in each interval, because that would delay requests. */
void tcp_snapshot_fill(struct trial *trial, struct tcp_snapshot *snapshot)
{
    const struct tcp_state *s = trial->tcp;
    const uint64_t now = clock_ticks();

    memset(snapshot, 0, sizeof *snapshot);
    snapshot->counters = s->counters;
    snapshot->kernel = s->closed;
    snapshot->open = s->open;
    snapshot->is_partial = s->open > LIVE_CONNECTIONS_MAX;
    for (unsigned i = 0;
         i < s->connection_count && !snapshot->is_partial && snapshot->live.connections < s->open;
         i++) {
        if (s->connections[i].fd >= 0 && s->connections[i].phase != TCP_CONNECTING)
            tcp_kernel_add(&snapshot->live, s->connections[i].fd);
    }
    tcp_kernel_merge(&snapshot->kernel, &snapshot->live);
    memcpy(snapshot->spent_ticks, s->spent_ticks, sizeof s->spent_ticks);
    if (s->times != NULL && !s->pacing.unlimited && !s->sending_ended &&
        pacing_due(&s->pacing) < now)
        snapshot->behind_ns = clock_ticks_to_ns(now - pacing_due(&s->pacing));
}
