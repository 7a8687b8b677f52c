"""Metrics in Prometheus's protobuf format, the only one in which it takes native histograms.

The messages are those of github.com/prometheus/client_model (`io.prometheus.client`), each after
its length. The Python client has no writer for them.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil, log2
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client.core import BucketSpan, HistogramMetricFamily, Metric, NativeHistogram
from prometheus_client.registry import Collector

from switchmark.statistics.histogram import Histogram

FORMAT = "application/vnd.google.protobuf"
CONTENT_TYPE = f"{FORMAT}; proto=io.prometheus.client.MetricFamily; encoding=delimited"
SCHEMA = 5  # buckets grow by 2^(1/32), 2.2 percent
_ZERO_THRESHOLD_S = 2.0**-128  # Prometheus's own
_COUNTER, _GAUGE, _HISTOGRAM = 0, 1, 4  # MetricType
_KINDS = {
    "counter": (_COUNTER, "_total"), "gauge": (_GAUGE, ""), "info": (_GAUGE, "_info"),
    "histogram": (_HISTOGRAM, ""),
}  # fmt: skip


class NativeHistogramFamily(HistogramMetricFamily):
    """A family whose histograms are there in both forms; text carries the one with set bounds."""

    def __init__(self, name: str, documentation: str, labels: Sequence[str]) -> None:
        super().__init__(name, documentation, labels=labels)
        self.both: list[tuple[dict[str, str], Sequence[tuple[str, float]], NativeHistogram]] = []

    def add_both(
        self, labels: Sequence[str], buckets: Sequence[tuple[str, float]], native: NativeHistogram
    ) -> None:
        """Add one histogram, by its labels' values."""
        self.add_metric(labels, buckets, native.sum_value)
        self.both.append((dict(zip(self._labelnames, labels, strict=True)), buckets, native))


def native_histogram(times: Histogram, sum_s: float) -> NativeHistogram:
    """Times of nanoseconds in seconds. A slot of the HDR histogram counts at its highest time."""
    zeros, counts = 0, Counter[int]()
    for _, high_ns, count in times.slots():
        if high_ns == 0:
            zeros += count
        else:
            counts[ceil(log2(high_ns / 1e9) * 2**SCHEMA)] += count
    spans: list[BucketSpan] = []
    deltas: list[int] = []
    following = before = 0
    for index in sorted(counts):
        if spans and index == following:
            spans[-1] = BucketSpan(spans[-1].offset, spans[-1].length + 1)
        else:
            spans.append(BucketSpan(index - following, 1))
        deltas.append(counts[index] - before)
        following, before = index + 1, counts[index]
    return NativeHistogram(
        count_value=zeros + counts.total(),
        sum_value=sum_s,
        schema=SCHEMA,
        zero_threshold=_ZERO_THRESHOLD_S,
        zero_count=zeros,
        pos_spans=spans,
        pos_deltas=deltas,
    )


def negotiating(text: WSGIApplication, metrics: Collector) -> WSGIApplication:
    """Answer in protobuf who asks for it, and all others in text."""

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        asked = environ.get("HTTP_ACCEPT", "")
        if environ["REQUEST_METHOD"] != "GET" or FORMAT not in asked:
            return text(environ, start_response)
        start_response("200 OK", [("Content-Type", CONTENT_TYPE)])
        return [delimited(metrics.collect())]

    return answer


def delimited(families: Iterable[Metric]) -> bytes:
    """All families that hold something, each after its length."""
    found = (_family(family) for family in families if family.samples)
    return b"".join(_varint(len(one)) + one for one in found)


def _family(family: Metric) -> bytes:
    kind, suffix = _KINDS[family.type]
    head = _text(1, family.name + suffix) + _text(2, family.documentation) + _number(3, kind)
    if isinstance(family, NativeHistogramFamily):
        return head + b"".join(_block(4, one) for one in _histograms(family))
    field = 3 if kind == _COUNTER else 2
    found = (
        _labels(sample.labels) + _block(field, _double(1, sample.value))
        for sample in family.samples
    )
    return head + b"".join(_block(4, one) for one in found)


def _histograms(family: NativeHistogramFamily) -> Iterator[bytes]:
    for labels, buckets, native in family.both:
        body = _number(1, int(native.count_value)) + _double(2, native.sum_value)
        for bound, count in buckets:
            body += _block(3, _number(1, int(count)) + _double(2, float(bound)))
        body += _signed(5, native.schema) + _double(6, native.zero_threshold)
        body += _number(7, int(native.zero_count))
        for span in native.pos_spans or ():
            body += _block(12, _signed(1, span.offset) + _number(2, span.length))
        body += b"".join(_signed(13, delta) for delta in native.pos_deltas or ())
        yield _labels(labels) + _block(7, body)


def _labels(labels: Mapping[str, str]) -> bytes:
    pairs = (_text(1, name) + _text(2, value) for name, value in labels.items())
    return b"".join(_block(1, pair) for pair in pairs)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _signed(field: int, value: int) -> bytes:
    return _number(field, value << 1 if value >= 0 else (-value << 1) - 1)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _block(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _block(field, value.encode())
