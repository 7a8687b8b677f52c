"""Merged histograms equal the histogram of all samples, and percentiles are samples."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from switchmark.report.html import write_report
from switchmark.results.query import read_table
from switchmark.results.summary import summarise
from switchmark.statistics import decoded as decoded_texts
from switchmark.statistics.decoded import Decoder
from switchmark.statistics.histogram import PERCENTILES, Histogram
from switchmark.trial.one_way import merge_latency
from tests.hostile_histograms import histogram_text
from tests.unit.engine_lines import timed
from tests.unit.records import (
    synthetic_histogram,
    synthetic_record,
    synthetic_trial,
    write_run,
)
from tests.unit.trial_fakes import latency_of

SAMPLES = st.lists(st.integers(1, 5_000_000_000), min_size=1, max_size=200)


def histogram_of(values: list[int], highest: int = 10_000_000_000) -> Histogram:
    return Histogram(Histogram.of(Counter(values), highest).text)


@settings(deadline=None, max_examples=50)
@given(st.lists(SAMPLES, min_size=1, max_size=4))
def test_merging_equals_recording_everything_in_one(parts: list[list[int]]) -> None:
    merged = Histogram.merged(histogram_of(part) for part in parts)
    together = histogram_of([value for part in parts for value in part])
    assert merged.count == sum(map(len, parts))
    assert merged.percentiles_ns() == together.percentiles_ns()


@settings(deadline=None, max_examples=50)
@given(SAMPLES)
def test_percentiles_are_at_most_a_known_maximum(values: list[int]) -> None:
    percentiles = histogram_of(values).percentiles_ns(max_ns=max(values))
    assert max(percentiles.values()) == max(values)


@settings(deadline=None, max_examples=50)
@given(SAMPLES)
def test_percentile_is_the_smallest_sample_of_its_rank(
    values: list[int],
) -> None:
    percentiles = histogram_of(values).percentiles_ns()
    for name in PERCENTILES:
        least = -(-len(values) * Fraction(name) // 100)  # rounded up
        assert percentiles[name] == pytest.approx(sorted(values)[int(least) - 1], rel=1e-3, abs=1)
    assert percentiles["99.999"] == pytest.approx(max(values), rel=1e-3, abs=1)


@pytest.mark.parametrize(
    ("count", "name", "rank"),
    [(16, "90", 15), (600, "99.9", 600), (1000, "99.9", 999), (100, "99", 99), (3, "50", 2)],
)
def test_ranks_are_rounded_up_like_in_the_engine(count: int, name: str, rank: int) -> None:
    assert histogram_of(list(range(1, count + 1))).percentiles_ns([name])[name] == rank


def test_merging_different_ranges_and_precisions_loses_nothing() -> None:
    coarse = HdrHistogram(1, 1_000_000, 2)
    coarse.record_value(1000, 10)
    merged = Histogram.merged(
        [Histogram(coarse.encode().decode()), histogram_of([5_000_000_000] * 10)]
    )
    assert merged.count == 20
    assert merged.percentiles_ns(["50", "100"])["100"] == pytest.approx(5e9, rel=1e-3)


def test_percentile_of_a_union_is_not_a_mean_of_percentiles() -> None:
    both = Histogram.merged([histogram_of([1_000] * 900), histogram_of([100_000] * 100)])
    assert both.percentiles_ns()["50"] == pytest.approx(1_000, rel=1e-3)


@pytest.mark.parametrize("text", ["", "AAAA", "not base64!", "HISTFAAAAB94"])
def test_invalid_histogram_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an HdrHistogram"):
        _ = Histogram(text).count
    with pytest.raises(ValueError, match="no histogram"):
        Histogram.merged([])


@pytest.mark.parametrize(
    ("hostile", "says"),
    [
        (lambda: histogram_text(b"\0" * (32 << 20)), "inflates to 524288 bytes or more"),
        (lambda: histogram_text(b"\2", figures=5, highest=2**63), "5 significant digits"),
        (lambda: histogram_text(b"\2", highest=2**64 - 1), "from 1 to 18446744073709551615"),
        (lambda: histogram_text(b"\2", lowest=0), "from 0 to"),
    ],
)
def test_text_needs_no_more_memory_than_an_own_histogram(
    hostile: Callable[[], str], says: str
) -> None:
    text = hostile()
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=says):
            _ = Histogram(text).count
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_histogram_with_all_slots_full_is_read() -> None:
    full = HdrHistogram(1, decoded_texts.MOST_VALUE, 3)
    np.ctypeslib.as_array(full.counts)[:] = 1 << 45
    last = full.counts_len - 1
    full.set_internal_tacking_values(0, last, full.counts_len << 45)
    assert Histogram(full.encode().decode()).count == full.counts_len << 45


def test_curve_rises_and_ends_with_the_samples() -> None:
    curve = synthetic_histogram(10_000, count=5_000).curve()
    assert list(curve.quantile) == sorted(curve.quantile)
    assert list(curve.value_ns) == sorted(curve.value_ns)
    assert curve.quantile[-1] == pytest.approx(1 - 1 / 5_000)
    at_median = np.interp(0.5, curve.quantile, curve.value_ns)
    assert at_median == pytest.approx(10_000, rel=0.05)


def test_cumulative_distribution_is_that_of_the_samples() -> None:
    histogram = Histogram.of(dict.fromkeys(range(1, 1001), 1))
    curve = histogram.cumulative(101)
    assert curve.quantile[0] == 0 and curve.quantile[-1] == 1
    assert curve.value_ns[-1] == pytest.approx(1000, rel=0.002)
    for quantile, value in zip(curve.quantile[1:], curve.value_ns[1:], strict=True):
        assert value == pytest.approx(1000 * quantile, rel=0.002, abs=1)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Return how often each text is decoded."""
    times: Counter[str] = Counter()
    decode = HdrHistogram.decode

    def counting(text: str) -> HdrHistogram:
        times[text] += 1
        return decode(text)

    monkeypatch.setattr(HdrHistogram, "decode", counting)
    monkeypatch.setattr(decoded_texts, "DECODER", Decoder())  # as in a new process
    return times


def test_histogram_is_decoded_once_between_engine_and_record(
    decoded: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    delays = [timed(latency_of({10_000 + pair: 50, 90_000: 2}, 500)) for pair in range(2)]
    texts = {
        histogram.text
        for one in delays
        for histogram in (
            *(one.from_actual, one.from_intended, one.pdv.above, one.pdv.below),
            *(one.ipdv.grown, one.ipdv.shrunk),
        )
    }
    monkeypatch.setattr(decoded_texts, "DECODER", Decoder())  # the engine encoded them
    decoded.clear()
    merged = merge_latency("rtt", delays, 0, "nothing")
    assert merged.histogram.count == 104
    assert merged.model_dump(mode="json")["histogram"] == merged.histogram.text
    assert decoded == Counter(texts), "delays twice, PDV and IPDV on both sides"
    assert decoded[merged.histogram.text] == 0, "the merged histogram is passed on unchanged"
    again = Histogram(merged.histogram.text)  # like the check of a written record
    assert again.count == 104 and not decoded[again.text], "a text encoded here is not decoded"


def test_percentiles_are_not_below_their_intervals() -> None:
    merged = merge_latency("rtt", [timed(latency_of({90_001: 200}, 500))], 0, "nothing")
    for values, intervals in (
        (merged.percentiles_ns, merged.percentile_intervals_ns),
        (merged.intended_percentiles_ns, merged.intended_percentile_intervals_ns),
    ):
        for name, (low, _) in intervals.items():
            assert low is not None and low <= values[name]


def test_report_decodes_each_histogram_once(
    tmp_path: Path, decoded: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checked, merged, drawn as a curve, shown in tables and listed by trial."""
    trials = [
        synthetic_trial(dimension="latency", switch=switch, rate_pps=9, repetition=n)
        for switch in ("basicfwd", "direct")
        for n in range(3)
    ]
    records = [synthetic_record(trial) for trial in trials]
    run = write_run(tmp_path, records)
    latencies = [record.latency for record in records if record.latency]
    texts = {
        text for one in latencies for text in (one.histogram.text, one.intended_histogram.text)
    }
    monkeypatch.setattr(decoded_texts, "DECODER", Decoder())  # not the one that wrote them
    decoded.clear()
    assert write_report(run, tmp_path / "report.html") == []
    page = (tmp_path / "report.html").read_text()
    assert "Latency by percentile" in page and "Percentiles with their 95 % intervals" in page
    assert decoded == Counter(texts)


def test_curve_and_table_have_the_merged_samples(tmp_path: Path) -> None:
    trials = [synthetic_trial(dimension="latency", rate_pps=9, repetition=n) for n in range(3)]
    records = [synthetic_record(trial) for trial in trials]
    run = write_run(tmp_path, records)
    (row,) = summarise(run, read_table(run), with_curves=True)
    assert row.latency is not None and row.latency.curve is not None
    merged = Histogram.merged(record.latency.histogram for record in records if record.latency)
    assert row.latency.curve == merged.curve()
    assert row.latency.percentiles_ns == merged.percentiles_ns()


@settings(deadline=None, max_examples=50)
@given(SAMPLES)
def test_decoding_a_text_again_gives_the_same_samples(values: list[int]) -> None:
    text = histogram_of(values).text
    first, again = Decoder(), Decoder()
    again.decode(text)
    first_decoded, other = first.decode(text), again.decode(text)
    assert first_decoded.equals(other) and other.equals(first_decoded)
    assert first_decoded.encode() == other.encode() == text.encode()


def test_number_of_cached_histograms_is_limited(
    decoded: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoded_texts, "MOST_KEPT", 2)
    texts = [histogram_of([value]).text for value in (1000, 2000, 3000)]
    decoder = Decoder()
    for text in (*texts, texts[2], texts[0]):
        decoder.decode(text)
    assert decoded == {texts[0]: 2, texts[1]: 1, texts[2]: 1}
