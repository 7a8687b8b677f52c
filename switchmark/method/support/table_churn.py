"""Changes of a table at a set rate. Spare entries are added, counted in the switch, removed, and
counted again. No frame of the trial matches a spare entry, so all frames must still arrive."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from switchmark.errors import TrialFailed
from switchmark.method.support.disturbance import Disturbance
from switchmark.model.changes import Change, TableChange
from switchmark.record import MethodFigure

STEP_S = 0.05  # the shortest time between two calls of the switch
MOST_ENTRIES = 10_000


def entries_to_change(rate: int, duration_s: float) -> int:
    """Return the number of entries that are added and then removed in a trial of this length."""
    return max(1, min(MOST_ENTRIES, round(rate * duration_s / 2)))


class Churn:
    """Changes one table. A call of the switch makes all changes that are due."""

    def __init__(self, table: TableChange, number: int, rate: int) -> None:
        self._table = table
        self._number = number
        self._rate = rate
        self._elapsed_s = 0.0
        self._in_calls_s = 0.0

    def change(self) -> Change:
        """Return the change that the method makes under load."""
        return Change(f"{self._number} {self._table.entries} added and removed", self.steps)

    def steps(self) -> Iterator[None]:
        """Make the changes; a step is at most one call. Raise `TrialFailed` if entries are missing
        or left over."""
        before = self._table.count()
        for verb, act, expected in (
            ("added", self._table.add, before + self._number),
            ("removed", self._table.remove, before),
        ):
            yield from self._changes(act)
            counted = self._table.count()
            if counted != expected:
                raise TrialFailed(
                    f"after {self._number} {self._table.entries} were {verb}, the switch has "
                    f"{counted} entries instead of {expected}"
                )

    def _changes(self, act: Callable[[int, int], None]) -> Iterator[None]:
        begun = time.monotonic()
        called, done = begun, 0
        while done < self._number:
            now = time.monotonic()
            due = min(self._number, int((now - begun) * self._rate))
            if due > done and (now - called >= STEP_S or due == self._number):
                act(done, due)
                called, done = now, due
                self._in_calls_s += time.monotonic() - now
            if done < self._number:
                yield
        self._elapsed_s += time.monotonic() - begun

    def figures(self, disturbance: Disturbance) -> list[MethodFigure]:
        """Return the missing share of the load, the set and the reached rate, and the mean time of
        a change, which includes the start of the switch's control programs."""
        name, changes = self._table.entries, 2 * self._number
        due = (disturbance.point.intended_pps or 0.0) * disturbance.point.duration_s
        loss = min(1.0, disturbance.missing_frames / due) if due else 0.0
        return [
            MethodFigure(name=f"{name}: loss", value=loss, unit="ratio"),
            MethodFigure(name=f"{name}: changes in force", value=changes, unit="count"),
            MethodFigure(name=f"{name}: rate set", value=self._rate, unit="changes/s"),
            MethodFigure(
                name=f"{name}: rate reached", value=changes / self._elapsed_s, unit="changes/s"
            ),
            MethodFigure(
                name=f"{name}: time per change", value=self._in_calls_s / changes, unit="s"
            ),
        ]
