"""Recovery and reconfiguration of a switch with set outages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from switchmark.method.reconfiguration import reconfigure
from switchmark.method.recovery import recover
from switchmark.method.support.disturbance import Disturbance, StepDown
from switchmark.method.support.measurer import LoadPoint
from switchmark.method.support.outage import Span
from switchmark.model.changes import Change


def point(load_pps: float, duration_s: float, lost: int = 0, unsent: int = 0) -> LoadPoint:
    scheduled = round(load_pps * duration_s)
    return LoadPoint(
        intended_pps=load_pps, offered_pps=(scheduled - unsent) / duration_s,
        forwarded_pps=(scheduled - unsent - lost) / duration_s, offered_frames=scheduled - unsent,
        lost_frames=lost, duration_s=duration_s, intended_frames=scheduled,
    )  # fmt: skip


@dataclass
class Scripted:
    """Loses frames as set, and stores the requests."""

    recovers_after_s: float | None = None  # last loss in the lower load; None: no loss in it
    outages_s: list[float] = field(default_factory=list)  # outages of the disturbances, in order
    requests: list[tuple[float, ...]] = field(default_factory=list)
    overload_offered: float = 1.0

    def step_down(
        self, first_s: float, first_pps: float, second_s: float, second_pps: float
    ) -> StepDown:
        self.requests.append((first_s, first_pps, second_s, second_pps))
        after = self.recovers_after_s
        unsent = round((1 - self.overload_offered) * first_pps * first_s)
        return StepDown(
            overload=point(first_pps, first_s, lost=100, unsent=unsent),
            after=point(second_pps, second_s, lost=round((after or 0) * second_pps)),
            gap_s=0.002,
            last_loss=None if after is None else Span(after, after - 0.01, after + 0.01),
        )

    def disturb(
        self,
        duration_s: float,
        load_pps: float,
        at_s: float,
        action: Callable[[], object],
        tail_s: float,
    ) -> Disturbance:
        self.requests.append((duration_s, load_pps, at_s, tail_s))
        action()
        outage = self.outages_s.pop(0)
        lost = round(outage * load_pps)
        return Disturbance(
            point=point(load_pps, duration_s, lost=lost), missing_frames=lost,
            silence=Span(outage, outage, outage + 0.02), action_s=0.1, resumed=True,
        )  # fmt: skip


def run(switch: Scripted, overload_s: float = 60.0) -> Any:
    restarts: list[int] = []
    found = recover(
        switch, throughput_pps=1e6, overload_s=overload_s, restart=lambda: restarts.append(1)
    )
    assert restarts == [1]
    return found


def test_loads_are_those_of_rfc_2544() -> None:
    switch = Scripted(outages_s=[0.5])
    run(switch)
    first_s, first_pps, second_s, second_pps = switch.requests[0]
    assert (first_s, first_pps, second_pps) == (60.0, pytest.approx(1.1e6), 0.5e6)
    assert second_s >= 2.0


def test_recovery_time_begins_at_end_of_overload() -> None:
    found = run(Scripted(recovers_after_s=0.7, outages_s=[0.25]))
    assert found.time is not None and found.time.seconds == pytest.approx(0.702)
    assert found.time.low_s < found.time.seconds < found.time.high_s
    assert found.reset.outage_s == pytest.approx(0.25)
    assert not [note for note in found.notes if "RFC 2544" in note]


def test_recovery_without_loss_is_at_most_the_gap() -> None:
    found = run(Scripted(outages_s=[0.0]))
    assert found.time is not None and (found.time.seconds, found.time.high_s) == (0.0, 0.002)


def test_switch_without_recovery_has_no_time() -> None:
    found = run(Scripted(recovers_after_s=29.5, outages_s=[0.0]))
    assert found.time is None
    assert any("not recovered" in note for note in found.notes)


def test_short_and_low_overload_have_notes() -> None:
    found = run(Scripted(outages_s=[0.0], overload_offered=0.9), overload_s=5.0)
    assert any("RFC 2544 requires 60 s" in note for note in found.notes)
    assert any("smaller than intended" in note for note in found.notes)


def test_each_change_is_made_once_under_load() -> None:
    done: list[str] = []
    changes = [
        Change("added", lambda: done.append("added")),
        Change("removed", lambda: done.append("removed")),
    ]
    switch = Scripted(outages_s=[0.001, 0.2, 0.05])
    found = reconfigure(switch, changes, load_pps=5e5, trial_s=6.0)
    assert done == ["added", "removed"]
    assert found.worst.name == "added"
    outages_s = [change.disturbance.outage_s for change in found.changes]
    assert outages_s == [pytest.approx(0.2), pytest.approx(0.05)]
    assert any("without a change" in note for note in found.notes)
    longest_s, *rest = switch.requests[0]
    assert longest_s > 60, "a trial goes on until the change is done"
    assert rest == [5e5, 2.0, 4.0]
    assert switch.requests == [switch.requests[0]] * 3
