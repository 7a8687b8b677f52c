"""The progress of a campaign: a bar, the time left, live numbers, each result.

On a terminal the last line is redrawn; in a pipe or a log there is one line a trial.
"""

from __future__ import annotations

from contextlib import suppress

from switchmark.cli.bar import Bar
from switchmark.formatting import format_duration, printable, with_prefix
from switchmark.language.values import format_rate
from switchmark.model.choices import PLAIN, WIRE
from switchmark.model.parameter import Kind, Wire
from switchmark.model.parameters import of_kinds
from switchmark.model.trial import Trial
from switchmark.record import Record
from switchmark.report import words
from switchmark.statistics.means import estimate
from switchmark.trial.plan import TrialPlan

# The settings that a line of a trial names where they are not the usual ones.
_NAMED = [
    one
    for one in of_kinds(Kind.TRAFFIC, Kind.LAYOUT, Kind.PLACE, Kind.CORES, Kind.CONTENDER)
    if one.letter is None
]
# A contender's name stands for its means and cores.
_UNNAMED = [one for one in _NAMED if one.kind in (Kind.TRAFFIC, Kind.LAYOUT, Kind.PLACE)]


class CampaignProgress(Bar):
    """An observer of `run_campaign` that draws on standard error. A context manager."""

    def __init__(self, *, quiet: bool = False) -> None:
        super().__init__("live", "left", quiet=quiet)
        self._quiet = quiet

    def trial_begins(self, number: int, total: int, plan: TrialPlan, left_s: float) -> None:
        """Show which trial runs, and how long all of them will still take."""
        left = f"{format_duration(left_s)} left{'' if total else ' at most'}"
        self.show(_name(plan.trial), number - 1, total or None, live="", left=left)

    def live(self, forwarded_pps: float | None) -> None:
        """Show the rate that arrives now."""
        if forwarded_pps is not None:
            self.tell(live=f"{forwarded_pps / 1e6:.3f} Mpps")

    def trial_ended(self, record: Record) -> None:
        """Print a line for the trial."""
        self.advance()
        if not self._quiet:
            with suppress(OSError):  # a line that nobody can take is no reason to stop
                self.console.print(
                    printable(describe(record)), highlight=False, markup=False, soft_wrap=True
                )


def describe(record: Record) -> str:
    """A finished or failed trial in one line."""
    name = f"{_name(record.trial):<52}"
    if record.status == "failed":
        return f"{name} FAILED: {record.message}"
    if record.throughput is not None:
        seen = record.throughput
        frames = with_prefix(seen.forwarded_pps, "pps")
        figure = f"{frames:>12} {with_prefix(seen.forwarded_l2_bps, 'bit/s'):>12}"
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
    what = trial.dimension.value if trial.method == PLAIN else trial.method
    more = [
        one.words(value)
        for one in (_UNNAMED if trial.contender else _NAMED)
        if not (trial.switch == WIRE and one.wire is Wire.PLANNED)
        and (value := getattr(trial, one.field)) != one.default
    ]
    named = f"{trial.called}{pairs} {trial.packet_size_bytes} B {rate} {what}"
    return ", ".join([named, *more])
