"""Keeps figures of different page sizes of DPDK memory apart.

A trial whose programs use no DPDK memory has no page size, and may be compared with any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from switchmark.model.lists import ComparedKeys

HUGE_KIB = 2048  # also the size of records without a page size
SMALL_KIB = 4
PARAMETER = "page_size"  # the key in a trial and in a point
_SETTINGS = {HUGE_KIB: "huge", SMALL_KIB: "4KiB"}
DPDK = "dpdk"  # an I/O
DPDK_PORTS = frozenset({"vhost-user", "memif"})
DPDK_GENERATORS = frozenset({"testpmd", "pktgen-dpdk"})

Item = TypeVar("Item")
Point = tuple[tuple[str, Any], ...]  # the fields of a test point, each with its value


def setting_of(kib: int) -> str:
    """The value of the key `page_size` that asks for pages of this size."""
    return _SETTINGS.get(kib, f"{kib}KiB")


def in_words(kib: int | None) -> str:
    """A page size in words."""
    if kib is None:
        return "no DPDK memory"
    return "hugepages of 2 MiB" if kib == HUGE_KIB else f"pages of {kib} KiB"


def are_compatible(a: int | None, b: int | None) -> bool:
    """Return True if figures with these page sizes may be compared."""
    return a is None or b is None or a == b


def known_sizes(sizes: Iterable[int | None]) -> list[int]:
    """The different page sizes among these, the smallest first."""
    return sorted({size for size in sizes if size is not None})


def apart(
    items: Sequence[Item], size_of: Callable[[Item], int | None]
) -> Iterator[tuple[int | None, list[Item]]]:
    """Split items that would otherwise be compared: one list for each page size, in which the items
    without a page size are as well. The size is None if the items have one size at most."""
    sizes = known_sizes(map(size_of, items))
    if len(sizes) < 2:
        yield None, list(items)
        return
    for size in sizes:
        yield size, [one for one in items if are_compatible(size_of(one), size)]


def point_at(point: Point, kib: int | None) -> Point:
    """The point of figures with this page size; the point itself if the size is None."""
    if kib is None:
        return point
    page_size = (PARAMETER, setting_of(kib))
    if PARAMETER not in dict(point):
        return (*point, page_size)
    return tuple(page_size if item[0] == PARAMETER else item for item in point)


def is_compared(compared: str) -> bool:
    """Return True if trials with this value of the key `compared` compare page sizes."""
    return PARAMETER in ComparedKeys.of(compared).names


def size_of_old(record: Mapping[str, Any]) -> int | None:
    """The page size of a record that was made before records had one, from its document: DPDK had
    hugepages only."""
    parts = [record.get(name) for name in ("switch_details", "trial")]
    details, trial = (part if isinstance(part, Mapping) else {} for part in parts)
    uses_dpdk = (
        record.get("port_kind") in DPDK_PORTS
        or record.get("io") == DPDK
        or trial.get("generator") in DPDK_GENERATORS
        or details.get("hugepages_mb") is not None
    )
    return HUGE_KIB if uses_dpdk else None
