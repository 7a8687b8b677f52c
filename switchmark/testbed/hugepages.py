"""Hugepages: how many there are, and what to do where there are too few."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from switchmark.errors import UnavailableError
from switchmark.model.capabilities import Availability, unavailable

HUGEPAGES_DIR = Path("/sys/kernel/mm/hugepages")
DEFAULT_SIZE_KB = 2048
NR_HUGEPAGES = HUGEPAGES_DIR / f"hugepages-{DEFAULT_SIZE_KB}kB" / "nr_hugepages"


@dataclass(frozen=True, slots=True)
class HugepagePool:
    """The hugepages of one size."""

    size_kb: int
    total: int
    free: int


def pools(directory: Path = HUGEPAGES_DIR) -> tuple[HugepagePool, ...]:
    """The kernel's hugepages, smallest pages first (empty without hugepage support)."""
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
    each = pools() if found is None else found
    return sum(pool.free * pool.size_kb for pool in each) // 1024


def are_reserved() -> bool:
    """Whether any hugepages are reserved, in use or not."""
    return any(pool.total for pool in pools())


def none_reserved() -> Availability | None:
    """Unavailable, with the remedy, where no hugepages are reserved; else None."""
    if are_reserved():
        return None
    return unavailable("no hugepages are reserved", remedy=f"echo 1024 > {NR_HUGEPAGES}")


def require(name: str, needed_mb: int) -> None:
    """Raise UnavailableError, with the remedy, when less than this is free for the switch
    `name`."""
    if (free := free_mb()) < needed_mb:
        raise UnavailableError(
            f"{name}: needs {needed_mb} MiB of hugepages, {free} MiB are free; "
            f"end other DPDK programs or raise nr_hugepages ({NR_HUGEPAGES})"
        )
