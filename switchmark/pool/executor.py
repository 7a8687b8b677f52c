"""What an agent needs of its testbed: checks of it, and measuring the trials of a block."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from switchmark.errors import SwitchmarkError
from switchmark.model.trial import Trial
from switchmark.pool.values import BlockLease
from switchmark.record import Record


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check. A testbed that is seen for the first time passes as it is."""

    problem: str | None
    profile: Mapping[str, Any]
    wire_pps: tuple[float, ...]  # of a testbed that is taken in; else empty


class TestbedLost(SwitchmarkError):
    """A part of the testbed was lost in mid-block: that is no result of the campaign."""

    __test__ = False  # its name is no test's


class BlockExecutor(Protocol):
    """Checks a testbed, and measures blocks on it."""

    def check(self, profile: Mapping[str, Any] | None, wire_pps: list[float]) -> Checked:
        """Check whether the testbed is what it was, as the pool knows it (None: it was never
        seen)."""
        ...

    def measure(
        self,
        lease: BlockLease,
        before: Callable[[Trial], None],
        keep: Callable[[Record], None],
    ) -> None:
        """Measure the rest of the block; nothing of it stays on the machine, whatever happens.

        `before` is called before each trial is deployed, `keep` takes its record; either may raise
        to end the block. Raises `UnavailableError` and `UsageError` for a block that this testbed
        cannot measure, `TestbedLost` for one that it may measure once it is whole again."""
        ...

    def clean(self) -> list[str]:
        """Undo what a dead agent left on the machine; returns a line for each thing that could not
        be undone."""
        ...
