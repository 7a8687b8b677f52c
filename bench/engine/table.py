"""The table of run.py: the figures of each row from the runs that count, as text or Markdown."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from comparison import interval, is_tie, spread
from cores import RESOLVED_BY_PLAN, Cores
from parts import Part, Row
from runs import Results, StoredRun

COUNT_AT_LEAST = 3
BEGIN, END = "<!-- table: bench/engine/run.py --write -->\n", "<!-- end of table -->"
HEAD = (
    "part                  cores                      Mpps  spread   runs"
    "                               Mpps  spread   runs   ratio      target"
)
MARKDOWN_HEAD = """\
| part | cores | | Mpps | against | Mpps | ratio | target |
|---|---|---|---:|---|---:|---:|---|"""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two programs of a row."""

    program: str
    rates_pps: tuple[float, ...]
    run_count: int  # number of runs; `rates` has those that count
    left_alone: bool  # the runs that count were not disturbed

    @property
    def counted(self) -> int:
        """Return how many runs count."""
        return len(self.rates_pps)

    @property
    def median_pps(self) -> float:
        """Return the median of the rates that count."""
        return statistics.median(self.rates_pps)

    @property
    def spread(self) -> float:
        """Return half the distance between their quartiles, as a share of the median."""
        return spread(list(self.rates_pps))


@dataclass(frozen=True, slots=True)
class Line:
    """A row for one distance of the cores."""

    part: str
    cores: Cores
    above: Side
    below: Side
    required: float | None
    of_cpu: bool
    best: bool = False

    @property
    def ratio(self) -> float:
        """Return the ratio of the medians, or of the best runs."""
        if self.best:
            return max(self.above.rates_pps) / max(self.below.rates_pps)
        return self.above.median_pps / self.below.median_pps

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval of the ratio of medians."""
        if self.best:
            return None
        return interval(self.above.rates_pps, self.below.rates_pps)

    @property
    def tie(self) -> bool:
        """Return True if the interval includes 1."""
        return not self.best and is_tie(self.interval)

    @property
    def left_alone(self) -> bool:
        """Return True if no run that counts was disturbed."""
        return self.above.left_alone and self.below.left_alone

    @property
    def verdict(self) -> str:
        """Return the verdict about the target."""
        if self.required is None:
            return ""
        return f"{self.required:.2f} {self._verdict(self.required)}"

    def _verdict(self, required: float) -> str:
        if not self.left_alone:
            return "(disturbed)"
        if min(self.above.counted, self.below.counted) < COUNT_AT_LEAST:
            return "(too few)"
        if round(self.ratio, 2) >= required:
            return "reached"
        if self.best:
            return "MISSED"
        bounds = self.interval
        return "(undecided)" if bounds is None or required <= bounds[1] else "MISSED"

    def text(self) -> str:
        """Return the row for a terminal."""
        above, below = (
            f"{side.median_pps / 1e6:>8.2f}{100 * side.spread:>6.1f} %"
            f"{side.counted:>3} of {side.run_count:<3}"
            for side in (self.above, self.below)
        )
        return (
            f"{self.part:<22}{self.cores:<5}{self.above.program:<19}{above}"
            f"  {self.below.program:<23}{below}{self.ratio:>7.2f} {'=' if self.tie else ' '} "
            f"{'' if self.left_alone else '*':<2}{self.verdict:<17}"
            f"{' a CPU s' if self.of_cpu else ''}{' best runs' if self.best else ''}"
        )

    def markdown(self) -> str:
        """Return the row for a document."""
        above, below = (
            f"{side.median_pps / 1e6:.2f} ± {100 * side.spread:.0f} %"
            for side in (self.above, self.below)
        )
        cells = [
            self.part, self.cores, self.above.program, above,
            self.below.program + (", a CPU second" if self.of_cpu else ""), below,
            f"{self.ratio:.2f}" + (" (tie)" if self.tie else " (best runs)" if self.best else ""),
            self.verdict,
        ]  # fmt: skip
        return "| " + " | ".join(cells) + " |"


def counting(runs: Sequence[StoredRun], limit: float) -> tuple[list[StoredRun], bool]:
    """Return the runs that count, and True if they are undisturbed."""
    left_alone = [one for one in runs if one.disturbed <= limit]
    if len(left_alone) >= min(COUNT_AT_LEAST, len(runs)):
        return left_alone, True
    return sorted(runs, key=lambda one: one.disturbed)[:COUNT_AT_LEAST], False


def line(part: Part, row: Row, results: Results, cores: Cores, limit: float) -> Line | None:
    """Return a line of the table; None without runs at this distance of the cores."""
    sides: list[Side] = []
    for program in (row.above, row.below):
        stored = [one for one in results.of(part.name, program) if one.cores == cores]
        if not stored:
            return None
        runs, alone = (stored, True) if row.hardy else counting(stored, limit)
        rates = [(one.cpu_rate_pps if row.of_cpu else None) or one.rate_pps for one in runs]
        sides.append(Side(program, tuple(rates), len(stored), alone))
    return Line(part.name, cores, sides[0], sides[1], row.required, row.of_cpu, row.best)


def lines(parts: Sequence[Part], results: Results, limit: float) -> Iterator[Line]:
    """Yield all lines."""
    for part in parts:
        for row in part.rows:
            for cores in RESOLVED_BY_PLAN:
                found = line(part, row, results, cores, limit)
                if found is not None:
                    yield found


def write(parts: Sequence[Part], results: Results, limit: float, document: Path) -> None:
    """Write the table between its marks in a document, below what was measured, where and when."""
    text = document.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{document}: lines {BEGIN!r} and {END!r} are missing; put them back")
    rows = [MARKDOWN_HEAD, *(one.markdown() for one in lines(parts, results, limit))]
    moved = sum(one.cores == "moved" for one in results.stored)
    summary = textwrap.fill(
        f"Measured on {datetime.now(UTC):%Y-%m-%d} by {results.origin()}. These are "
        f"{len(results.stored)} runs of one call, programs in turns in random order. Mpps are "
        "medians of the runs that count, ± half the distance between their quartiles. The cores "
        f"moved in {moved} runs, which do not count.",
        width=112,
        break_on_hyphens=False,
    )
    document.write_text(before + begin + "\n".join([summary, "", *rows]) + "\n" + end + after)


def show(parts: Sequence[Part], results: Results, limit: float, *, markdown: bool = False) -> None:
    """Print the table, and the runs that are not in it."""
    print(MARKDOWN_HEAD if markdown else HEAD)
    for row_line in lines(parts, results, limit):
        print(row_line.markdown() if markdown else row_line.text())
    moved = sum(row_line.cores == "moved" for row_line in results.stored)
    if moved:
        print(f"({moved} of {len(results.stored)} runs count for nothing: the cores moved in them)")
    if results.others:
        print(f"({results.others} runs in {results.path} are of other builds of the engine)")
