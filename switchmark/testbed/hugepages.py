"""Hugepages: how many there are, and reserving more for the time of a session."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from switchmark.errors import UnavailableError
from switchmark.testbed.host import Session
from switchmark.testbed.undo.entries import Hugepages

HUGEPAGES_DIR = Path("/sys/kernel/mm/hugepages")
DEFAULT_SIZE_KB = 2048


@dataclass(frozen=True, slots=True)
class HugepagePool:
    """The hugepages of one size."""

    size_kb: int
    total: int
    free: int

    @property
    def free_mb(self) -> int:
        """Free memory in pages of this size, MiB."""
        return self.free * self.size_kb // 1024


def pools(directory: Path = HUGEPAGES_DIR) -> tuple[HugepagePool, ...]:
    """What the kernel has, smallest pages first (empty without hugepage support)."""
    found = []
    for path in directory.glob("hugepages-*kB"):
        with suppress(OSError, ValueError):
            size_kb = int(path.name.removeprefix("hugepages-").removesuffix("kB"))
            total = int((path / "nr_hugepages").read_text())
            free = int((path / "free_hugepages").read_text())
            found.append(HugepagePool(size_kb, total, free))
    return tuple(sorted(found, key=lambda pool: pool.size_kb))


def free_mb(found: Sequence[HugepagePool] | None = None) -> int:
    """Free memory in hugepages of all sizes, MiB."""
    return sum(pool.free_mb for pool in (pools() if found is None else found))


def require(needed_mb: int) -> None:
    """Raises UnavailableError with a remedy when less than this is free."""
    if (free := free_mb()) < needed_mb:
        raise UnavailableError(
            f"hugepages: {free} MiB free, {needed_mb} MiB needed;"
            f" echo {_target(needed_mb)} > {_control(DEFAULT_SIZE_KB)}"
        )


def reserve(session: Session, needed_mb: int) -> int:
    """Make sure that this much is free, raising the number of 2 MiB pages when need be.

    Returns how many pages were added; they are given back at the end of the session. Raises
    UnavailableError when the kernel finds too little unfragmented memory."""
    if free_mb() >= needed_mb:
        return 0
    control = _control(DEFAULT_SIZE_KB)
    if not control.exists():
        raise UnavailableError(
            f"hugepages: this kernel has none of {DEFAULT_SIZE_KB} kB ({control} is missing)"
        )
    old, target = int(control.read_text()), _target(needed_mb)
    entry = session.ledger.record(Hugepages(str(control), old, target))
    control.write_text(f"{target}\n")
    added = int(control.read_text()) - old
    if free_mb() < needed_mb:
        free = free_mb()
        session.ledger.undo(entry)
        raise UnavailableError(
            f"hugepages: {needed_mb} MiB needed, only {free} MiB could be had; memory is short"
            " or fragmented: free some, or reserve them at boot with hugepages=N on the kernel's"
            " command line"
        )
    return added


def _control(size_kb: int) -> Path:
    return HUGEPAGES_DIR / f"hugepages-{size_kb}kB" / "nr_hugepages"


def _target(needed_mb: int) -> int:
    """The number of default pages to ask for, so that `needed_mb` are free afterwards."""
    found = pools()
    missing_kb = (needed_mb - free_mb(found)) * 1024
    total = sum(pool.total for pool in found if pool.size_kb == DEFAULT_SIZE_KB)
    return total + -(-missing_kb // DEFAULT_SIZE_KB)
