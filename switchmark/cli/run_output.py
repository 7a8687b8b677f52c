"""A run on the terminal: the first lines about it, in the words of report/summary_words.py, and its
rows as tables with remarks below them.

`run`, `trial` and `show` print the first lines, `show --full` also the tables. Each kind of trial
has a separate table; columns that are the same in all rows are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from switchmark import formatting
from switchmark.campaign.find import builtin_names
from switchmark.cli.output import (
    Line,
    Tone,
    command_lines,
    print_line,
    print_lines,
    print_remark,
    print_table,
    program_name,
    text_width,
    wrapped,
)
from switchmark.formatting import format_duration
from switchmark.host import place
from switchmark.host.place import Facility
from switchmark.language import values
from switchmark.model.choices import MAX_TIME_S, Dimension
from switchmark.model.workload import BITS
from switchmark.record.marks import MARKS
from switchmark.report import words
from switchmark.report.answer_words import ContenderWords, PointWords
from switchmark.report.summary_words import (
    CAUTION,
    FAILED,
    NOT_VALID,
    Summary,
    answers_of,
    seriousness,
    summarise_in_words,
)
from switchmark.report.tables import (
    BETWEEN_HOSTS_TITLE,
    FUNCTION_TITLE,
    between_hosts_table,
    cpu_table,
    function_table,
    quality_table,
    quality_title,
    tails_table,
)
from switchmark.results import DEFAULT_ROOT, export
from switchmark.results.answer import LeadVerdict, PointAnswer
from switchmark.results.certified import HOW
from switchmark.results.export import remarks
from switchmark.results.find import list_runs
from switchmark.results.published import published_beside
from switchmark.results.rows import SummaryRow
from switchmark.results.run_directory import Run
from switchmark.results.transfer_summary import COSTS, TransferSummary
from switchmark.statistics.paired import MIN_PAIRS

_SHORTEST_BUDGET_S = 120  # from here on budgets are given in whole minutes
_TONES = {NOT_VALID: Tone.NOT_VALID, CAUTION: Tone.CAUTION, FAILED: Tone.FAILED}
_DETAILS = "Meaning of the marks: docs/results.md, or `{} show --full`"


def print_summary(
    found: Run,
    rows: Sequence[SummaryRow],
    everything: Sequence[SummaryRow],
    campaign: str | None = None,
    *,
    is_measured_here: bool = False,
) -> None:
    """Print the summary of a run's chosen rows; `campaign` is the argument of the `run` command, if
    that is known, and `is_measured_here` if the run has ended just now."""
    answers = answers_of(found, rows, everything)
    lines = summary_lines(
        found, rows, everything, answers, campaign, is_measured_here=is_measured_here
    )
    print_lines(lines)


def summary_lines(
    found: Run,
    rows: Sequence[SummaryRow],
    everything: Sequence[SummaryRow],
    answers: Sequence[PointAnswer],
    campaign: str | None = None,
    *,
    is_measured_here: bool = False,
) -> list[Line]:
    """The lines of the summary, none wider than the screen."""
    summary = summarise_in_words(found, rows, everything, answers)
    if summary.nothing:
        return [Line(summary.head), Line(summary.nothing)]
    body = _results(summary) if summary.heading else _figures(summary)
    warned = [line for text in summary.warned for line in wrapped(text, tone=_tone_of(text))]
    return [
        Line(summary.head, Tone.HEADING),
        *body,
        *(line for text in (*summary.shares, *summary.findings) for line in wrapped(text, 0, 4)),
        *warned,
        *(wrapped(_DETAILS.format(program_name())) if any(row.marks for row in rows) else []),
        *_certificate(found, summary, is_measured_here=is_measured_here),
        *_decide(found, summary, rows, campaign),
        *_elsewhere(found),
    ]


def _tone_of(text: str) -> Tone:
    return _TONES.get(text.partition(":")[0], Tone.PLAIN)


def _results(summary: Summary) -> Iterator[Line]:
    """The comparison results in as many lines as there is room for."""
    yield from wrapped(summary.heading)
    lines = [line for point in summary.points for line in _point(point)]
    lines += [line for text in summary.sentences for line in wrapped(text, 2, 6)]
    yield from lines
    if summary.explanation:
        yield from wrapped(summary.explanation)


def _point(point: PointWords) -> Iterator[Line]:
    """A heading, and a line for each contender, the best first."""
    yield from wrapped(point.title, 2, 6)
    names = max(len(line.contender) for line in point.lines)
    amounts = max(len(line.amount) for line in point.lines)
    for line in point.lines:
        text = f"{line.place}. {line.contender:<{names}}  {line.amount:>{amounts}}"
        if len(text) + 4 > text_width():
            text = f"{line.place}. {line.contender}  {line.amount}"
        beside = len(f"    {text}  ")
        if not line.lead:
            yield from wrapped(text, 4, 9, Tone.PLAIN)
        elif beside + len(line.lead) <= text_width():
            yield Line(f"    {text}  {line.lead}", _tone_of_lead(line))
        else:
            yield from wrapped(text, 4, 9)
            yield from wrapped(line.lead, 7, 9, _tone_of_lead(line))


def _tone_of_lead(line: ContenderWords) -> Tone:
    return Tone.PROVEN if line.verdict is LeadVerdict.AHEAD else Tone.PLAIN


def _figures(summary: Summary) -> list[Line]:
    """Each row in one line, or in more if it is wider, then the reasons why they
    could not be compared."""
    width = text_width()
    names = max((len(name) for name, _ in summary.rows), default=0)
    figures = max((len(text) for _, text in summary.rows), default=0)
    column = max(0, min(names, width - len("    ") - figures))
    lines = wrapped(summary.estimators) if summary.estimators else []
    for number, (name, text) in enumerate(summary.rows):
        if number == summary.room:
            more = len(summary.rows) - number
            lines += wrapped(f"... {more} of {len(summary.rows)} rows are not shown here", 2, 4)
            break
        tone = Tone.NOT_VALID if text.endswith(NOT_VALID) else Tone.PLAIN
        if len(name) <= column and column + len(f"    {text}") <= width:
            lines.append(Line(f"  {name:<{column}}  {text}", tone))
        else:
            lines += wrapped(f"{name}  {text}", 2, 6, tone)
    return [*lines, *(line for text in summary.untested for line in wrapped(text))]


def _certificate(found: Run, summary: Summary, *, is_measured_here: bool) -> list[Line]:
    """The line about the certificate. It recommends `certify` only after a run that is not the
    first, and if `certify` can run here."""
    text = summary.certified
    runs = list_runs(found.directory.parent, on_corrupt=lambda _: None)
    if not is_measured_here or len(runs) < 2 or not _can_certify():
        text = text.removesuffix(f"; {HOW}")
    return wrapped(f"{text[:1].upper()}{text[1:]}")


def _can_certify() -> bool:
    return place.missing(Facility.NETWORK_NAMESPACE, Facility.BPF) is None


def _decide(
    found: Run, summary: Summary, rows: Sequence[SummaryRow], campaign: str | None
) -> list[Line]:
    """The command that continues until everything is decided, if time would decide it."""
    definition = found.info.parsed_definition
    settings = {}
    for text in [*found.info.parsed_settings.set, *later_settings(found)]:
        settings[text.partition("=")[0]] = text.partition("=")[2]
    spent_s = _seconds(settings.get("budget"), definition.budget_s or 0.0)
    blocks = max((row.finished for row in rows if not row.is_baseline), default=0)
    if summary.further_s:
        further = format_duration(summary.further_s)
        below = summary.undecided_below
        which = (
            f"all pairs, also {below} without the leader" if below else "the undecided comparisons"
        )
        about = f"To decide {which}, in about {further} more"
        change = f"budget={_budget(spent_s + summary.further_s)}"
        if definition.budget_s is None:
            change = f"repetitions={definition.repetitions + summary.further_blocks}"
    elif definition.budget_s and not summary.heading and 0 < blocks < MIN_PAIRS:
        counted = "1 block is" if blocks == 1 else f"{blocks} blocks are"
        about = f"{counted} too few for a comparison; for more"
        change = f"budget={_budget(spent_s * (MIN_PAIRS + 1) / blocks)}"
    else:
        return []
    argument = campaign or _campaign_argument(found)
    if argument is None:
        return wrapped(f"{about}: repeat the command of this run with --resume --set {change}")
    root = found.directory.parent
    place_ = [] if root == DEFAULT_ROOT else ["--results", str(root)]
    command = ["run", argument, "--resume", *place_, "--set", change]
    return command_lines(about, command)


def later_settings(found: Run) -> list[str]:
    """The `--set` values with which the run was resumed, in order."""
    later = sorted(found.resumptions(), key=lambda one: one.resumed_at)
    return [str(text) for one in later for text in one.settings.get("set", ())]


def _seconds(text: str | None, usual_s: float) -> float:
    try:
        return usual_s if text is None else values.seconds(text, 0.0, MAX_TIME_S)
    except values.BadValueError:
        return usual_s


def _budget(time_s: float) -> str:
    """A budget of at least this time, as `--set budget=` reads it."""
    if time_s < _SHORTEST_BUDGET_S:
        return f"{math.ceil(time_s)}s"
    return f"{math.ceil(time_s / 60)}m"


def _campaign_argument(found: Run) -> str | None:
    """The argument of the `run` command that made a run; None for a file, whose path is unknown."""
    if found.info.campaign in builtin_names():
        return found.info.campaign
    text = (found.directory / "campaign.yaml").read_text("utf-8").splitlines()
    return text[1] if text[:1] == ["# notation"] and len(text) > 1 else None


def _elsewhere(found: Run) -> list[Line]:
    report = found.directory / "report.html"
    path = str(found.directory)
    lines = command_lines("All figures", ["show", "--full", path])
    if report.exists():
        return [*lines, *wrapped(f"Report: {report}")]
    return [*lines, *command_lines("Report", ["report", path])]


def print_run(found: Run, rows: list[SummaryRow], everything: list[SummaryRow]) -> None:
    """Print a run's chosen rows as tables; `everything` holds the baselines they refer to."""
    print_line()
    for dimension in Dimension:
        members = words.of_dimension(rows, dimension)
        if dimension is Dimension.THROUGHPUT:
            if frames := words.of_frames(members):
                _print_throughput(frames, everything)
            if transfers := words.of_transfers(members):
                _print_transfers(transfers, everything)
        elif members:
            _print_latency(members, everything)
    _print_transport([row for row in rows if row.finished and row.transport is not None])
    _print_methods(words.of_methods(rows))
    _print_cost([row for row in rows if row.finished and row.cpu is not None])
    _print_functions(rows)
    quality = quality_table([row.quality for row in rows])
    _print_beside(rows, quality, quality_title(quality[0]))
    between = between_hosts_table([row.between for row in rows])
    _print_beside(rows, between, BETWEEN_HOSTS_TITLE)
    _print_published(found, rows)
    _print_remarks(rows, everything)
    _print_marks(rows)
    _print_failures(found, rows)


def _print_throughput(rows: list[SummaryRow], everything: list[SummaryRow]) -> None:
    numbers = ["fwd Mpps", "95 % interval", "Gbit/s L2", "offered", "loss", "of baseline", "cores"]
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
    title = (
        "Throughput (means over n repetitions; forwarded load; frame size with FCS; offered in "
        "Mpps)"
    )
    _print_rows(rows, [*numbers, *_TRUST], lines, title, numbers)


def _print_transfers(rows: list[SummaryRow], everything: list[SummaryRow]) -> None:
    """Print the throughput of applications, each in its unit."""
    numbers = [
        "throughput",
        "95 % interval",
        "offered",
        "payload",
        "no answer",
        "of baseline",
        "cores",
    ]
    has_pairs = any(row.transfer and row.transfer.pairs_per_s for row in rows)
    lines = []
    for row in rows:
        observed = row.transfer
        assert observed is not None
        scale, unit = formatting.scale_of(observed.completed_per_s.mean, observed.unit)
        if observed.unit != BITS:
            scale, unit = 1.0, observed.unit
        lines.append(
            [
                f"{formatting.number(observed.completed_per_s.mean / scale)} {unit}",
                words.from_to(observed.completed_per_s, scale),
                formatting.number(observed.offered_per_s.mean / scale),
                formatting.amount(observed.payload_bps.mean, BITS),
                formatting.percent(observed.loss_ratio.mean),
                _of_wire(row, everything),
                formatting.number(row.cpu.total_cores)
                if row.cpu and row.cpu.total_cores is not None
                else "",
                *([_of_pairs(observed, scale)] if has_pairs else []),
                *_trust(row),
            ]
        )
    numbers += ["each pair"] if has_pairs else []
    title = (
        "Throughput of applications (payload of a stream, or requests that were answered; interval "
        "and offered in the same unit)"
    )
    _print_rows(rows, [*numbers, *_TRUST], lines, title, numbers)


def _of_pairs(observed: TransferSummary, scale: float) -> str:
    """Return the lowest and the highest rate of a pair; empty if there is one pair."""
    rates = [formatting.number(rate / scale) for rate in sorted(observed.pairs_per_s)]
    return f"{rates[0]} to {rates[-1]}" if rates else ""


def _print_transport(rows: list[SummaryRow]) -> None:
    """Print how the kernel carried the payload, and what it cost client, server and switch."""
    if not rows:
        return
    costs = [name for name in COSTS if any(_cost_of(row, name) is not None for row in rows)]
    numbers = ["B/packet forth", "back", "retransmitted", *map(_cost_heading, costs)]
    lines = []
    for row in rows:
        observed = row.transport
        assert observed is not None
        sizes = (observed.bytes_per_packet_forth, observed.bytes_per_packet_back)
        lines.append(
            [
                *("-" if size is None else formatting.number(size) for size in sizes),
                formatting.number(observed.retransmitted_segments),
                *(
                    "-" if (cost := _cost_of(row, name)) is None else formatting.number(cost)
                    for name in costs
                ),
                observed.congestion_control or "-",
            ]
        )
    title = (
        "Transport (bytes of each forwarded packet with headers; segments sent again; CPU seconds "
        "of a gigabit of payload, and µs of a request)"
    )
    _print_rows(rows, [*numbers, "congestion control"], lines, title, numbers)


def _cost_of(row: SummaryRow, name: str) -> float | None:
    return row.transport.costs.get(name) if row.transport is not None else None


def _cost_heading(name: str) -> str:
    part, _, unit = name.partition("_")
    return f"{part} {'s/Gbit' if unit.startswith('s_') else 'µs/request'}"


def _print_latency(rows: list[SummaryRow], everything: list[SummaryRow]) -> None:
    numbers = [
        "p50 µs", "interval", "p99", "all p90", "all p99", "all p99.9", "max", "all intended p99",
        "lost", "of baseline",
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
        "Round-trip time in µs (p50, p99: medians over the figures of each repetition; interval: "
        "95 % from six repetitions on, otherwise from the smallest to the largest; all: of the "
        "samples of all repetitions together; intended: from the send time that was due)"
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


def _print_functions(rows: list[SummaryRow]) -> None:
    table = function_table(rows)
    if table.lines:
        print_table(table.columns, table.lines, title=FUNCTION_TITLE, right=table.columns[3:])
        print_line()


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
        "Methods of many trials (loads are totals; in brackets: the bounds of a search or of a "
        "time by two clocks, otherwise the 95 % interval; n: repetitions)"
    )
    columns = ["method", "found", "decided by", "trials", "time s", *_TRUST]
    _print_rows(rows, columns, lines, title, ["trials", "time s"])
    varying = words.varying_fields(rows)
    for row in rows:
        assert row.method is not None
        notes = [*row.method.notes, *(n for one in row.method.bounds for n in one.notes)]
        place = words.point(dict(row.point), [one for one in varying if one != "method"])
        for note_text in dict.fromkeys(notes):
            print_remark(f"{row.contender}, {row.trial.method}, {place}: {note_text}", 2)
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
        values = [_cell(n, point) for n in varying]
        who.append([row.contender, words.traffic(row.trial), *values, row.connect_mode or "-"])
    traffic = "frame B" if all(row.transport is None for row in rows) else "traffic"
    each = len(lines) // len(rows)
    unsaid = [""] * (3 + len(varying))
    print_table(
        ["switch", traffic, *varying, "mode", *columns],
        [
            [*(unsaid if number % each else who[number // each]), *line]
            for number, line in enumerate(lines)
        ],
        title=title,
        right=[traffic, *right],
    )
    print_line()


def _cell(name: str, point: Mapping[str, Any]) -> Any:
    """Return a field of a test point for a table; a dash for the key of a function that the trial
    does not have."""
    if not words.is_read(name, point):
        return "-"
    return "max" if point[name] is None and name == "rate_pps" else point[name]


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
        match = ", ".join(words.field(name, value) for name, value in figure.match.items())
        measured = "not measured" if value is None else formatting.number(value)
        ratio = "-" if value is None or not figure.value else f"{value / figure.value:.2f}"
        contender = row.contender if row else "-"
        lines.append(
            [contender, match, figure.words, figure.text, measured, figure.unit, ratio,
             figure.source]
        )  # fmt: skip
    print_table(
        ["switch", "of", "what", "published", "measured", "unit", "ratio", "source"],
        lines,
        title="Beside published figures (another machine: compare the shape, not the size)",
        right=["published", "measured", "ratio"],
    )
    print_line()


def _print_remarks(rows: list[SummaryRow], everything: list[SummaryRow]) -> None:
    """Print what the means hide, each remark with the row that it is about."""
    texts = [f"{row.notation}: {remark}" for row in rows for remark in remarks(row, everything)]
    if texts:
        print_remark(
            "Outliers, values in two groups, unsteady runs (no value is left out above; each row "
            "in the short notation of docs/campaigns.md):"
        )
        for text in texts:
            print_remark(text, 2)
        print_line()


def _print_marks(rows: list[SummaryRow]) -> None:
    """Print the meaning of the marks in the tables, the most serious first."""
    names = dict.fromkeys(mark for row in rows for mark in row.marks)
    if names:
        print_line("Marks (docs/results.md):")
    for name in sorted(names, key=seriousness):
        meaning = MARKS[name].explanation if name in MARKS else "see the record"
        print_remark(f"{name}: {meaning}", 2)


def _print_failures(found: Run, rows: list[SummaryRow]) -> None:
    """Print why trials failed, and how many failures were run again."""
    failed = [row for row in rows if row.failures]
    if failed:
        print_line("\nFailed trials:")
    for row in failed:
        for message in row.failures:
            print_remark(f"{row.notation}: {message}", 2, Tone.FAILED)
    count = len(found.earlier_failures())
    if count:
        failures = "1 earlier failure was" if count == 1 else f"{count} earlier failures were"
        print_remark(f"{failures} run again; the records are kept.", 2)
