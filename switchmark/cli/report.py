"""`switchmark report`: one self-contained HTML file about a run, and static plots on request."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from switchmark.atomic_files import write_atomically
from switchmark.cli.options import ResultsIn, RunName, StoreAt
from switchmark.cli.output import note_problems, print_line, writing
from switchmark.errors import UsageError
from switchmark.language.values import BadValueError
from switchmark.model.rates import BitRate, bit_rate
from switchmark.record import Record
from switchmark.report.form import Form, form_text
from switchmark.report.form_source import FormSource
from switchmark.results import DEFAULT_ROOT
from switchmark.results.documents import read_record
from switchmark.results.run_directory import open_run
from switchmark.results.run_info import RunInfo
from switchmark.store.source import find_anywhere

EPILOG = """
Examples:
  switchmark report                            the latest run
  switchmark report quick --html quick.html    the latest run of a campaign
  switchmark report quick --store postgresql://db.lab/bench
  switchmark report --plots figures            also SVG and PNG plots
  switchmark report --form rfc2544             also a report as RFC 2544 asks
  switchmark report --form rfc2544 --medium 10Gbps

Exit codes:
  0    the report is written
  1    a record could not be read; the report names it
  2    there is no such run
"""


def report(
    run: RunName = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE",
            help="The HTML file (default: report.html in the folder of the run; for a run in a "
            "store, RUN.html in the current folder).",
        ),
    ] = None,
    plots: Annotated[
        Path | None, typer.Option("--plots", metavar="DIR", help="Also write plots as files.")
    ] = None,
    form: Annotated[
        Form | None,
        typer.Option(
            "--form", help="Also write the report that this standard asks for: form-NAME.md."
        ),
    ] = None,
    medium: Annotated[
        str | None,
        typer.Option(
            "--medium",
            metavar="RATE",
            help="With --form: add the theoretical frame rates of a link of this bit rate, "
            "for example 10Gbps.",
        ),
    ] = None,
    results: ResultsIn = DEFAULT_ROOT,
    store: StoreAt = None,
) -> int:
    """Write the report of a run as one HTML file: the comparison, tables, plots and all trials.

    The file is complete and loads nothing from a network.
    """
    from switchmark.report.html import write_report

    link = _link(medium, form)
    found = find_anywhere(run, results, store)
    directory, stored = found.directory, open_run(found.directory)
    beside = Path() if found.is_copy else directory
    target = html or beside / (f"{directory.name}.html" if found.is_copy else "report.html")
    with writing("--html", target):
        problems = [*found.problems, *write_report(directory, target)]
    print_line(str(target))
    if plots is not None:
        from switchmark.report.static import write_plots

        with writing("--plots", plots):
            written = write_plots(directory, plots)
        for path in written:
            print_line(str(path))
    if form is not None:
        sound = [read_record(path) for path in stored.paths() if not _is_refused(path, problems)]
        for path in _write_form(form, stored.info, sound, link, beside / f"form-{form.value}"):
            print_line(str(path))
    return note_problems(problems)


def _link(medium: str | None, form: Form | None) -> BitRate | None:
    """The link whose rate a form compares with. Raises UsageError."""
    if medium is None:
        return None
    if form is None:
        raise UsageError("--medium goes with --form rfc2544 or --form tst009")
    try:
        found = bit_rate(medium if "-l" in medium else f"{medium}-l1")
    except BadValueError as error:
        raise UsageError(f"--medium: {error}") from error
    if found is None or found.layer != 1:
        raise UsageError(f"--medium {medium}: write the rate of a link, as 10Gbps")
    return found


def _write_form(
    form: Form, info: RunInfo, records: list[Record], link: BitRate | None, stem: Path
) -> list[Path]:
    """Write the form and its graphs; returns the files."""
    from switchmark.report.form_graphs import write_form_graphs

    filled = stem.with_suffix(".md")
    with writing("--form", filled):
        graphs = write_form_graphs(FormSource.of(records, link), stem)
        named = {method: path.name for method, path in graphs.items()}
        write_atomically(filled, form_text(form, info, records, link, named))
    return [filled, *graphs.values()]


def _is_refused(path: Path, problems: list[str]) -> bool:
    """Return True if the report lists this file as one that cannot be used."""
    return any(line.startswith(f"{path}:") for line in problems)
