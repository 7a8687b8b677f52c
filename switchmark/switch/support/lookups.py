"""Switches that report which of their caches, or which table, decided on each frame."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class LookupCounts:
    """Frames since the switch started, by the stage of its lookup that decided on them, and the
    present sizes of its caches."""

    simple_match_hits: int  # decided by the ingress port alone
    emc_hits: int  # exact match cache
    smc_hits: int  # signature match cache
    megaflow_hits: int  # wildcard cache
    upcalls: int  # no cache: decided by the OpenFlow tables
    failed_upcalls: int
    megaflows: int  # entries of the wildcard cache
    subtables: int | None  # its masks, for each thread and ingress port; None: not reported


@runtime_checkable
class CountsLookups(Protocol):
    """A switch that reports its lookups, besides being a `Switch`."""

    def lookups(self) -> LookupCounts | None:
        """Return the counts so far; None if the switch does not know them."""
        ...


_PMD_LINES = {
    "simple_match_hits": "simple match hits",
    "emc_hits": "emc hits",
    "smc_hits": "smc hits",
    "megaflow_hits": "megaflow hits",
    "upcalls": "miss with success upcall",
    "failed_upcalls": "miss with failed upcall",
}
_USE_COUNT = re.compile(r"Use count: (\d+)", re.ASCII)


def parse_lookups(pmd_stats: str, datapath: str, subtables: str) -> LookupCounts | None:
    """Read `dpif-netdev/pmd-stats-show`, `dpctl/show` and `dpif-netdev/subtable-lookup-info-get`:
    sums over all threads. None if one of the first two has no such lines."""
    counts: dict[str, int] = {}
    for field, label in _PMD_LINES.items():
        numbers = re.findall(rf"^\s*{label}: *(\d+)\s*$", pmd_stats, re.MULTILINE | re.ASCII)
        if not numbers and field != "simple_match_hits":  # Open vSwitch before 3.0 has none
            return None
        counts[field] = sum(map(int, numbers))
    flows = re.search(r"^\s*flows: *(\d+)\s*$", datapath, re.MULTILINE | re.ASCII)
    if flows is None:
        return None
    used = _USE_COUNT.findall(subtables)
    return LookupCounts(
        **counts, megaflows=int(flows[1]), subtables=sum(map(int, used)) if used else None
    )


def since(before: LookupCounts, after: LookupCounts) -> dict[str, int]:
    """Return the frames of each kind between two readings. A switch that was started again
    meanwhile counts from 0."""
    now, then = (
        {one.name: getattr(counts, one.name) for one in fields(LookupCounts)[:6]}
        for counts in (after, before)
    )
    restarted = any(now[name] < then[name] for name in now)
    return now if restarted else {name: now[name] - then[name] for name in now}
