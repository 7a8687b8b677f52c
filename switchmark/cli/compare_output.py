"""The output of `switchmark compare`: one list of comparisons as a table, as JSON, as test cases of
a CI, and as an exit code. Each mode of the command makes a `ComparisonReport` (compare_modes.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from switchmark import formatting
from switchmark.cli.output import note_problems, print_json, print_line, print_remark, print_table
from switchmark.errors import UsageError
from switchmark.formatting import format_duration
from switchmark.record.metric import Metric
from switchmark.record.page_sizes import in_words, known_sizes, setting_of
from switchmark.report.junit import Case, CaseOutcome
from switchmark.results.comparable import LoadedRun
from switchmark.statistics.comparison import THRESHOLD, Correction, Verdict

_SERIOUSNESS = (
    Verdict.WORSE,
    Verdict.BETTER,
    Verdict.NEGLIGIBLE,
    Verdict.SAME,
    Verdict.UNCLEAR,
    Verdict.UNTESTABLE,
)
_DIFFERENT = _SERIOUSNESS.index(Verdict.BETTER)
_CAUTION = "caution"
_DETAILS = ("n", "p", _CAUTION)  # columns that --full prints
_MOST_PRINTED = 20  # comparisons without --full, if no more of them show a difference
EXIT_WORSE, EXIT_UNCLEAR = 4, 5
_GROUP = "compare"  # name of the group of test cases
_OUTCOMES = {
    Verdict.WORSE: CaseOutcome.FAILURE,
    Verdict.UNCLEAR: CaseOutcome.SKIPPED,
    Verdict.UNTESTABLE: CaseOutcome.SKIPPED,
}


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """The options of all modes of `compare`."""

    metrics: Sequence[Metric]
    threshold: float | None  # None: the default of the mode
    correction: Correction
    strict: bool
    json: bool
    full: bool = False  # also print comparisons that show no difference, however many there are

    @property
    def smallest_change(self) -> float:
        """The threshold between runs."""
        return THRESHOLD if self.threshold is None else self.threshold


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison: one figure at one test point."""

    name: str  # test point and figure
    verdict: Verdict
    amount: str  # the ratio in words, for a test case
    rows: Sequence[Sequence[object]]  # its rows of the table
    data: Mapping[str, Any]  # its JSON object
    further: int | None = None  # about how many more repetitions a side would decide it
    duration_s: float = 0.0  # duration of one repetition
    is_worse: bool = False  # a regression that the verdict alone does not show

    @property
    def stated_verdict(self) -> Verdict:
        """The verdict, or worse for a regression that it does not show."""
        return Verdict.WORSE if self.is_worse else self.verdict

    def case(self, threshold: float) -> Case:
        """Return the test case of this comparison."""
        verdict = self.stated_verdict
        message = f"{verdict}: {self.amount}; changes below {threshold:.1%} do not matter"
        if self.further is not None:
            time = format_duration(self.further * self.duration_s)
            message += f"; needs about {self.further} more repetitions a side, "
            message += f"{time} of traffic each"
        return Case(self.name, _GROUP, _OUTCOMES.get(verdict, CaseOutcome.PASSED), message)


@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """The result of one call of `compare`, in any mode."""

    columns: Sequence[str]
    right: Sequence[str]  # columns that are aligned to the right
    comparisons: Sequence[Comparison]
    threshold: float
    data: Mapping[str, Any]  # JSON values beside the comparisons, the remarks and the exit code
    remarks: Sequence[str]
    notes: Sequence[str] = ()  # lines below the table
    broken: Sequence[Case] = ()  # trials that worked before and have no figure now
    skipped: Sequence[Case] = ()  # trials that were not compared
    is_unreadable: bool = False  # a file could not be read
    is_missing: bool = False  # a trial of A has no partner
    list_name: str = field(default="comparisons")  # JSON key of the comparisons

    def exit_code(self, *, strict: bool) -> int:
        """Return the exit code: worse before unreadable, unreadable before unclear. It is unclear
        if nothing could be tested, or with `strict` if some comparison is open or missing."""
        verdicts = [comparison.verdict for comparison in self.comparisons]
        is_worse = any(one.stated_verdict is Verdict.WORSE for one in self.comparisons)
        if self.broken or is_worse:
            return EXIT_WORSE
        if self.is_unreadable:
            return 1
        is_untested = all(verdict is Verdict.UNTESTABLE for verdict in verdicts)
        is_open = any(verdict in (Verdict.UNCLEAR, Verdict.UNTESTABLE) for verdict in verdicts)
        is_incomplete = strict and (is_open or self.is_missing)
        return EXIT_UNCLEAR if is_untested or is_incomplete else 0

    @property
    def cases(self) -> list[Case]:
        """The test cases of all trials."""
        compared = [comparison.case(self.threshold) for comparison in self.comparisons]
        return [*compared, *self.broken, *self.skipped]


def print_report(report: ComparisonReport, options: CompareOptions) -> int:
    """Print the report as a table or as JSON; return the exit code."""
    code = report.exit_code(strict=options.strict)
    if options.json:
        print_json(
            {
                **report.data,
                report.list_name: [comparison.data for comparison in report.comparisons],
                "remarks": report.remarks,
                "exit_code": code,
            }
        )
        return code
    ordered = sorted(report.comparisons, key=_seriousness)
    different = sum(_seriousness(comparison) <= _DIFFERENT for comparison in ordered)
    printed = ordered if options.full else ordered[: max(different, _MOST_PRINTED)]
    rows = [row for comparison in printed for row in comparison.rows]
    print_line(_counted(ordered))
    columns = [
        name
        for at, name in enumerate(report.columns)
        if (options.full or name not in _DETAILS) and _is_used(name, at, rows)
    ]
    used = [report.columns.index(name) for name in columns]
    print_table(
        columns,
        [[row[at] for at in used] for row in rows],
        right=[name for name in report.right if name in columns],
    )
    left = ordered[len(printed) :]
    if not options.full:
        more = f"... and {_counted(left)}. " if left else ""
        print_remark(f"{more}{_cautions_counted(report, rows)}More with --full.")
    for number, line in enumerate(report.notes):
        if not number:
            print_line()
        print_remark(line)
    note_problems(report.remarks)
    return code


def _seriousness(comparison: Comparison) -> int:
    return _SERIOUSNESS.index(comparison.stated_verdict)


def _counted(comparisons: Sequence[Comparison]) -> str:
    """Return the numbers of comparisons by verdict: `3 comparisons: 1 worse, 2 unclear`."""
    counts = Counter(comparison.stated_verdict for comparison in comparisons)
    parts = [f"{counts[verdict]} {verdict}" for verdict in _SERIOUSNESS if counts[verdict]]
    number = len(comparisons)
    noun = "comparison" if number == 1 else "comparisons"
    return f"{number} {noun}: {', '.join(parts)}" if parts else f"{number} {noun}"


def _cautions_counted(report: ComparisonReport, rows: Sequence[Sequence[object]]) -> str:
    """Return the number of printed rows with each caution."""
    if _CAUTION not in report.columns:
        return ""
    at = report.columns.index(_CAUTION)
    counts = Counter(part for row in rows for part in str(row[at]).split("; ") if part)
    some = [f"{name} in {number}" for name, number in counts.most_common()]
    return f"Cautions: {'; '.join(some)}. " if some else ""


def _is_used(name: str, at: int, rows: Sequence[Sequence[object]]) -> bool:
    """Return False for the column of p-values if no row has one."""
    return name != "p" or any(row[at] != "-" for row in rows) or not rows


def broken_case(name: str, reason: str) -> Case:
    """Return the test case of a trial that has no figure any more."""
    return Case(name, _GROUP, CaseOutcome.FAILURE, reason)


def skipped_case(name: str, reason: str) -> Case:
    """Return the test case of a trial that was not compared."""
    return Case(name, _GROUP, CaseOutcome.SKIPPED, f"not compared: {reason}")


def certified_remarks(runs: Mapping[str, str]) -> list[str]:
    """Return a remark about certificates for each group of runs with the same state."""
    names_of: dict[str, list[str]] = {}
    for name, state in runs.items():
        names_of.setdefault(state, []).append(name)
    return [f"{', '.join(names)}: {state}" for state, names in names_of.items()]


def page_sizes_differ(
    a: LoadedRun, b: LoadedRun, pairs: Collection[tuple[object, int, int]]
) -> str:
    """Return the reason why trials with DPDK memory of different page sizes are not compared."""
    pages = {(size_a, size_b) for _, size_a, size_b in pairs}
    both = "; ".join(f"{in_words(size_a)} / {in_words(size_b)}" for size_a, size_b in sorted(pages))
    sizes = known_sizes(size for pair in pages for size in pair)
    remedy = " or ".join(f"--set page_size={setting_of(size)}" for size in sizes)
    trials = f"{len(pairs)} {'trial is' if len(pairs) == 1 else 'trials are'} not compared"
    return (
        f"{a.directory} and {b.directory}: {trials}: DPDK's memory has {both}; measure both "
        f"with {remedy}"
    )


def only_two(known: Sequence[str], place: str) -> tuple[str, str]:
    """Return the only two contenders. Raises UsageError if there are not exactly two."""
    if len(known) != 2:
        raise UsageError(
            f"{place} {len(known)} contenders; name two: --contenders A B "
            f"({', '.join(known) or 'none has been measured'})"
        )
    return known[0], known[1]


def number_text(value: float | None) -> str:
    """Format a figure: whole numbers from 1000 on, otherwise four digits."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def ratio_text(value: float | None) -> str:
    """Format a ratio with three decimals; a very large one with its order of magnitude."""
    return "-" if value is None else formatting.ratio(value)


def interval_text(low: float | None, high: float | None) -> str:
    """Format the interval of a ratio."""
    return "-" if low is None or high is None else f"{ratio_text(low)} to {ratio_text(high)}"


def p_text(value: float | None) -> str:
    """Format a p-value with three decimals."""
    if value is None:
        return "-"
    return "<0.001" if value < 0.001 else f"{value:.3f}"
