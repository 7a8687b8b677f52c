"""A method of many trials: its name, its description, and its function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from switchmark.errors import Refusal
from switchmark.method.support.task import Task
from switchmark.model.campaign import Sweep
from switchmark.model.capabilities import Capabilities
from switchmark.model.choices import WIRE
from switchmark.model.trial import Trial
from switchmark.record import MethodResult
from switchmark.record.metric import Metric


def nothing_refused(_sweep: Sweep, _switch: str, _can: Capabilities) -> Iterable[Refusal]:
    """Return the refusals of a method that suits every switch: none."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A method, which its file keeps as `METHOD`."""

    name: str  # as campaigns write it: the file's, with dashes
    meaning: str  # one line, for lists
    run: Callable[[Task], MethodResult]
    usual_time_s: Callable[[Trial], float]  # of traffic, without the limit of a budget
    fixed_time: bool = False  # it always takes its usual time; a search may end sooner
    default_budget_s: float | None = None  # None: as long as it takes
    compared: tuple[Metric, ...] = ()  # figures that `compare` puts side by side
    needs_rate: Refusal | None = None  # why its load has to be set; None: it finds its loads
    needs_switch: bool = False  # it does something to one
    needs_load: bool = True  # it offers loads; False: the highest load is not looked for
    refuse: Callable[[Sweep, str, Capabilities], Iterable[Refusal]] = nothing_refused  # besides
    one_host: str = ""  # why it needs one host, and the remedy; empty: two hosts are possible
    reads: tuple[str, ...] = ()  # keys of campaigns that mean nothing to methods without them
    times_frames: bool = False  # takes one-way times, so that a probe stream has a meaning
    finds_outages: bool = False  # silence of the applications is a finding and no fault
    restarts_switch: bool = False
    # What holds the headline where nothing else is seen to: a set load limits nothing.
    limited_by: Literal["switch", "rate", "unknown"] = "switch"
    # What its trials are drawn as: forwarded over offered load, or windows over time.
    picture: Literal["loads", "course"] | None = None

    def refusals(self, sweep: Sweep, switch: str, can: Capabilities) -> Iterator[Refusal]:
        """Return why the method cannot measure this sweep."""
        if self.needs_rate and None in sweep.rate_pps:
            yield self.needs_rate
        if self.needs_switch and switch == WIRE:
            yield Refusal(f"method {self.name} needs a switch", f"leave {WIRE} out")
        yield from self.refuse(sweep, switch, can)


def trials_of_full_length(count: int) -> Callable[[Trial], float]:
    """The usual time of a method that takes so many trials of the trial's duration, in seconds."""
    return lambda trial: count * trial.duration_s
