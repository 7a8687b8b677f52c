"""What a person sees while a campaign runs: a bar, the time left, live numbers, each result.

On a terminal the last line is redrawn; in a pipe or a log there is one line a trial.
"""

from __future__ import annotations

from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from switchmark.campaign.model import Method, Trial
from switchmark.campaign.values import format_rate
from switchmark.cli.output import console, format_duration
from switchmark.method.trial import TrialPlan
from switchmark.results import words
from switchmark.results.record import Record
from switchmark.results.statistics import estimate

# What else may be swept: named where it is not as usual, so that lines can be told apart.
_MORE = (
    "scenario", "environment", "port_kind", "bidirectional", "packet_mix", "flows",
    "switch_options", "switch_cores", "cpu_limit", "neighbour",
)  # fmt: skip


class CampaignProgress:
    """An observer of `run_campaign` that draws on standard error. A context manager."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = console(stderr=True)
        self._quiet = quiet
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[live]}"),
            TextColumn("{task.fields[left]}"),
            console=self._console,
            disable=quiet or not self._console.is_terminal,
            transient=True,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> CampaignProgress:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def trial_begins(self, number: int, total: int, plan: TrialPlan, left_s: float) -> None:
        """Show which trial runs, and how long all of them will still take."""
        left = f"{format_duration(left_s)} left"
        if self._task is None:
            self._task = self._bar.add_task("", total=total, live="", left=left)
        self._bar.update(
            self._task, completed=number - 1, description=_name(plan.trial), live="", left=left
        )

    def live(self, forwarded_pps: float | None) -> None:
        """Show what arrives right now."""
        if self._task is not None and forwarded_pps is not None:
            self._bar.update(self._task, live=f"{forwarded_pps / 1e6:.3f} Mpps")

    def trial_ended(self, record: Record) -> None:
        """Leave one line behind for the trial."""
        if self._task is not None:
            self._bar.advance(self._task)
        if not self._quiet:
            self._console.print(describe(record), highlight=False, markup=False, soft_wrap=True)


def describe(record: Record) -> str:
    """A finished or failed trial in one line."""
    name = f"{_name(record.trial):<52}"
    if record.status == "failed":
        return f"{name} FAILED: {record.message}"
    if record.throughput is not None:
        seen = record.throughput
        frames = words.with_prefix(seen.forwarded_pps, "pps")
        figure = f"{frames:>12} {words.with_prefix(seen.forwarded_l2_bps, 'bit/s'):>12}"
    elif record.method is not None:
        figure = "; ".join(
            f"{one.name} {words.figure(estimate([one.value]), one.unit)}"
            for one in record.method.figures
        )
        figure = f"{figure or 'no figure'} ({record.method.trial_count} trials)"
    else:
        assert record.latency is not None, "a finished record has a figure"
        percentiles = record.latency.percentiles_ns
        figure = f"{percentiles['50'] / 1e3:8.1f} us p50 {percentiles['99'] / 1e3:8.1f} us p99"
    limit = f"limited by {record.limit.what}" if record.limit else ""
    marks = ", ".join(record.verdict.marks) if record.verdict else ""
    times = f"; measured {len(record.attempts)} times" if record.attempts else ""
    return f"{name} {figure}   {limit}{'; ' + marks if marks else ''}{times}"


def _name(trial: Trial) -> str:
    rate = "max" if trial.rate_pps is None else format_rate(trial.rate_pps)
    pairs = "" if trial.pairs == 1 else f" {trial.pairs}vs{trial.pairs}"
    what = trial.dimension.value if trial.method is Method.PLAIN else trial.method.value
    more = [
        words.field(name, getattr(trial, name))
        for name in _MORE
        if getattr(trial, name) != Trial.model_fields[name].default
    ]
    named = f"{trial.switch}{pairs} {trial.packet_size_bytes} B {rate} {what}"
    return ", ".join([named, *more])
