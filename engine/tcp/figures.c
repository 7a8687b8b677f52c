/* Sums the kernel's counters of connections. */
#include "tcp/figures.h"

#include <linux/tcp.h> /* the C library has an older tcp_info */
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static void gauge_add(struct tcp_gauge *gauge, bool first, uint64_t value)
{
    gauge->sum += value;
    gauge->min = first || value < gauge->min ? value : gauge->min;
    gauge->max = first || value > gauge->max ? value : gauge->max;
}

static void gauge_merge(struct tcp_gauge *to, bool first, const struct tcp_gauge *from)
{
    to->sum += from->sum;
    to->min = first || from->min < to->min ? from->min : to->min;
    to->max = first || from->max > to->max ? from->max : to->max;
}

bool tcp_kernel_add(struct tcp_kernel *sum, int socket)
{
    struct tcp_info info; /* an older kernel fills in less */
    socklen_t length = sizeof info;

    memset(&info, 0, sizeof info);
    if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0)
        return false;
    sum->retransmits += info.tcpi_total_retrans;
    sum->retransmitted_bytes += info.tcpi_bytes_retrans;
    sum->segments_out += info.tcpi_segs_out;
    sum->segments_in += info.tcpi_segs_in;
    sum->data_segments_out += info.tcpi_data_segs_out;
    sum->data_segments_in += info.tcpi_data_segs_in;
    sum->acked_bytes += info.tcpi_bytes_acked;
    sum->out_of_order_segments += info.tcpi_rcv_ooopack;
    sum->busy_us += info.tcpi_busy_time;
    sum->receiver_limited_us += info.tcpi_rwnd_limited;
    sum->buffer_limited_us += info.tcpi_sndbuf_limited;
    const bool first = sum->connections++ == 0;
    gauge_add(&sum->rtt_us, first, info.tcpi_rtt);
    gauge_add(&sum->rtt_min_us, first, info.tcpi_min_rtt);
    gauge_add(&sum->cwnd_segments, first, info.tcpi_snd_cwnd);
    gauge_add(&sum->delivery_bytes_s, first, info.tcpi_delivery_rate);
    gauge_add(&sum->mss_bytes, first, info.tcpi_snd_mss);
    return true;
}

void tcp_kernel_merge(struct tcp_kernel *to, const struct tcp_kernel *from)
{
    const bool first = to->connections == 0;

    if (from->connections == 0)
        return;
#define ADD(name) to->name += from->name;
    TCP_KERNEL_SUMS(ADD)
#undef ADD
    to->connections += from->connections;
    gauge_merge(&to->rtt_us, first, &from->rtt_us);
    gauge_merge(&to->rtt_min_us, first, &from->rtt_min_us);
    gauge_merge(&to->cwnd_segments, first, &from->cwnd_segments);
    gauge_merge(&to->delivery_bytes_s, first, &from->delivery_bytes_s);
    gauge_merge(&to->mss_bytes, first, &from->mss_bytes);
}

int64_t tcp_time_waits(const char *sockstat)
{
    FILE *file = fopen(sockstat, "re");
    char line[256];
    int64_t count = -1;

    if (file == NULL)
        return -1;
    while (count < 0 && fgets(line, sizeof line, file) != NULL) {
        const char *place = strncmp(line, "TCP:", 4) == 0 ? strstr(line, " tw ") : NULL;
        long long number;
        if (place != NULL && sscanf(place, " tw %lld", &number) == 1 && number >= 0)
            count = number;
    }
    fclose(file);
    return count;
}
