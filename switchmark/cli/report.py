"""`switchmark report`: one self-contained HTML file about a run, and static plots on request."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from switchmark.cli.options import ResultsIn, StoreAt
from switchmark.cli.output import note, print_line, writing
from switchmark.report.form import Form, form_text
from switchmark.results.store import DEFAULT_ROOT, open_run, read_record
from switchmark.store.source import find_anywhere

EPILOG = """
Examples:
  switchmark report                                the latest run, beside its records
  switchmark report quick -o quick.html            the latest run of a campaign
  switchmark report quick --store postgresql://db.lab/bench   of a store, into this folder
  switchmark report --plots figures                also SVG and PNG plots in figures/
  switchmark report --form rfc2544                 also the form that a standard asks for

Exit codes: 0 written; 1 a record could not be read (the report says which); 2 no such run.
"""


def report(
    run: Annotated[
        str | None,
        typer.Argument(help="A results directory, a campaign, or `latest` (the default)."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The HTML file (default: report.html in the run; of a store: RUN.html here).",
        ),
    ] = None,
    plots: Annotated[
        Path | None, typer.Option("--plots", help="Also write static plots into this folder.")
    ] = None,
    form: Annotated[
        Form | None, typer.Option("--form", help="Also a standard's report, form-NAME.md.")
    ] = None,
    results: ResultsIn = DEFAULT_ROOT,
    store: StoreAt = None,
) -> int:
    """Write the report of a run: the answer in words, tables, plots, every trial, the method.

    The file holds all it needs and loads nothing from a network.
    """
    from switchmark.report.html import write_report

    found = find_anywhere(run, results, store)
    directory = found.directory
    beside = Path() if found.is_copy else directory
    target = output or beside / (f"{directory.name}.html" if found.is_copy else "report.html")
    with writing("--output", target):
        problems = [*found.problems, *write_report(directory, target)]
    print_line(str(target))
    if plots is not None:
        from switchmark.report.static import write_plots

        with writing("--plots", plots):
            written = write_plots(directory, plots)
        for path in written:
            print_line(str(path))
    if form is not None:
        filled = beside / f"form-{form.value}.md"
        run_found = open_run(directory)
        sound = [read_record(path) for path in run_found.paths() if not _is_refused(path, problems)]
        with writing("--form", filled):
            filled.write_text(form_text(form, run_found.info, sound), encoding="utf-8")
        print_line(str(filled))
    for line in problems:
        note(f"switchmark: {line}")
    return 1 if problems else 0


def _is_refused(path: Path, problems: list[str]) -> bool:
    """Whether the report has named this file as one that cannot be believed."""
    return any(line.startswith(f"{path}:") for line in problems)
