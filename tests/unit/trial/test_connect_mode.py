"""A switch that forwards by another rule than asked is found out by its broadcasts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from switchmark.model.ports import ConnectMode
from switchmark.trial import connect_mode
from switchmark.trial.connect_mode import wrong_mode
from switchmark.trial.verification import PairEnds
from tests.unit.trial_fakes import FakeEngine, process

LEARNING, CROSS, STATIC = ConnectMode.LEARNING, ConnectMode.CROSS_CONNECT, ConnectMode.STATIC_MAC


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect_mode, "PATIENCE_S", 0.02)


def pairs(
    count: int, does: ConnectMode, watched: bool
) -> tuple[list[PairEnds], Callable[[], int | None]]:
    """Pairs through a switch that forwards by this rule; the witness is there if watched."""
    ends = [
        PairEnds(process(FakeEngine(), pair=k), process(FakeEngine(), "receiver", k))
        for k in range(count)
    ]
    fakes: list[list[Any]] = [[pair.a.spawned, pair.b.spawned] for pair in ends]
    observed = [0]

    def verify(sent: int) -> None:
        fakes[0][1].counts["rx_verification"] += sent

    def broadcast(sent: int) -> None:
        if does is STATIC:
            fakes[0][1].counts["rx_verification"] -= sent  # the engine also counts these
        if does is LEARNING:
            observed[0] += sent
            for pair in fakes[1:]:
                for fake in pair:
                    fake.counts["rx_foreign"] += sent

    fakes[0][0].on_verify, fakes[0][0].on_broadcast = verify, broadcast
    return ends, lambda: observed[0] if watched else None


@pytest.mark.parametrize("mode", list(ConnectMode))
@pytest.mark.parametrize("count", [1, 2])
def test_the_mode_that_was_asked_for_passes(mode: ConnectMode, count: int) -> None:
    ends, witness = pairs(count, mode, watched=mode is not CROSS)
    assert wrong_mode(ends, mode, witness) == ""


@pytest.mark.parametrize(
    ("requested", "does", "says"),
    [
        (LEARNING, CROSS, "to the peer alone"),
        (LEARNING, STATIC, "0 reached the peer"),
        (STATIC, LEARNING, "a table of addresses passed"),
        (STATIC, CROSS, "a table of addresses passed 3"),
        (CROSS, STATIC, "0 reached the peer"),
    ],
)
def test_another_mode_is_named(requested: ConnectMode, does: ConnectMode, says: str) -> None:
    ends, witness = pairs(1, does, watched=requested is not CROSS)
    assert says in wrong_mode(ends, requested, witness)


def test_a_cross_connect_that_floods_shows_with_two_pairs() -> None:
    ends, witness = pairs(2, LEARNING, watched=False)
    assert "other ports than the peer" in wrong_mode(ends, CROSS, witness)
    ends, witness = pairs(1, LEARNING, watched=False)
    assert wrong_mode(ends, CROSS, witness) == "", "with two ports the two are one"
