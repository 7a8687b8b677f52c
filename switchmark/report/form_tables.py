"""Tables of the forms of standards: throughput, filters, loss, bursts, recovery, latency,
variation."""

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

ACL, LAST = "acl", "last"  # the function that filters, and its lists whose last filter permits


def throughput(measured: FormSource, method: str) -> list[str]:
    """Section 26.1: throughput by frame size, with the rate that the medium can carry."""
    rows = []
    for each in measured.repeated(method):
        could = measured.theoretical_pps(each.records[0])
        trials = [trial for rates in each.results for trial in rates.trials]
        final = max((trial.duration_s for trial in trials), default=0.0)
        for loss_ratio, rate, searches in _throughputs(each):
            share = None if rate is None or could is None else rate / could
            rows.append(
                [*each.where, medium_rate(each.records[0], could),
                 f"{loss_ratio:.6g}", "none found" if rate is None else f"{rate:,.0f}",
                 "-" if rate is None else f"{rate * each.size * 8:,.0f}",
                 "-" if share is None else whole_percent(share, 1), f"{final:g}", searches]
            )  # fmt: skip
    return table(
        ["device", "frame size", "pairs", "theoretical frames/s", "loss ratio allowed",
         "throughput frames/s", "throughput bit/s (L2)", "of the theoretical rate",
         "longest trial s", "searches"],
        rows,
    )  # fmt: skip


def filters(measured: FormSource, method: str) -> list[str]:
    """Section 11.4: the throughput with lists of filters, and its share of that without filters.
    Only lists whose last filter permits the load count."""
    filtered = [
        record
        for record, _ in of_method(measured.records, method)
        if ACL in record.trial.function.names
        and record.trial.rule_hit == LAST
        and not record.trial.rules_file
    ]
    found = repeated(filtered, unnamed=("rules",))
    if not any(each.records[0].trial.rules for each in found):
        return []
    plain = {_unfiltered(each): _throughputs(each) for each in found if not _rules(each)}
    rows = []
    for each in sorted(found, key=lambda e: (e.device, e.size, e.streams, _rules(e))):
        without = plain.get(_unfiltered(each), [])
        for place, (loss_ratio, rate, searches) in enumerate(_throughputs(each)):
            usual = without[place][1] if place < len(without) else None
            rows.append(
                [*each.where, _rules(each) or "none", f"{loss_ratio:.6g}",
                 "none found" if rate is None else f"{rate:,.0f}",
                 "-" if rate is None or not usual else whole_percent(rate / usual, 1), searches]
            )  # fmt: skip
    lines = table(
        ["device", "frame size", "pairs", "filters", "loss ratio allowed", "throughput frames/s",
         "of the throughput without filters", "searches"],
        rows,
    )  # fmt: skip
    return [
        *lines, "",
        "All filters but the last one deny frames that are not in the load; the last one permits "
        "the load. A device that does not search its filters in their order need not compare all "
        "of them. The section `function` of each record has the number of native entries.",
    ]  # fmt: skip


def _rules(each: RepeatedTrial) -> int:
    return each.records[0].trial.rules


def _unfiltered(each: RepeatedTrial) -> str:
    """Return the identity of the trial without filters."""
    return each.records[0].trial.repeated(0).changed({"rules": 0}).id


def _throughputs(each: RepeatedTrial) -> list[tuple[float, float | None, str]]:
    """Return for each goal its loss ratio, the mean throughput in frames/s, and the number of
    searches."""
    found = []
    for place, goal in enumerate(each.results[0].bounds):
        bounds_pps = [
            result.bounds[place].lower_pps for result in each.results if len(result.bounds) > place
        ]
        rates = [rate for rate in bounds_pps if rate is not None]
        mean_pps = statistics.fmean(rates) if rates else None
        found.append((goal.loss_ratio, mean_pps, share_of(len(rates), len(bounds_pps))))
    return found


def loss(measured: FormSource, method: str) -> list[str]:
    """Section 26.3: loss over the offered load, as a share of the rate that the medium can
    carry."""
    rows = []
    trials = (
        (each, record, result, trial)
        for each in measured.repeated(method)
        for record, result in zip(each.records, each.results, strict=True)
        for trial in sorted(result.trials, key=lambda t: -t.offered_pps)
    )
    for each, record, result, trial in trials:
        most, could = highest_load_pps(result), measured.theoretical_pps(record)
        rows.append(
            [*each.where, f"{trial.offered_pps:,.0f}",
             whole_percent(trial.offered_pps / could, 1) if could else medium_rate(record, None),
             f"{trial.offered_pps / most:.0%}" if most else "-",
             f"{loss_share(trial) * 100:.6g}", f"{trial.duration_s:g}"]
        )  # fmt: skip
    heading = ["device", "frame size", "pairs", "offered frames/s", "of the theoretical rate",
               "of the highest load", "loss %", "trial s"]  # fmt: skip
    return table(heading, rows)


def back_to_back(measured: FormSource, method: str) -> list[str]:
    """Section 26.4, and section 6 of RFC 9004: mean, deviation, least and greatest burst; the
    buffer for a burst of the mean length, without the frames that the device forwards during it;
    the parameters of the search."""
    rows = []
    for each in measured.repeated(method):
        longest = [result.figure("longest burst") for result in each.results]
        bursts = [result.value for result in longest if result is not None]
        if not bursts:
            rows.append([*each.where, "none: the shortest burst lost frames",
                         *["-"] * 6, share_of(0, len(longest))])  # fmt: skip
            continue
        rates, buffers = (
            [figure_found.value for result in each.results if (figure_found := result.figure(name))]
            for name in ("burst rate", "buffer time")
        )
        rate_pps = statistics.fmean(rates) if rates else None
        rows.append(
            [*each.where, f"{statistics.fmean(bursts):,.1f}",
             f"{statistics.stdev(bursts):,.1f}" if len(bursts) > 1 else "-",
             f"{min(bursts):,.0f}", f"{max(bursts):,.0f}",
             f"{rate_pps:,.0f}" if rate_pps else "-",
             f"{statistics.fmean(bursts) / rate_pps:.6g}" if rate_pps else "-",
             f"{statistics.fmean(buffers):.6g}" if buffers else "-",
             share_of(len(bursts), len(longest))]
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
    """Return every figure of a method, as in the records."""
    rows = [
        [record.trial.called, size_text(record), figure.name,
         f"{figure.value:.6g}", figure.unit]
        for record, result in of_method(measured.records, method)
        for figure in result.figures
    ]  # fmt: skip
    return table(["device", "frame size", "figure", "value", "unit"], rows)


def latency(measured: FormSource, method: str) -> list[str]:
    """Section 26.2: rate, number and length of trials, and the times."""
    rows = [[*each.where, *key, *_delays(trials)] for each, key, trials in _timed(measured, method)]
    heading = ["device", "frame size", "pairs", "time", "frames/s", "trials", "trial s", "samples",
               "minimum us", "mean us", "median us", "p99 us", "p99.9 us",
               "maximum us"]  # fmt: skip
    lines = table(heading, rows)
    if lines:
        lines += [
            "",
            "A time begins when a frame is given to the sender's port and ends when the receiver "
            "has the whole frame, by one clock, as for store-and-forward devices (RFC 1242). A "
            "figure is the mean of that figure over the trials; RFC 2544 requires 20 of 120 s "
            "(`repetitions: 20`, `duration: 120s`).",
        ]
    return lines


def latency_and_variation(measured: FormSource, method: str) -> list[str]:
    """Return the latency, and its variation: against the shortest delay (PDV), and from each frame
    to the next (IPDV)."""
    lines = latency(measured, method)
    rows = []
    for each, key, trials in _timed(measured, method):
        variations = [
            variation.variation for _, variation in trials if variation.variation is not None
        ]
        with_ipdv = [variation for variation in variations if variation.ipdv_count]
        columns = [
            [variation.pdv_mean_ns for variation in variations],
            *(
                [variation.pdv_percentiles_ns[share] for variation in variations]
                for share in ("99", "99.9")
            ),
            [variation.ipdv_mean_magnitude_ns for variation in with_ipdv],
            *(
                [variation.ipdv_percentiles_ns[share] for variation in with_ipdv]
                for share in ("99", "99.9")
            ),
        ]
        means = [
            number(statistics.fmean(variation) / 1e3) if variation else "-" for variation in columns
        ]
        rows.append([*each.where, *key, *means])
    heading = ["device", "frame size", "pairs", "time", "frames/s", "PDV mean us", "PDV p99 us",
               "PDV p99.9 us", "IPDV mean us", "IPDV p99 us", "IPDV p99.9 us"]  # fmt: skip
    if rows:
        lines += [
            "",
            *table(heading, rows),
            "",
            "PDV (RFC 5481) is the delay minus the shortest delay. IPDV (RFC 3393), without its "
            "sign, is the difference from the delay of the previous frame. `-`: not recorded, "
            "because not every frame was timed.",
        ]
    return lines


def _timed(
    measured: FormSource, method: str
) -> Iterator[tuple[RepeatedTrial, tuple[str, str], list[tuple[Record, Latency]]]]:
    """Yield the trials of round trips and of the method: the kind of time, the rate, and the times
    of each repetition."""
    trips = [record for record in measured.records if record.trial.dimension is Dimension.LATENCY]
    for each in [*repeated(trips), *measured.repeated(method)]:
        times_by_rate: dict[tuple[str, str], list[tuple[Record, Latency]]] = {}
        for record in each.records:
            for kind, rate, times in _times_of(record):
                times_by_rate.setdefault((kind, rate), []).append((record, times))
        for key, trials in times_by_rate.items():
            yield each, key, trials


def _times_of(record: Record) -> Iterator[tuple[str, str, Latency]]:
    """Yield the kind of time, the rate, and the times."""
    if record.latency is not None and record.trial.dimension is Dimension.LATENCY:
        pps = record.trial.rate_pps  # rate of each stream, while loads in a form are totals
        yield "round trip", f"{pps * record.trial.streams:,}" if pps else "max", record.latency
    if record.method is not None:
        for part in record.method.latency:
            yield "one way", f"{part.fraction:.0%} of R+", part.latency


def _delays(trials: Sequence[tuple[Record, Latency]]) -> list[object]:
    """Return the number and length of trials, the number of samples, and the means of their figures
    in us."""
    lengths = sorted({record.trial.duration_s for record, _ in trials})
    columns = zip(*(_figures_ns(latency_of_trial) for _, latency_of_trial in trials), strict=True)
    micro = [number(statistics.fmean(column) / 1e3) for column in columns]
    samples = sum(latency_of_trial.count for _, latency_of_trial in trials)
    return [len(trials), ", ".join(f"{record:g}" for record in lengths), samples, *micro]


def _figures_ns(times: Latency) -> list[float]:
    percentiles = (times.percentiles_ns[name] for name in ("50", "99", "99.9"))
    return [times.min_ns, times.mean_ns, *percentiles, times.max_ns]
