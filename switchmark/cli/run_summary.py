"""What a run says first: at most 25 lines of 100 columns.

The answer, or the figures where nothing is compared; the warnings that matter most; failures; and
where the rest is. `show --full` prints every table.
"""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.cli.answer_lines import answer_lines, fit
from switchmark.cli.output import print_line
from switchmark.report import words
from switchmark.results.answer import PointAnswer, answer_run
from switchmark.results.marks import MARKS
from switchmark.results.rows import SummaryRow
from switchmark.results.store import Run

MOST_LINES = 25
_MOST_WARNINGS = 3
_MOST_FAILURES = 2


def print_summary(found: Run, rows: Sequence[SummaryRow], everything: Sequence[SummaryRow]) -> None:
    """Print the summary of a run's chosen rows."""
    names = {row.trial.id: row.contender for row in everything}
    chosen = {row.trial.id for row in rows}
    answers = [
        one
        for one in answer_run(found, names)
        if one.leads and {standing.trial.id for standing in one.standings} <= chosen
    ]
    print_line("\n".join(summary_lines(found, rows, everything, answers)))


def summary_lines(
    found: Run,
    rows: Sequence[SummaryRow],
    everything: Sequence[SummaryRow],
    answers: Sequence[PointAnswer],
) -> list[str]:
    """The lines, `MOST_LINES` at most."""
    head = [f"{found.info.campaign}, {found.info.started_at[:19]}Z"]
    if not everything:
        return [*head, "No trial has ended yet."]
    if not rows:
        return [*head, "No row matches."]
    warned = [*_warnings(rows), *_failures(rows)]
    room = MOST_LINES - len(head) - len(warned) - len(_elsewhere(found))
    deciding = [one for one in answers if one.decides and any(lead.ratios for lead in one.leads)]
    body = answer_lines(deciding, room) if deciding else _figures(rows, room)
    return [*(fit(line) for line in (*head, *body, *warned)), *_elsewhere(found)]


def _figures(rows: Sequence[SummaryRow], most: int) -> list[str]:
    """A line a row: what was found, and what limited it; the bare wire last."""
    done = sorted((row for row in rows if row.finished), key=lambda row: row.is_baseline)
    varying = words.varying_fields(done)
    named = [_name(row, varying) for row in done]
    widest = max(map(len, named), default=0)
    lines = [
        f"  {name:<{widest}}  {_figure(row)}{_limit(row)}"
        for name, row in zip(named, done, strict=True)
    ]
    if len(lines) > most:
        lines = [*lines[: most - 1], f"  ... and {len(lines) - most + 1} more rows"]
    return lines


def _name(row: SummaryRow, varying: Sequence[str]) -> str:
    return f"{row.contender}, {words.point(dict(row.point), varying)}"


def _figure(row: SummaryRow) -> str:
    if row.method is not None:
        figures = [f"{one.name} {words.figure(one.value, one.unit)}" for one in row.method.figures]
        return "; ".join(figures[:3]) or "no figure"
    if row.latency is not None:
        tail = words.time_ns(row.latency.percentiles_ns["99"])
        return f"median round trip {words.time_ns(row.latency.p50_ns.mean)}, p99 {tail}"
    assert row.throughput is not None, "a finished row has a figure"
    loads = row.throughput
    lost = words.percent(loads.loss_ratio.mean)
    return f"{words.with_prefix(loads.forwarded_pps.mean, 'pps')} forwarded, {lost} lost"


def _limit(row: SummaryRow) -> str:
    if not row.valid:
        return "; NOT VALID"
    return f"; limited by {', '.join(row.limited_by)}" if row.limited_by else ""


def _warnings(rows: Sequence[SummaryRow]) -> list[str]:
    """The marks that matter most: those that invalidate, then those that most rows bear."""
    done = [row for row in rows if row.finished and not row.is_baseline]
    counts: dict[str, int] = {}
    for row in done:
        for mark in row.marks:
            counts[mark] = counts.get(mark, 0) + 1
    known = [name for name in counts if name in MARKS]
    worst = sorted(known, key=lambda name: (not MARKS[name].invalidates, -counts[name]))
    return [
        f"{'NOT VALID' if MARKS[name].invalidates else 'Mind'}: {name} ({counts[name]} of "
        f"{len(done)}): {MARKS[name].title.lower()}"
        for name in worst[:_MOST_WARNINGS]
    ]


def _failures(rows: Sequence[SummaryRow]) -> list[str]:
    failed = [(row, message) for row in rows for message in row.failures]
    lines = [f"Failed: {row.contender}: {message}" for row, message in failed[:_MOST_FAILURES]]
    more = len(failed) - len(lines)
    return [*lines, *([f"  ... and {more} more failures"] if more > 0 else [])]


def _elsewhere(found: Run) -> list[str]:
    report = found.directory / "report.html"
    where = str(report) if report.exists() else "switchmark report"
    return [f"All figures: switchmark show --full {found.directory}", f"Report: {where}"]
