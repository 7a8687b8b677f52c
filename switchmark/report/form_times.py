"""The parts of the standards' forms about times: latency, and how it varies."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from switchmark.formatting import number
from switchmark.model.choices import Dimension
from switchmark.record import Record
from switchmark.record.figures import Latency
from switchmark.report.form_source import FormSource, RepeatedTrial, repeated, table


def latency(measured: FormSource, method: str) -> list[str]:
    """Section 26.2: the rate, the number and the length of trials, and what the time is of."""
    rows = [[*each.where, *key, *_delays(trials)] for each, key, trials in _timed(measured, method)]
    heading = ["device", "frame size", "pairs", "time", "frames/s", "trials", "trial s", "samples",
               "minimum us", "mean us", "median us", "p99 us", "p99.9 us",
               "maximum us"]  # fmt: skip
    lines = table(heading, rows)
    if lines:
        lines += [
            "",
            "Times are from when a frame was handed to the sender's port until the receiver had "
            "the whole of it, by one clock: those of store-and-forward devices (RFC 1242). A "
            "figure is the mean of that figure over the trials; RFC 2544 asks for 20 of 120 s "
            "(`repetitions: 20`, `duration: 120s`).",
        ]
    return lines


def latency_and_variation(measured: FormSource, method: str) -> list[str]:
    """The latency, and how it varies: against the shortest delay (PDV), and from each frame to the
    next (IPDV)."""
    lines = latency(measured, method)
    rows = []
    for each, key, trials in _timed(measured, method):
        found = [one.variation for _, one in trials if one.variation is not None]
        near = [one for one in found if one.ipdv_count]
        columns = [
            [one.pdv_mean_ns for one in found],
            *([one.pdv_percentiles_ns[share] for one in found] for share in ("99", "99.9")),
            [one.ipdv_mean_magnitude_ns for one in near],
            *([one.ipdv_percentiles_ns[share] for one in near] for share in ("99", "99.9")),
        ]
        means = [number(statistics.fmean(one) / 1e3) if one else "-" for one in columns]
        rows.append([*each.where, *key, *means])
    heading = ["device", "frame size", "pairs", "time", "frames/s", "PDV mean us", "PDV p99 us",
               "PDV p99.9 us", "IPDV mean us", "IPDV p99 us", "IPDV p99.9 us"]  # fmt: skip
    if rows:
        lines += [
            "",
            *table(heading, rows),
            "",
            "PDV (RFC 5481) is the delay less the shortest; IPDV (RFC 3393), without its sign, how "
            "much it differs from that of the frame sent right before. `-`: not recorded, since "
            "not every frame was timed.",
        ]
    return lines


def _timed(
    measured: FormSource, method: str
) -> Iterator[tuple[RepeatedTrial, tuple[str, str], list[tuple[Record, Latency]]]]:
    """Trials of round trips and of the method, what was timed at which rate, and the times of each
    repetition."""
    trips = [one for one in measured.records if one.trial.dimension is Dimension.LATENCY]
    for each in [*repeated(trips), *measured.repeated(method)]:
        found: dict[tuple[str, str], list[tuple[Record, Latency]]] = {}
        for one in each.records:
            for kind, rate, times in _times_of(one):
                found.setdefault((kind, rate), []).append((one, times))
        for key, trials in found.items():
            yield each, key, trials


def _times_of(one: Record) -> Iterator[tuple[str, str, Latency]]:
    """What was timed, at which rate, and the times."""
    if one.latency is not None and one.trial.dimension is Dimension.LATENCY:
        pps = one.trial.rate_pps  # of each stream; loads in a form are totals
        yield "round trip", f"{pps * one.trial.streams:,}" if pps else "max", one.latency
    if one.method is not None:
        for part in one.method.latency:
            yield "one way", f"{part.fraction:.0%} of R+", part.latency


def _delays(trials: Sequence[tuple[Record, Latency]]) -> list[object]:
    """The number and length of trials and the number of samples; then the means of their figures,
    in us."""
    lengths = sorted({one.trial.duration_s for one, _ in trials})
    columns = zip(*(_figures_ns(found) for _, found in trials), strict=True)
    micro = [number(statistics.fmean(column) / 1e3) for column in columns]
    samples = sum(found.count for _, found in trials)
    return [len(trials), ", ".join(f"{one:g}" for one in lengths), samples, *micro]


def _figures_ns(found: Latency) -> list[float]:
    percentiles = (found.percentiles_ns[name] for name in ("50", "99", "99.9"))
    return [found.min_ns, found.mean_ns, *percentiles, found.max_ns]
