"""The frames that a trial sends: mixes of sizes, flows, IP versions, VLAN tags.

The texts are those of the engine (docs/engine-protocol.md, Addresses and frames), so that a
campaign means the same as `switchmark-traffic --help`. They are read here to refuse a mistake
before anything starts, and for the facts of a trial that the bench needs.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property

from switchmark.language import values
from switchmark.language.values import BadValueError, Limits
from switchmark.model.choices import MAX_FRAME_BYTES, MIN_FRAME_BYTES
from switchmark.model.written import WrittenValue

NO_WORD = "none"
MOST_FLOWS = 1_000_000
MOST_FIELD_VALUES = 16_777_216
USUAL_FIELD = "src-ip"  # in which flows differ
FLOW_FIELDS = ("src-mac", "dst-mac", "src-ip", "dst-ip", "src-port", "dst-port", "vlan")

_IMIX = "64*7+570*4+1518"
_GENOME_BYTES = dict(
    zip("abcdefghi", (64, 128, 256, 512, 1024, 1280, 1518, 2112, 9000), strict=True)
)
_CYCLE_MAX = 1024
_WHOLE = r"(?:0|[1-9]\d*)"
_SEED = rf"seed={_WHOLE}(?:\.0+)?[kKMG]?"
_PART = re.compile(rf"({_WHOLE})(?:\*({_WHOLE}))?", re.ASCII)
_RANDOM = re.compile(rf"random:({_WHOLE})-({_WHOLE})(?::{_SEED})?", re.ASCII)
_DRAWN = re.compile(rf"random:(imix|[\d+*]+)(?::{_SEED})?", re.ASCII)
_RUN = re.compile(r"(\d*)(\D)", re.ASCII)
_LETTER = re.compile(rf"([A-Zz])=({_WHOLE})", re.ASCII)
_FLOW_FIELD = re.compile(r"([a-z-]+)(?:=([^/]+))?(/random)?", re.ASCII)
_EXPONENT = re.compile(rf"{_WHOLE}(?:\.\d{{1,9}})?", re.ASCII)
_LARGEST_EXPONENT = 10.0
_SETTINGS = ("zipf=", "seed=")
_SEED_LIMITS = Limits(0, 2**64 - 1, "not a seed", "too large a seed", suffixes=True)
_FIELD_VALUES = {"src-port": 65_535, "dst-port": 65_535, "vlan": 4094}


@dataclass(frozen=True, slots=True)
class Mix:
    """Frame sizes of a mix in bytes, with FCS."""

    smallest: int
    largest: int
    mean: float


class PacketMix(WrittenValue):
    """Frame sizes of one trial; an empty text: all frames have one size, `packet_size`."""

    @cached_property
    def sizes(self) -> Mix:
        """The sizes of the frames. Raises ValueError, one line with the remedy."""
        return _mix(self)


class Flows(WrittenValue):
    """The number of flows of a pair, and the fields in which they differ."""

    @cached_property
    def fields(self) -> frozenset[str]:
        """The fields in which the flows differ; empty for one flow."""
        if self == "1":
            return frozenset()
        _, fields, _ = _parts_of_flows(self)
        names = (fields or USUAL_FIELD).split("+")
        return frozenset(re.split(r"[=/]", field)[0] for field in names)

    @cached_property
    def number(self) -> int:
        """The number of flows."""
        number = _count(_parts_of_flows(self)[0], MOST_FLOWS)
        assert number is not None, "it was read"
        return number

    @cached_property
    def zipf(self) -> float | None:
        """The exponent of Zipf's law; None: the flows take turns."""
        return next((float(value) for name, value in self._settings if name == "zipf"), None)

    @cached_property
    def seed(self) -> int:
        """The seed of the order of flows."""
        texts = (value for name, value in self._settings if name == "seed")
        return next((values.whole(text, _SEED_LIMITS) for text in texts), 1)

    @property
    def names_fields(self) -> bool:
        """Return True if the text names the fields in which flows differ."""
        return _parts_of_flows(self)[1] is not None

    @property
    def _settings(self) -> list[tuple[str, str]]:
        parts = (part.partition("=") for part in _parts_of_flows(self)[2])
        return [(name, value) for name, _, value in parts]

    @cached_property
    def mirrored(self) -> str:
        """The flows in the other direction: source and destination change places."""
        count, fields, settings = _parts_of_flows(self)
        other = {"src": "dst", "dst": "src"}
        mirrored = re.sub(r"\b(src|dst)-", lambda at: f"{other[at[1]]}-", fields or USUAL_FIELD)
        return ":".join([count, mirrored, *settings])


class Vlan(WrittenValue):
    """The VLAN tags of the frames, the outer first; an empty text: none."""

    @property
    def tags(self) -> int:
        """The number of tags."""
        return len(self.split(".")) if self else 0


ONE_FLOW = Flows("1")


def _mix(text: str) -> Mix:
    if match := _RANDOM.fullmatch(text):
        low, high = _frame(match[1]), _frame(match[2])
        if low >= high:
            raise ValueError(f"'{text}' is not a range; write the smaller size first")
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
            raise ValueError(f"'0{letter}' in '{text}' is not a frame; leave it out")
        sizes += [known[letter]] * min(int(run or 1), _CYCLE_MAX + 1)
    return sizes


def _frame(digits: str) -> int:
    size = int(digits)
    if not MIN_FRAME_BYTES <= size <= MAX_FRAME_BYTES:
        raise ValueError(f"{size} is not a frame size from {MIN_FRAME_BYTES} to {MAX_FRAME_BYTES}")
    return size


def read_mix(text: str) -> PacketMix:
    """Read the mix of a campaign. Raises ValueError."""
    mix = PacketMix.of(text)
    _ = mix.sizes
    return mix


def read_flows(text: str) -> Flows:
    """Read the flows of a campaign. Raises ValueError."""
    count, fields, settings = _parts_of_flows(text)
    number = _count(count, MOST_FLOWS)
    if number is None:
        raise ValueError(f"'{count}' is not a number of flows from 1 to {MOST_FLOWS}")
    names: set[str] = set()
    for field in fields.split("+") if fields is not None else ():
        name = _flow_field(field)
        if name in names:
            raise ValueError(f"'{name}' is given twice in '{text}'; keep one")
        names.add(name)
    for setting in settings:
        _check_setting(setting)
    return Flows.of(str(number) if not settings and fields is None else text)


def _parts_of_flows(text: str) -> tuple[str, str | None, list[str]]:
    """The number of flows, the fields in which they differ (None: not named), and the settings."""
    count, *parts = text.split(":")
    names_fields = bool(parts) and not parts[0].startswith(_SETTINGS)
    return count, parts.pop(0) if names_fields else None, parts


def _count(text: str, most: int) -> int | None:
    """Read a number from 1 to `most`; None for anything else."""
    try:
        return values.whole(text, Limits(1, most, "too few", "too many", suffixes=True))
    except BadValueError:
        return None


def _flow_field(field: str) -> str:
    found = _FLOW_FIELD.fullmatch(field)
    if found is None or found[1] not in FLOW_FIELDS:
        raise ValueError(
            f"'{field}' is not a field that flows differ in; use {', '.join(FLOW_FIELDS)}, "
            "with =COUNT or /random behind it"
        )
    most = _FIELD_VALUES.get(found[1], MOST_FIELD_VALUES)
    if found[2] is not None and _count(found[2], most) is None:
        raise ValueError(f"'{field}' needs a number of values from 1 to {most}")
    return found[1]


def _check_setting(part: str) -> None:
    name, _, value = part.partition("=")
    if name == "zipf" and _EXPONENT.fullmatch(value) and float(value) <= _LARGEST_EXPONENT:
        return
    if name == "zipf":
        raise ValueError(f"'{part}' is not an exponent from 0 to 10, such as zipf=1.0")
    if name != "seed":
        raise ValueError(f"'{part}' is neither zipf=S nor seed=N")
    values.whole(value, _SEED_LIMITS)


def read_vlan(text: str) -> Vlan:
    """Read `100`, or `200.100` for two tags, the outer first; "" for none. Raises ValueError."""
    if text == NO_WORD:
        return Vlan("")
    ids = text.split(".")
    if len(ids) > 2 or not all(
        re.fullmatch(_WHOLE, one, re.ASCII) and 1 <= int(one) <= 4094 for one in ids
    ):
        raise ValueError(f"'{text}' is not a VLAN ID from 1 to 4094, or two such as 200.100")
    return Vlan.of(text)


def smallest_frame(ip_version: int, vlan: Vlan) -> int:
    """Return the size of the smallest frame of this kind that has room for the engine's stamp, in
    bytes with FCS: a tag takes 4 bytes more than a plain frame's 64, IPv6 20."""
    return MIN_FRAME_BYTES + 4 * vlan.tags + (20 if ip_version == 6 else 0)
