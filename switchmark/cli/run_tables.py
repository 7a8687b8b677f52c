"""A run's rows as tables on the terminal, and the remarks below them.

Each kind of trial has a table of its own; columns that are the same in all rows are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from switchmark import formatting
from switchmark.cli.output import print_line, print_table
from switchmark.cli.run_remarks import print_differences, print_failures, print_marks, print_remarks
from switchmark.model.choices import Dimension
from switchmark.report import words
from switchmark.report.tables import (
    BETWEEN_HOSTS_TITLE,
    QUALITY_TITLE,
    between_hosts_table,
    cpu_table,
    quality_table,
    tails_table,
)
from switchmark.results import export
from switchmark.results.published import published_beside
from switchmark.results.rows import SummaryRow
from switchmark.results.store import Run


def print_run(found: Run, rows: list[SummaryRow], everything: list[SummaryRow]) -> None:
    """Print a run's chosen rows as tables; `everything` holds the baselines they refer to."""
    print_line()
    for dimension in Dimension:
        members = words.of_dimension(rows, dimension)
        if members and dimension is Dimension.THROUGHPUT:
            _print_throughput(members, everything)
        elif members:
            _print_latency(members, everything)
    _print_methods(words.of_methods(rows))
    _print_cost([row for row in rows if row.finished and row.cpu is not None])
    _print_beside(rows, quality_table([row.quality for row in rows]), QUALITY_TITLE)
    between = between_hosts_table([row.between for row in rows])
    _print_beside(rows, between, BETWEEN_HOSTS_TITLE)
    _print_published(found, rows)
    print_differences(rows)
    print_remarks(rows, everything)
    print_marks(rows)
    print_failures(found, rows)


def _print_throughput(rows: list[SummaryRow], everything: list[SummaryRow]) -> None:
    numbers = ["fwd Mpps", "95 % interval", "Gbit/s L2", "offered", "loss", "of wire", "cores"]
    lines = []
    for row in rows:
        loads = row.throughput
        assert loads is not None
        lines.append(
            [
                formatting.number(loads.forwarded_pps.mean / 1e6),
                words.from_to(loads.forwarded_pps, 1e6),
                formatting.number(loads.forwarded_l2_bps.mean / 1e9),
                formatting.number(loads.offered_pps.mean / 1e6),
                formatting.percent(loads.loss_ratio.mean),
                _of_wire(row, everything),
                formatting.number(row.cpu.total_cores)
                if row.cpu and row.cpu.total_cores is not None
                else "",
                *_trust(row),
            ]
        )
    title = "Throughput (forwarded load; frame size with FCS; offered in Mpps)"
    _print_rows(rows, [*numbers, *_TRUST], lines, title, numbers)


def _print_latency(rows: list[SummaryRow], everything: list[SummaryRow]) -> None:
    numbers = [
        "p50 µs", "interval", "p99", "all p90", "all p99", "all p99.9", "max", "all intended p99",
        "lost", "of wire",
    ]  # fmt: skip
    lines = []
    for row in rows:
        rtt = row.latency
        assert rtt is not None
        merged = rtt.percentiles_ns
        lines.append(
            [
                formatting.number(rtt.median_ns.mean / 1e3),
                words.from_to(rtt.median_ns, 1e3),
                formatting.number(rtt.median_p99_ns.mean / 1e3),
                *(formatting.number(merged[name] / 1e3) for name in ("90", "99", "99.9")),
                formatting.number(rtt.max_ns / 1e3),
                formatting.number(late / 1e3)
                if (late := rtt.intended_percentiles_ns.get("99"))
                else "-",
                rtt.lost,
                _of_wire(row, everything),
                *_trust(row),
            ]
        )
    title = (
        "Round-trip time in µs (p50, p99: medians over the repetitions of their own; interval: of "
        "95 % from six repetitions on, else from the smallest to the largest; all: of all their "
        "samples together; intended: from the send time that was due)"
    )
    _print_rows(rows, [*numbers, *_TRUST], lines, title, numbers)
    tails = tails_table(rows)
    title = (
        "Percentiles in µs with 95 % intervals from order statistics (?: too few samples), from "
        "the real send time and from the time due"
    )
    _print_rows(rows, tails.columns, tails.lines, title, tails.columns[1:])


def _print_cost(rows: list[SummaryRow]) -> None:
    if not rows:
        return
    table = cpu_table(rows)
    lines = [
        [row.trial.dimension if row.method is None else row.trial.method, *line]
        for row, line in zip(rows, table.lines, strict=True)
    ]
    title = "Cores used, and what each frame costs (docs/methods.md, CPU cost)"
    _print_rows(rows, ["trial", *table.columns], lines, title, table.columns)


def _print_beside(
    rows: list[SummaryRow], table: tuple[list[str], dict[int, list[str]]], title: str
) -> None:
    """Print what only some rows have: headings, and cells by the row's index."""
    headings, lines = table
    if lines:
        chosen = [rows[index] for index in lines]
        _print_rows(chosen, headings, list(lines.values()), title, headings)


def _print_methods(rows: list[SummaryRow]) -> None:
    """Print searches and series: their figures, what decided them, in how many trials."""
    if not rows:
        return
    lines = []
    for row in rows:
        found = row.method
        assert found is not None
        figures = "; ".join(
            f"{one.name} {words.figure(one.value, one.unit)}" for one in found.figures
        )
        decided = found.decided_by or ", ".join(found.stopped)
        lines.append(
            [row.trial.method, figures or "none", decided, found.trials, f"{found.spent_s:.0f}",
             *_trust(row)]
        )  # fmt: skip
    title = (
        "Methods of many trials (loads are totals; brackets: bounds of a search, or of a time by "
        "two clocks, else 95 % interval)"
    )
    columns = ["method", "found", "decided by", "trials", "s", *_TRUST]
    _print_rows(rows, columns, lines, title, ["trials", "s"])
    for row in rows:
        assert row.method is not None
        notes = [*row.method.notes, *(n for one in row.method.bounds for n in one.notes)]
        for note_text in notes:
            print_line(f"  {row.contender}, {row.trial.method}: {note_text}")
    print_line()


_TRUST = ("n", "limited by", "marks")


def _print_rows(
    rows: list[SummaryRow],
    columns: Sequence[str],
    lines: Sequence[Sequence[object]],
    title: str,
    right: Sequence[str],
) -> None:
    """Print as many lines for each row, and in front of the first of them which row it is."""
    varying = [name for name in words.varying_fields(rows) if name not in columns]
    who: list[list[object]] = []
    for row in rows:
        point = dict(row.point)
        values = ["max" if point[n] is None and n == "rate_pps" else point[n] for n in varying]
        who.append([row.contender, row.trial.packet_size_bytes, *values, row.connect_mode or "-"])
    each = len(lines) // len(rows)
    unsaid = [""] * (3 + len(varying))
    print_table(
        ["switch", "frame B", *varying, "mode", *columns],
        [
            [*(unsaid if number % each else who[number // each]), *line]
            for number, line in enumerate(lines)
        ],
        title=title,
        right=["frame B", *right],
    )
    print_line()


def _trust(row: SummaryRow) -> list[object]:
    marks = ", ".join(row.marks) or "none"
    marks = marks if row.valid else f"NOT VALID: {marks}"
    count = f"{row.finished}" + (f" ({row.failed} failed)" if row.failed else "")
    return [count, ", ".join(row.limited_by), marks]


def _of_wire(row: SummaryRow, everything: list[SummaryRow]) -> str:
    share = export.of_baseline(row, everything)
    if share is None:
        return "-"
    return f"{share:.1f}x" if row.latency is not None else formatting.percent(share)


def _print_published(found: Run, rows: list[SummaryRow]) -> None:
    figures = found.info.parsed_definition.published
    if not figures:
        return
    lines: list[list[object]] = []
    for figure, row, value in published_beside(rows, figures):
        what = ", ".join(f"{name} {value}" for name, value in figure.match.items())
        measured = "not measured" if value is None else formatting.number(value)
        ratio = "-" if value is None or not figure.value else f"{value / figure.value:.2f}"
        contender = row.contender if row else "-"
        lines.append(
            [contender, what, figure.words, figure.text, measured, figure.unit, ratio,
             figure.source]
        )  # fmt: skip
    print_table(
        ["switch", "of", "what", "published", "measured", "unit", "ratio", "source"],
        lines,
        title="Beside published figures (another machine: compare the shape, not the size)",
        right=["published", "measured", "ratio"],
    )
    print_line()
