"""`switchmark compare RUN ... --over-machines`: two contenders over the machines they ran on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from switchmark.atomic_files import write_atomically
from switchmark.cli.compare_cases import Compared, CompareOptions, verdict_case
from switchmark.cli.compare_words import (
    certified_remarks,
    exit_code,
    interval_text,
    only_two,
    ratio_text,
)
from switchmark.cli.output import note_problems, print_json, print_line, print_table, writing
from switchmark.errors import UsageError
from switchmark.language import values
from switchmark.report import words
from switchmark.report.junit import Case
from switchmark.report.machines import machine_words, machines_page, verdict_of
from switchmark.results.certified import certified, of_rows
from switchmark.results.contenders import in_order_of
from switchmark.results.over_machines import (
    FigureOverMachines,
    OverMachines,
    compare_over_machines,
    contenders_of,
)
from switchmark.results.query import read_table
from switchmark.results.store import Run, open_run
from switchmark.results.summary import summarise
from switchmark.statistics.comparison import Verdict
from switchmark.statistics.defaults import PROVE


def compare_machines(
    folders: Sequence[Path],
    pair: tuple[str, str] | None,
    options: CompareOptions,
    html: Path | None,
) -> Compared:
    """Compare, print, and return the exit code; without a pair, compare the only two that there
    are."""
    prove = PROVE if options.threshold is None else options.threshold
    runs: list[tuple[Run, dict[str, str]]] = []
    problems: list[str] = []
    instruments: dict[str, str] = {}
    for folder in folders:
        table = read_table(folder)
        problems += table.problems
        rows = summarise(folder, table)
        instruments[str(folder)] = certified(of_rows(rows))
        names = {row.trial.id: row.contender for row in rows if not row.is_baseline}
        runs.append((open_run(folder), names))
    known = contenders_of(names for _, names in runs)
    a, b = _two(pair, sorted(known, key=in_order_of(runs[0][0].info.definition)))
    found = compare_over_machines(runs, a, b, options.metrics)
    if len(found.machines) < 2:
        raise UsageError(
            f"--over-machines: {a} and {b} were both measured on {len(found.machines)} machine "
            f"({', '.join(found.machines) or 'none'}); give the runs of two or more, best three"
        )
    remarks = [*problems, *found.remarks, *_cannot_tell(found), *certified_remarks(instruments)]
    verdicts = [verdict_of(one, prove) for one in found.figures]
    code = exit_code(verdicts, unreadable=bool(problems), strict=options.strict)
    varying = words.varying_among(one.point for one in found.figures)
    if html is not None:
        with writing("--html", html):
            write_atomically(html, machines_page(found, prove))
    if options.json:
        print_json(
            {
                "runs": list(folders), "a": a, "b": b, "threshold": prove,
                "confidence": 1 - found.level, "machines": found.machines,
                "comparisons": [
                    {
                        "point": dict(one.point), "metric": one.metric.name,
                        "unit": one.metric.unit, "machines": one.machines,
                        "over_machines": one.over, "verdict": verdict,
                    }
                    for one, verdict in zip(found.figures, verdicts, strict=True)
                ],
                "remarks": remarks, "exit_code": code,
            }
        )  # fmt: skip
    else:
        _print(found, verdicts, prove, varying)
        note_problems(remarks)
    cases = [_case(*one, prove, varying) for one in zip(found.figures, verdicts, strict=True)]
    return Compared(code, cases)


def _two(pair: tuple[str, str] | None, known: Sequence[str]) -> tuple[str, str]:
    if pair is None:
        return only_two(known, "--over-machines: the runs have")
    for name in pair:
        if name not in known:
            raise UsageError(f"--contenders: {values.unknown(name, known, 'contender')}")
    if pair[0] == pair[1]:
        raise UsageError(f"--contenders: {pair[0]} is compared with itself; name two")
    return pair


def _cannot_tell(found: OverMachines) -> Iterator[str]:
    if any(one.over is not None and one.over.spread is None for one in found.figures):
        yield (
            "two machines cannot tell how far machines differ, and nothing is predicted of a "
            "further one: measure on a third"
        )
    few = {m.machine for one in found.figures for m in one.machines if m.ratio is None}
    if few:
        yield f"fewer than five pairs, left out: {', '.join(sorted(few))}; measure more blocks"


def _print(
    found: OverMachines, verdicts: Sequence[Verdict], prove: float, varying: Sequence[str]
) -> None:
    lines: list[list[object]] = []
    for one, verdict in zip(found.figures, verdicts, strict=True):
        what = [words.point(dict(one.point), varying), f"{one.metric.name} [{one.metric.unit}]"]
        for each in one.machines:
            ratio = each.ratio
            value, interval = ("-", "-")
            if ratio is not None:
                value, interval = ratio_text(ratio.value), interval_text(ratio.low, ratio.high)
            lines.append([*what, each.machine, value, interval, f"{each.pairs} pairs", ""])
            what = ["", ""]
        if one.over is None:
            continue
        over = one.over
        value, interval = ratio_text(over.value), interval_text(over.low, over.high)
        lines.append(["", "", "mean", value, interval, f"{over.machines} machines", verdict.value])
        if over.predicted_low is not None and over.predicted_high is not None:
            predicted = interval_text(over.predicted_low, over.predicted_high)
            lines.append(["", "", "a further machine", "", predicted, "", ""])
    columns = ["trial", "figure", "machine", "B / A", "95 % interval", "of", "verdict"]
    print_table(columns, lines, right=["B / A"])
    print_line(
        f"\nA is {found.a}, B is {found.b}; on each machine by pairs within its blocks, over"
    )
    print_line("machines as a random effect (docs/machines.md); each interval by itself.")
    print_line(f"Same: all of the mean's interval within {prove * 100:.3g} %.")
    for one in found.figures:
        if one.over is not None and one.over.spread is not None:
            where = words.point(dict(one.point), varying)
            print_line(f"{where}, {one.metric.name}: {machine_words(one.over.spread)}.")


def _case(one: FigureOverMachines, verdict: Verdict, prove: float, varying: Sequence[str]) -> Case:
    name = f"{words.point(dict(one.point), varying)} {one.metric.name} [{one.metric.unit}]"
    if one.over is None:
        return verdict_case(name, verdict, "too few pairs on all machines but one", prove)
    over = one.over
    amount = (
        f"B / A {ratio_text(over.value)} ({interval_text(over.low, over.high)}), "
        f"{over.machines} machines"
    )
    return verdict_case(name, verdict, amount, prove)
