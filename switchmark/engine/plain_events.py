"""The engine's events for the agent of another host, which has no pydantic.

It has only the events and fields that the agent uses, as plain values; events.py has all. A unit
test checks these fields against events.schema.json.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, dataclass, fields
from typing import Any, get_type_hints


@dataclass(frozen=True, slots=True)
class PlainPort:
    """One port of a forwarder in an interval."""

    rx_frames: int
    rx_socket_drops: int
    tx_offered: int
    tx_dropped: int
    up: bool


@dataclass(frozen=True, slots=True)
class PlainReady:
    """A forwarder's ports are made."""

    dpdk_version: str | None
    page_size_kib: int | None = None  # older builds, which `program` may name, do not print it


@dataclass(frozen=True, slots=True)
class PlainInterval:
    """The counters of a forwarder's interval."""

    t_ns: int
    ports: tuple[PlainPort, ...]


@dataclass(frozen=True, slots=True)
class PlainCounters:
    """The answer to `counters`."""

    t_ns: int


PlainEvent = PlainReady | PlainInterval | PlainCounters
KINDS: dict[str, type[PlainEvent]] = {
    "ready": PlainReady,
    "interval": PlainInterval,
    "counters": PlainCounters,
}


def parse_plain(line: str) -> PlainEvent | None:
    """The event of a line; None for an event that is not read here. Raises ValueError for a line
    that is none, lacks a field, or has one of another type."""
    try:
        given = json.loads(line)
        kind = KINDS.get(given["event"])
        return None if kind is None else _read(kind, given)
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"no event of the engine: {line[:80]}") from error


def _read(kind: Any, given: dict[str, Any]) -> Any:
    values, hints = {}, get_type_hints(kind)
    may_lack = {field.name for field in fields(kind) if field.default is not MISSING}
    for name, field_type in hints.items():
        if name not in given and name in may_lack:
            continue
        if name == "ports":
            values[name] = tuple(_read(PlainPort, port) for port in given[name])
        elif isinstance(given[name], field_type):
            values[name] = given[name]
        else:
            raise TypeError(f"{name} is of another type")
    return kind(**values)
