/* tcp-client: sends requests over TCP connections of the kernel by its schedule, and measures the
 * time of every response from when the request was due and from when it was sent.
 *
 * The schedule itself is the queue of requests that are due and wait for a connection: a request
 * leaves it when a connection is free. So no request is left out when the server stalls, and the
 * memory does not depend on the length of a stall. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fail.h"
#include "role/tcp.h"

#define WATCHED (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)
#define REQUESTS_IN_A_ROW 64 /* before events are read again */
#define PAUSE_NS 1000000U    /* after a failure, at rate max */
#define TIMEOUT_SEARCHES 16  /* searches in the time of --timeout */
#define UNSENT_TIMED_MAX 20000000U

static bool is_stream(const struct trial *trial)
{
    return trial->options->tcp.workload == TCP_STREAM;
}

static void record(struct histogram *h, uint64_t from, uint64_t to)
{
    histogram_record_magnitude(h, to > from ? clock_ticks_to_ns(to - from) : 0);
}

static void fail_request(struct trial *trial, struct tcp_connection *c, int error)
{
    struct tcp_state *s = trial->tcp;

    tcp_count_failure(s, error);
    if (c->fd >= 0)
        tcp_close(s, c);
    s->not_before = clock_ticks() + clock_ns_to_ticks(PAUSE_NS);
    tcp_put_unused(s, c);
}

static void complete(struct trial *trial, struct tcp_connection *c, uint64_t now)
{
    struct tcp_state *s = trial->tcp;

    counter_add(&s->counters.completed, 1);
    if (!is_stream(trial)) {
        record(&s->times->from_sent, c->begun, now);
        if (!s->pacing.unlimited)
            record(&s->times->from_due, c->due, now);
    }
    if (trial->options->tcp.workload == TCP_CRR) {
        c->phase = TCP_FINISHING;
        return;
    }
    if (c->http.closes) /* otherwise the next request could meet the end of the connection */
        tcp_close(s, c);
    else
        c->phase = TCP_IDLE;
    tcp_put_unused(s, c);
}

static void go_on_sending(struct trial *trial, struct tcp_connection *c)
{
    while (c->to_send > 0) {
        const ssize_t sent = tcp_send(trial->tcp, c, c->to_send);
        if (sent < 0 && errno == EAGAIN)
            return;
        if (sent < 0) {
            fail_request(trial, c, errno);
            return;
        }
        c->to_send -= (uint64_t)sent;
    }
    if (is_stream(trial))
        complete(trial, c, clock_ticks());
    else
        c->phase = TCP_RECEIVING;
}

static void begin_sending(struct trial *trial, struct tcp_connection *c)
{
    c->phase = TCP_SENDING;
    c->to_send = trial->tcp->message_bytes;
    c->to_receive = trial->options->tcp.response_bytes;
    c->first_byte_came = false;
    c->http = (struct http_response){0};
    go_on_sending(trial, c);
}

/* Begin to connect; false: errno. */
static bool begin_connecting(struct trial *trial, struct tcp_connection *c, uint64_t now)
{
    const struct tcp_options *o = &trial->options->tcp;
    struct tcp_state *s = trial->tcp;

    counter_add(&s->counters.connects, 1);
    c->connected = now;
    c->fd = tcp_socket_make(o, &o->connect);
    if (c->fd < 0)
        return false;
    c->phase = TCP_CONNECTING;
    const bool refused =
        connect(c->fd, &o->connect.any, o->connect.length) != 0 && errno != EINPROGRESS;
    const int error = errno;
    if (!tcp_watch(s, c, WATCHED)) {
        s->open++; /* tcp_close takes it back */
        return false;
    }
    errno = error;
    return !refused;
}

static void begin_request(struct trial *trial, uint64_t due, uint64_t now)
{
    struct tcp_state *s = trial->tcp;
    struct tcp_connection *c = tcp_take_unused(s);

    c->due = due;
    c->begun = now;
    counter_add(&s->counters.attempted, 1);
    if (!s->pacing.unlimited)
        record(&s->times->lateness, due, now);
    if (c->fd >= 0)
        begin_sending(trial, c);
    else if (!begin_connecting(trial, c, now))
        fail_request(trial, c, errno);
}

/* Send the requests that are due; returns their number. */
static unsigned begin_due(struct trial *trial)
{
    struct tcp_state *s = trial->tcp;
    struct pacing *p = &s->pacing;
    unsigned begun = 0;

    while (s->unused_count > 0 && begun < REQUESTS_IN_A_ROW) {
        const uint64_t now = clock_ticks();
        if (pacing_ended(p, now))
            break;
        if (p->unlimited) {
            if (now < s->not_before || !pacing_is_open(p, now))
                break;
            begin_request(trial, now, now);
        } else {
            const uint64_t due = pacing_due(p);
            if (due > now)
                break;
            begin_request(trial, due, now);
            pacing_advance(p);
        }
        begun++;
    }
    return begun;
}

static uint64_t next_due(const struct tcp_state *s, uint64_t now)
{
    if (s->unused_count == 0)
        return UINT64_MAX;
    if (!s->pacing.unlimited || s->pacing.shaped)
        return pacing_due(&s->pacing);
    return s->not_before > now ? s->not_before : now;
}

/* Use received bytes; returns 0 or an error. */
static int take_bytes(struct trial *trial, struct tcp_connection *c, size_t count)
{
    if (trial->options->tcp.workload == TCP_HTTP) {
        const size_t used = http_read(&c->http, (const char *)trial->tcp->received, count);
        c->to_receive = c->http.state != HTTP_DONE;
        return used == count && c->http.state != HTTP_BAD ? 0 : EBADMSG;
    }
    if (count > c->to_receive)
        return EBADMSG;
    c->to_receive -= count;
    return 0;
}

static void receive(struct trial *trial, struct tcp_connection *c)
{
    struct tcp_state *s = trial->tcp;

    while (c->phase == TCP_RECEIVING) {
        const ssize_t count = recv(c->fd, s->received, TCP_RECEIVE_BYTES, MSG_DONTWAIT);
        const uint64_t now = clock_ticks();
        if (count < 0 && errno == EAGAIN)
            return;
        if (count <= 0) {
            fail_request(trial, c, count == 0 ? ENOTCONN : errno);
            return;
        }
        counter_add(&s->counters.received_bytes, (uint64_t)count);
        if (!c->first_byte_came)
            record(&s->times->first_byte, c->begun, now);
        c->first_byte_came = true;
        const int error = take_bytes(trial, c, (size_t)count);
        if (error != 0)
            fail_request(trial, c, error);
        else if (c->to_receive == 0)
            complete(trial, c, now);
    }
}

/* The connection is established, or has failed. */
static void end_connecting(struct trial *trial, struct tcp_connection *c)
{
    struct tcp_state *s = trial->tcp;
    int error = 0;
    socklen_t length = sizeof error;

    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0)
        error = errno;
    if (error != 0) {
        fail_request(trial, c, error);
        return;
    }
    counter_add(&s->counters.connected, 1);
    record(&s->times->connect, c->connected, clock_ticks());
    begin_sending(trial, c);
}

/* The server has closed or sent something without a request. */
static void leave_idle(struct trial *trial, struct tcp_connection *c)
{
    struct tcp_state *s = trial->tcp;
    const ssize_t count = recv(c->fd, s->received, TCP_RECEIVE_BYTES, MSG_DONTWAIT);

    if (count < 0 && errno == EAGAIN)
        return;
    if (count > 0)
        tcp_count_failure(s, EBADMSG);
    tcp_close(s, c); /* it stays in the ring, and the next request connects again */
}

static void handle(struct trial *trial, struct tcp_connection *c, uint32_t events)
{
    const uint32_t end = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
    const bool was_idle = c->phase == TCP_IDLE;

    if (c->phase == TCP_CONNECTING && (events & (EPOLLOUT | end)) != 0)
        end_connecting(trial, c);
    else if (c->phase == TCP_SENDING && (events & end) != 0 && is_stream(trial))
        fail_request(trial, c, ECONNRESET);
    else if (c->phase == TCP_SENDING && (events & (EPOLLOUT | end)) != 0)
        go_on_sending(trial, c);
    if (c->phase == TCP_RECEIVING && (events & (EPOLLIN | end)) != 0)
        receive(trial, c);
    if (c->phase == TCP_FINISHING && (events & end) != 0) {
        tcp_close(trial->tcp, c);
        tcp_put_unused(trial->tcp, c);
    } else if (c->phase == TCP_IDLE && (events & (was_idle ? EPOLLIN | end : end)) != 0) {
        leave_idle(trial, c);
    }
}

/* Give up requests that take longer than --timeout. A connection whose response was complete only
 * lacks the end of the server. */
static void give_up_late(struct trial *trial, uint64_t now)
{
    struct tcp_state *s = trial->tcp;
    const uint64_t timeout = clock_ns_to_ticks(trial->options->tcp.timeout_ns);

    if (now < s->next_timeout)
        return;
    s->next_timeout = now + timeout / TIMEOUT_SEARCHES;
    for (unsigned i = 0; i < s->connection_count; i++) {
        struct tcp_connection *c = &s->connections[i];
        const bool writes = is_stream(trial) && c->phase == TCP_SENDING;
        if (c->phase == TCP_CLOSED || c->phase == TCP_IDLE || writes || now < c->begun + timeout)
            continue;
        if (c->phase == TCP_FINISHING) {
            tcp_close(s, c);
            tcp_put_unused(s, c);
        } else {
            record(&s->times->unanswered, c->due, now);
            fail_request(trial, c, ETIMEDOUT);
        }
    }
}

static unsigned handle_all(struct trial *trial, bool worked, uint64_t now, uint64_t until)
{
    struct epoll_event events[TCP_EVENTS];
    const unsigned count = tcp_wait(trial, events, worked, now, until);

    for (unsigned i = 0; i < count; i++)
        handle(trial, events[i].data.ptr, events[i].events);
    return count;
}

/* Connect all connections before the trial, so that its requests do not wait for that. */
static bool connect_all(struct trial *trial, char *error, size_t size)
{
    struct tcp_state *s = trial->tcp;
    const struct tcp_options *o = &trial->options->tcp;
    struct epoll_event events[TCP_EVENTS];
    char server[TCP_ADDRESS_TEXT_MAX];
    const uint64_t last = clock_monotonic_ns() + o->timeout_ns;
    unsigned connected = 0;

    tcp_address_print(&o->connect, server);
    for (unsigned i = 0; i < s->connection_count; i++) {
        if (!begin_connecting(trial, &s->connections[i], clock_ticks()))
            return fail(error, size, "--connect %s: %s", server, strerror(errno));
    }
    while (connected < s->connection_count && clock_monotonic_ns() < last &&
           atomic_load(&trial->request.stop) == 0) {
        const int count = epoll_wait(s->epoll, events, TCP_EVENTS, 10);
        for (int i = 0; i < count; i++) {
            struct tcp_connection *c = events[i].data.ptr;
            int problem = 0;
            socklen_t length = sizeof problem;
            if (c->phase != TCP_CONNECTING)
                continue;
            getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &problem, &length);
            if (problem != 0)
                return fail(error, size, "--connect %s: %s", server, strerror(problem));
            c->phase = TCP_IDLE;
            record(&s->times->connect, c->connected, clock_ticks());
            counter_add(&s->counters.connected, 1);
            connected++;
        }
    }
    return connected == s->connection_count || atomic_load(&trial->request.stop) != 0 ||
           fail(error, size, "--connect %s: %u of %u connections were established within %g s",
                server, connected, s->connection_count, (double)o->timeout_ns / 1e9);
}

static bool prepare(struct trial *trial, char *error, size_t size)
{
    tcp_state_reset(trial->tcp);
    return trial->options->tcp.workload == TCP_CRR || connect_all(trial, error, size);
}

static bool open_client(struct trial *trial, char *error, size_t size)
{
    const struct tcp_options *o = &trial->options->tcp;
    char server[TCP_ADDRESS_TEXT_MAX];

    if (!tcp_state_open(trial, o->connections, error, size))
        return false;
    tcp_address_print(&o->connect, server);
    trial->tcp->message_bytes =
        o->workload == TCP_HTTP
            ? http_request((char *)trial->tcp->message, HTTP_HEAD_MAX, server, o->path)
            : o->request_bytes;
    return true;
}

static void run(struct trial *trial, unsigned worker)
{
    struct tcp_state *s = trial->tcp;
    uint64_t now = clock_ticks();
    bool worked = false;

    pacing_begin(&s->pacing, trial->plan.rate_pps, 1, engine_clock.hz, trial->clock.start_tick,
                 trial->clock.end_tick, 0);
    pacing_take_shape(&s->pacing, &trial->plan, engine_clock.hz, trial_seed_index(trial, 0));
    while (trial_goes_on(trial, worker, now)) {
        const unsigned begun = begin_due(trial);
        const unsigned handled = handle_all(trial, worked, now, next_due(s, now));
        give_up_late(trial, now);
        worked = begun + handled > 0;
        now = tcp_round(s, now, worked);
    }
}

/* Count the requests that were due and not sent, each with the time that it has waited. */
static void count_unsent(struct trial *trial, uint64_t end)
{
    struct tcp_state *s = trial->tcp;

    if (end > trial->clock.end_tick)
        end = trial->clock.end_tick;
    while (!s->pacing.unlimited && pacing_due(&s->pacing) < end && s->unsent < UNSENT_TIMED_MAX) {
        record(&s->times->unanswered, pacing_due(&s->pacing), end);
        pacing_advance(&s->pacing);
        s->unsent++;
    }
    s->unsent += pacing_give_up_before(&s->pacing, end);
    s->sending_ended = true;
}

static bool is_waiting(const struct trial *trial)
{
    return trial->tcp->unused_count < trial->tcp->connection_count;
}

/* Stop sending: a stream ends its connections, and the server closes them after the last byte. */
static void end_streams(struct trial *trial)
{
    struct tcp_state *s = trial->tcp;

    for (unsigned i = 0; i < s->connection_count; i++) {
        struct tcp_connection *c = &s->connections[i];
        if (c->fd < 0)
            continue;
        if (c->phase == TCP_IDLE)
            (void)tcp_take_unused(s); /* every connection is in the ring once */
        shutdown(c->fd, SHUT_WR);
        c->phase = TCP_FINISHING;
    }
}

static void settle(struct trial *trial)
{
    struct tcp_state *s = trial->tcp;
    uint64_t now = clock_ticks();
    const uint64_t last = now + clock_ns_to_ticks(trial->options->tcp.timeout_ns);

    count_unsent(trial, now);
    if (is_stream(trial))
        end_streams(trial);
    while (is_waiting(trial) && now < last && trial->outcome.reason != REASON_FAILURE) {
        handle_all(trial, false, now, last);
        now = clock_ticks();
        if (now >= __atomic_load_n(&trial->clock.next_event, __ATOMIC_RELAXED))
            trial_event(trial, now);
    }
    trial->outcome.drained = !is_waiting(trial);
    for (unsigned i = 0; i < s->connection_count; i++) {
        struct tcp_connection *c = &s->connections[i];
        const bool lacks_response =
            c->phase == TCP_CONNECTING || c->phase == TCP_SENDING || c->phase == TCP_RECEIVING;
        if (lacks_response && !is_stream(trial) && c->begun != 0) {
            s->unfinished++;
            record(&s->times->unanswered, c->due, now);
        }
        if (c->fd >= 0)
            tcp_close(s, c);
    }
}

const struct role role_tcp_client = {
    .name = "tcp-client",
    .summary = "sends requests or a stream over TCP sockets of the kernel, and times each response",
    .speaks_tcp = true,
    .sends_requests = true,
    .drains = true,
    .open = open_client,
    .prepare = prepare,
    .run = run,
    .settle = settle,
    .close = tcp_state_close,
    .snapshot = tcp_snapshot_fill,
};

ROLE(role_tcp_client);
