"""`switchmark compare RUN --contenders A B`: two contenders of one run, by the pairs of its
blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from switchmark.cli.compare_cases import GROUP, Compared, CompareOptions, verdict_case
from switchmark.cli.compare_lines import ComparisonLine, print_lines
from switchmark.cli.compare_words import exit_code, only_two, ratio_text
from switchmark.cli.output import note_problems, print_json
from switchmark.formatting import format_duration
from switchmark.report import words
from switchmark.report.junit import Case, CaseOutcome
from switchmark.results.answer import LeadVerdict as Proof
from switchmark.results.certified import certified, of_rows
from switchmark.results.contenders import in_order_of
from switchmark.results.paired_run import PairedFigure, PairedRun, compare_in_run
from switchmark.results.query import read_table
from switchmark.results.store import open_run
from switchmark.results.summary import summarise
from switchmark.statistics.comparison import Judged, Ratio, Verdict
from switchmark.statistics.paired import METHOD
from switchmark.statistics.states import State
from switchmark.switch.registry import usual_overhead_s


def compare_contenders(
    directory: Path, pair: tuple[str, str] | None, options: CompareOptions
) -> Compared:
    """Compare, print, and return the exit code; without a pair, compare the only two that there
    are."""
    table = read_table(directory)
    rows = summarise(directory, table)
    names = {row.trial.id: row.contender for row in rows if not row.is_baseline}
    run = open_run(directory)
    known = sorted(set(names.values()), key=in_order_of(run.info.definition))
    a, b = pair or only_two(known, f"{directory}: has")
    found = compare_in_run(run, a, b, names, options.metrics, options.threshold, usual_overhead_s)
    varying = words.varying_fields(rows)
    lines = [(_line(one, varying), one) for one in found.figures]
    broken = [words.point(dict(point), varying) for point in found.broken]
    remarks = [
        *table.problems,
        *words.left_out(row for row in rows if row.contender in (a, b)),
        *(f"WORSE: {where}: {a} has a figure, {b} has none" for where in broken),
        *(
            f"{words.point(dict(point), varying)}: a figure of 0 has no ratio, left out"
            for point in found.without_ratio
        ),
        *_further(found),
        certified(of_rows(rows)),
    ]
    verdicts = [line.judged.verdict for line, _ in lines]
    unreadable, worse = bool(table.problems), bool(broken)
    code = exit_code(verdicts, worse=worse, unreadable=unreadable, strict=options.strict)
    if options.json:
        print_json(
            {
                "run": directory, "a": a, "b": b, "threshold": found.prove,
                "confidence": found.confidence, "blocks": found.blocks,
                "comparisons": [asdict(line) for line, _ in lines],
                "remarks": remarks, "exit_code": code,
            }
        )  # fmt: skip
    else:
        print_lines(
            [line for line, _ in lines],
            f"A is {a}, B is {b}, of {found.blocks} blocks; {METHOD}: all intervals hold together "
            f"with {found.confidence * 100:.3g} %, at every look. Same: all of it within "
            f"{found.prove * 100:.3g} %.",
            f"{found.confidence * 100:.3g} % interval",
        )
        note_problems(remarks)
    cases = [_case(line, one, found) for line, one in lines]
    failed = "one contender has a figure, the other has none"
    cases += [Case(where, GROUP, CaseOutcome.FAILURE, failed) for where in broken]
    return Compared(code, cases)


def _line(one: PairedFigure, varying: Sequence[str]) -> ComparisonLine:
    where = words.point(dict(one.point), varying)
    where += f", on {one.testbed}" if one.testbed else ""
    is_apart = one.state not in (None, State.ONLY)
    ratio = one.ratio
    return ComparisonLine(
        what=f"{where}, {one.state}" if is_apart else where,
        metric=f"{one.metric.name} [{one.metric.unit}]",
        mean_a=one.a.typical,
        mean_b=one.b.typical,
        judged=Judged(
            Ratio(
                value=ratio.value if ratio else one.b.typical / one.a.typical,
                low=ratio.low if ratio else None,
                high=ratio.high if ratio else None,
                p=None,
                method=METHOD,
                count_a=one.pairs,
                count_b=one.pairs,
            ),
            adjusted_p=None,
            verdict=_verdict(one),
        ),
        cautions=(),
    )


def _verdict(one: PairedFigure) -> Verdict:
    """The verdict in the words of `compare`."""
    ratio = one.ratio
    if ratio is None:
        return Verdict.UNTESTABLE
    if ratio.verdict is Proof.UNDECIDED:
        return Verdict.UNCLEAR
    if ratio.verdict is Proof.SAME:
        return Verdict.SAME
    return Verdict.BETTER if (ratio.value > 1) == one.metric.higher_is_better else Verdict.WORSE


def _further(found: PairedRun) -> Iterator[str]:
    """How much longer the campaign would have to run."""
    times = [one.further_s for one in found.figures if one.further_s is not None]
    if times:
        yield f"what is unclear would take about {format_duration(max(times))} more of such blocks"
    if any(one.ratio is None for one in found.figures):
        yield "five pairs are needed; measure more blocks (`prove`, `budget` or `repetitions`)"


def _case(line: ComparisonLine, one: PairedFigure, found: PairedRun) -> Case:
    amount = f"B / A {ratio_text(line.judged.ratio.value)} ({line.interval}), {one.pairs} pairs"
    name = f"{line.what} {line.metric}"
    return verdict_case(name, line.judged.verdict, amount, found.prove)
