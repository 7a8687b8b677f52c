"""`switchmark history`: a figure over versions and dates, from all runs of a results folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from switchmark.atomic_files import write_atomically
from switchmark.cli.options import AsJson, ResultsIn, StoreAt, read_threshold
from switchmark.cli.output import note_problems, print_json, print_line, print_table, writing
from switchmark.errors import UsageError
from switchmark.language import values
from switchmark.method.registry import METHODS
from switchmark.record.metric import Metric, figures_called
from switchmark.report.history import change_words, history_page, newest_words, title_of
from switchmark.results import DEFAULT_ROOT
from switchmark.results.groups import differing
from switchmark.results.history import History, PastFigure, read_history
from switchmark.statistics.comparison import THRESHOLD
from switchmark.store.source import every_run

EPILOG = """
Examples:
  switchmark history ovs-dpdk                         all its figures in results/
  switchmark history ovs-dpdk --figure throughput --html ovs.html
  switchmark history --results nightly --machine lab1 --json
  switchmark history ovs-dpdk --store postgresql://db.lab/bench
  switchmark compare RUN --against last-good          the newest run with the last good one

Runs that are equal in all parameters, machine, build of the engine and page
size are a series (docs/history.md).

Exit codes: 0 shown; 1 a file could not be read (its line is on standard error);
2 nothing to show, or a wrong name.
"""


def command(
    switch: Annotated[str | None, typer.Argument(help="The switch (default: all).")] = None,
    figure: Annotated[
        list[str] | None,
        typer.Option("--figure", "-f", help="throughput, latency, ndr ... (repeatable)."),
    ] = None,
    machine: Annotated[
        str | None, typer.Option("--machine", metavar="NAME", help="Only this machine.")
    ] = None,
    threshold: Annotated[
        str,
        typer.Option(
            metavar="SHARE", help="Smallest change of level that is reported, as 5% or 0.05."
        ),
    ] = f"{THRESHOLD:.0%}",
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Also write an HTML page with plots."),
    ] = None,
    results: ResultsIn = DEFAULT_ROOT,
    store: StoreAt = None,
    json: AsJson = False,
) -> int:
    """Show how a switch's figures changed over versions and dates, and since when."""
    smallest = read_threshold(threshold)
    metrics = figures_called(
        figure or [], [one for each in METHODS.values() for one in each.compared]
    )
    problems: list[str] = []
    folders = every_run(results, store, problems.append)
    history = read_history(folders, metrics, switch, smallest)
    history = _of_machine(history, machine)
    problems += history.problems
    if not history.figures:
        _nothing(store or str(results), folders, switch, metrics, smallest)
    if html is not None:
        with writing("--html", html):
            write_atomically(html, history_page(history, f"{switch or 'All switches'}: history"))
    if json:
        print_json({"series": [_plain(one) for one in history.figures], "problems": problems})
    else:
        _print(history)
    return note_problems(problems)


def _of_machine(history: History, machine: str | None) -> History:
    if machine is None:
        return history
    known = sorted({one.machine for one in history.figures})
    if known and machine not in known:
        raise UsageError(f"--machine: {values.unknown(machine, known, 'machine')}")
    figures = tuple(one for one in history.figures if one.machine == machine)
    return History(figures, history.problems)


def _nothing(
    results: str, folders: list[Path], switch: str | None, metrics: list[Metric], threshold: float
) -> None:
    """Raise UsageError with the reason why there is nothing to show."""
    if not folders:
        raise UsageError(f"{results}: no results here; measure first: switchmark run quick")
    known = read_history(folders, metrics, None, threshold).switches
    if switch is not None and known and switch not in known:
        raise UsageError(f"{results}: {values.unknown(switch, known, 'switch')}")
    raise UsageError(f"{results}: no valid figure of this kind in {len(folders)} runs")


def _plain(figure: PastFigure) -> dict[str, Any]:
    return {
        "switch": figure.switch,
        "machine": figure.machine,
        "figure": figure.metric.name,
        "unit": figure.metric.unit,
        "workload": dict(figure.workload),
        "engine_build": figure.engine_build or None,
        "runs": [
            {
                "run": run.directory.name, "started_at": run.started_at.isoformat(),
                "version": run.version, "build": run.program_build or None,
                "level": run.level if run.values else None,
                "values": run.values, "tried": run.trials,
            }
            for run in figure.runs
        ],
        "changes": [
            {
                "run": change.run.directory.name,
                "since": change.run.started_at.isoformat(),
                "version": change.run.version, "version_before": change.before.version,
                "ratio": change.point.ratio, "low": change.point.low, "high": change.point.high,
                "p": change.point.p, "also_different": change.differs,
                "told": change_words(change, figure.metric),
            }
            for change in figure.changes
        ],
    }  # fmt: skip


def _print(history: History) -> None:
    varying = differing(one.workload for one in history.figures)
    lines = [
        [one.switch, one.metric.name, one.in_words(varying), one.machine,
         len(one.usable), newest_words(one), len(one.changes) or "none"]
        for one in history.figures
    ]  # fmt: skip
    columns = ["switch", "figure", "workload", "machine", "runs", "newest", "changes"]
    print_table(columns, lines, right=["runs"])
    changed = [one for one in history.figures if one.changes]
    for figure in changed:
        print_line(f"\n{title_of(figure, varying)}:")
        for change in figure.changes:
            print_line(f"  {change_words(change, figure.metric)}")
            for line in change.differs:
                print_line(f"    also different: {line}")
    if not changed:
        print_line("\nNo change of level is proven.")
