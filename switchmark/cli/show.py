"""`switchmark show`: the results of a run as a table, or as CSV, JSON or Parquet for programs.

Each row has its marks and its limit. Failed trials and unreadable files are also listed.
"""

from __future__ import annotations

import io
import json as json_format
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from switchmark.atomic_files import atomic_writer, write_atomically
from switchmark.cli.grouped_help import OUTPUT
from switchmark.cli.options import ResultsIn, RunName, StoreAt
from switchmark.cli.output import note_problems, print_line, print_table, writing
from switchmark.cli.run_output import print_run, print_summary
from switchmark.errors import UsageError
from switchmark.formatting import CONTROLS
from switchmark.results import DEFAULT_ROOT, export
from switchmark.results.query import read_table
from switchmark.results.run_directory import open_run
from switchmark.results.summary import summarise
from switchmark.store.source import find_anywhere

EPILOG = """
Examples:
  switchmark show                                  the latest run
  switchmark show --full                           with all tables
  switchmark show quick                            the latest run of quick
  switchmark show results/quick-20260131T120000Z-1f2e3d
  switchmark show postgresql://db.lab/bench/quick  a run in a store
  switchmark show --where switch=ovs-dpdk --where 'packet_size>=512'
  switchmark show --columns switch,packet_size,forwarded_pps_mean,marks
  switchmark show --format csv -o quick.csv
  switchmark show --trials --format json           each repetition

Exit codes:
  0    all records were read
  1    a file could not be read; standard error names it
  2    there is nothing to show, or a name is wrong
"""


class Format(StrEnum):
    """The format of the output."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def show(
    run: RunName = None,
    format: Annotated[
        Format,
        typer.Option(
            "--format",
            "-f",
            help="`table`: the summary (with --full also all tables), or the rows of --columns.",
            rich_help_panel=OUTPUT,
        ),
    ] = Format.TABLE,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write to this file.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            "-w",
            metavar="CONDITION",
            help="Only rows with column=value (also != < <= > >=); can be repeated.",
        ),
    ] = None,
    columns: Annotated[
        str,
        typer.Option(
            "--columns",
            "-c",
            metavar="NAMES",
            help="Print these columns instead of the summary, separated by commas; `help` lists "
            "all.",
        ),
    ] = "",
    trials: Annotated[
        bool,
        typer.Option(
            "--trials", help="Print one row for each repetition, as CSV, JSON or Parquet."
        ),
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Print all tables of the run after the summary.")
    ] = False,
    results: ResultsIn = DEFAULT_ROOT,
    store: StoreAt = None,
    json: Annotated[
        bool, typer.Option("--json", help="The same as --format json.", rich_help_panel=OUTPUT)
    ] = False,
) -> int:
    """Show the results of a run: a summary, or with --full all figures."""
    if columns.strip() == "help":
        print_line("\n".join(export.columns()))
        return 0
    kind = Format.JSON if json else format
    where_found = find_anywhere(run, results, store)
    found = open_run(where_found.directory)
    table = read_table(found.directory)
    problems = (*where_found.problems, *table.problems)
    if trials:
        if where or columns:
            raise UsageError("--trials: takes neither --where nor --columns; filter its output")
        _print_frame(table.frame, Format.CSV if kind is Format.TABLE else kind, output)
        return note_problems(problems)
    rows = summarise(found.directory, table)
    flat = export.where(export.flat_rows(rows), where or [])
    chosen = export.check_columns([c.strip() for c in columns.split(",") if c.strip()])
    if kind is not Format.TABLE:
        _print_frame(_chosen(flat, chosen), kind, output)
    elif output is not None:
        raise UsageError(f"--output {output}: choose --format csv, json or parquet for a file")
    elif chosen:
        print_table(chosen, [[_cell(row[name]) for name in chosen] for row in flat])
    else:
        chosen_keys = {(row["notation"], tuple(row["trial_ids"])) for row in flat}
        chosen_rows = [row for row in rows if (row.notation, row.trial_ids) in chosen_keys]
        print_summary(found, chosen_rows, rows)
        if full:
            print_run(found, chosen_rows, rows)
    return note_problems(problems)


def _chosen(flat: list[dict[str, Any]], chosen: list[str]) -> pl.DataFrame:
    frame = export.frame(flat) if flat else pl.DataFrame({name: [] for name in export.columns()})
    return frame.select(chosen) if chosen else frame


def _print_frame(frame: pl.DataFrame, kind: Format, output: Path | None) -> None:
    if kind is Format.PARQUET:
        if output is None:
            raise UsageError("--format parquet: needs --output FILE")
        with writing("--output", output), atomic_writer(output) as file:
            frame.write_parquet(file)
        return
    if kind is Format.JSON:
        text = json_format.dumps(frame.to_dicts(), indent=2, allow_nan=False) + "\n"
    else:
        buffer = io.BytesIO()
        lists = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.List)]
        frame.with_columns(pl.col(lists).list.join(";")).with_columns(
            pl.col(pl.String).str.replace_all(CONTROLS, "\N{REPLACEMENT CHARACTER}")
        ).write_csv(buffer)
        text = buffer.getvalue().decode()
    if output is None:
        print_line(text.rstrip("\n"))
    else:
        with writing("--output", output):
            write_atomically(output, text)


def _cell(value: Any) -> object:
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return f"{value:.6g}" if isinstance(value, float) else value
