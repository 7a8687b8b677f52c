"""Tables of users: routes in CSV, rules in CSV or in the format of ClassBench.

A mistake is reported with file and line. Files are read as text of unknown origin: size, number of
lines and every value are checked.
"""

from __future__ import annotations

import ipaddress
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from socket import AF_INET, AF_INET6, inet_ntoa, inet_pton
from typing import TYPE_CHECKING, TypeVar

from switchmark.errors import Refusal, UsageError
from switchmark.function.support.prefixes import first_of_each
from switchmark.function.support.table import UDP, Routes, Rule

if TYPE_CHECKING:
    import numpy as np

MOST_BYTES = 256 * 2**20
MOST_LINES = 4_000_000
LONGEST_LINE = 400
_FAMILIES = {4: AF_INET, 6: AF_INET6}
_HOST_MASKS = {  # by the text of the prefix length
    version: {str(bits): (1 << (width - bits)) - 1 for bits in range(width + 1)}
    for version, width in ((4, 32), (6, 128))
}
PROTOCOLS = {"udp": UDP, "tcp": 6, "icmp": 1, "any": None}
ANY_PORTS = (0, 65_535)
# @192.0.2.0/24 198.51.100.0/24 0 : 65535 1024 : 2047 0x11/0xFF, and further fields
_CLASSBENCH = re.compile(
    r"@(\S+)\s+(\S+)\s+(\d+)\s*:\s*(\d+)\s+(\d+)\s*:\s*(\d+)\s+0x([0-9a-fA-F]{1,2})/0x([0-9a-fA-F]{1,2})"
    r"(?:\s.*)?"
)
_T = TypeVar("_T")


def read_routes(path: str, hops_by_port: list[list[int]], ip_version: int) -> Routes:
    """Read prefixes from a CSV file: a prefix in each line, and optionally the number of its next
    hop behind a comma. Lines without one take the next hops in turn. Raises UsageError."""
    import numpy as np

    networks, lengths, hops, lines = _routes(path, file_identity(path), ip_version)
    every = np.array([hop for turn in zip(*hops_by_port, strict=True) for hop in turn], np.uint16)
    if len(too_high := np.flatnonzero(hops >= len(every))):
        first = too_high[0]
        raise UsageError(
            f"{path}:{lines[first]}: next hop {hops[first]} does not exist",
            remedy=f"use 0 to {len(every) - 1}, or leave it out",
        )
    turns = np.where(hops < 0, np.arange(len(hops)) % len(every), hops)
    return Routes(networks, lengths, every[turns])


@lru_cache(maxsize=4)
def _routes(
    path: str, _identity: tuple[int, int], version: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return networks, prefix lengths, next hops (-1: in turn) and line numbers."""
    import numpy as np

    width = 4 if version == 4 else 16
    networks, lengths = bytearray(), bytearray()
    hops, lines = array("i"), array("i")
    for number, line in _lines(path):
        prefix, comma, hop = line.partition(",")
        network, bits = _checked(path, number, prefix.strip(), lambda t: _packed(t, version))
        networks += network
        lengths.append(bits)
        hops.append(_checked(path, number, hop.strip(), _hop) if comma and hop.strip() else -1)
        lines.append(number)
    if not lines:
        raise UsageError(f"{path}: it has no routes", remedy="write a prefix in each line")
    rows: np.ndarray = np.frombuffer(bytes(networks), np.uint8).reshape(-1, width)
    bits_of_rows: np.ndarray = np.frombuffer(bytes(lengths), np.uint8)
    _refuse_doubles(path, rows, bits_of_rows, lines)
    return rows, bits_of_rows, np.array(hops, np.int32), np.array(lines, np.int32)


def _refuse_doubles(
    path: str, networks: np.ndarray, lengths: np.ndarray, lines: Sequence[int]
) -> None:
    """Raise UsageError if a prefix is in two lines."""
    import numpy as np

    firsts = first_of_each(networks, lengths)
    if len(firsts) == len(lengths):
        return
    place = int(np.setdiff1d(np.arange(len(lengths)), firsts)[0])
    equal = (networks == networks[place]).all(axis=1) & (lengths == lengths[place])
    prefix = f"{ipaddress.ip_address(networks[place].tobytes())}/{lengths[place]}"
    raise UsageError(
        f"{path}:{lines[place]}: {prefix} is also in line {lines[int(np.flatnonzero(equal)[0])]}",
        remedy="keep one of them",
    )


def read_rules(path: str, ip_version: int) -> tuple[Rule, ...]:
    """Read an access control list. A line of CSV is `permit|deny, source, destination, protocol,
    source ports, destination ports`, where the last three may be missing or `any`. A line that
    begins with `@` is a rule of ClassBench, which has no verdict and denies. Raises UsageError."""
    return _rules(path, file_identity(path), ip_version)


@lru_cache(maxsize=4)
def _rules(path: str, _identity: tuple[int, int], version: int) -> tuple[Rule, ...]:
    read = _classbench if _first_line(path).startswith("@") else _csv_rule
    rules = tuple(
        _checked(path, number, line, lambda text: read(text, version))
        for number, line in _lines(path)
    )
    if not rules:
        raise UsageError(f"{path}: it has no rules", remedy="write a rule in each line")
    return rules


def _csv_rule(line: str, version: int) -> Rule:
    parts = [part.strip() for part in line.split(",")]
    if not 3 <= len(parts) <= 6 or parts[0] not in ("permit", "deny"):
        raise ValueError(
            "is not a rule; write permit or deny, source, destination, protocol, source ports, "
            "destination ports"
        )
    verdict, source, destination, protocol, *ports = [*parts, *["any"] * (6 - len(parts))]
    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol {protocol} is unknown; use {', '.join(PROTOCOLS)}")
    ranges = [_ports(text) for text in ports]
    if any(ranges) and PROTOCOLS[protocol] not in (UDP, 6):
        raise ValueError("ports need protocol udp or tcp")
    return Rule(
        verdict == "permit", _written(source, version), _written(destination, version),
        PROTOCOLS[protocol], *ranges,
    )  # fmt: skip


def _classbench(line: str, version: int) -> Rule:
    match = _CLASSBENCH.fullmatch(line)
    if match is None:
        raise ValueError("is not a rule of ClassBench (@source destination ports ports protocol)")
    source, destination, *numbers = match.groups()
    low, high, to_low, to_high = map(int, numbers[:4])
    protocol, mask = int(numbers[4], 16), int(numbers[5], 16)
    if mask not in (0, 255):
        raise ValueError(f"a protocol mask of 0x{mask:02x} is not supported; use 0xFF or 0x00")
    source_ports, destination_ports = _range(low, high), _range(to_low, to_high)
    has_ports = source_ports is not None or destination_ports is not None
    if has_ports and (mask == 0 or protocol not in (UDP, 6)):
        raise ValueError("ports need protocol 0x11 or 0x06")
    return Rule(
        False, _written(source, version), _written(destination, version),
        protocol if mask else None, source_ports, destination_ports,
    )  # fmt: skip


def _packed(text: str, version: int) -> tuple[bytes, int]:
    """Return network address and prefix length. The usual form is read without `ipaddress`, which
    takes ten times as long; `ipaddress` reads all other texts, and explains mistakes."""
    address, _, bits = text.partition("/")
    with suppress(ValueError, OSError, KeyError):
        packed = inet_pton(_FAMILIES[version], address)
        if int.from_bytes(packed, "big") & _HOST_MASKS[version][bits] == 0:
            return packed, int(bits)
    network = _prefix(text, version)
    return network.network_address.packed, network.prefixlen


def _written(text: str, version: int) -> str:
    """Return a prefix in its usual form."""
    network, bits = _packed(text, version)
    # `inet_ntop` writes some IPv6 addresses in another form than `ipaddress`.
    address = inet_ntoa(network) if version == 4 else str(ipaddress.IPv6Address(network))
    return f"{address}/{bits}"


def _prefix(text: str, version: int) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    if text == "any":
        text = "0.0.0.0/0" if version == 4 else "::/0"
    network = ipaddress.ip_network(text)  # raises ValueError, also if host bits are set
    if network.version != version:
        raise ValueError(f"{text} is not a prefix of IPv{version}; change ip_version")
    return network


def _ports(text: str) -> tuple[int, int] | None:
    if text == "any":
        return None
    match = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", text, re.ASCII)
    if match is None:
        raise ValueError(f"'{text}' is not a port or a range of ports such as 1024-2047")
    return _range(int(match[1]), int(match[2] or match[1]))


def _range(low: int, high: int) -> tuple[int, int] | None:
    if not 0 <= low <= high <= 65_535:
        raise ValueError(f"{low} to {high} is not a range of ports from 0 to 65535")
    return None if (low, high) == ANY_PORTS else (low, high)


def _hop(text: str) -> int:
    if not re.fullmatch(r"\d{1,5}", text, re.ASCII):
        raise ValueError("is not the number of a next hop")
    return int(text)


def _checked(path: str, number: int, text: str, read: Callable[[str], _T]) -> _T:
    """Return the value of a text. Raises UsageError with file and line."""
    try:
        return read(text)
    except ValueError as error:
        shown = text if len(text) <= 60 else text[:57] + "..."
        raise UsageError(f"{path}:{number}: '{shown}': {error}") from None


def usage_problems(read: Callable[[], object], key: str) -> Iterator[Refusal]:
    """Yield the reason why a file cannot be read, as a refusal of its key."""
    try:
        read()
    except UsageError as error:
        yield replace(error.refusal, key=key)


def file_identity(path: str) -> tuple[int, int]:
    """Return size and time of change, so that a changed file is read again. Raises UsageError."""
    try:
        status = Path(path).stat()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", remedy="name a file that exists") from None
    if not Path(path).is_file():
        raise UsageError(f"{path}: is not a file")
    if status.st_size > MOST_BYTES:
        raise UsageError(f"{path}: {status.st_size} bytes; at most {MOST_BYTES} are read")
    return status.st_size, status.st_mtime_ns


def _lines(path: str) -> Iterator[tuple[int, str]]:
    """Yield each line with its number, without comments and empty lines."""
    try:
        with Path(path).open(encoding="ascii") as file:
            for number, line in enumerate(file, 1):
                if len(line) > LONGEST_LINE or number > MOST_LINES:
                    raise UsageError(f"{path}:{number}: too long a line, or too many lines")
                if text := line.partition("#")[0].strip():
                    yield number, text
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not ASCII text") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def _first_line(path: str) -> str:
    return next((text for _, text in _lines(path)), "")
