/* The events `tcp_interval` and `tcp_result`. */
#include <string.h>

#include "report/report.h"

static void put_gauge(struct json *j, const char *key, const struct tcp_gauge *gauge,
                      uint64_t connections)
{
    json_object(j, key);
    json_number(j, "mean", (double)gauge->sum / (double)connections);
    json_unsigned(j, "min", gauge->min);
    json_unsigned(j, "max", gauge->max);
    json_end_object(j);
}

static void put_state(struct json *j, const struct tcp_kernel *kernel)
{
    if (kernel->connections == 0) {
        json_null(j, "connection_state");
        return;
    }
    json_object(j, "connection_state");
    json_unsigned(j, "connections", kernel->connections);
    put_gauge(j, "rtt_us", &kernel->rtt_us, kernel->connections);
    put_gauge(j, "rtt_min_us", &kernel->rtt_min_us, kernel->connections);
    put_gauge(j, "cwnd_segments", &kernel->cwnd_segments, kernel->connections);
    put_gauge(j, "delivery_bytes_s", &kernel->delivery_bytes_s, kernel->connections);
    put_gauge(j, "mss_bytes", &kernel->mss_bytes, kernel->connections);
    json_end_object(j);
}

static void put_sums(struct json *j, const struct tcp_kernel *from, const struct tcp_kernel *to)
{
    json_object(j, "kernel");
#define PUT(name) json_unsigned(j, #name, to->name - from->name);
    TCP_KERNEL_SUMS(PUT)
#undef PUT
    json_end_object(j);
}

static void put_counters(struct json *j, const struct tcp_counters *from,
                         const struct tcp_counters *to)
{
#define PUT(name) json_unsigned(j, #name, to->name - from->name);
    TCP_COUNTERS(PUT)
#undef PUT
}

void report_tcp_interval(struct json *j, const struct tcp_snapshot *from,
                         const struct tcp_snapshot *to)
{
    put_counters(j, &from->counters, &to->counters);
    json_unsigned(j, "open_connections", to->open);
    json_unsigned(j, "behind_ns", to->behind_ns);
    if (from->is_partial || to->is_partial)
        json_null(j, "kernel");
    else
        put_sums(j, &from->kernel, &to->kernel);
    put_state(j, &to->live);
    report_spent(j, from->spent_ticks, to->spent_ticks);
}

static void put_size(struct json *j, const char *key, uint64_t bytes, bool known)
{
    if (known)
        json_unsigned(j, key, bytes);
    else
        json_null(j, key);
}

static void put_config(struct json *j, const struct trial *trial)
{
    const struct tcp_options *o = &trial->options->tcp;
    const bool client = trial->options->role->sends_requests;
    char address[TCP_ADDRESS_TEXT_MAX];

    tcp_address_print(client ? &o->connect : &o->listen, address);
    json_object(j, "config");
    json_string(j, "workload", tcp_workload_name(o->workload));
    json_string(j, "address", address);
    if (trial->plan.rate_pps > 0)
        report_rate(j, "rate_rps", trial->plan.rate_pps);
    else
        json_null(j, "rate_rps");
    report_shape(j, &trial->plan);
    json_unsigned(j, "connections", trial->tcp->connection_count);
    put_size(j, "request_bytes", client ? trial->tcp->message_bytes : o->request_bytes,
             client || o->workload < TCP_HTTP);
    put_size(j, "response_bytes", o->response_bytes,
             o->workload != TCP_STREAM && (!client || o->workload != TCP_HTTP));
    json_string(j, "path", client && o->workload == TCP_HTTP ? o->path : NULL);
    json_unsigned(j, "timeout_ns", o->timeout_ns);
    json_unsigned(j, "server_spin_ns", o->spin_ns);
    json_string(j, "congestion_control", o->congestion);
    json_string(j, "idle", idle_name(trial->options->idle));
    json_end_object(j);
}

/* Null if nothing was recorded. */
static void put_delays(struct json *j, const char *key, const struct histogram *h)
{
    if (h->count > 0)
        report_delays(j, key, h);
    else
        json_null(j, key);
}

static void put_latency(struct json *j, const struct tcp_times *times)
{
    if (times == NULL) {
        json_null(j, "latency");
        return;
    }
    json_object(j, "latency");
    put_delays(j, "from_due", &times->from_due);
    put_delays(j, "from_sent", &times->from_sent);
    put_delays(j, "first_byte", &times->first_byte);
    put_delays(j, "connect", &times->connect);
    put_delays(j, "lateness", &times->lateness);
    put_delays(j, "unanswered", &times->unanswered);
    json_end_object(j);
}

void report_tcp_result(struct json *j, const struct trial *trial)
{
    static const struct tcp_counters no_counters;
    static const struct tcp_kernel no_kernel;
    static const uint64_t nothing_spent[2] = {0, 0};
    const struct tcp_state *s = trial->tcp;
    const int64_t time_waits = tcp_time_waits("/proc/thread-self/net/sockstat");

    json_string(j, "reason", report_reason(trial->outcome.reason));
    json_unsigned(j, "duration_ns", trial->outcome.ended_ns - trial->outcome.started_ns);
    json_unsigned(j, "drain_ns", trial->outcome.drained_ns - trial->outcome.ended_ns);
    json_bool(j, "drained", trial->outcome.drained);
    put_config(j, trial);
    json_object(j, "totals");
    put_counters(j, &no_counters, &s->counters);
    report_spent(j, nothing_spent, s->spent_ticks);
    report_cpu(j, &trial->outcome.cpu_before, &trial->outcome.cpu_after);
    json_end_object(j);
    json_unsigned(j, "unsent", s->unsent);
    json_unsigned(j, "unfinished", s->unfinished);
    put_latency(j, s->times);
    put_sums(j, &no_kernel, &s->closed);
    put_state(j, &s->closed);
    json_string(j, "congestion_control", s->congestion[0] != '\0' ? s->congestion : NULL);
    json_bool(j, "congestion_varies", s->congestion_varies);
    if (time_waits >= 0)
        json_unsigned(j, "time_waits", (uint64_t)time_waits);
    else
        json_null(j, "time_waits");
    json_string(j, "last_error", s->last_error != 0 ? strerror(s->last_error) : NULL);
    report_cpu_use(j, trial);
    report_hardware(j, trial);
}
