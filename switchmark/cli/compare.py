"""`switchmark compare`: is B better or worse than A, or the newest run of a series?

It prints a table with intervals for people, and returns an exit code for CI.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from switchmark.atomic_files import write_atomically
from switchmark.cli.ci import BmfFile, JunitFile, check_places, write_bmf, write_junit
from switchmark.cli.compare_modes import (
    compare_contenders,
    compare_machines,
    compare_series,
    compare_two,
)
from switchmark.cli.compare_output import CompareOptions, ComparisonReport, print_report
from switchmark.cli.options import AsJson, ResultsIn, StoreAt, read_threshold
from switchmark.cli.output import note, note_problems, writing
from switchmark.errors import UsageError
from switchmark.method.registry import METHODS
from switchmark.record.metric import chosen
from switchmark.report.machines import machines_page
from switchmark.results import DEFAULT_ROOT
from switchmark.results.comparable import load_run
from switchmark.results.last_good import last_good
from switchmark.results.run_directory import open_run
from switchmark.results.summary import summary
from switchmark.statistics.comparison import THRESHOLD, Correction
from switchmark.store.address import is_store_address, read_store_address
from switchmark.store.source import every_run, find_anywhere

EPILOG = """
Examples:
  switchmark compare results/quick-OLD results/quick-NEW
  switchmark compare OLD NEW --threshold 5% --metric forwarded
  switchmark compare RUN --contenders before after
  switchmark compare LAB1 LAB2 LAB3 --over-machines --html machines.html
  switchmark compare OLD NEW --match ovs-dpdk=linux-bridge
  switchmark compare NIGHT1 NIGHT2 NIGHT3 NIGHT4 NIGHT5
  switchmark compare postgresql://db.lab/bench/OLD results/NEW
  switchmark compare RUN --against last-good
  switchmark compare OLD NEW --junit verdicts.xml --bmf new.json

The ratio is B / A with its 95 % interval. Contenders of one run are compared in pairs of trials
of the same block. Two runs have no such pairs, so their ratio also includes each change of the
machine between them.
Verdicts: better and worse (significant after correction, and beyond the threshold), same (not
significant, and the whole interval is within the threshold), negligible (significant, but the
ratio is within the threshold), unclear (more repetitions are needed), untestable (too few
repetitions). docs/comparing.md describes the statistical tests.

More: docs/comparing.md, docs/machines.md, docs/ci.md

Exit codes:
  0    nothing is worse
  1    a file could not be read
  2    wrong input
  4    something is worse, or fails now and did not before
  5    nothing could be tested, or with --strict: something is unclear,
       untestable or missing
"""


def command(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="One run, two runs (A B), or a series of runs (oldest first). Name each run by "
            "its folder, its name, or its campaign (which means the latest run of it).",
        ),
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            metavar="FIGURE",
            help="Figure to compare, for example forwarded or rtt-p50; can be repeated.",
        ),
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help=f"Smallest change that matters, for example 5% or 0.05 (default {THRESHOLD:.0%}; "
            "if one run is given, the value of `prove` in its campaign).",
        ),
    ] = None,
    correction: Annotated[
        Correction, typer.Option(help="Correction of p-values for multiple comparisons.")
    ] = Correction.HOLM,
    contenders: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--contenders",
            metavar="A B",
            help="Compare these two contenders of a run.",
        ),
    ] = None,
    match: Annotated[
        str, typer.Option(metavar="X=Y", help="Compare switch X of run A with switch Y of run B.")
    ] = "",
    over_machines: Annotated[
        bool,
        typer.Option(
            "--over-machines", help="Compare two contenders across runs of several machines."
        ),
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", help="With --over-machines: also write an HTML page."
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="last-good",
            help="Compare a run with the newest earlier run that is good: one in which no figure "
            "is worse than the last good level.",
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit 5 if a comparison is unclear, untestable or missing."),
    ] = False,
    full: Annotated[
        bool,
        typer.Option("--full", help="Print each comparison, also those without a difference."),
    ] = False,
    results: ResultsIn = DEFAULT_ROOT,
    store: StoreAt = None,
    json: AsJson = False,
    junit: JunitFile = None,
    bmf: BmfFile = None,
) -> int:
    """Compare two runs, two contenders of one run, or the newest run of a series with the earlier
    runs."""
    check_places(junit, bmf)
    smallest = None if threshold is None else read_threshold(threshold)
    if match and len(runs) != 2:
        raise UsageError("--match: goes with two results directories, not with a series or one")
    renames = _renames(match) if match else None
    if html is not None and not over_machines:
        raise UsageError("--html: needs --over-machines; the page of one run: switchmark report")
    if over_machines and match:
        raise UsageError("--match: does not go with --over-machines; name --contenders A B")
    if contenders and len(runs) > 1 and not over_machines:
        raise UsageError("--contenders: goes with one results directory (with two: --match A=B)")
    metrics = chosen(metric, [one for each in METHODS.values() for one in each.compared])
    options = CompareOptions(metrics, smallest, correction, strict, json, full)
    located = [find_anywhere(name, results, store) for name in runs]
    folders = [one.directory for one in located]
    refused = [line for one in located for line in one.problems]
    refused_code = note_problems(refused)
    if against is not None:
        alone = len(folders) == 1 and contenders is None
        known = every_run(results, store or _store_of(runs[0]), say=lambda _: None)
        folders.insert(0, _against(against, folders[0], alone, known, options))
    if over_machines:
        over = compare_machines(folders, contenders, options)
        report = over.report
        if html is not None:
            with writing("--html", html):
                write_atomically(html, machines_page(over.result, over.prove))
    elif len(folders) == 1:
        report = compare_contenders(folders[0], contenders, options)
    else:
        report = _compare_runs(folders, renames, options)
    exit_code = print_report(report, options)
    newest = open_run(folders[-1])
    write_junit(junit, f"compare {newest.info.campaign}", report.cases, newest.info.started_at)
    write_bmf(bmf, summary(newest.directory) if bmf else [])
    return exit_code or refused_code


def _compare_runs(
    folders: Sequence[Path], renames: list[dict[str, str]] | None, options: CompareOptions
) -> ComparisonReport:
    loaded = [
        load_run(folder, options.metrics, renames[place] if renames else None)
        for place, folder in enumerate(folders)
    ]
    if len(loaded) == 2:
        return compare_two(loaded[0], loaded[1], options)
    return compare_series(loaded, options)


def _against(
    name: str, newest: Path, is_alone: bool, known: Sequence[Path], options: CompareOptions
) -> Path:
    """Return the run to compare with."""
    if name != "last-good":
        raise UsageError(f"--against {name}: unknown value; write last-good, or name two runs")
    if not is_alone:
        raise UsageError("--against: goes with one results directory, and without --contenders")
    found = last_good(newest, known, options.metrics, options.smallest_change)
    note(found.why)
    return found.directory


def _store_of(run: str) -> str | None:
    """Return the store in the address of a run, `postgresql://.../RUN`; None for a folder."""
    return read_store_address(run).url if is_store_address(run) else None


def _renames(match: str) -> list[dict[str, str]]:
    old, equals, new = match.partition("=")
    if not (old and equals and new):
        raise UsageError(f"--match {match}: write OLD=NEW, e.g. ovs-dpdk=linux-bridge")
    return [{old: old}, {new: old}]
