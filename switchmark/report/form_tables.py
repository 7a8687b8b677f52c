"""Tables of the forms of standards: throughput, loss, bursts, recovery, latency, variation."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from switchmark.formatting import number, whole_percent
from switchmark.method.back_to_back import LONGEST_BURST_S, RESOLUTION
from switchmark.model.choices import Dimension
from switchmark.record import Record
from switchmark.record.figures import Latency
from switchmark.report.form_source import (
    FormSource,
    RepeatedTrial,
    highest_load_pps,
    loss_share,
    medium_rate,
    of_method,
    repeated,
    share_of,
    size_text,
    table,
)


def throughput(measured: FormSource, method: str) -> list[str]:
    """Section 26.1: throughput by frame size, with the rate that the medium could carry."""
    rows = []
    for each in measured.repeated(method):
        could = measured.theoretical_pps(each.records[0])
        trials = [trial for found in each.results for trial in found.trials]
        final = max((trial.duration_s for trial in trials), default=0.0)
        for place, goal in enumerate(each.results[0].bounds):
            held = [one.bounds[place].lower_pps for one in each.results if len(one.bounds) > place]
            found = [rate for rate in held if rate is not None]
            rate = statistics.fmean(found) if found else None
            share = None if rate is None or could is None else rate / could
            rows.append(
                [*each.where, medium_rate(each.records[0], could),
                 f"{goal.loss_ratio:.6g}", "none found" if rate is None else f"{rate:,.0f}",
                 "-" if rate is None else f"{rate * each.size * 8:,.0f}",
                 "-" if share is None else whole_percent(share, 1), f"{final:g}",
                 share_of(len(found), len(held))]
            )  # fmt: skip
    return table(
        ["device", "frame size", "pairs", "theoretical frames/s", "loss ratio allowed",
         "throughput frames/s", "throughput bit/s (L2)", "of the theoretical rate",
         "longest trial s", "searches"],
        rows,
    )  # fmt: skip


def loss(measured: FormSource, method: str) -> list[str]:
    """Section 26.3: loss over the offered load, as a share of what the medium could carry."""
    rows = []
    trials = (
        (each, one, found, trial)
        for each in measured.repeated(method)
        for one, found in zip(each.records, each.results, strict=True)
        for trial in sorted(found.trials, key=lambda t: -t.offered_pps)
    )
    for each, one, found, trial in trials:
        most, could = highest_load_pps(found), measured.theoretical_pps(one)
        rows.append(
            [*each.where, f"{trial.offered_pps:,.0f}",
             whole_percent(trial.offered_pps / could, 1) if could else medium_rate(one, None),
             f"{trial.offered_pps / most:.0%}" if most else "-",
             f"{loss_share(trial) * 100:.6g}", f"{trial.duration_s:g}"]
        )  # fmt: skip
    heading = ["device", "frame size", "pairs", "offered frames/s", "of the theoretical rate",
               "of the highest load", "loss %", "trial s"]  # fmt: skip
    return table(heading, rows)


def back_to_back(measured: FormSource, method: str) -> list[str]:
    """Section 26.4, and section 6 of RFC 9004: mean, deviation, least and greatest burst; the
    buffer that a burst of the mean length needs, less what the device forwards meanwhile; the
    parameters of the search."""
    rows = []
    for each in measured.repeated(method):
        found = [one.figure("longest burst") for one in each.results]
        held = [one.value for one in found if one is not None]
        if not held:
            rows.append([*each.where, "none: the shortest burst lost frames",
                         *["-"] * 6, share_of(0, len(found))])  # fmt: skip
            continue
        rates, buffers = (
            [seen.value for one in each.results if (seen := one.figure(name))]
            for name in ("burst rate", "buffer time")
        )
        rate_pps = statistics.fmean(rates) if rates else None
        rows.append(
            [*each.where, f"{statistics.fmean(held):,.1f}",
             f"{statistics.stdev(held):,.1f}" if len(held) > 1 else "-",
             f"{min(held):,.0f}", f"{max(held):,.0f}",
             f"{rate_pps:,.0f}" if rate_pps else "-",
             f"{statistics.fmean(held) / rate_pps:.6g}" if rate_pps else "-",
             f"{statistics.fmean(buffers):.6g}" if buffers else "-",
             share_of(len(held), len(found))]
        )  # fmt: skip
    if not rows:
        return []
    lines = table(
        ["device", "frame size", "pairs", "mean frames", "standard deviation", "minimum",
         "maximum", "burst rate frames/s", "implied buffer time s", "corrected buffer time s",
         "repetitions"],
        rows,
    )  # fmt: skip
    return [
        *lines, "",
        f"The longest burst that is tried takes {LONGEST_BURST_S:g} s; the search ends where the "
        f"longest that passed is within {RESOLUTION:.0%} of the shortest that did not.",
    ]  # fmt: skip


def figures(measured: FormSource, method: str) -> list[str]:
    """Every figure of a method, as the records have it."""
    rows = [
        [one.trial.called, size_text(one), figure.name,
         f"{figure.value:.6g}", figure.unit]
        for one, found in of_method(measured.records, method)
        for figure in found.figures
    ]  # fmt: skip
    return table(["device", "frame size", "figure", "value", "unit"], rows)


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
