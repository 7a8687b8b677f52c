"""The progress of long commands, on standard error.

On a terminal, a view is redrawn once a second: the current trial, the figures so far with their
intervals, the time left and the warnings. In a pipe, in a log and on a dumb terminal there is one
line for each block of trials. The view takes less time than one sample of a trial, and nothing
is redrawn more often than once a second, because the program may share a core with the trial.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self

from switchmark.cli.output import Line, Tone, console, note, wrapped
from switchmark.formatting import amount, format_duration, printable, with_prefix
from switchmark.language.values import format_rate
from switchmark.model.choices import PLAIN, WIRE, Dimension
from switchmark.model.parameter_table import of_kinds, point_of
from switchmark.model.parameter_type import Kind, Wire
from switchmark.model.trial import Trial
from switchmark.model.workload import FRAMES
from switchmark.record import Record
from switchmark.record.metric import Metric
from switchmark.record.page_sizes import Point
from switchmark.report import words
from switchmark.report.answer_words import FIGURES
from switchmark.results.blocks import observe
from switchmark.statistics.means import Estimate, estimate
from switchmark.statistics.order_statistics import by_median
from switchmark.trial.plan import TrialPlan
from switchmark.workload.registry import WORKLOADS

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

_MOST_MARKS = 4  # in the view; the others are counted
_WIDEST = 100  # columns
_FEW_SECONDS = 3.0
# The settings that the name of a trial contains if they differ from the default.
_NAMED = [
    parameter
    for parameter in of_kinds(Kind.TRAFFIC, Kind.LAYOUT, Kind.PLACE, Kind.CORES, Kind.CONTENDER)
    if parameter.letter is None and parameter.field != "workload"  # which stands first
]
# The name of a contender stands for its switch, options and cores.
_UNNAMED = [one for one in _NAMED if one.kind in (Kind.TRAFFIC, Kind.LAYOUT, Kind.PLACE)]


class LiveView:
    """A view of some lines that is redrawn once a second if standard error is a terminal. A context
    manager; the view is removed at the end."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.console: Console = console(stderr=True)
        self.is_live = not quiet and self.console.is_terminal and not self.console.is_dumb_terminal
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self.is_live:
            from rich.live import Live

            self._live = Live(
                console=self.console,
                get_renderable=self._render,
                refresh_per_second=1,
                transient=True,
                vertical_overflow="crop",
            )
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            live, self._live = self._live, None
            with suppress(OSError):  # the terminal may be gone
                live.stop()

    def lines(self, width: int) -> Iterator[Line]:
        """Return the lines of the view, none wider than `width` if its words are not."""
        raise NotImplementedError

    def print(self, text: str, tone: Tone = Tone.PLAIN) -> None:
        """Print a line that stays, above the view."""
        if not self.is_live:
            note(text)
            return
        from rich.text import Text

        with suppress(OSError):
            for line in wrapped(text, width=self._width):
                self.console.print(Text(line.text, style=tone.value), soft_wrap=True)

    @property
    def _width(self) -> int:
        return max(1, min(self.console.width, _WIDEST))

    def _render(self) -> RenderableType:
        from rich.text import Text

        room = max(1, self.console.height - 1)
        view = Text(overflow="fold")
        for number, line in enumerate(self.lines(self._width)):
            if number == room:
                break
            view.append(f"{printable(line.text)}\n", style=line.tone.value)
        view.rstrip()
        return view


@dataclass
class _Block:
    """The trials of a block so far."""

    label: str
    trials: int = 0
    failed: int = 0
    marks: Counter[str] = field(default_factory=Counter)
    only: Record | None = None  # the record of the first trial


class CampaignProgress(LiveView):
    """An observer of `run_campaign`. `verbose` prints a line for each trial."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        super().__init__(quiet=quiet)
        self._verbose = verbose and not quiet
        self._current: Trial | None = None
        self._place = ""  # which trial of how many
        self._left_s = 0.0
        self._is_left_at_most = False
        self._began_s = time.monotonic()
        self._forwarded_pps: float | None = None
        self._figures: dict[tuple[Point, Metric], dict[str, list[float]]] = {}
        self._standing: dict[tuple[Point, Metric], dict[str, Estimate]] = {}
        self._failed = 0
        self._printed_failures: set[str] = set()
        self._marks: Counter[str] = Counter()
        self._invalid: set[str] = set()
        self._block: _Block | None = None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        self._end_block()

    def trial_begins(self, number: int, total: int, plan: TrialPlan, left_s: float) -> None:
        """Show the trial that runs, and the time that all of them will still take."""
        self._current = plan.trial
        self._place = f"trial {number} of {total}" if total else f"trial {number}"
        self._left_s, self._is_left_at_most = left_s, not total
        self._began_s = time.monotonic()
        self._forwarded_pps = None

    def live(self, forwarded_pps: float | None) -> None:
        """Keep the rate that arrives now, for the next redrawing."""
        if forwarded_pps is not None:
            self._forwarded_pps = forwarded_pps

    def trial_ended(self, record: Record) -> None:
        """Add the trial to the figures so far, and to its block."""
        self._current, self._forwarded_pps = None, None
        self._take(record)
        if self.quiet:
            return
        has_failed = record.status == "failed"
        if self._verbose or (has_failed and record.message not in self._printed_failures):
            self.print(describe(record), Tone.FAILED if has_failed else Tone.PLAIN)
            self._printed_failures.add(record.message or "")
        if not self._verbose and not self.is_live:
            self._count(record)

    def lines(self, width: int) -> Iterator[Line]:
        """See `LiveView`."""
        yield from wrapped(f"{self._place or 'preparing'}, {self._left()}", width=width)
        if self._current is not None:
            rate = self._forwarded_pps
            now = "" if rate is None else f": {with_prefix(rate, 'pps')}"
            yield from wrapped(f"now: {trial_name(self._current)}{now}", 0, 5, width=width)
        standing = list(self._standing.items())
        for (point, metric), contenders in standing:
            alike = [other for (other, kind), _ in standing if kind == metric]
            place = words.point(dict(point), words.varying_among(alike))
            figure = FIGURES.get(metric.name, metric.name)
            yield from wrapped(f"{figure}, {place}", 2, 4, width=width)
            yield from _ranking(contenders, metric, width)
        yield from self._warnings(width)

    def _left(self) -> str:
        """The time left, which runs down between the estimates."""
        left_s = self._left_s - (time.monotonic() - self._began_s)
        if not self._place:
            return "the time left is not known yet"
        if left_s < _FEW_SECONDS:
            return "a few seconds left"
        bound = "at most" if self._is_left_at_most else "about"
        return f"{bound} {format_duration(left_s)} left"

    def _warnings(self, width: int) -> Iterator[Line]:
        if self._failed:
            trials = "1 trial" if self._failed == 1 else f"{self._failed} trials"
            yield from wrapped(f"failed: {trials}", tone=Tone.FAILED, width=width)
        if not self._marks:
            return
        from switchmark.report.summary_words import seriousness

        names = sorted(self._marks, key=lambda name: (seriousness(name), -self._marks[name]))
        shown = [f"{name} ({self._marks[name]})" for name in names[:_MOST_MARKS]]
        if len(names) > _MOST_MARKS:
            shown.append(f"{len(names) - _MOST_MARKS} other marks")
        tone = Tone.NOT_VALID if self._invalid else Tone.CAUTION
        yield from wrapped(
            f"marks so far, with the number of trials: {', '.join(shown)}", tone=tone, width=width
        )

    def _take(self, record: Record) -> None:
        """Add the marks and the figures of a record."""
        if record.status == "failed":
            self._failed += 1
            return
        if record.verdict is not None:
            self._marks.update(record.verdict.marks)
            self._invalid.update(() if record.verdict.valid else record.verdict.marks)
        observed = observe(record)
        if not self.is_live or observed.unused or observed.is_baseline or not observed.figures:
            return
        metric, value = next(iter(observed.figures.items()))
        point = point_of(record.trial)
        values = self._figures.setdefault((point, metric), {})
        values.setdefault(record.trial.called, []).append(value)
        standing = self._standing.setdefault((point, metric), {})
        standing[record.trial.called] = by_median(estimate(values[record.trial.called]))

    def _count(self, record: Record) -> None:
        """Count a record in its block; a block ends if the next one begins."""
        label = "baselines" if record.serves_others else f"block {record.trial.repetition + 1}"
        if self._block is not None and self._block.label != label:
            self._end_block()
        if self._block is None:
            self._block = _Block(label, only=record)
        self._block.trials += 1
        self._block.failed += record.status == "failed"
        if record.verdict is not None:
            self._block.marks.update(record.verdict.marks)

    def _end_block(self) -> None:
        """Print the line of the block."""
        block, self._block = self._block, None
        if block is None:
            return
        if block.trials == 1 and block.only is not None:
            if block.only.status != "failed":
                self.print(describe(block.only))
            return
        parts = [f"{block.trials} trials"]
        if block.failed:
            parts.append(f"{block.failed} failed")
        if block.marks:
            marks = (f"{name} ({count})" for name, count in block.marks.most_common())
            parts.append(f"marks {', '.join(marks)}")
        self.print(f"{block.label}: {'; '.join(parts)}; {self._left()}")


class CertifyProgress(LiveView):
    """The progress of `certify`: the reference check, what is decided, the time left. In a pipe
    there is one line for each combination of port and I/O."""

    def __init__(self, deadline: float, *, quiet: bool = False) -> None:
        super().__init__(quiet=quiet)
        self._deadline = deadline
        self._port = ""
        self._check = ""

    def begin(self, port: str) -> None:
        """Note that another combination of port and I/O begins."""
        self._port, self._check = port, ""
        if not self.is_live and not self.quiet:
            note(f"{port}: {self._left()}")

    def observe(self, check: str, decided: int, of: int) -> None:
        """Note that a round of this reference check begins."""
        self._check = f"{check}; {decided} of {of} figures decided"

    def lines(self, width: int) -> Iterator[Line]:
        """See `LiveView`."""
        yield from wrapped(": ".join(filter(None, (self._port, self._check))), width=width)
        yield from wrapped(self._left(), width=width)

    def _left(self) -> str:
        return f"at most {format_duration(max(0.0, self._deadline - time.monotonic()))} left"


def describe(record: Record) -> str:
    """Return a finished or failed trial as one line."""
    name = trial_name(record.trial)
    if record.status == "failed":
        return f"{name}: FAILED: {record.message}"
    if record.throughput is not None:
        frames = with_prefix(record.throughput.forwarded_pps, "pps")
        figure = f"{frames}, {with_prefix(record.throughput.forwarded_l2_bps, 'bit/s')}"
    elif record.transfer is not None:
        figure = amount(record.transfer.completed_per_s, record.transfer.unit)
    elif record.method is not None:
        figures = "; ".join(
            f"{one.name} {words.figure(estimate([one.value]), one.unit)}"
            for one in record.method.figures
        )
        figure = f"{figures or 'no figure'}, from {record.method.trial_count} trials"
    else:
        assert record.latency is not None, "a finished record has a figure"
        percentiles = record.latency.percentiles_ns
        median, tail = amount(percentiles["50"], "ns"), amount(percentiles["99"], "ns")
        figure = f"median round trip {median}, p99 {tail}"
    limit = record.limit.factor if record.limit else ""
    parts = [
        figure,
        f"limited by {limit}" if limit and limit != "unknown" else "",
        f"measured {len(record.attempts)} times" if record.attempts else "",
        f"marks {', '.join(record.verdict.marks)}"
        if record.verdict and record.verdict.marks
        else "",
        "" if record.verdict is None or record.verdict.valid else "NOT VALID",
    ]
    return printable(f"{name}: {'; '.join(filter(None, parts))}")


def trial_name(trial: Trial) -> str:
    """Return the contender, the frame size and the load of a trial, and settings that differ from
    the default."""
    more = [
        one.words(value)
        for one in (_UNNAMED if trial.contender else _NAMED)
        if not (trial.switch == WIRE and one.wire is Wire.PLANNED)
        and (value := getattr(trial, one.field)) != one.default
    ]
    pairs = "" if trial.pairs == 1 else f" {trial.pairs}vs{trial.pairs}"
    return ", ".join([f"{trial.called}{pairs}", _size(trial), _load(trial), *more])


def _size(trial: Trial) -> str:
    if trial.workload != FRAMES:
        return trial.workload
    return "mixed sizes" if trial.packet_mix else f"{trial.packet_size_bytes} B"


def _load(trial: Trial) -> str:
    """`throughput at full rate`, `round trips at 1 kpps`, `ndr-pdr`."""
    rate = None if trial.rate_pps is None else _rate(trial)
    if trial.method != PLAIN:
        return trial.method if rate is None else f"{trial.method}, rate {rate}"
    figure = "throughput" if trial.dimension is Dimension.THROUGHPUT else "round trips"
    return f"{figure} at {rate or 'full rate'}"


def _rate(trial: Trial) -> str:
    assert trial.rate_pps is not None
    if trial.workload != FRAMES:
        return amount(trial.rate_pps, WORKLOADS[trial.workload].unit)
    text = format_rate(trial.rate_pps)
    return f"{text} pps" if text[-1].isdigit() else f"{text[:-1]} {text[-1]}pps"


def _ranking(contenders: dict[str, Estimate], metric: Metric, width: int) -> Iterator[Line]:
    """A line for each contender, the best first: its median, and the interval."""
    ranked = sorted(
        contenders.items(), key=lambda item: item[1].mean, reverse=metric.higher_is_better
    )
    widest = max(map(len, contenders))
    for name, value in ranked:
        interval = f"({value.count} trials)" if value.count > 1 else "(1 trial)"
        if value.low is not None and value.high is not None:
            low, high = amount(value.low, metric.unit), amount(value.high, metric.unit)
            interval = f"({low} to {high}{', range' if value.is_range else ''})"
        text = f"{name:<{widest}}  {amount(value.mean, metric.unit)}  {interval}"
        if len(text) + 4 > width:
            yield from wrapped(text, 4, 6, width=width)
        else:
            yield Line(f"    {text}")
