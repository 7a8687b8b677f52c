"""State of the kernel that traffic leaves in namespaces of the user, and that expires by itself.

Entries of conntrack, sockets in TIME_WAIT, neighbours and entries of the tables of bridges. It is
counted before and after a trial; the bench reports new state with the time of its expiry.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from switchmark.formatting import first_of
from switchmark.host.facts import read
from switchmark.host.network.handle import NamespaceHandle, read_inside
from switchmark.host.process_output import parsing

TIME_WAIT_S = 60  # a constant of the kernel
CONNTRACK_S = {
    "nf_conntrack_udp_timeout_stream": "UDP",
    "nf_conntrack_tcp_timeout_time_wait": "TCP that has ended",
}
# The time is a setting of each device. All namespaces share one limit, and only the first namespace
# shows it.
_NEIGHBOURS = "/proc/sys/net/ipv4/neigh"
MOST_ENTRIES = 100_000


@dataclass(frozen=True, slots=True)
class ExpiringState:
    """The state of a namespace at one moment; None: it could not be read."""

    conntrack: int | None
    time_wait: int | None
    neighbours: frozenset[str] | None  # address and device
    learned: frozenset[str] | None  # MAC address and bridge


def read_expiring(handle: NamespaceHandle) -> ExpiringState:
    """Read the state of a namespace; nothing is changed."""
    return ExpiringState(
        _number(read_inside(handle, "/proc/sys/net/netfilter/nf_conntrack_count")),
        time_wait_of(read_inside(handle, "/proc/thread-self/net/sockstat") or ""),
        _entries(handle, ["ip", "-j", "-4", "neigh", "show"], "dst", "dev"),
        _entries(handle, ["bridge", "-j", "fdb", "show", "dynamic"], "mac", "master"),
    )


def time_wait_of(text: str) -> int | None:
    """The number of sockets in TIME_WAIT, of /proc/net/sockstat."""
    for line in text.splitlines():
        fields = line.split()
        if fields[:1] == ["TCP:"] and "tw" in fields[:-1]:
            return _number(fields[fields.index("tw") + 1])
    return None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def _entries(handle: NamespaceHandle, command: list[str], *keys: str) -> frozenset[str] | None:
    text = handle.output_of(command)
    if text is None:
        return None
    with parsing(" ".join(command[:2])):
        rows: list[dict[str, Any]] = json.loads(text or "[]")[:MOST_ENTRIES]
        return frozenset(
            " at ".join(str(row[key]) for key in keys)
            for row in rows
            if all(key in row for key in keys)
        )


def remaining(
    handle: NamespaceHandle, label: str, before: ExpiringState, after: ExpiringState
) -> Iterator[str]:
    """Yield a line for each kind of state that has appeared, with the time of its expiry."""
    if (count := _more(before.conntrack, after.conntrack)) > 0:
        times = ", ".join(
            f"{seconds} s for {protocol}"
            for name, protocol in CONNTRACK_S.items()
            if (seconds := _number(read_inside(handle, f"/proc/sys/net/netfilter/{name}")))
        )
        yield f"{label}: {count} entries of conntrack, which expire after {times or 'some time'}"
    if (count := _more(before.time_wait, after.time_wait)) > 0:
        yield f"{label}: {count} sockets in TIME_WAIT, which end after {TIME_WAIT_S} s"
    if neighbours := _new(before.neighbours, after.neighbours):
        devices = {entry.rpartition(" at ")[2] for entry in neighbours}
        stale = [_number(read_inside(handle, f"{_NEIGHBOURS}/{name}/gc_stale_time"))
                 for name in devices]  # fmt: skip
        unused = "some time" if None in stale else f"{max(filter(None, stale), default=0)} s"
        threshold = _number(read(f"{_NEIGHBOURS}/default/gc_thresh1"))
        limit = "enough" if threshold is None else f"more than {threshold}"
        yield (
            f"{label}: {_named(neighbours)} as neighbours, which the kernel removes after "
            f"{unused} without use as soon as it has {limit} neighbours"
        )
    if learned := _new(before.learned, after.learned):
        yield (
            f"{label}: {_named(learned)} in tables of bridges, which expire after the ageing time "
            "of the bridge (usually 300 s)"
        )


def _new(before: frozenset[str] | None, after: frozenset[str] | None) -> frozenset[str]:
    return frozenset() if before is None or after is None else after - before


def _more(before: int | None, after: int | None) -> int:
    return 0 if before is None or after is None else after - before


def _named(entries: frozenset[str]) -> str:
    return first_of(sorted(entries), 3)
