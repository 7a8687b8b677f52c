"""`switchmark show`: the results of a run as a table, or as csv, json, parquet for programs.

Every row says how far it can be trusted and what limited it; nothing that failed or could
not be read is left unsaid.
"""

from __future__ import annotations

import io
import json as json_format
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer
from pydantic import ValidationError

from switchmark.campaign.model import Dimension, Published
from switchmark.cli.options import ResultsIn
from switchmark.cli.output import note, print_line, print_table, writing
from switchmark.errors import UsageError
from switchmark.results import export, words
from switchmark.results.between_hosts_table import BETWEEN_HOSTS_TITLE, between_hosts_table
from switchmark.results.export import remarks
from switchmark.results.marks import MARKS
from switchmark.results.quality_table import QUALITY_TITLE, quality_table
from switchmark.results.query import Table, read_table
from switchmark.results.ranking import compare
from switchmark.results.rows import SummaryRow
from switchmark.results.statistics import METHOD
from switchmark.results.store import DEFAULT_ROOT, Run, find_run, open_run
from switchmark.results.summary import summarise
from switchmark.results.tables import cpu_table, tails_table

EPILOG = """
Examples:
  switchmark show                                  the latest run
  switchmark show quick                            the latest run of a campaign
  switchmark show results/quick-20260131T120000Z-1f2e3d
  switchmark show --where switch=ovs-dpdk --where 'packet_size>=512'
  switchmark show --columns switch,packet_size,forwarded_pps_mean,marks
  switchmark show --format csv -o quick.csv
  switchmark show --trials --format json           every repetition by itself

Exit codes: 0 all read; 1 a file could not be read (its line is on standard error);
2 nothing to show, or a wrong name.
"""


class Format(StrEnum):
    """How to print."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def show(
    run: Annotated[
        str | None,
        typer.Argument(help="A results directory, a campaign, or `latest` (the default)."),
    ] = None,
    format: Annotated[Format, typer.Option("--format", "-f", help="How to print.")] = Format.TABLE,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", "-w", help="Only rows with column=value (also != < <= > >=)."),
    ] = None,
    columns: Annotated[
        str, typer.Option("--columns", "-c", help="Columns, with commas; `help` names them all.")
    ] = "",
    trials: Annotated[
        bool, typer.Option("--trials", help="One row a repetition, not drawn together.")
    ] = False,
    results: ResultsIn = DEFAULT_ROOT,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> int:
    """Show what a run found: loads, latency, confidence, trust marks, limits, failures."""
    if columns.strip() == "help":
        print_line("\n".join(export.columns()))
        return 0
    kind = Format.JSON if json else format
    found = open_run(find_run(run, results))
    table = read_table(found.directory)
    if trials:
        if where or columns:
            raise UsageError("--trials: takes neither --where nor --columns; filter its output")
        _print_frame(table.frame, Format.CSV if kind is Format.TABLE else kind, output)
        return _report_problems(table)
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
        kept = {(row["notation"], tuple(row["trial_ids"])) for row in flat}
        print_run(found, [row for row in rows if (row.notation, row.trial_ids) in kept], rows)
    return _report_problems(table)


def _report_problems(table: Table) -> int:
    for line in table.problems:
        note(f"switchmark: {line}")
    return 1 if table.problems else 0


def _chosen(flat: list[dict[str, Any]], chosen: list[str]) -> pl.DataFrame:
    frame = export.frame(flat) if flat else pl.DataFrame({name: [] for name in export.columns()})
    return frame.select(chosen) if chosen else frame


def _print_frame(frame: pl.DataFrame, kind: Format, output: Path | None) -> None:
    if kind is Format.PARQUET:
        if output is None:
            raise UsageError("--format parquet: needs --output FILE")
        with writing("--output", output):
            frame.write_parquet(output)
        return
    if kind is Format.JSON:
        text = json_format.dumps(frame.to_dicts(), indent=2, allow_nan=False) + "\n"
    else:
        buffer = io.BytesIO()
        lists = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.List)]
        frame.with_columns(pl.col(lists).list.join(";")).write_csv(buffer)
        text = buffer.getvalue().decode()
    if output is None:
        print_line(text.rstrip("\n"))
    else:
        with writing("--output", output):
            output.write_text(text)


def print_run(found: Run, rows: list[SummaryRow], everything: list[SummaryRow]) -> None:
    """Print a run's chosen rows as tables; `everything` holds the baselines they refer to."""
    print_line(f"{found.info.campaign}, {found.info.started_at[:19]}Z, {found.directory}\n")
    for dimension in Dimension:
        members = words.of_dimension(rows, dimension)
        if members and dimension is Dimension.THROUGHPUT:
            _print_throughput(members, everything)
        elif members:
            _print_latency(members, everything)
    print_methods(words.of_methods(rows))
    _print_cost([row for row in rows if row.finished and row.cpu is not None])
    _print_quality(rows)
    between = between_hosts_table([row.between for row in rows])
    _print_beside(rows, between, BETWEEN_HOSTS_TITLE)
    _print_published(found, rows)
    _print_differences(rows)
    _print_remarks(rows, everything)
    _print_marks(rows)
    _print_failures(found, rows)
    if not everything:
        print_line("No trial has ended yet.")
    elif not rows:
        print_line("No row matches.")


def _print_throughput(rows: list[SummaryRow], everything: list[SummaryRow]) -> None:
    varying = words.varying_fields(rows)
    columns = ["switch", "frame B", *(name for name in varying), "mode"]
    numbers = ["fwd Mpps", "±95 %", "Gbit/s L2", "offered", "loss", "of wire", "cores"]
    lines = []
    for row in rows:
        loads = row.throughput
        assert loads is not None
        lines.append(
            [
                *_who(row, varying),
                words.number(loads.forwarded_pps.mean / 1e6),
                words.plus_minus(loads.forwarded_pps, 1e6),
                words.number(loads.forwarded_l2_bps.mean / 1e9),
                words.number(loads.offered_pps.mean / 1e6),
                words.percent(loads.loss_ratio.mean),
                _of_wire(row, everything),
                words.number(row.cpu.total_cores)
                if row.cpu and row.cpu.total_cores is not None
                else "",
                *_trust(row),
            ]
        )
    title = "Throughput (forwarded load; frame size with FCS; offered in Mpps)"
    print_table([*columns, *numbers, *_TRUST], lines, title=title, right=["frame B", *numbers])
    print_line()


def _print_latency(rows: list[SummaryRow], everything: list[SummaryRow]) -> None:
    varying = words.varying_fields(rows)
    numbers = ["p50 µs", "±95 %", "p90", "p99", "p99.9", "max", "intended p99", "lost", "of wire"]
    lines = []
    for row in rows:
        rtt = row.latency
        assert rtt is not None
        merged = rtt.percentiles_ns
        lines.append(
            [
                *_who(row, varying),
                words.number(rtt.p50_ns.mean / 1e3),
                words.plus_minus(rtt.p50_ns, 1e3),
                *(words.number(merged[name] / 1e3) for name in ("90", "99", "99.9")),
                words.number(rtt.max_ns / 1e3),
                words.number(rtt.intended_percentiles_ns["99"] / 1e3),
                rtt.lost,
                _of_wire(row, everything),
                *_trust(row),
            ]
        )
    columns = ["switch", "frame B", *varying, "mode", *numbers, *_TRUST]
    title = (
        "Round-trip time in µs (p50: mean of the repetitions' medians; the others: of all their "
        "samples together; intended: from the send time that was due)"
    )
    print_table(columns, lines, title=title, right=["frame B", *numbers])
    print_line()
    _print_tails(rows, varying)


def _print_tails(rows: list[SummaryRow], varying: list[str]) -> None:
    table = tails_table(rows)
    unsaid = [""] * (3 + len(varying))
    who = [cells for row in rows for cells in (_who(row, varying), unsaid)]
    lines = [[*cells, *line] for cells, line in zip(who, table.lines, strict=True)]
    print_table(
        ["switch", "frame B", *varying, "mode", *table.columns],
        lines,
        title="Percentiles in µs with 95 % intervals from order statistics (?: too few samples), "
        "from the real send time and from the time due",
        right=["frame B", *table.columns[1:]],
    )
    print_line()


def _print_cost(rows: list[SummaryRow]) -> None:
    if not rows:
        return
    varying = words.varying_fields(rows)
    table = cpu_table(rows)
    lines = [
        [*_who(row, varying), row.trial.dimension.value if row.method is None
         else row.trial.method.value, *line]
        for row, line in zip(rows, table.lines, strict=True)
    ]  # fmt: skip
    print_table(
        ["switch", "frame B", *varying, "mode", "trial", *table.columns],
        lines,
        title="Cores used, and what each frame costs (docs/methods.md, CPU cost)",
        right=["frame B", *table.columns],
    )
    print_line()


def _print_quality(rows: list[SummaryRow]) -> None:
    _print_beside(rows, quality_table([row.quality for row in rows]), QUALITY_TITLE)


def _print_beside(
    rows: list[SummaryRow], table: tuple[list[str], dict[int, list[str]]], title: str
) -> None:
    """What only some rows have: headings, and cells by the row's index."""
    headings, lines = table
    if not lines:
        return
    varying = words.varying_fields([rows[index] for index in lines])
    print_table(
        ["switch", "frame B", *varying, "mode", *headings],
        [[*_who(rows[index], varying), *cells] for index, cells in lines.items()],
        title=title,
        right=["frame B", *headings],
    )
    print_line()


def print_methods(rows: list[SummaryRow]) -> None:
    """Searches and series: their figures, who decided, in how many trials."""
    if not rows:
        return
    varying = [name for name in words.varying_fields(rows) if name != "method"]
    lines = []
    for row in rows:
        found = row.method
        assert found is not None
        figures = "; ".join(
            f"{one.name} {words.figure(one.value, one.unit)}" for one in found.figures
        )
        decided = found.decided_by or ", ".join(found.stopped)
        lines.append(
            [*_who(row, varying), row.trial.method, figures or "none", decided, found.trials,
             f"{found.spent_s:.0f}", *_trust(row)]
        )  # fmt: skip
    columns = [
        "switch",
        "frame B",
        *varying,
        "mode",
        "method",
        "found",
        "decided by",
        "trials",
        "s",
    ]
    print_table([*columns, *_TRUST], lines, title="Methods of many trials (loads are totals; "
                "brackets: bounds of a search, or of a time by two clocks, else 95 % interval)",
                right=["frame B", "trials", "s"])  # fmt: skip
    for row in rows:
        assert row.method is not None
        notes = [*row.method.notes, *(n for one in row.method.bounds for n in one.notes)]
        for note_text in notes:
            print_line(f"  {row.contender}, {row.trial.method}: {note_text}")
    print_line()


_TRUST = ("n", "limited by", "marks")


def _who(row: SummaryRow, varying: list[str]) -> list[object]:
    point = dict(row.point)
    values = ["max" if point[n] is None and n == "rate_pps" else point[n] for n in varying]
    return [row.contender, row.trial.packet_size_bytes, *values, row.connect_mode or "-"]


def _trust(row: SummaryRow) -> list[object]:
    marks = ", ".join(row.marks) or "none"
    marks = marks if row.valid else f"NOT VALID: {marks}"
    count = f"{row.finished}" + (f" ({row.failed} failed)" if row.failed else "")
    return [count, ", ".join(row.limited_by), marks]


def _of_wire(row: SummaryRow, everything: list[SummaryRow]) -> str:
    share = export.of_baseline(row, everything)
    if share is None:
        return "-"
    return f"{share:.1f}x" if row.latency is not None else words.percent(share)


def _print_published(found: Run, rows: list[SummaryRow]) -> None:
    try:
        figures = [Published.model_validate(p) for p in found.info.definition.get("published", [])]
    except ValidationError as error:
        raise UsageError(f"{found.directory}/run.json: published: {error}") from error
    if not figures:
        return
    lines: list[list[object]] = []
    for figure, row, value in export.published_beside(rows, figures):
        what = ", ".join(f"{name} {value}" for name, value in figure.match.items())
        measured = "not measured" if value is None else words.number(value)
        ratio = "-" if value is None or not figure.value else f"{value / figure.value:.2f}"
        contender = row.contender if row else "-"
        lines.append(
            [contender, what, f"{figure.value:g}", measured, figure.unit, ratio, figure.source]
        )
    print_table(
        ["switch", "of", "published", "measured", "unit", "ratio", "source"],
        lines,
        title="Beside published figures (another machine: compare the shape, not the size)",
        right=["published", "measured", "ratio"],
    )
    print_line()


def _print_differences(rows: list[SummaryRow]) -> None:
    comparisons = [one for one in compare(rows) if one.others]
    if not comparisons:
        return
    print_line("Differences from the best at each point:")
    for one in comparisons:
        alike = [other.best for other in comparisons]
        alike = words.of_dimension(alike, one.best.trial.dimension)
        what = "throughput" if one.best.throughput else "median round trip"
        where = words.point(dict(one.point), words.varying_fields(alike))
        best = f"  {what}, {where}: {one.best.contender} before "
        print_line(
            best
            + "; ".join(
                f"{row.contender} by {words.number(difference.ratio)}x ({difference.note})"
                for row, difference in one.others
            )
        )
    print_line(f"  {METHOD}\n")


def _print_remarks(rows: list[SummaryRow], everything: list[SummaryRow]) -> None:
    told = [f"  {row.notation}: {remark}" for row in rows for remark in remarks(row, everything)]
    if told:
        print_line("Outliers, bands, unsteady runs (nothing is left out of the figures above):")
        print_line("\n".join(told) + "\n")


def _print_marks(rows: list[SummaryRow]) -> None:
    names = dict.fromkeys(mark for row in rows for mark in row.marks)
    if names:
        print_line("Trust marks:")
    for name in names:
        print_line(f"  {name}: {MARKS[name].explanation if name in MARKS else 'see the record'}")


def _print_failures(found: Run, rows: list[SummaryRow]) -> None:
    failed = [row for row in rows if row.failures]
    if failed:
        print_line("\nFailed trials:")
    for row in failed:
        for message in row.failures:
            print_line(f"  {row.notation}: {message}")
    repaired = found.earlier_failures()
    if repaired:
        print_line(f"\n{len(repaired)} earlier failure(s) were run again; the records are kept.")


def _cell(value: Any) -> object:
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return f"{value:.6g}" if isinstance(value, float) else value
