"""The share of useful cycles, which some polling switches report. By CPU time they always look
busy."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

CYCLES = re.compile(r"(idle|processing) cycles:\s*(\d+)")


@dataclass(frozen=True, slots=True)
class SwitchWork:
    """Cycles since the switch started, of all its forwarding threads together."""

    busy_cycles: int  # spent on frames
    idle_cycles: int  # spent on empty polls
    source: str  # name of the report

    def since(self, before: SwitchWork) -> SwitchWork:
        """Return the cycles since an earlier reading."""
        return SwitchWork(
            max(0, self.busy_cycles - before.busy_cycles),
            max(0, self.idle_cycles - before.idle_cycles),
            self.source,
        )


@runtime_checkable
class ReportsWork(Protocol):
    """A switch that reports its cycles, besides being a `Switch`."""

    def work(self) -> SwitchWork | None:
        """Return the cycles so far; None if the switch has no count yet."""
        ...


def parse_pmd_stats(text: str) -> SwitchWork | None:
    """Read `ovs-appctl dpif-netdev/pmd-stats-show`: sums over the polling threads, without the main
    thread, which does not forward."""
    busy = idle = 0
    for paragraph in re.split(r"^(?=pmd thread |main thread)", text, flags=re.MULTILINE):
        if not paragraph.startswith("pmd thread"):
            continue
        found = dict(CYCLES.findall(paragraph))
        idle += int(found.get("idle", 0))
        busy += int(found.get("processing", 0))
    return SwitchWork(busy, idle, "pmd-stats-show") if busy + idle else None
