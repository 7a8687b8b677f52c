"""The parts of the standards' forms about loads: throughput, loss, bursts, recovery."""

from __future__ import annotations

import statistics

from switchmark.formatting import whole_percent
from switchmark.method.back_to_back import LONGEST_BURST_S, RESOLUTION
from switchmark.report.form_source import (
    FormSource,
    highest_load_pps,
    loss_share,
    medium_rate,
    of_method,
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
