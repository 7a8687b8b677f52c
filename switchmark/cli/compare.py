"""`switchmark compare`: did B get better or worse than A, or the newest of a series?

Made for people (a table with intervals) and for CI (an exit code that says one thing).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from switchmark.cli.ci import BmfFile, JunitFile, check_places, write_bmf, write_junit
from switchmark.cli.compare_cases import Compared, broken_case, skipped_case, verdict_case
from switchmark.cli.compare_series import compare_series
from switchmark.cli.compare_words import exit_code, p_text, print_remarks, ratio_text
from switchmark.cli.options import ResultsIn
from switchmark.cli.output import print_json, print_line, print_table
from switchmark.errors import UsageError
from switchmark.method.registry import METHODS
from switchmark.report.junit import Case
from switchmark.results.matched import (
    CAUTION_MARKS,
    Key,
    LoadedRun,
    Measured,
    describe,
    done_alike,
    host_differences,
    load_run,
)
from switchmark.results.metric import Metric, chosen
from switchmark.results.store import DEFAULT_ROOT, find_run, open_run
from switchmark.results.summary import summary
from switchmark.statistics.comparison import (
    THRESHOLD,
    Correction,
    Judged,
    Verdict,
    further_repetitions,
    judge,
    ratio_of,
)

EPILOG = """
Examples:
  switchmark compare results/quick-OLD results/quick-NEW
  switchmark compare OLD NEW --threshold 0.05 --metric forwarded
  switchmark compare RUN RUN --match ovs-dpdk=linux-bridge    two switches of one run
  switchmark compare NIGHT1 NIGHT2 NIGHT3 NIGHT4 NIGHT5       a series, oldest first
  switchmark compare OLD NEW --junit verdicts.xml --bmf new.json    for CI: docs/ci.md

The ratio is B / A with its 95 % interval. Verdicts: better, worse (significant after
correction, and beyond the threshold), same (the whole interval within the threshold),
negligible (significant, within the threshold), unclear (more repetitions are needed),
untestable (fewer than two repetitions). docs/methods.md has the tests.

Exit codes: 0 nothing is worse; 4 something is worse, or fails now and did not before;
5 nothing could be tested, or with --strict: something is unclear, untestable or missing;
1 a file could not be read; 2 bad input.
"""


@dataclass(frozen=True, slots=True)
class Line:
    """One comparison as it is printed."""

    what: str
    metric: str
    mean_a: float | None
    mean_b: float | None
    judged: Judged
    cautions: tuple[str, ...]


def command(
    runs: Annotated[
        list[str], typer.Argument(help="Results directories: A B, or a series, oldest first.")
    ],
    metric: Annotated[
        list[str] | None, typer.Option("--metric", "-m", help="Figure to compare (repeatable).")
    ] = None,
    threshold: Annotated[
        float, typer.Option(help="Smallest change that matters, e.g. 0.02 for 2 %.")
    ] = THRESHOLD,
    correction: Annotated[
        Correction, typer.Option(help="For many comparisons: holm, fdr or none.")
    ] = Correction.HOLM,
    match: Annotated[str, typer.Option(help="Compare switch X of A with switch Y of B: X=Y.")] = "",
    strict: Annotated[bool, typer.Option("--strict", help="Exit 5 unless all is clear.")] = False,
    results: ResultsIn = DEFAULT_ROOT,
    json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    junit: JunitFile = None,
    bmf: BmfFile = None,
) -> int:
    """Compare two runs, or the newest of a series with those before it."""
    if len(runs) < 2:
        raise UsageError("compare: give two results directories or more")
    check_places(junit, bmf)
    if match and len(runs) > 2:
        raise UsageError("--match: goes with two results directories, not with a series")
    wanted = chosen(metric, [one for each in METHODS.values() for one in each.compared])
    renames = _renames(match) if match else [None] * len(runs)
    loaded = [
        load_run(find_run(name, results), wanted, rename)
        for name, rename in zip(runs, renames, strict=True)
    ]
    if len(loaded) == 2:
        found = _compare_two(loaded[0], loaded[1], wanted, threshold, correction, strict, json)
    else:
        found = compare_series(loaded, wanted, threshold, correction, strict, json)
    newest = open_run(loaded[-1].directory)
    write_junit(junit, f"compare {newest.info.campaign}", found.cases, newest.info.started_at)
    write_bmf(bmf, summary(newest.directory) if bmf else [])
    return found.exit_code


def _renames(match: str) -> list[dict[str, str] | None]:
    old, equals, new = match.partition("=")
    if not (old and equals and new):
        raise UsageError(f"--match {match}: write OLD=NEW, e.g. ovs-dpdk=linux-bridge")
    return [{old: old}, {new: old}]


def _compare_two(
    a: LoadedRun,
    b: LoadedRun,
    wanted: Sequence[Metric],
    threshold: float,
    correction: Correction,
    strict: bool,
    json: bool,
) -> Compared:
    shared = [key for key in a.trials if key in b.trials]
    if not shared:
        raise UsageError(
            f"{a.directory} and {b.directory} have no trial in common: the same packet sizes, "
            "rates, durations, switches and connect modes are needed (two switches: --match)"
        )
    alike = [key for key in shared if done_alike(a.trials[key], b.trials[key])]
    pairs = [
        (key, metric)
        for key in alike
        for metric in wanted
        if metric.name in a.trials[key].values and metric.name in b.trials[key].values
    ]
    ratios = [
        ratio_of(a.trials[key].values[metric.name], b.trials[key].values[metric.name])
        for key, metric in pairs
    ]
    judged = judge(
        ratios,
        higher_is_better=[metric.higher_is_better for _, metric in pairs],
        threshold=threshold,
        correction=correction,
    )
    lines = [
        Line(
            what=describe(key, shared),
            metric=f"{metric.name} [{metric.unit}]",
            mean_a=_mean(a.trials[key].values[metric.name]),
            mean_b=_mean(b.trials[key].values[metric.name]),
            judged=one,
            cautions=_cautions(a.trials[key], b.trials[key]),
        )
        for (key, metric), one in zip(pairs, judged, strict=True)
    ]
    broken = [key for key in shared if a.trials[key].values and not b.trials[key].values]
    remarks = _remarks(a, b, shared, broken)
    worse = any(line.judged.verdict is Verdict.WORSE for line in lines) or bool(broken)
    unclear = len(alike) < len(a.trials) or any(map(_is_open, judged))
    blind = all(one.verdict is Verdict.UNTESTABLE for one in judged)  # also when there are none
    code = exit_code(worse, blind or (unclear and strict), bool(a.problems or b.problems))
    if json:
        print_json(
            {
                "a": a.directory, "b": b.directory, "threshold": threshold,
                "correction": correction, "comparisons": [asdict(line) for line in lines],
                "remarks": remarks, "exit_code": code,
            }
        )  # fmt: skip
    else:
        _print_lines(lines, threshold, correction)
        print_remarks(remarks)
    cases = [_case(line, key, threshold) for line, (key, _) in zip(lines, pairs, strict=True)]
    cases += [broken_case(describe(key, shared), b.trials[key]) for key in broken]
    return Compared(code, [*cases, *_not_compared(a, b, shared, alike)])


def _case(line: Line, key: Key, threshold: float) -> Case:
    ratio = line.judged.ratio
    amount = (
        f"B / A {ratio_text(ratio.value)} ({_interval(line.judged)}, 95 %), "
        f"p {p_text(line.judged.adjusted_p)}, n {ratio.count_a} and {ratio.count_b}"
    )
    name = f"{line.what} {line.metric}"
    duration_s = float(dict(key).get("duration_s") or 0.0)
    further = further_repetitions(line.judged, threshold)
    return verdict_case(name, line.judged.verdict, amount, threshold, further, duration_s)


def _not_compared(
    a: LoadedRun, b: LoadedRun, shared: Sequence[Key], alike: Sequence[Key]
) -> Iterator[Case]:
    for key in shared:
        if key not in alike:
            yield skipped_case(describe(key, shared), "done differently in A and B")
    for name, one, other in (("A", a, b), ("B", b, a)):
        for key, measured in one.trials.items():
            if key not in other.trials:
                yield skipped_case(measured.notation, f"only in {name}")


def _is_open(one: Judged) -> bool:
    return one.verdict in (Verdict.UNCLEAR, Verdict.UNTESTABLE)


def _cautions(a: Measured, b: Measured) -> tuple[str, ...]:
    cautions = []
    for mark in sorted(CAUTION_MARKS & (a.marks | b.marks)):
        where = [name for name, one in (("A", a), ("B", b)) if mark in one.marks]
        cautions.append(f"{mark} ({' and '.join(where)})")
    if a.limited_by == b.limited_by == {"rate"}:
        cautions.append("both met the load: nothing is said about more")
    for name, one in (("A", a), ("B", b)):
        if one.failed:
            cautions.append(f"{len(one.failed)} failed ({name})")
        if one.invalid:
            cautions.append(f"{one.invalid} not valid, left out ({name})")
    return tuple(cautions)


def _remarks(a: LoadedRun, b: LoadedRun, shared: Sequence[Key], broken: Sequence[Key]) -> list[str]:
    remarks = [*a.problems, *b.problems]
    for key in broken:
        found = b.trials[key]
        why = found.failed[0] if found.failed else "no valid repetition"
        remarks.append(f"WORSE: {describe(key, shared)}: worked in A, not in B: {why}")
    for key in shared:
        done_a, done_b = a.trials[key].done, b.trials[key].done
        if not done_alike(a.trials[key], b.trials[key]):
            remarks.append(
                f"not compared, done differently: {describe(key, shared)}: "
                f"{'; '.join(sorted(done_a))} / {'; '.join(sorted(done_b))}"
            )
    for name, one, other in (("A", a, b), ("B", b, a)):
        only = [
            measured.notation for key, measured in one.trials.items() if key not in other.trials
        ]
        if only:
            some = "; ".join(sorted(set(only))[:5])
            remarks.append(f"only in {name}: {len(only)} trials, not compared ({some})")
    differences = host_differences(a.host, b.host)
    if differences:
        some = "; ".join(differences[:8])
        remarks.append(f"the hosts differ, which may be all that was compared: {some}")
    return remarks


def _print_lines(lines: Sequence[Line], threshold: float, correction: Correction) -> None:
    columns = [
        "trial",
        "figure",
        "A",
        "B",
        "B / A",
        "95 % interval",
        "n",
        "p",
        "verdict",
        "caution",
    ]
    rows = [
        [
            line.what,
            line.metric,
            _number(line.mean_a),
            _number(line.mean_b),
            ratio_text(line.judged.ratio.value),
            _interval(line.judged),
            f"{line.judged.ratio.count_a}, {line.judged.ratio.count_b}",
            p_text(line.judged.adjusted_p),
            line.judged.verdict.value,
            "; ".join(line.cautions),
        ]
        for line in lines
    ]
    print_table(columns, rows, right=["A", "B", "B / A", "p"])
    used = sorted({line.judged.ratio.method for line in lines})
    print_line(
        f"\n{'; '.join(used)}. p is corrected over {len(lines)} comparisons ({correction.value}); "
        f"intervals are not. Changes below {threshold:.1%} do not matter."
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _interval(one: Judged) -> str:
    if one.ratio.low is None or one.ratio.high is None:
        return "-"
    return f"{ratio_text(one.ratio.low)} to {ratio_text(one.ratio.high)}"
