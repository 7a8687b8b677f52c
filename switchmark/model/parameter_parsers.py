"""Parsers of the parameters of a trial, with bounds, names and messages.

Each reader takes the text and the names that exist here, and raises `BadValueError`. A type with
few values needs none (parameter_type.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

from switchmark.language import values
from switchmark.language.values import BadValueError
from switchmark.language.values import Limits as Limits  # noqa: PLC0414 (rows have limits of their own)
from switchmark.model import choices, rates
from switchmark.model.cpu_choice import CpuChoice
from switchmark.model.lists import ComparedKeys, Fractions
from switchmark.model.parameter_type import Known, Reader
from switchmark.model.scenario import Scenario

FRAME = Limits(
    choices.MIN_FRAME_BYTES,
    choices.MAX_FRAME_BYTES,
    "below the smallest Ethernet frame (64 with FCS)",
    "above the largest frame the engine builds (9018 with FCS)",
)
PROBE_RATE = Limits(
    1,
    choices.MAX_PROBE_RATE_PPS,
    "not a rate",
    "not a low rate (1M packets/s at most)",
    suffixes=True,
)
BURST = Limits(1, choices.MAX_BURST, "not a burst", "above the largest burst", suffixes=True)
AT_ONCE = Limits(1, 64, "not a number of attachments", "above the most attachments at once")
CHANGE_RATE = Limits(1, 1_000_000, "not a rate of changes", "above the highest rate", suffixes=True)
PAIRS = Limits(1, choices.MAX_PAIRS, "not a number of pairs", "above the most pairs one host takes")
CORES = Limits(1, choices.MAX_CORES, "not a number of cores", "above any machine's cores")
SPARE = Limits(0, choices.MAX_CORES, "not a number of cores", "above any machine's cores")
VCPUS = Limits(1, choices.MAX_VCPUS, "not a number of virtual CPUs", "above any machine's cores")
ROUTES = Limits(1, 4_000_000, "not a number of routes", "above the most routes", suffixes=True)
RULES = Limits(0, 1_000_000, "not a number of rules", "above the most rules", suffixes=True)
MASKS = Limits(1, 16, "not a number of masks", "above the most masks")
TUNNELS = Limits(1, 16_384, "not a number of tunnels", "above the most tunnels", suffixes=True)
VNI = Limits(1, 2**24 - 1, "not a VNI", "above the largest VNI (RFC 7348)")
VID = Limits(1, 4094, "not a VLAN ID", "above the largest VLAN ID")
CIR = Limits(8_000, 400_000_000_000, "too low a rate", "above the highest rate", suffixes=True)
CBS = Limits(64, 1_000_000_000, "below a frame", "above the largest burst size", suffixes=True)
ABORT = Limits(2, 1000, "not a growth", "above every growth that matters")
PPS_CAP = Limits(1, 10**9, "not a rate", "above every rate", suffixes=True)
REPETITION = Limits(0, choices.MAX_REPETITIONS - 1, "not a repetition", "above the last repetition")
STREAMS = Limits(1, 128, "not a number of streams", "above the most streams of a pair")
CONNECTIONS = Limits(
    1, 10_000, "not a number of connections", "above the most connections of a pair"
)
MESSAGE = Limits(1, 1 << 24, "not a size", "above the largest message (16M bytes)", suffixes=True)
DATAGRAM = Limits(
    choices.LEAST_DATAGRAM_BYTES,
    choices.MOST_DATAGRAM_BYTES,
    "below the smallest datagram, which has a number and a time",
    "above the largest datagram of a 1500-byte MTU",
)
_PAIRS_NOTATION = re.compile(r"(\d+)\s*vs\s*(\d+)", re.ASCII)


def pairs(text: str, _known: Known) -> int:
    """Read a number of pairs: `4` or `4vs4`."""
    match = _PAIRS_NOTATION.fullmatch(text)
    if match and match[1] != match[2]:
        raise BadValueError(f"'{text}' is uneven; pairs have as many ends left as right, e.g. 2vs2")
    return values.whole(match[1] if match else text, PAIRS)


def scenario(text: str, known: Known) -> Scenario:
    """Read a scenario's name. A name with numbers (`loopback-3`) is known by its pattern
    (`loopback-N`)."""
    if known.scenarios is None:
        return Scenario.of(values.choice(text, None, "scenario"))
    patterns = {
        re.sub(r"[MN]", r"[1-9]\\d{0,3}", written, flags=re.ASCII) for written in known.scenarios
    }
    if any(re.fullmatch(pattern, text, re.ASCII) for pattern in patterns):
        return Scenario.of(text)
    return Scenario.of(values.choice(text, known.scenarios, "scenario"))


def kind_or_path(kinds: tuple[str, ...], noun: str) -> Reader:
    """Read one of some kinds, or the absolute path of a program."""

    def read(text: str, known: Known) -> str:
        if not text.startswith("/"):
            return values.choice(text, kinds, f"{noun} (or absolute path)")
        if not re.fullmatch(choices.VNF_PATTERN, text, re.ASCII):
            raise BadValueError(
                f"'{values.shorten(text)}' is not a path that can be written here; use letters, "
                "digits, '.', '_', '+', '-' and '/'"
            )
        return _here(text, known)

    return read


def program(text: str, known: Known) -> str:
    """Read the absolute path of a program; where it must be here, one that can be executed."""
    if not re.fullmatch(choices.PROGRAM_PATTERN, text, re.ASCII):
        raise BadValueError(
            f"'{values.shorten(text)}' is not an absolute path of letters, digits, '.', '_', '+', "
            "'-' and '/'; write e.g. /opt/vpp-new/bin/vpp, or auto"
        )
    return _here(text, known)


def table_file(text: str, _known: Known) -> str:
    """Read the absolute path of a file with a table; the function reads the file itself."""
    if not re.fullmatch(choices.PROGRAM_PATTERN, text, re.ASCII):
        raise BadValueError(
            f"'{values.shorten(text)}' is not an absolute path of letters, digits, '.', '_', '+', "
            "'-' and '/'; write e.g. /srv/tables/full.csv, or none"
        )
    return text


def _here(path: str, known: Known) -> str:
    """The path of a program that can be executed here, where that is asked."""
    if known.program_problem is not None and (problem := known.program_problem(path)) is not None:
        raise BadValueError(f"{path} {problem}")
    return path


def contender(text: str, _known: Known) -> str:
    """Read the name of a contender."""
    return values.name(text)


def compared(comparable: Collection[str]) -> Reader:
    """Return the reader of keys that a campaign compares, which sorts them. `comparable`: the keys
    of place and cores."""

    def read(text: str, _known: Known) -> ComparedKeys:
        keys = sorted({part.strip() for part in text.split("+")})
        for key in keys:
            if key not in comparable:
                raise BadValueError(values.unknown(key, comparable, "key of place or cores"))
        return ComparedKeys.of("+".join(keys))

    return read


def cpu_limit(text: str, _known: Known) -> float:
    """Read a share above 0."""
    limit = values.share(text)
    if limit <= 0:
        raise BadValueError(f"{text} leaves the switch no CPU time; use e.g. 50%")
    return limit


def fractions(text: str, _known: Known) -> Fractions:
    """Read shares above 0, joined by `+`; returns each in its shortest form."""
    shares = [values.share(item.strip()) for item in text.split("+")]
    if min(shares) <= 0:
        raise BadValueError(f"{text}: a fraction of R+ is above 0; write e.g. 0.1+0.5+0.99")
    return Fractions.of("+".join(f"{share:g}" for share in dict.fromkeys(shares)))


def cores(*words: str, in_turn: bool = False) -> Reader:
    """Read one of some words, or cores joined by `+`; only those that are dealt out in turn may
    stand there more than once."""

    def read(text: str, _known: Known) -> CpuChoice:
        if text in words:
            return CpuChoice.of(text)
        if not re.fullmatch(choices.CORES_PATTERN, text, re.ASCII):
            raise BadValueError(
                f"'{values.shorten(text)}' names no cores; write e.g. 2+3, or {' or '.join(words)}"
            )
        numbers = [int(number) for number in text.split("+")]
        again = [number for number in numbers if numbers.count(number) > 1]
        if again and not in_turn:
            raise BadValueError(
                f"'{values.shorten(text)}' names core {again[0]} more than once; name each once"
            )
        return CpuChoice.of(text)

    return read


def one_core(text: str, _known: Known) -> CpuChoice:
    """Read a core's number, or `auto`."""
    if text == "auto" or re.fullmatch(r"\d{1,4}", text, re.ASCII):
        return CpuChoice.of(text)
    raise BadValueError(f"'{values.shorten(text)}' is not a core; write its number, or auto")


def words(read: Callable[[str], Any]) -> Reader:
    """Make a reader of another module's function, whose ValueError is the message."""

    def checked(text: str, _known: Known) -> Any:
        try:
            return read(text)
        except BadValueError:
            raise
        except ValueError as error:
            raise BadValueError(str(error)) from None

    return checked


def is_mix(text: str) -> bool:
    """Return True if a text names several sizes in one trial."""
    return re.match(r"imix$|genome:|random:|\d+[+*]", text) is not None


def packet_size(text: str, _known: Known) -> int:
    """Read a frame size in bytes with FCS. Mixes of sizes are another key's (campaign/mixes.py)."""
    if is_mix(text):
        raise BadValueError(
            f"'{text}' is a mix of sizes in one trial; write packet_mix: {text} in its own sweep"
        )
    return values.whole(text, FRAME)


def probe_rate(text: str) -> int | rates.BitRate:
    """Read a rate of probes, in frames or bits a second. Raises `BadValueError`."""
    rate = rates.rate(text, PROBE_RATE)
    if rate is None:
        raise BadValueError("max is not a rate for probes; write e.g. 1k")
    return rate


def time(text: str, _known: Known) -> float:
    """Read seconds, within the limits of a trial's length."""
    return values.seconds(text, choices.MIN_TIME_S, choices.MAX_TIME_S)
