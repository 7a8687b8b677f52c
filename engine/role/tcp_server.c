/* tcp-server: answers the requests of tcp-client over TCP connections of the kernel. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "role/tcp.h"

#define WATCHED (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)
#define ACCEPTED_IN_A_ROW 64
#define READS_IN_A_ROW 16 /* then other connections are served */
#define SWEEP_NS 10000000U

static bool open_server(struct trial *trial, char *error, size_t size)
{
    const struct tcp_options *o = &trial->options->tcp;

    if (!tcp_state_open(trial, o->connections, error, size))
        return false;
    struct tcp_state *s = trial->tcp;
    uint64_t head = 0;
    if (o->workload == TCP_HTTP)
        head = http_response_head((char *)s->message, HTTP_HEAD_MAX, o->response_bytes);
    s->message_bytes = head + o->response_bytes;
    s->listener = tcp_socket_listen(o, error, size);
    if (s->listener < 0)
        return false;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    return epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->listener, &event) == 0;
}

static bool prepare(struct trial *trial, char *error, size_t size)
{
    (void)error;
    (void)size;
    tcp_state_reset(trial->tcp);
    return true;
}

static void end_connection(struct tcp_state *s, struct tcp_connection *c)
{
    tcp_close(s, c);
    tcp_put_unused(s, c);
}

static void begin_waiting(const struct trial *trial, struct tcp_connection *c)
{
    c->phase = TCP_RECEIVING;
    c->to_receive = trial->options->tcp.request_bytes;
}

static void accept_all(struct trial *trial)
{
    struct tcp_state *s = trial->tcp;
    const bool stream = trial->options->tcp.workload == TCP_STREAM;

    for (unsigned i = 0; i < ACCEPTED_IN_A_ROW; i++) {
        const int fd = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        if (s->unused_count == 0) {
            counter_add(&s->counters.turned_away, 1);
            close(fd);
            continue;
        }
        struct tcp_connection *c = tcp_take_unused(s);
        *c = (struct tcp_connection){.fd = fd};
        begin_waiting(trial, c);
        if (!tcp_watch(s, c, stream ? EPOLLIN : WATCHED)) {
            s->open++; /* end_connection takes it back */
            end_connection(s, c);
            continue;
        }
        counter_add(&s->counters.accepted, 1);
    }
}

static void spin(const struct trial *trial)
{
    const uint64_t until = clock_ticks() + clock_ns_to_ticks(trial->options->tcp.spin_ns);

    while (trial->options->tcp.spin_ns > 0 && clock_ticks() < until)
        clock_pause();
}

/* The connection ends with an error, or the client has closed it (0). */
static void end_by(struct tcp_state *s, struct tcp_connection *c, int error)
{
    if (error != 0)
        tcp_count_failure(s, error);
    end_connection(s, c);
}

/* Send the rest of the response. Return true if all of it was sent and the connection stays open.
 */
static bool respond(struct trial *trial, struct tcp_connection *c)
{
    struct tcp_state *s = trial->tcp;

    while (c->to_send > 0) {
        const ssize_t sent = tcp_send(s, c, c->to_send);
        if (sent < 0 && errno == EAGAIN) {
            c->phase = TCP_SENDING;
            return false;
        }
        if (sent < 0) {
            end_by(s, c, errno);
            return false;
        }
        c->to_send -= (uint64_t)sent;
    }
    counter_add(&s->counters.completed, 1);
    if (trial->options->tcp.workload == TCP_CRR) {
        end_connection(s, c);
        return false;
    }
    begin_waiting(trial, c);
    return true;
}

/* Answer the requests that have arrived; `waiting` counts bytes, or whole requests of HTTP. */
static void answer(struct trial *trial, struct tcp_connection *c)
{
    const bool http = trial->options->tcp.workload == TCP_HTTP;

    while (c->phase == TCP_RECEIVING && c->waiting > 0) {
        const uint64_t left = http ? 1 : c->to_receive;
        const uint64_t taken = c->waiting < left ? c->waiting : left;
        c->waiting -= taken;
        c->to_receive = left - taken;
        if (c->to_receive > 0)
            return;
        counter_add(&trial->tcp->counters.attempted, 1);
        spin(trial);
        c->to_send = trial->tcp->message_bytes;
        if (!respond(trial, c))
            return;
    }
}

/* Take bytes of the client; a request that is not complete at the end of the connection counts as
 * closed. */
static void receive(struct trial *trial, struct tcp_connection *c)
{
    struct tcp_state *s = trial->tcp;
    const struct tcp_options *o = &trial->options->tcp;
    const bool stream = o->workload == TCP_STREAM;

    for (unsigned reads = 0; c->fd >= 0 && (!stream || reads < READS_IN_A_ROW); reads++) {
        const ssize_t count = recv(c->fd, s->received, TCP_RECEIVE_BYTES, MSG_DONTWAIT);
        if (count < 0 && errno == EAGAIN)
            return;
        if (count <= 0) {
            const bool partial = o->workload < TCP_STREAM && c->to_receive != o->request_bytes;
            end_by(s, c, count < 0 ? errno : partial || c->phase == TCP_SENDING ? ENOTCONN : 0);
            return;
        }
        counter_add(&s->counters.received_bytes, (uint64_t)count);
        if (stream)
            continue;
        if (o->workload == TCP_HTTP)
            c->waiting += http_requests_end(&c->matched, (const char *)s->received, (size_t)count);
        else
            c->waiting += (uint64_t)count;
        answer(trial, c);
        if (count < TCP_RECEIVE_BYTES)
            return; /* later bytes are another event */
    }
}

static void handle(struct trial *trial, struct tcp_connection *c, uint32_t events)
{
    if (c->phase == TCP_SENDING && (events & EPOLLOUT) != 0 && respond(trial, c))
        answer(trial, c);
    if (c->fd >= 0 && (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0)
        receive(trial, c);
    if (c->fd >= 0 && (events & EPOLLRDHUP) != 0 && c->phase == TCP_RECEIVING)
        receive(trial, c); /* the end of the connection, behind its last bytes */
}

static unsigned serve(struct trial *trial, bool worked, uint64_t now, uint64_t until)
{
    struct epoll_event events[TCP_EVENTS];
    const unsigned count = tcp_wait(trial, events, worked, now, until);

    for (unsigned i = 0; i < count; i++) {
        struct tcp_connection *c = events[i].data.ptr;
        if (c == NULL)
            accept_all(trial);
        else if (c->fd >= 0)
            handle(trial, c, events[i].events);
    }
    return count;
}

static void run(struct trial *trial, unsigned worker)
{
    uint64_t now = clock_ticks();
    bool worked = false;

    while (trial_goes_on(trial, worker, now)) {
        worked = serve(trial, worked, now, UINT64_MAX) > 0;
        now = tcp_round(trial->tcp, now, worked);
    }
}

/* Serve what has arrived, until the clients have closed their connections or are silent. */
static void settle(struct trial *trial)
{
    struct tcp_state *s = trial->tcp;
    uint64_t now = clock_ticks();
    uint64_t last = now + clock_ns_to_ticks(trial->traffic.patience_ns);
    unsigned served = serve(trial, false, now, now);

    while ((served > 0 || s->open > 0) && now < last) {
        served = serve(trial, false, now, now + clock_ns_to_ticks(SWEEP_NS));
        now = clock_ticks();
        if (now >= __atomic_load_n(&trial->clock.next_event, __ATOMIC_RELAXED))
            trial_event(trial, now);
    }
    trial->outcome.drained = s->open == 0;
    for (unsigned i = 0; i < s->connection_count; i++) {
        if (s->connections[i].fd >= 0)
            tcp_close(s, &s->connections[i]);
    }
}

const struct role role_tcp_server = {
    .name = "tcp-server",
    .summary = "answers tcp-client over TCP sockets of the kernel",
    .speaks_tcp = true,
    .answers_requests = true,
    .drains = true,
    .open = open_server,
    .prepare = prepare,
    .run = run,
    .settle = settle,
    .close = tcp_state_close,
    .snapshot = tcp_snapshot_fill,
};

ROLE(role_tcp_server);
