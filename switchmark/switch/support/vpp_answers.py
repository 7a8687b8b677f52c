"""Reads VPP's answers: frames from its statistics segment, links from its CLI."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

STATISTIC = re.compile(r"^\[(\d+)(?: @ \d+)?\]: (?:(\d+) packets(?:, \d+ bytes)?|(\S+)) /(.+)$")


@dataclass(frozen=True, slots=True)
class Statistics:
    """Frames by interface, all threads together; `lost` are those that a full ring did not take."""

    rx: dict[str, int]
    tx: dict[str, int]
    drops: dict[str, int]
    lost: dict[str, int]


def parse_statistics(text: str) -> Statistics:
    """Read `vpp_get_stats dump`: `[index @ thread]: N packets, N bytes /if/rx` and the like.

    `/if/tx` counts the frames handed to an interface's output, `/err/NAME-tx/...` those of them
    that were not put on the ring, `/if/drops` both these and the dropped ones among the frames it
    received. Of a packet socket, errors named after `sendto` count calls: their frames stay in the
    ring, and go with the next call."""
    numbers: dict[str, dict[int, int]] = {"if/rx": {}, "if/tx": {}, "if/drops": {}}
    names, lost = {}, dict[str, int]()
    for index, packets, name, path in _statistics(text):
        if path == "if/names":
            names[index] = name
        elif path in numbers:
            numbers[path][index] = numbers[path].get(index, 0) + packets
        elif (error := re.fullmatch(r"err/(.+)-tx/(.+)", path)) and _is_loss(error[2]):
            lost[error[1]] = lost.get(error[1], 0) + packets
    rx, tx, drops = (
        {name: numbers[path].get(index, 0) for index, name in names.items()} for path in numbers
    )
    return Statistics(rx, tx, drops, lost)


def _is_loss(error: str) -> bool:
    return error != "no error" and "sendto" not in error


def _statistics(text: str) -> Iterator[tuple[int, int, str, str]]:
    for line in text.splitlines():
        if (found := STATISTIC.match(line.strip())) is not None:
            yield int(found[1]), int(found[2] or 0), found[3] or "", found[4]


def links_up(text: str) -> set[str]:
    """The interfaces that have a link by `show hardware-interfaces`."""
    lines = (line.split() for line in text.splitlines() if line and not line[0].isspace())
    return {words[0] for words in lines if len(words) >= 4 and words[2] == "up"}
