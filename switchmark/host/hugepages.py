"""Hugepages: their number, and the remedy if there are too few.

Programs allocate them by memfd, which needs neither root nor a mount. The kernel's counters are
those of the machine. A control group may allow fewer, which shows only when a page is touched.
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
SHARE = 0.9  # `page_size: auto` relies on this share of the free pages; others may take the rest
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
    """Return the kernel's hugepages, smallest pages first; empty without hugepage support."""
    each = []
    for path in directory.glob("hugepages-*kB"):
        with suppress(OSError, ValueError):
            size_kb = int(path.name.removeprefix("hugepages-").removesuffix("kB"))
            total = int((path / "nr_hugepages").read_text())
            free = int((path / "free_hugepages").read_text())
            each.append(HugepagePool(size_kb, total, free))
    return tuple(sorted(each, key=lambda pool: pool.size_kb))


def free_mb(available: Sequence[HugepagePool] | None = None) -> int:
    """Return the free memory in hugepages of all sizes, in MiB."""
    each = pools() if available is None else available
    return sum(pool.free * pool.size_kb for pool in each) // 1024


def count_touchable(size_kb: int, count: int) -> int:
    """Return how many of `count` hugepages this process can have now.

    A child process allocates them, writes to them and frees them at once."""
    command = [sys.executable, "-IS", "-c", _TOUCH, str(size_kb << 10), str(count)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False,
            timeout=TOUCH_TIMEOUT_S,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return done.stdout.count(b".")


def obtainable(demands_mb: Sequence[int]) -> tuple[HugepagePool, ...]:
    """Return the hugepages that processes with these demands can rely on.

    That is `SHARE` of the free pages or, if a control group allows fewer, the touchable pages."""
    each = []
    for pool in pools():
        usable = int(pool.free * SHARE)
        needed = sum(-(-demand * 1024 // pool.size_kb) for demand in demands_mb)
        count = min(usable, needed)
        touchable = count_touchable(pool.size_kb, count) if count else 0
        each.append(replace(pool, free=usable if touchable == count else touchable))
    return tuple(each)


def used_size_kb() -> int:
    """Return the size of the hugepages that programs get: the smallest size with reserved pages."""
    return next((pool.size_kb for pool in pools() if pool.total), DEFAULT_SIZE_KB)


def are_reserved() -> bool:
    """Return True if hugepages are reserved, in use or not."""
    return any(pool.total for pool in pools())


def none_reserved() -> Availability | None:
    """Return the reason and remedy if no hugepages are reserved, otherwise None."""
    if are_reserved():
        return None
    return unavailable("no hugepages are reserved", remedy=f"echo 1024 > {NR_HUGEPAGES}")


def lacking(
    demands_mb: Sequence[int], reserved: Sequence[HugepagePool], *, free: bool
) -> Refusal | None:
    """Return the missing memory and the remedy for processes that need these MiB each, or None.

    `free`: compare with the pages that are free now, otherwise with all reserved pages.

    A page belongs to one process, so with pages of 1 GiB each process takes at least 1 GiB."""
    left = [pool.free if free else pool.total for pool in reserved]
    short_mb = 0
    for demand in sorted(demands_mb, reverse=True):
        rest_kb = demand * 1024
        for number, pool in enumerate(reserved):  # smallest pages first
            taken = min(left[number], -(-rest_kb // pool.size_kb))
            left[number] -= taken
            rest_kb = max(0, rest_kb - taken * pool.size_kb)
        short_mb += -(-rest_kb // 1024)
    if not short_mb:
        return None
    sizes_kb = ((pool.free if free else pool.total) * pool.size_kb for pool in reserved)
    existing_mb = sum(sizes_kb) // 1024
    count = len(demands_mb)
    each = "" if count == 1 else f" in {count} processes"
    smallest_kb = min((pool.size_kb for pool in reserved if pool.total), default=DEFAULT_SIZE_KB)
    large = f", in pages of {smallest_kb >> 10} MiB" if smallest_kb > DEFAULT_SIZE_KB else ""
    state = "free" if free else "reserved"
    more = "end other DPDK programs or " if free else ""
    return Refusal(
        f"needs {sum(demands_mb)} MiB of hugepages{each}, {existing_mb} MiB are {state}{large}",
        f"{more}{_remedy(reserved, short_mb)}",
    )


def _remedy(reserved: Sequence[HugepagePool], short_mb: int) -> str:
    """Return the command that reserves more pages, if possible of a size that is in use."""
    used = [pool for pool in reserved if pool.total]
    pool = used[0] if used else HugepagePool(DEFAULT_SIZE_KB, 0, 0)
    count = pool.total + -(-short_mb * 1024 // pool.size_kb)
    return f"echo {count} > {HUGEPAGES_DIR / f'hugepages-{pool.size_kb}kB' / 'nr_hugepages'}"


def require(name: str, needed_mb: int) -> None:
    """Raise UnavailableError, with the remedy, if less than this is free for the switch `name`."""
    if (refusal := lacking([needed_mb], pools(), free=True)) is not None:
        raise UnavailableError(refusal.about(f"{name}: "))
