"""The first words about a run, on the terminal and in the report: the answer, or the figures where
nothing is compared; the most important warnings; failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from switchmark.formatting import format_ns, percent
from switchmark.model.choices import Dimension
from switchmark.record.marks import MARKS
from switchmark.report import answer_words, words
from switchmark.report.answer_words import PointWords
from switchmark.results.answer import PointAnswer, answer_run
from switchmark.results.certified import certified, of_rows
from switchmark.results.rows import SummaryRow
from switchmark.results.store import Run
from switchmark.switch.registry import usual_overhead_s

MOST_LINES = 25
_AROUND = 4  # of them: the head, whether it is certified, and where the rest is
_MOST_WARNINGS = 3
_MOST_FAILURES = 2


@dataclass(frozen=True, slots=True)
class Summary:
    """The first words about a run. Of points, sentences and rows only one kind is there."""

    head: str  # campaign and time
    nothing: str  # why there is nothing to say; else empty
    heading: str  # what the answers rest on; empty where nothing is compared
    estimators: str  # which figure over repetitions the rows give; empty: each has one
    points: tuple[PointWords, ...]  # a line a contender, where there is room
    sentences: tuple[str, ...]  # else one a point
    rows: tuple[tuple[str, str], ...]  # where nothing is compared: what was measured, and found
    warned: tuple[str, ...]
    certified: str  # whether the instruments were
    room: int  # lines for the points, sentences or rows, and their heading


def answers_of(
    run: Run, rows: Sequence[SummaryRow], everything: Sequence[SummaryRow]
) -> list[PointAnswer]:
    """The answers in which only the chosen rows take part; `everything` gives the names."""
    names = {row.trial.id: row.contender for row in everything}
    chosen = {row.trial.id for row in rows}
    return [
        one
        for one in answer_run(run, names, usual_overhead_s)
        if one.leads and {ranked.trial.id for ranked in one.ranking} <= chosen
    ]


def summarise_in_words(
    run: Run,
    rows: Sequence[SummaryRow],
    everything: Sequence[SummaryRow],
    answers: Sequence[PointAnswer],
) -> Summary:
    """The summary of a run's chosen rows."""
    nothing = "" if rows else "No row matches." if everything else "No trial has ended yet."
    warned = (*_warnings(rows), *words.left_out(rows), *_failures(rows))
    deciding = answer_words.deciding(answers)
    estimators = "" if deciding else _estimators(rows)
    room = MOST_LINES - _AROUND - len(warned) - bool(estimators)
    each = answer_words.fits_by_contender(deciding, room)
    return Summary(
        head=f"{run.info.campaign}, {run.info.started_at[:19]}Z",
        nothing=nothing,
        heading=answer_words.heading(deciding) if deciding else "",
        estimators=estimators,
        points=tuple(answer_words.by_contender(one, deciding) for one in deciding if each),
        sentences=tuple(answer_words.by_point(one, deciding) for one in deciding if not each),
        rows=() if deciding else tuple(_rows(rows)),
        warned=warned,
        certified=certified(of_rows(rows)),
        room=room,
    )


def _rows(rows: Sequence[SummaryRow]) -> list[tuple[str, str]]:
    """A line for each row: its figure, and what limited it; the bare wire last. What tells only
    throughput from latency, or contenders from the wire, goes without saying."""
    done = sorted((row for row in rows if row.finished), key=lambda row: row.is_baseline)
    kinds: dict[tuple[bool, Dimension], list[SummaryRow]] = {}
    for row in done:
        kinds.setdefault((row.is_baseline, row.trial.dimension), []).append(row)
    varying = {kind: words.varying_fields(alike) for kind, alike in kinds.items()}
    return [
        (f"{row.contender}, {words.point(dict(row.point), names)}", f"{_figure(row)}{_limit(row)}")
        for row in done
        for names in (varying[row.is_baseline, row.trial.dimension],)
    ]


def _estimators(rows: Sequence[SummaryRow]) -> str:
    """Say which figure over its repetitions a row gives; empty if no row has two."""
    repeated = [row for row in rows if row.finished > 1]
    if not repeated:
        return ""
    parts = []
    if any(row.latency is None for row in repeated):
        parts.append("loads and searches are means with 95 % intervals")
    if any(row.latency is not None for row in repeated):
        few = any(row.latency.median_ns.is_range for row in repeated if row.latency is not None)
        what = "their range" if few else "95 % intervals"
        parts.append(f"times are medians with {what}")
    most = max(row.finished for row in repeated)
    up_to = "up to " if len({row.finished for row in rows}) > 1 else ""
    return f"Over {up_to}{most} repetitions, {' and '.join(parts)}"


def _figure(row: SummaryRow) -> str:
    if row.method is not None:
        return "; ".join(map(words.named, row.method.figures[:3])) or "no figure"
    if row.latency is not None:
        tail = format_ns(row.latency.median_p99_ns.mean)
        return f"median round trip {words.figure(row.latency.median_ns, 'ns')}, p99 {tail}"
    assert row.throughput is not None, "a finished row has a figure"
    loads = row.throughput
    lost = percent(loads.loss_ratio.mean)
    return f"{words.figure(loads.forwarded_pps, 'pps')} forwarded, {lost} lost"


def _limit(row: SummaryRow) -> str:
    if not row.valid:
        return "; NOT VALID"
    return f"; limited by {', '.join(row.limited_by)}" if row.limited_by else ""


def _warnings(rows: Sequence[SummaryRow]) -> list[str]:
    """The most important marks: those that invalidate, then those that most rows have."""
    done = [row for row in rows if row.finished and not row.is_baseline]
    counts = Counter(mark for row in done for mark in row.marks)
    known = [name for name in counts if name in MARKS]
    worst = sorted(known, key=lambda name: (not MARKS[name].invalidates, -counts[name]))
    return [
        f"{'NOT VALID' if MARKS[name].invalidates else 'Mind'}: {name} ({counts[name]} of "
        f"{len(done)}): {MARKS[name].title.lower()}"
        for name in worst[:_MOST_WARNINGS]
    ]


def _failures(rows: Sequence[SummaryRow]) -> list[str]:
    gone = {row.contender for row in rows if row.left_out}  # named above, with the reason
    failed = [
        (row, message)
        for row in rows
        if row.finished or row.contender not in gone
        for message in row.failures
    ]
    lines = [f"Failed: {row.contender}: {message}" for row, message in failed[:_MOST_FAILURES]]
    more = len(failed) - len(lines)
    return [*lines, *([f"  ... and {more} more failures"] if more > 0 else [])]
