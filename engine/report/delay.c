/* Distributions in the result: delays, their variation, and the lateness of the sender. */
#include <stdlib.h>

#include "report/report.h"

static const struct {
    const char *name;
    double value;
} percentiles[] = {{"50", 50},     {"90", 90},       {"99", 99},
                   {"99.9", 99.9}, {"99.99", 99.99}, {"99.999", 99.999}};

#define PERCENTILES (sizeof percentiles / sizeof percentiles[0])

static void put_percentiles(struct json *j, const struct histogram *h)
{
    json_object(j, "percentiles");
    for (unsigned i = 0; i < PERCENTILES; i++)
        json_unsigned(j, percentiles[i].name, histogram_percentile(h, percentiles[i].value));
    json_end_object(j);
}

static void put_summary(struct json *j, const struct histogram *h)
{
    json_unsigned(j, "count", h->count);
    json_unsigned(j, "min_ns", h->count > 0 ? h->min : 0);
    json_unsigned(j, "max_ns", h->max);
    json_number(j, "mean_ns", histogram_mean(h));
    json_number(j, "stdev_ns", histogram_stdev(h));
    json_unsigned(j, "clamped", h->clamped);
    put_percentiles(j, h);
}

void report_histogram(struct json *j, const char *key, const struct histogram *h)
{
    char *text = histogram_encode(h);
    json_string(j, key, text);
    free(text);
}

void report_delays(struct json *j, const char *key, const struct histogram *h)
{
    json_object(j, key);
    put_summary(j, h);
    report_histogram(j, "histogram", h);
    json_end_object(j);
}

/* RFC 5481: the delay minus the shortest delay. The two histograms have the distances from
 * `base_ns`, so that other histograms can be merged with them. */
static void put_pdv(struct json *j, const struct histogram *delay, const struct pdv *pdv)
{
    const uint64_t shortest = delay->count > 0 ? delay->min : 0;

    json_object(j, "pdv");
    json_unsigned(j, "max_ns", delay->max - shortest);
    json_number(j, "mean_ns", histogram_mean(delay) - (double)shortest);
    json_object(j, "percentiles");
    for (unsigned i = 0; i < PERCENTILES; i++)
        json_unsigned(j, percentiles[i].name, pdv_percentile(pdv, shortest, percentiles[i].value));
    json_end_object(j);
    json_unsigned(j, "base_ns", pdv->base_ns);
    report_histogram(j, "above", &pdv->above);
    report_histogram(j, "below", &pdv->below);
    json_end_object(j);
}

/* RFC 3393: the percentiles are of the magnitude, and the two histograms keep the sign. */
static void put_ipdv(struct json *j, const struct variation *v)
{
    static struct histogram
        both; /* too large for a stack; only the printing thread calls this function */
    const double grown = (double)v->grown.sum, shrunk = (double)v->shrunk.sum;

    both = v->grown;
    histogram_add(&both, &v->shrunk);
    json_object(j, "ipdv");
    json_unsigned(j, "count", both.count);
    json_number(j, "mean_ns", both.count > 0 ? (grown - shrunk) / (double)both.count : 0.0);
    json_number(j, "mean_magnitude_ns", histogram_mean(&both));
    json_unsigned(j, "max_grown_ns", v->grown.max);
    json_unsigned(j, "max_shrunk_ns", v->shrunk.max);
    json_unsigned(j, "clamped", both.clamped);
    put_percentiles(j, &both);
    report_histogram(j, "grown", &v->grown);
    report_histogram(j, "shrunk", &v->shrunk);
    json_end_object(j);
}

void report_latency(struct json *j, enum latency_kind kind, const struct end *end)
{
    json_object(j, "latency");
    json_string(j, "kind", kind == LATENCY_RTT ? "rtt" : "one_way");
    json_string(j, "unit", "ns");
    put_summary(j, &end->receiving.from_actual);
    report_histogram(j, "from_actual", &end->receiving.from_actual);
    report_histogram(j, "from_intended", &end->receiving.from_intended);
    json_object(j, "intended");
    put_summary(j, &end->receiving.from_intended);
    json_end_object(j);
    put_pdv(j, &end->receiving.from_actual, &end->receiving.variation.pdv);
    put_ipdv(j, &end->receiving.variation);
    json_end_object(j);
}

void report_lateness_briefly(struct json *j, const struct histogram *lateness)
{
    json_unsigned(j, "late_max_ns", lateness->max);
    json_number(j, "late_mean_ns", histogram_mean(lateness));
    json_unsigned(j, "late_p99_ns", histogram_percentile(lateness, 99));
    json_unsigned(j, "late_p999_ns", histogram_percentile(lateness, 99.9));
    json_unsigned(j, "bursts", lateness->count);
}

void report_lateness(struct json *j, const struct histogram *lateness)
{
    report_lateness_briefly(j, lateness);
    put_percentiles(j, lateness);
    report_histogram(j, "lateness", lateness);
}
