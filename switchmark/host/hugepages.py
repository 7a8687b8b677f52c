"""Hugepages: how many can be had, and what to do if there are too few.

Programs take them by memfd, which needs neither root nor a mount. The kernel's counters are those
of the machine: a control group may have less, which shows only when a page is touched.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from switchmark.errors import Refusal, UnavailableError
from switchmark.model.capabilities import Availability, unavailable

HUGEPAGES_DIR = Path("/sys/kernel/mm/hugepages")
DEFAULT_SIZE_KB = 2048
SHARE = 0.9  # of the free hugepages that `page_size: auto` relies on: others take some meanwhile
TOUCH_TIMEOUT_S = 30.0
# Prints a byte for each page that it could touch. At a limit the kernel ends it by SIGBUS.
# 26 is MFD_HUGE_SHIFT of linux/memfd.h.
_TOUCH = """
import mmap, os, resource, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
size, count = int(sys.argv[1]), int(sys.argv[2])
fd = os.memfd_create("switchmark", os.MFD_HUGETLB | (size.bit_length() - 1) << 26)
for number in range(count):
    os.ftruncate(fd, (number + 1) * size)
    with mmap.mmap(fd, size, offset=number * size) as page:
        page[0] = 1
    os.write(1, b".")
"""
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


def touched(size_kb: int, wanted: int) -> int:
    """Return how many of so many hugepages this process could have now: they are taken and written
    to in a child process, and given back at once."""
    command = [sys.executable, "-IS", "-c", _TOUCH, str(size_kb << 10), str(wanted)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False,
            timeout=TOUCH_TIMEOUT_S,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return done.stdout.count(b".")


def obtainable(demands_mb: Sequence[int]) -> tuple[HugepagePool, ...]:
    """Return the hugepages that processes with these demands can rely on: `SHARE` of what is free
    or, where a control group has less, what could be touched."""
    found = []
    for pool in pools():
        usable = int(pool.free * SHARE)
        each = (-(-demand * 1024 // pool.size_kb) for demand in demands_mb)
        wanted = min(usable, sum(each))
        had = touched(pool.size_kb, wanted) if wanted else 0
        found.append(replace(pool, free=usable if had == wanted else had))
    return tuple(found)


def used_size_kb() -> int:
    """Return the size of the hugepages that programs get: the smallest of which there are some."""
    return next((pool.size_kb for pool in pools() if pool.total), DEFAULT_SIZE_KB)


def are_reserved() -> bool:
    """Whether any hugepages are reserved, in use or not."""
    return any(pool.total for pool in pools())


def none_reserved() -> Availability | None:
    """Unavailable, with the remedy, where no hugepages are reserved; else None."""
    if are_reserved():
        return None
    return unavailable("no hugepages are reserved", remedy=f"echo 1024 > {NR_HUGEPAGES}")


def lacking(
    demands_mb: Sequence[int], found: Sequence[HugepagePool], *, free: bool
) -> Refusal | None:
    """Return what is missing, with the remedy, for processes that take so many MiB each; None if
    there is enough. `free`: of the pages that are free now, otherwise of all that are reserved.

    A page belongs to one process, so with pages of 1 GiB each process takes at least 1 GiB."""
    left = [pool.free if free else pool.total for pool in found]
    short_mb = 0
    for demand in sorted(demands_mb, reverse=True):
        rest_kb = demand * 1024
        for number, pool in enumerate(found):  # smallest pages first
            taken = min(left[number], -(-rest_kb // pool.size_kb))
            left[number] -= taken
            rest_kb = max(0, rest_kb - taken * pool.size_kb)
        short_mb += -(-rest_kb // 1024)
    if not short_mb:
        return None
    there = sum((pool.free if free else pool.total) * pool.size_kb for pool in found) // 1024
    count = len(demands_mb)
    each = "" if count == 1 else f" in {count} processes"
    smallest_kb = min((pool.size_kb for pool in found if pool.total), default=DEFAULT_SIZE_KB)
    large = f", in pages of {smallest_kb >> 10} MiB" if smallest_kb > DEFAULT_SIZE_KB else ""
    state = "free" if free else "reserved"
    more = "end other DPDK programs or " if free else ""
    return Refusal(
        f"needs {sum(demands_mb)} MiB of hugepages{each}, {there} MiB are {state}{large}",
        f"{more}{_remedy(found, short_mb)}",
    )


def _remedy(found: Sequence[HugepagePool], short_mb: int) -> str:
    """How to reserve more: in the pool that is in use, if there is one."""
    used = [pool for pool in found if pool.total]
    pool = used[0] if used else HugepagePool(DEFAULT_SIZE_KB, 0, 0)
    wanted = pool.total + -(-short_mb * 1024 // pool.size_kb)
    return f"echo {wanted} > {HUGEPAGES_DIR / f'hugepages-{pool.size_kb}kB' / 'nr_hugepages'}"


def require(name: str, needed_mb: int) -> None:
    """Raise UnavailableError, with the remedy, when less than this is free for the switch
    `name`."""
    if (words := lacking([needed_mb], pools(), free=True)) is not None:
        raise UnavailableError(words.about(f"{name}: "))
