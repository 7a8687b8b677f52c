"""An agent's turn: short blocks one after the other, until there is none or its time is over."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("psycopg")

from switchmark.pool import agent as agent_module
from switchmark.pool.agent import Agent


class Told(Agent):
    """One that has so many blocks to measure."""

    def __init__(self, blocks: int) -> None:
        self.left, self._blocks = blocks, 0

    def work(self) -> str:
        if self.left == 0:
            return "no block"
        self.left -= 1
        self._blocks += 1
        return f"{self.left} left"


def test_a_turn_goes_on_until_there_is_no_block() -> None:
    agent = Told(5)
    assert agent.turn() == "no block"
    assert agent.left == 0


def test_a_turn_ends_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(100))

    class Clock:
        @staticmethod
        def monotonic() -> float:
            return float(next(seconds))

    monkeypatch.setattr(agent_module, "time", Clock)
    agent: Any = Told(50)
    assert agent.turn() == "49 left"  # it begins at 0, looks at 1 s, and at 2 s it is over
