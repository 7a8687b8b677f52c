"""What throughput is drawn over: the parameter of which a run has at least three values.

A chain's length and a CPU limit come first: who sweeps them wants to see what they cost. The
bare wire has no VNFs, so it stands at length 0; it has no limit, so it is not drawn over one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from switchmark.campaign.model import Trial
from switchmark.campaign.values import format_rate
from switchmark.results.rows import SummaryRow
from switchmark.scenario.registry import resolve

_LETTER, _GAP = 0.02, 0.03  # of the axis: what a letter of a label takes, and the space between
LINE_FROM = 3  # values from which a line is drawn


@dataclass(frozen=True, slots=True)
class XAxis:
    """One parameter as an axis."""

    field: str  # of Trial; rows that differ in it alone are one line
    title: str
    value: Callable[[Trial], float | None]  # None: has no place on it
    log: bool = True
    label: Callable[[float], str] = "{:.15g}".format

    def of(self, row: SummaryRow) -> float | None:
        """Where the row stands."""
        return self.value(row.trial)

    def values(self, rows: Sequence[SummaryRow]) -> list[float]:
        """The values that there are."""
        return sorted({value for row in rows if (value := self.of(row)) is not None})

    def ticks(self, rows: Sequence[SummaryRow]) -> list[float]:
        """The values that get a label: of many, some, so that none lies over another. The
        least and the greatest are among them."""
        held = self.values(rows)
        place = {value: math.log(value) if self.log else value for value in held}
        whole = (place[held[-1]] - place[held[0]]) if held else 0.0
        if not whole:
            return held
        kept = [held[0]]
        for value in [*held[1:-1], held[-1]]:
            room = whole * (_LETTER * len(self.label(value)) + _GAP)
            if value == held[-1]:
                while len(kept) > 1 and place[value] - place[kept[-1]] < room:
                    kept.pop()
            if value == held[-1] or place[value] - place[kept[-1]] >= room:
                kept.append(value)
        return kept


def _chain(trial: Trial) -> float | None:
    found = resolve(trial.scenario)
    if found is None or not (found.chain or trial.scenario == "p2p"):
        return None
    return found.chain


def _share(trial: Trial) -> float | None:
    return None if trial.cpu_limit is None else round(100 * trial.cpu_limit, 6)


AXES = (
    XAxis("scenario", "VNFs in the chain", _chain, log=False),
    XAxis("cpu_limit", "CPU time the switch may use (% of each of its cores)", _share, log=False),
    XAxis("packet_size_bytes", "frame size with FCS (bytes)", lambda one: one.packet_size_bytes),
    XAxis(
        "rate_pps",
        "intended load of a pair (frames/s)",
        lambda one: one.rate_pps,
        label=lambda value: format_rate(round(value)),
    ),
    XAxis("pairs", "pairs", lambda one: one.pairs),
    XAxis("burst", "burst (frames)", lambda one: one.burst),
)


def x_axis(rows: Sequence[SummaryRow]) -> XAxis | None:
    """The parameter to draw lines over: the first that takes enough values; None for bars."""
    for axis in AXES:
        if len(axis.values([row for row in rows if not row.is_baseline])) >= LINE_FROM:
            return axis
    return None
