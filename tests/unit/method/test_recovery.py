"""Recovery and reconfiguration on a switch whose outages are set."""

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
    wanted = round(load_pps * duration_s)
    return LoadPoint(
        intended_pps=load_pps, offered_pps=(wanted - unsent) / duration_s,
        forwarded_pps=(wanted - unsent - lost) / duration_s, offered_frames=wanted - unsent,
        lost_frames=lost, duration_s=duration_s, intended_frames=wanted,
    )  # fmt: skip


@dataclass
class Scripted:
    """Loses what its script says, and keeps what it was asked."""

    recovers_after_s: float | None = None  # of the relief; None: loses nothing in it
    outages_s: list[float] = field(default_factory=list)  # of each disturbance in turn
    asked: list[tuple[float, ...]] = field(default_factory=list)
    overload_offered: float = 1.0

    def step_down(
        self, first_s: float, first_pps: float, second_s: float, second_pps: float
    ) -> StepDown:
        self.asked.append((first_s, first_pps, second_s, second_pps))
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
        self.asked.append((duration_s, load_pps, at_s, tail_s))
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


def test_the_loads_are_those_of_the_rfc() -> None:
    switch = Scripted(outages_s=[0.5])
    run(switch)
    first_s, first_pps, second_s, second_pps = switch.asked[0]
    assert (first_s, first_pps, second_pps) == (60.0, pytest.approx(1.1e6), 0.5e6)
    assert second_s >= 2.0


def test_the_recovery_time_runs_from_the_end_of_the_overload() -> None:
    found = run(Scripted(recovers_after_s=0.7, outages_s=[0.25]))
    assert found.time is not None and found.time.seconds == pytest.approx(0.702)
    assert found.time.low_s < found.time.seconds < found.time.high_s
    assert found.reset.outage_s == pytest.approx(0.25)
    assert not [note for note in found.notes if "RFC 2544" in note]


def test_no_loss_after_the_overload_is_at_most_the_gap() -> None:
    found = run(Scripted(outages_s=[0.0]))
    assert found.time is not None and (found.time.seconds, found.time.high_s) == (0.0, 0.002)


def test_a_switch_that_never_recovers_has_no_time() -> None:
    found = run(Scripted(recovers_after_s=29.5, outages_s=[0.0]))
    assert found.time is None
    assert any("not recovered" in note for note in found.notes)


def test_what_was_less_than_asked_is_said() -> None:
    found = run(Scripted(outages_s=[0.0], overload_offered=0.9), overload_s=5.0)
    assert any("RFC 2544 asks for 60 s" in note for note in found.notes)
    assert any("smaller than intended" in note for note in found.notes)


def test_each_change_is_made_once_under_load() -> None:
    made: list[str] = []
    changes = [
        Change("added", lambda: made.append("added")),
        Change("removed", lambda: made.append("removed")),
    ]
    switch = Scripted(outages_s=[0.001, 0.2, 0.05])
    found = reconfigure(switch, changes, load_pps=5e5, trial_s=6.0)
    assert made == ["added", "removed"]
    assert found.worst.name == "added"
    assert [one.seen.outage_s for one in found.changes] == [pytest.approx(0.2), pytest.approx(0.05)]
    assert any("nothing done" in note for note in found.notes), "what is lost anyhow is told"
    longest_s, *rest = switch.asked[0]
    assert longest_s > 60, "a trial goes on until the change is done"
    assert rest == [5e5, 2.0, 4.0]
    assert switch.asked == [switch.asked[0]] * 3
