"""The first lines about a run, on the terminal and in the report: comparison results, or figures if
nothing can be compared; every warning, the most serious first; failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from switchmark.formatting import format_ns, percent, printable, with_prefix
from switchmark.model.choices import Dimension
from switchmark.model.workload import BITS
from switchmark.record.marks import MARKS
from switchmark.report import answer_words, words
from switchmark.report.answer_words import PointWords
from switchmark.results.answer import PointAnswer, answer_run
from switchmark.results.certified import certified, of_rows
from switchmark.results.findings import findings_of
from switchmark.results.function_share import share_sentences, shares_of
from switchmark.results.rows import SummaryRow
from switchmark.results.run_directory import Run
from switchmark.switch.registry import usual_overhead_s

MOST_LINES = 40
_MOST_ROWS = 60
_HEAD_LINES = 4  # the head, the certificate and the commands
_MOST_FAILURES = 3
_LONGEST_MESSAGE = 1000  # characters of a message of failed trials; `--full` has all
NOT_VALID, CAUTION, FAILED = "NOT VALID", "Caution", "Failed"
# Marks of a figure that describes something else than it seems to, the most serious first. They
# stand before marks that only limit the use of a right figure.
_SERIOUS = (
    "function-violated", "noise-decided", "out-of-budget", "two-bands", "counters-disagree",
    "uncertain-loss",
    "copied-frames", "lossy-receiver-socket", "disturbed", "throttled", "unstable",
    "generator-bound", "receiver-bound", "receiver-away", "schedule-missed", "short-window",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Summary:
    """The first lines about a run. Of points, sentences and rows only one kind is present."""

    head: str  # campaign and time
    nothing: str  # the reason why there is nothing to show; otherwise empty
    heading: str  # the rule for the comparison results; empty if nothing is compared
    explanation: str  # why a ratio differs from the figures above it; usually empty
    estimators: str  # which figure over repetitions the rows give; empty if each has one repetition
    points: tuple[PointWords, ...]  # a line for each contender, while there is room
    sentences: tuple[str, ...]  # otherwise a sentence for each point
    rows: tuple[tuple[str, str], ...]  # name and figure of each row, if there are no pairs
    shares: tuple[str, ...]  # the cost of network functions, a sentence for each scale
    findings: tuple[str, ...]  # statements of the literature, each with its verdict
    untested: tuple[str, ...]  # the reasons why these rows could not be compared
    warned: tuple[str, ...]
    certified: str  # whether the figures are certified on this machine
    further_s: float  # that would decide what is undecided; 0 if nothing is
    further_blocks: int
    undecided_below: int  # pairs without the best contender that this time would decide
    room: int  # lines for the points, sentences or rows, and their heading


def answers_of(
    run: Run, rows: Sequence[SummaryRow], everything: Sequence[SummaryRow]
) -> list[PointAnswer]:
    """The comparison results of the chosen rows; `everything` gives the names."""
    names = {row.trial.id: row.contender for row in everything}
    chosen = {row.trial.id for row in rows}
    return answer_words.by_scale(
        [
            answer
            for answer in answer_run(run, names, usual_overhead_s)
            if answer.leads and {ranked.trial.id for ranked in answer.ranking} <= chosen
        ]
    )


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
    untested = () if deciding else tuple(answer_words.untested(answers))
    explanation = answer_words.explanation(deciding)
    around = _HEAD_LINES + len(warned) + len(untested) + bool(estimators) + bool(explanation)
    room = max(MOST_LINES // 2, MOST_LINES - around)
    each = answer_words.fits_by_contender(deciding, room)
    return Summary(
        head=f"{printable(run.info.campaign)}, {run.info.started_at[:19]}Z",
        nothing=nothing,
        heading=answer_words.heading(deciding) if deciding else "",
        explanation=explanation,
        estimators=estimators,
        points=tuple(answer_words.by_contender(one, deciding) for one in deciding if each),
        sentences=tuple(answer_words.by_point(one, deciding) for one in deciding if not each),
        rows=() if deciding else tuple(_rows(rows)),
        shares=tuple(share_sentences(shares_of(run, rows))),
        findings=tuple(one.words for one in findings_of(run, rows)),
        untested=untested,
        warned=warned,
        certified=certified(of_rows(rows)),
        further_s=answer_words.further_s(deciding),
        further_blocks=answer_words.further_blocks(deciding),
        undecided_below=answer_words.undecided_below(deciding),
        room=room if deciding else _MOST_ROWS,
    )


def _rows(rows: Sequence[SummaryRow]) -> list[tuple[str, str]]:
    """A line for each row, baselines last: its figure, and what limited it. Fields are left out
    that only separate throughput from latency, or contenders from baselines."""
    done = sorted((row for row in rows if row.finished), key=lambda row: row.is_baseline)
    kinds: dict[tuple[bool, Dimension], list[SummaryRow]] = {}
    for row in done:
        kinds.setdefault((row.is_baseline, row.trial.dimension), []).append(row)
    varying = {kind: words.varying_fields(alike) for kind, alike in kinds.items()}
    named = _baseline_names([row for row in done if row.is_baseline])
    return [
        (
            f"{named.get(row.trial.id, row.contender)}, {words.point(dict(row.point), names)}",
            f"{_figure(row)}{_limit(row)}",
        )
        for row in done
        for names in (varying[row.is_baseline, row.trial.dimension],)
    ]


def _baseline_names(rows: Sequence[SummaryRow]) -> dict[str, str]:
    """The names of baselines by trial, with the ports, I/O and cores that vary among them."""
    facts = {
        row.trial.id: (
            str(row.port_kind or ""),
            str(row.io or ""),
            "both ends on one core" if row.oversubscribed else "each end on its own core",
        )
        for row in rows
    }
    varying = [len({fact[at] for fact in facts.values()}) > 1 for at in range(3)]
    if varying[0]:
        varying[1] = len({fact[:2] for fact in facts.values()}) > len(
            {f[0] for f in facts.values()}
        )
    names = {}
    for trial, fact in facts.items():
        more = [word for word, varies in zip(fact, varying, strict=True) if word and varies]
        names[trial] = f"baseline ({', '.join(more)})" if more else "baseline"
    return names


def _estimators(rows: Sequence[SummaryRow]) -> str:
    """Name the figure over its repetitions that a row gives; empty if no row has two."""
    repeated = [row for row in rows if row.finished > 1]
    if not repeated:
        return ""
    parts = []
    if any(row.latency is None for row in repeated):
        parts.append("loads and searches are means with 95 % intervals")
    if any(row.latency is not None for row in repeated):
        few = any(row.latency.median_ns.is_range for row in repeated if row.latency is not None)
        interval = "their range" if few else "95 % intervals"
        parts.append(f"times are medians with {interval}")
    most = max(row.finished for row in repeated)
    up_to = "up to " if len({row.finished for row in rows}) > 1 else ""
    return f"Over {up_to}{most} repetitions, {' and '.join(parts)}:"


def _figure(row: SummaryRow) -> str:
    if row.method is not None:
        return "; ".join(map(words.named, row.method.figures[:3])) or _no_figure(row)
    if row.latency is not None:
        tail = format_ns(row.latency.median_p99_ns.mean)
        return f"median round trip {words.figure(row.latency.median_ns, 'ns')}, p99 {tail}"
    if row.transfer is not None:
        transfer = row.transfer
        lost = transfer.loss_ratio.mean
        how = "lost" if transfer.unit == BITS else "without an answer"
        missing = f", {percent(lost)} {how}" if lost else ""
        return f"{words.figure(transfer.completed_per_s, transfer.unit)}{missing}"
    assert row.throughput is not None, "a finished row has a figure"
    loads = row.throughput
    share = percent(loads.loss_ratio.mean)
    return f"{words.figure(loads.forwarded_pps, 'pps')} forwarded, {share} lost"


def _no_figure(row: SummaryRow) -> str:
    """The reason why a search has no figure."""
    assert row.method is not None
    if any(bound.decided_by == "cores" for bound in row.method.bounds):
        return "no figure: other programs used the cores of the applications or the switch"
    too_much = [bound.upper_pps for bound in row.method.bounds if bound.upper_pps is not None]
    if too_much:
        lowest = with_prefix(min(too_much), "pps")
        return f"no figure: even {lowest}, the lowest load tried, lost frames"
    return "no figure"


def _limit(row: SummaryRow) -> str:
    if not row.valid:
        return f"; {NOT_VALID}"
    limits = [limit for limit in row.limited_by if limit != "unknown"]
    return f"; limited by {', '.join(limits)}" if limits else ""


def _warnings(rows: Sequence[SummaryRow]) -> list[str]:
    """A line for each mark, the most serious first, with its meaning and the number of rows. Marks
    that only baselines have share the last line."""
    done = [row for row in rows if row.finished]
    judged = [row for row in done if not row.is_baseline] or done
    counts = Counter(mark for row in judged for mark in row.marks)
    lines = []
    for name in sorted(counts, key=lambda name: (*seriousness(name), -counts[name], name)):
        kind = NOT_VALID if name in MARKS and MARKS[name].invalidates else CAUTION
        share = f" ({counts[name]} of {len(judged)} rows)" if len(judged) > 1 else ""
        meaning = f": {_lower_first(MARKS[name].title)}" if name in MARKS else ""
        lines.append(f"{kind}: {name}{share}{meaning}")
    others = Counter(mark for row in done if row.is_baseline for mark in row.marks)
    alone = {name: count for name, count in others.items() if name not in counts}
    if alone:
        texts = [f"{name} ({count})" for name, count in alone.items()]
        noun = "row" if sum(row.is_baseline for row in done) == 1 else "rows"
        lines.append(f"{CAUTION}: baseline {noun}: {', '.join(texts)}")
    return lines


def seriousness(mark: str) -> tuple[bool, int]:
    """A key that sorts marks, the most serious first."""
    usable = not (mark in MARKS and MARKS[mark].invalidates)
    return usable, _SERIOUS.index(mark) if mark in _SERIOUS else len(_SERIOUS)


def _lower_first(text: str) -> str:
    """The text with a small first letter, unless it begins with an abbreviation."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def _failures(rows: Sequence[SummaryRow]) -> list[str]:
    """A line for each message of failed trials, with the contenders; messages that do not fit are
    counted."""
    gone = {row.contender for row in rows if row.left_out}  # named above, with the reason
    failed: dict[str, list[str]] = {}
    for row in rows:
        if row.finished or row.contender not in gone:
            for message in row.failures:
                failed.setdefault(message, []).append(row.contender)
    most = sorted(failed, key=lambda message: -len(failed[message]))
    lines = []
    for text in most[:_MOST_FAILURES]:
        fault = text.removeprefix(f"{failed[text][0]}: ")  # some messages begin with the switch
        lines.append(f"{FAILED}: {_failed(failed[text])}: {_shortened(fault)}")
    more = sum(len(failed[text]) for text in most[_MOST_FAILURES:])
    if more:
        lines.append(f"{FAILED}: {more} more {'trial' if more == 1 else 'trials'}, by other faults")
    return lines


def _shortened(message: str) -> str:
    """Return the message of a failed trial in one line of limited length."""
    line = " ".join(message.split())
    return line if len(line) <= _LONGEST_MESSAGE else f"{line[:_LONGEST_MESSAGE]} ..."


def _failed(contenders: Iterable[str]) -> str:
    """The contenders, with the number of failed trials of each that failed more than once."""
    counts = Counter(contenders)
    return ", ".join(
        f"{name} ({count} trials)" if count > 1 else name for name, count in counts.items()
    )
