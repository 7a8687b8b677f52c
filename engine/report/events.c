/* All events except `result`, and the lock of standard output. */
#include "report/events.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "build.h"
#include "measure/clock.h"
#include "report/json.h"
#include "report/report.h"
#include "version.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct json line;
static atomic_int output_error; /* errno of the first line that was not written */
static struct snapshot printed; /* values at the end of the last interval line */

static void begin_event(const char *name)
{
    pthread_mutex_lock(&lock);
    json_begin(&line);
    json_string(&line, "event", name);
}

static void write_line(void)
{
    int none = 0;

    if (json_write(&line, STDOUT_FILENO))
        return;
    const int error = line.out_of_memory ? ENOMEM : errno;
    if (atomic_compare_exchange_strong(&output_error, &none, error) && error != EPIPE)
        fprintf(stderr, "switchmark-traffic: cannot write events to standard output: %s\n",
                strerror(error));
}

static void end_event(void)
{
    write_line();
    pthread_mutex_unlock(&lock);
}

bool events_are_read(void)
{
    return atomic_load(&output_error) == 0;
}

bool events_are_lost(void)
{
    return !events_are_read() && atomic_load(&output_error) != EPIPE;
}

static void put_buffers(const struct io_buffers *buffers)
{
    json_object(&line, "buffers");
    json_unsigned(&line, "asked_bytes", buffers->asked_bytes);
    json_unsigned(&line, "receive_bytes", buffers->receive_bytes);
    json_unsigned(&line, "send_bytes", buffers->send_bytes);
    json_bool(&line, "busy_poll", buffers->busy_poll);
    json_end_object(&line);
}

static void put_port(const struct io_port *port, unsigned index)
{
    char mac[18];

    snprintf(mac, sizeof mac, "%02x:%02x:%02x:%02x:%02x:%02x", port->mac[0], port->mac[1],
             port->mac[2], port->mac[3], port->mac[4], port->mac[5]);
    json_object(&line, NULL);
    json_unsigned(&line, "index", index);
    json_string(&line, "backend", port->ops->name);
    json_string(&line, "spec", port->spec);
    json_string(&line, "mac", mac);
    json_string(&line, "driver", port->driver);
    json_unsigned(&line, "mtu_bytes", port->mtu_bytes);
    if (port->buffers.asked_bytes > 0)
        put_buffers(&port->buffers);
    json_end_object(&line);
}

static void put_build(void)
{
    const struct engine_build *b = &engine_build;

    json_object(&line, "build");
    json_string(&line, "compiler", b->compiler);
    json_string(&line, "optimisation", b->optimisation);
    json_string(&line, "sanitizers", b->sanitizers);
    json_bool(&line, "coverage", b->coverage);
    json_string(&line, "cpu", b->cpu);
    json_string(&line, "options", b->options);
    json_string(&line, "dpdk", b->dpdk);
    json_string(&line, "build_id", engine_build_id());
    json_bool(&line, "fast", engine_build_is_fast());
    json_end_object(&line);
}

void event_ready(const struct trial *trial)
{
    const struct options *o = trial->options;
    const char *dpdk_version = NULL;
    uint32_t page_kib = 0; /* the smallest page size of all ports */

    begin_event("ready");
    json_string(&line, "role", o->role->name);
    json_signed(&line, "pid", getpid());
    json_string(&line, "engine_version", engine_version);
    put_build();
    json_number(&line, "tsc_hz", engine_clock.hz);
    json_string(&line, "clock", clock_name());
    json_number(&line, "clock_step_ns", clock_step_ns());
    json_string(&line, "idle", idle_name(o->idle));
    json_list(&line, "ports");
    for (unsigned i = 0; i < o->port_count; i++) {
        const struct io_port *port = trial->ends[i].port;
        put_port(port, i);
        if (port->ops->version != NULL)
            dpdk_version = port->ops->version();
        if (port->page_kib > 0 && (page_kib == 0 || port->page_kib < page_kib))
            page_kib = port->page_kib;
    }
    json_end_list(&line);
    json_unsigned(&line, "queues", o->queues);
    json_string(&line, "dpdk_version", dpdk_version);
    if (page_kib > 0)
        json_unsigned(&line, "page_size_kib", page_kib);
    else
        json_null(&line, "page_size_kib");
    if (o->core_count == 0) {
        json_null(&line, "cpu");
    } else {
        json_list(&line, "cpu");
        for (unsigned i = 0; i < o->core_count; i++)
            json_signed(&line, NULL, o->cores[i]);
        json_end_list(&line);
    }
    end_event();
}

void event_verification(unsigned sent)
{
    begin_event("verification");
    json_unsigned(&line, "sent", sent);
    end_event();
}

void event_injected(const bool *accepted, unsigned count)
{
    begin_event("injected");
    json_list(&line, "accepted");
    for (unsigned i = 0; i < count; i++)
        json_bool(&line, NULL, accepted[i]);
    json_end_list(&line);
    end_event();
}

void event_capturing(unsigned frames)
{
    begin_event("capturing");
    json_unsigned(&line, "frames", frames);
    end_event();
}

void event_captured(const struct io_port *port, unsigned index, const struct io_frame *frame)
{
    char hex[2 * CAPTURED_BYTES + 1];

    json_hex(hex, frame->data, frame->length < CAPTURED_BYTES ? frame->length : CAPTURED_BYTES);
    begin_event("captured");
    json_unsigned(&line, "port", index);
    json_unsigned(&line, "t_ns", clock_monotonic_ns());
    json_unsigned(&line, "length_bytes", frame->length);
    json_bool(&line, "cut", port->cuts_tagged && frame->length == IO_HEADER_BYTES);
    json_string(&line, "hex", hex);
    end_event();
}

void event_table(const char *kind, const struct row_table *table)
{
    begin_event("table");
    json_string(&line, "kind", kind);
    json_unsigned(&line, "rows", table->count);
    json_unsigned(&line, "loaded", table->loaded);
    end_event();
}

/* Frames of the probe streams also count as frames of the port. Unknown frames are counted only by
 * the receiver of the load. */
static void add_probes(struct counters *sum, const struct end *probe)
{
    if (probe == NULL)
        return;
    sum->rx_frames += probe->counters.rx_frames;
    sum->rx_wrong_next_hop += probe->counters.rx_wrong_next_hop;
    sum->rx_wrong_header += probe->counters.rx_wrong_header;
    sum->rx_corrupt += probe->counters.rx_corrupt;
    sum->rx_stale += probe->counters.rx_stale;
    sum->rx_beyond_window += probe->counters.rx_beyond_window;
    sum->rx_early += probe->counters.rx_early;
    sum->tx_offered += probe->counters.tx_offered;
    sum->tx_dropped += probe->counters.tx_dropped;
}

void event_counters(const struct trial *trial)
{
    struct counters sum = {0};
    uint64_t ticks, now_ns;

    for (unsigned i = 0; i < trial->end_count; i++) {
        counters_sum(&sum, &trial->ends[i].counters);
        add_probes(&sum, trial->ends[i].probe_memory);
    }
    begin_event("counters");
    clock_both(&ticks, &now_ns);
    json_unsigned(&line, "t_ns", now_ns);
    json_unsigned(&line, "ticks", ticks);
    json_number(&line, "tsc_hz", clock_hz_at(ticks, now_ns));
    json_unsigned(&line, "rx_stream", sum.rx_frames);
    json_unsigned(&line, "rx_verification", sum.rx_verification);
    json_unsigned(&line, "rx_foreign", sum.rx_foreign);
    json_unsigned(&line, "rx_other", sum.rx_other);
    json_unsigned(&line, "rx_runts", sum.rx_runts);
    json_unsigned(&line, "rx_jumbos", sum.rx_jumbos);
    json_unsigned(&line, "rx_tagged", sum.rx_tagged);
    json_unsigned(&line, "rx_wrong_next_hop", sum.rx_wrong_next_hop);
    json_unsigned(&line, "rx_wrong_header", sum.rx_wrong_header);
    json_unsigned(&line, "rx_denied", sum.rx_denied);
    json_unsigned(&line, "rx_corrupt", sum.rx_corrupt);
    json_unsigned(&line, "rx_stale", sum.rx_stale);
    json_unsigned(&line, "rx_beyond_window", sum.rx_beyond_window);
    json_unsigned(&line, "rx_early", sum.rx_early);
    json_unsigned(&line, "rx_socket_drops", sum.rx_socket_drops);
    json_unsigned(&line, "tx_offered", sum.tx_offered);
    json_unsigned(&line, "tx_dropped", sum.tx_dropped);
    end_event();
}

void event_started(const struct trial *trial)
{
    begin_event("started");
    json_unsigned(&line, "t_ns", trial->outcome.started_ns);
    json_number(&line, "tsc_hz", engine_clock.hz);
    end_event();
    pthread_mutex_lock(&lock);
    memset(&printed, 0, sizeof printed);
    printed.t_ns = trial->outcome.started_ns;
    printed.cpu = trial->outcome.cpu_before;
    pthread_mutex_unlock(&lock);
}

static void put_forwarder_ports(const struct snapshot *s, unsigned count)
{
    json_list(&line, "ports");
    for (unsigned i = 0; i < count; i++) {
        const struct port_snapshot *now = &s->ports[i], *before = &printed.ports[i];
        json_object(&line, NULL);
        json_unsigned(&line, "rx_frames", now->rx_frames - before->rx_frames);
        json_unsigned(&line, "rx_socket_drops", now->rx_socket_drops - before->rx_socket_drops);
        json_unsigned(&line, "tx_offered", now->tx_offered - before->tx_offered);
        json_unsigned(&line, "tx_dropped", now->tx_dropped - before->tx_dropped);
        json_bool(&line, "up", now->up);
        json_end_object(&line);
    }
    json_end_list(&line);
}

static void put_interval(const struct trial *trial, const struct snapshot *s)
{
    struct counters delta = s->totals;

    const bool tcp = trial->tcp != NULL;

    counters_subtract(&delta, &printed.totals);
    json_begin(&line);
    json_string(&line, "event", tcp ? "tcp_interval" : "interval");
    json_unsigned(&line, "index", s->index);
    json_unsigned(&line, "t_ns", s->t_ns);
    json_unsigned(&line, "duration_ns", s->t_ns > printed.t_ns ? s->t_ns - printed.t_ns : 0);
    if (tcp) {
        report_tcp_interval(&line, &printed.tcp, &s->tcp);
    } else {
        report_counters(&line, &delta);
        report_spent(&line, printed.spent_ticks, s->spent_ticks);
    }
    report_cpu(&line, &printed.cpu, &s->cpu);
    if (trial->options->role->stands_between)
        put_forwarder_ports(s, trial->end_count);
    else if (s->lost_link)
        json_bool(&line, "lost_link", true);
    write_line();
    printed = *s;
}

void event_intervals(struct trial *trial)
{
    pthread_mutex_lock(&lock);
    uint64_t read = atomic_load_explicit(&trial->intervals.read, memory_order_relaxed);
    while (read < atomic_load_explicit(&trial->intervals.written, memory_order_acquire)) {
        put_interval(trial, &trial->intervals.ring[read % SNAPSHOTS]);
        read++;
        atomic_store_explicit(&trial->intervals.read, read, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
}

void event_result(struct trial *trial)
{
    event_intervals(trial);
    pthread_mutex_lock(&lock);
    put_interval(trial, &trial->intervals.last);
    pthread_mutex_unlock(&lock);
    begin_event(trial->tcp != NULL ? "tcp_result" : "result");
    if (trial->tcp != NULL)
        report_tcp_result(&line, trial);
    else
        report_result(&line, trial);
    end_event();
    if (trial->outcome.fault[0] != '\0' &&
        trial->outcome.reason != REASON_FAILURE) /* otherwise event_error prints it */
        fprintf(stderr, "switchmark-traffic: partial result: %s\n", trial->outcome.fault);
}

void event_error(const char *message)
{
    fprintf(stderr, "switchmark-traffic: %s\n", message);
    begin_event("error");
    json_string(&line, "message", message);
    end_event();
}
