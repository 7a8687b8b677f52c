"""`switchmark compare`: did B get better or worse than A, or the newest of a series?

Made for people (a table with intervals) and for CI (an exit code that says one thing).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from switchmark.cli.ci import BmfFile, JunitFile, check_places, write_bmf, write_junit
from switchmark.cli.compare_cases import Compared, broken_case, skipped_case
from switchmark.cli.compare_contenders import compare_contenders
from switchmark.cli.compare_lines import ComparisonLine, case_of, print_lines
from switchmark.cli.compare_machines import compare_machines
from switchmark.cli.compare_series import compare_series
from switchmark.cli.compare_words import exit_code, print_remarks
from switchmark.cli.options import ResultsIn, StoreAt
from switchmark.cli.output import note, print_json
from switchmark.errors import UsageError
from switchmark.method.registry import METHODS
from switchmark.report.junit import Case
from switchmark.results.last_good import last_good
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
from switchmark.results.store import DEFAULT_ROOT, open_run
from switchmark.results.summary import summary
from switchmark.statistics.boundaries import FIRST_LOOK
from switchmark.statistics.comparison import (
    THRESHOLD,
    Correction,
    Judged,
    Verdict,
    judge,
    ratio_of,
)
from switchmark.statistics.sequential import blocks_instead
from switchmark.store.every import every_run
from switchmark.store.source import find_anywhere

EPILOG = """
Examples:
  switchmark compare results/quick-OLD results/quick-NEW
  switchmark compare OLD NEW --threshold 0.05 --metric forwarded
  switchmark compare RUN --contenders before after    two of one run, by the pairs of its blocks
  switchmark compare LAB1 LAB2 LAB3 --over-machines --html machines.html    docs/machines.md
  switchmark compare OLD NEW --match ovs-dpdk=linux-bridge    a switch with another one
  switchmark compare NIGHT1 NIGHT2 NIGHT3 NIGHT4 NIGHT5       a series, oldest first
  switchmark compare postgresql://db.lab/bench/OLD results/NEW    of a store, and of a folder
  switchmark compare RUN --against last-good                  as switchmark history has it
  switchmark compare OLD NEW --junit verdicts.xml --bmf new.json    for CI: docs/ci.md

The ratio is B / A with its 95 % interval. Contenders of one run ran in the same blocks, and are
compared by pairs; two runs have none, and what the machine did differently is in their ratio.
Verdicts: better, worse (significant after
correction, and beyond the threshold), same (the whole interval within the threshold),
negligible (significant, within the threshold), unclear (more repetitions are needed),
untestable (fewer than two repetitions). docs/comparing.md has the tests.

Exit codes: 0 nothing is worse; 4 something is worse, or fails now and did not before;
5 nothing could be tested, or with --strict: something is unclear, untestable or missing;
1 a file could not be read; 2 bad input.
"""


def command(
    runs: Annotated[
        list[str],
        typer.Argument(help="Results directories: A B, a series (oldest first), or one run."),
    ],
    metric: Annotated[
        list[str] | None, typer.Option("--metric", "-m", help="Figure to compare (repeatable).")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help=f"Smallest change that matters (default {THRESHOLD}: {THRESHOLD:.0%}; of one run, "
            "what its campaign proves)."
        ),
    ] = None,
    correction: Annotated[
        Correction, typer.Option(help="For many comparisons: holm, fdr or none.")
    ] = Correction.HOLM,
    contenders: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--contenders",
            metavar="A B",
            help="Compare these two of a run.",
        ),
    ] = None,
    match: Annotated[str, typer.Option(help="Compare switch X of A with switch Y of B: X=Y.")] = "",
    over_machines: Annotated[
        bool,
        typer.Option(
            "--over-machines", help="Two contenders over the machines that the runs are of."
        ),
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Of --over-machines: write a page, too."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against", metavar="last-good", help="Compare one run with the last good before it."
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 5 unless all is clear.")] = False,
    results: ResultsIn = DEFAULT_ROOT,
    store: StoreAt = None,
    json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    junit: JunitFile = None,
    bmf: BmfFile = None,
) -> int:
    """Compare two runs, or the newest of a series with those before it."""
    check_places(junit, bmf)
    if match and len(runs) != 2:
        raise UsageError("--match: goes with two results directories, not with a series or one")
    renames = _renames(match) if match else None
    if html is not None and not over_machines:
        raise UsageError("--html: goes with --over-machines; of one run: switchmark report")
    if over_machines and match:
        raise UsageError("--match: does not go with --over-machines; name --contenders A B")
    if contenders and len(runs) > 1 and not over_machines:
        raise UsageError("--contenders: goes with one results directory (with two: --match A=B)")
    wanted = chosen(metric, [one for each in METHODS.values() for one in each.compared])
    located = [find_anywhere(name, results, store) for name in runs]
    folders = [one.directory for one in located]
    refused = [line for one in located for line in one.problems]
    for line in refused:
        note(f"switchmark: {line}")
    if against is not None:
        alone = len(folders) == 1 and contenders is None
        earlier = every_run(results, store, say=lambda _: None)
        folders.insert(0, _against(against, folders[0], alone, earlier, wanted, threshold))
    if over_machines:
        found = compare_machines(folders, contenders, wanted, threshold, strict, json, html)
    elif len(folders) == 1:
        found = compare_contenders(folders[0], contenders, wanted, threshold, strict, json)
    else:
        threshold = THRESHOLD if threshold is None else threshold
        found = _compare_runs(folders, renames, wanted, threshold, correction, strict, json)
    newest = open_run(folders[-1])
    write_junit(junit, f"compare {newest.info.campaign}", found.cases, newest.info.started_at)
    write_bmf(bmf, summary(newest.directory) if bmf else [])
    return found.exit_code or (1 if refused else 0)


def _compare_runs(
    folders: Sequence[Path],
    renames: list[dict[str, str]] | None,
    wanted: Sequence[Metric],
    threshold: float,
    correction: Correction,
    strict: bool,
    json: bool,
) -> Compared:
    loaded = [
        load_run(folder, wanted, renames[place] if renames else None)
        for place, folder in enumerate(folders)
    ]
    if len(loaded) == 2:
        return _compare_two(loaded[0], loaded[1], wanted, threshold, correction, strict, json)
    return compare_series(loaded, wanted, threshold, correction, strict, json)


def _against(
    name: str,
    newest: Path,
    is_alone: bool,
    known: Sequence[Path],
    wanted: Sequence[Metric],
    threshold: float | None,
) -> Path:
    """The run to compare with."""
    if name != "last-good":
        raise UsageError(f"--against {name}: is not known; write last-good, or name two runs")
    if not is_alone:
        raise UsageError("--against: goes with one results directory, and without --contenders")
    found = last_good(newest, known, wanted, THRESHOLD if threshold is None else threshold)
    note(found.told)
    return found.directory


def _renames(match: str) -> list[dict[str, str]]:
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
        ComparisonLine(
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
    if a.directory != b.directory:
        figures = [
            (a.trials[key].values[one.name], b.trials[key].values[one.name]) for key, one in pairs
        ]
        remarks.append(_without_pairs(figures, threshold))
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
        used = "; ".join(sorted({line.judged.ratio.method for line in lines}))
        print_lines(
            lines,
            f"{used}. p is corrected over {len(lines)} comparisons ({correction.value}); intervals "
            f"are not. Changes below {threshold:.1%} do not matter.",
        )
        print_remarks(remarks)
    durations_s = [float(dict(key).get("duration_s") or 0.0) for key, _ in pairs]
    cases = [
        case_of(line, each_s, threshold) for line, each_s in zip(lines, durations_s, strict=True)
    ]
    cases += [broken_case(describe(key, shared), b.trials[key]) for key in broken]
    return Compared(code, [*cases, *_not_compared(a, b, shared, alike)])


def _without_pairs(
    figures: Sequence[tuple[Sequence[float], Sequence[float]]], threshold: float
) -> str:
    """What two runs cannot know, and what one campaign of both would take."""
    blocks = [blocks_instead(one, other, threshold) for one, other in figures]
    most = max((count for count in blocks if count is not None), default=FIRST_LOOK)
    remedy = f"measured together in one campaign (`contenders`), {most} blocks at most would decide"
    if not blocks or None in blocks:
        remedy = "measure both together in one campaign (`contenders`)"
    return f"two runs, no pairs: the state of the machine may differ between them; {remedy}"


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


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
