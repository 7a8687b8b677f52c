"""What frames a trial sends, in words: mixes of sizes, flows, IP versions, VLAN tags.

The words are those of the engine (docs/engine-protocol.md, Addresses and frames), so that a
campaign means what `switchmark-traffic --help` says; they are read here to refuse a mistake
before anything starts, and for what a trial must know of them.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache

NO_WORD = "none"
SMALLEST_FRAME, LARGEST_FRAME = 64, 9018
MOST_FLOWS = 1_000_000
FLOW_FIELDS = ("src-mac", "dst-mac", "src-ip", "dst-ip", "src-port", "dst-port", "vlan")

_IMIX = "64*7+570*4+1518"
_GENOME_BYTES = dict(
    zip("abcdefghi", (64, 128, 256, 512, 1024, 1280, 1518, 2112, 9000), strict=True)
)
_CYCLE_MAX = 1024
_PART = re.compile(r"(\d+)(?:\*(\d+))?", re.ASCII)
_RANDOM = re.compile(r"random:(\d+)-(\d+)(?::seed=\d+)?", re.ASCII)
_DRAWN = re.compile(r"random:(imix|[\d+*]+)(?::seed=\d+)?", re.ASCII)
_RUN = re.compile(r"(\d*)(\D)", re.ASCII)
_LETTER = re.compile(r"([A-Zz])=(\d+)", re.ASCII)
_FLOWS = re.compile(r"(\d+(?:\.\d+)?)([kM]?)", re.ASCII)
_FLOW_FIELD = re.compile(r"([a-z-]+)(?:=(\d+[kM]?))?(/random)?", re.ASCII)
_SETTING = re.compile(r"zipf=\d+(?:\.\d+)?|seed=\d+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Mix:
    """Frame sizes of a mix in bytes, with FCS."""

    smallest: int
    largest: int
    mean: float


@lru_cache(maxsize=256)
def mix(text: str) -> Mix:
    """What a mix consists of. Raises ValueError, one line with the remedy."""
    if match := _RANDOM.fullmatch(text):
        low, high = _frame(match[1]), _frame(match[2])
        if low >= high:
            raise ValueError(f"'{text}' is no range; write the smaller size first")
        return Mix(low, high, (low + high) / 2)
    drawn = _DRAWN.fullmatch(text)
    sizes = _genome(text) if text.startswith("genome:") else _list(drawn[1] if drawn else text)
    if drawn and len(set(sizes)) == 1:
        raise ValueError(f"'{text}' has one size, which is not random; write packet_size")
    if len(sizes) > _CYCLE_MAX:
        raise ValueError(f"'{text}' has more than {_CYCLE_MAX} frames; shorten it")
    return Mix(min(sizes), max(sizes), math.fsum(sizes) / len(sizes))


def _list(text: str) -> list[int]:
    sizes: list[int] = []
    for part in (_IMIX if text == "imix" else text).split("+"):
        match = _PART.fullmatch(part)
        if match is None or match[2] == "0":
            raise ValueError(
                f"'{text}' is not a mix of sizes; write e.g. imix, genome:aaafag, "
                "64*7+570*4+1518, random:64-1518 or random:imix"
            )
        sizes += [_frame(match[1])] * min(int(match[2] or 1), _CYCLE_MAX + 1)
    return sizes


def _genome(text: str) -> list[int]:
    _, letters, *settings = text.split(":")
    known = dict(_GENOME_BYTES)
    for setting in settings:
        match = _LETTER.fullmatch(setting)
        if match is None:
            raise ValueError(f"'{setting}' in '{text}' is not a letter's size; write e.g. A=300")
        known[match[1]] = _frame(match[2])
    if not letters:
        raise ValueError(f"'{text}' has no letters; write e.g. genome:aaafag or genome:3afag")
    if not re.fullmatch(r"(?:\d*\D)+", letters, re.ASCII):
        raise ValueError(f"'{text}' ends in a number; write the letter that it repeats behind it")
    sizes: list[int] = []
    for run, letter in _RUN.findall(letters):
        if letter not in known:
            raise ValueError(
                f"'{letter}' in '{text}' has no size; use a to i, or give it one: :A=300"
            )
        if run and int(run) == 0:
            raise ValueError(f"'0{letter}' in '{text}' is no frame; leave it out")
        sizes += [known[letter]] * min(int(run or 1), _CYCLE_MAX + 1)
    return sizes


def _frame(digits: str) -> int:
    size = int(digits)
    if not SMALLEST_FRAME <= size <= LARGEST_FRAME:
        raise ValueError(f"{size} is not a frame size from {SMALLEST_FRAME} to {LARGEST_FRAME}")
    return size


def read_mix(text: str) -> str:
    """A mix as a campaign writes it; "" for none. Raises ValueError."""
    if text == NO_WORD:
        return ""
    mix(text)
    return text


def read_flows(text: str) -> str:
    """Flows as a campaign writes them. Raises ValueError."""
    count, *parts = text.split(":")
    match = _FLOWS.fullmatch(count)
    number = float(match[1]) * {"": 1, "k": 1e3, "M": 1e6}[match[2]] if match else 0.0
    if not 1 <= number <= MOST_FLOWS or number != int(number):
        raise ValueError(f"'{count}' is not a number of flows from 1 to {MOST_FLOWS}")
    fields = parts.pop(0) if parts and not _SETTING.fullmatch(parts[0]) else None
    for field in fields.split("+") if fields is not None else ():
        found = _FLOW_FIELD.fullmatch(field)
        if found is None or found[1] not in FLOW_FIELDS:
            raise ValueError(
                f"'{field}' is not a field that flows differ in; use {', '.join(FLOW_FIELDS)}, "
                "with =COUNT or /random behind it"
            )
    for part in parts:
        if not _SETTING.fullmatch(part):
            raise ValueError(f"'{part}' is neither zipf=S nor seed=N")
    return str(int(number)) if not parts and fields is None else text


def flow_fields(flows: str) -> frozenset[str]:
    """The fields in which these flows differ; none for one flow."""
    if flows == "1":
        return frozenset()
    parts = flows.split(":")
    if len(parts) == 1 or _SETTING.fullmatch(parts[1]):
        return frozenset({"src-ip"})
    return frozenset(re.split(r"[=/]", field)[0] for field in parts[1].split("+"))


def mirrored_flows(flows: str) -> str:
    """The same flows from the other end's point of view."""
    parts = flows.split(":")
    if len(parts) == 1 or _SETTING.fullmatch(parts[1]):
        parts.insert(1, "src-ip")
    other = {"src": "dst", "dst": "src"}
    parts[1] = re.sub(r"\b(src|dst)-", lambda match: f"{other[match[1]]}-", parts[1])
    return ":".join(parts)


def read_vlan(text: str) -> str:
    """`100`, or `200.100` for two tags, the outer first; "" for none. Raises ValueError."""
    if text == NO_WORD:
        return ""
    ids = text.split(".")
    if len(ids) > 2 or not all(
        one.isascii() and one.isdigit() and 1 <= int(one) <= 4094 for one in ids
    ):
        raise ValueError(f"'{text}' is not a VLAN ID from 1 to 4094, or two such as 200.100")
    return ".".join(str(int(one)) for one in ids)


def smallest_frame(ip_version: int, vlan: str) -> int:
    """Bytes with FCS of the smallest frame of this kind that holds the engine's stamp: a tag
    takes 4 bytes more than a plain frame's 64, IPv6 20."""
    tags = len(vlan.split(".")) if vlan else 0
    return SMALLEST_FRAME + 4 * tags + (20 if ip_version == 6 else 0)
