"""The properties of a method of many trials."""

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


def refuse_nothing(_sweep: Sweep, _switch: str, _capabilities: Capabilities) -> Iterable[Refusal]:
    """Return no refusal, for a method that suits every switch."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A method. Its file has it as `METHOD`."""

    name: str  # in campaigns: the name of the file, with dashes
    meaning: str  # one line, for lists
    run: Callable[[Task], MethodResult]
    usual_time_s: Callable[[Trial], float]  # seconds of traffic without the limit of a budget
    fixed_time: bool = False  # it always takes its usual time; a search may end earlier
    default_budget_s: float | None = None  # None: unlimited
    compared: tuple[Metric, ...] = ()  # figures that `compare` shows
    needs_rate: Refusal | None = None  # reason why its load must be set; None: it finds its loads
    needs_switch: bool = False  # it acts on a switch, so it cannot measure the baseline
    needs_load: bool = True  # it offers loads, so the highest load is measured first
    refuse: Callable[[Sweep, str, Capabilities], Iterable[Refusal]] = refuse_nothing
    one_host: str = ""  # reason why it needs one host, and the remedy; empty: two are possible
    reads: tuple[str, ...] = ()  # keys of campaigns that only some methods read
    times_frames: bool = False  # it measures one-way times, so a probe stream is useful
    finds_outages: bool = False  # silence of the applications is a finding, not a fault
    restarts_switch: bool = False
    # The limit of the headline figure if no other limit is found.
    limited_by: Literal["switch", "rate", "unknown"] = "switch"
    # The plot of its trials: forwarded over offered load, or windows over time.
    picture: Literal["loads", "course"] | None = None

    def refusals(self, sweep: Sweep, switch: str, capabilities: Capabilities) -> Iterator[Refusal]:
        """Return why the method cannot measure this sweep."""
        if self.needs_rate and None in sweep.rate_pps:
            yield self.needs_rate
        if self.needs_switch and switch == WIRE:
            yield Refusal(f"method {self.name} needs a switch", f"leave {WIRE} out")
        yield from self.refuse(sweep, switch, capabilities)


def trials_of_full_length(count: int) -> Callable[[Trial], float]:
    """Return the usual time of a method with `count` trials of the campaign's duration."""
    return lambda trial: count * trial.duration_s
