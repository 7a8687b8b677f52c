"""The comparisons of `switchmark compare` as lines for people and CI."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from switchmark.cli.compare_cases import verdict_case
from switchmark.cli.compare_words import interval_text, p_text, ratio_text
from switchmark.cli.output import print_line, print_table
from switchmark.report.junit import Case
from switchmark.statistics.comparison import Judged, further_repetitions


@dataclass(frozen=True, slots=True)
class ComparisonLine:
    """One comparison as it is printed."""

    what: str
    metric: str
    mean_a: float | None
    mean_b: float | None
    judged: Judged
    cautions: tuple[str, ...]

    @property
    def interval(self) -> str:
        """The interval of B / A."""
        return interval_text(self.judged.ratio.low, self.judged.ratio.high)


def case_of(line: ComparisonLine, duration_s: float, threshold: float) -> Case:
    """The verdict as a test case; `duration_s` is a trial's."""
    ratio = line.judged.ratio
    amount = (
        f"B / A {ratio_text(ratio.value)} ({line.interval}, 95 %), "
        f"p {p_text(line.judged.adjusted_p)}, n {ratio.count_a} and {ratio.count_b}"
    )
    name = f"{line.what} {line.metric}"
    further = further_repetitions(line.judged, threshold)
    return verdict_case(name, line.judged.verdict, amount, threshold, further, duration_s)


def print_lines(
    lines: Sequence[ComparisonLine], remark: str, interval: str = "95 % interval"
) -> None:
    """Print a table, and below it how the comparisons were made. p where there is one."""
    p = ["p"] if any(line.judged.adjusted_p is not None for line in lines) else []
    columns = ["trial", "figure", "A", "B", "B / A", interval, "n", *p, "verdict", "caution"]
    rows = [
        [
            line.what,
            line.metric,
            _number(line.mean_a),
            _number(line.mean_b),
            ratio_text(line.judged.ratio.value),
            line.interval,
            f"{line.judged.ratio.count_a}, {line.judged.ratio.count_b}",
            *([p_text(line.judged.adjusted_p)] if p else []),
            line.judged.verdict.value,
            "; ".join(line.cautions),
        ]
        for line in lines
    ]
    print_table(columns, rows, right=["A", "B", "B / A", *p])
    print_line(f"\n{remark}")


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
