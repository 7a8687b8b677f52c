"""How one value of a trial's key is read: bounds, names, and messages that say what to write.

Each reader takes the text and the names that exist here, and raises `BadValueError`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from switchmark.campaign import model, rates, values
from switchmark.campaign.key import Known
from switchmark.campaign.values import BadValueError, Limits
from switchmark.switch import options
from switchmark.switch.base import ConnectMode, PortKind

_FRAME = Limits(
    model.MIN_FRAME_BYTES,
    model.MAX_FRAME_BYTES,
    "below the smallest Ethernet frame (64 with FCS)",
    "above the largest frame the engine builds (9018 with FCS)",
)
_RATE = Limits(
    1, model.MAX_RATE_PPS, "not a rate", "above any link that exists (10G packets/s)", suffixes=True
)
_PROBE_RATE = Limits(
    1, model.MAX_PROBE_RATE_PPS, "not a rate", "no low rate (1M packets/s at most)", suffixes=True
)
BURST = Limits(1, model.MAX_BURST, "not a burst", "above the largest burst")
_PAIRS = Limits(1, model.MAX_PAIRS, "not a number of pairs", "above the most pairs one host takes")
CORES = Limits(1, model.MAX_CORES, "not a number of cores", "above any machine's cores")
SPARE = Limits(0, model.MAX_CORES, "not a number of cores", "above any machine's cores")
_PAIRS_NOTATION = re.compile(r"(\d+)\s*vs\s*(\d+)", re.ASCII)


def rate(text: str, _known: Known) -> int | rates.BitRate | None:
    """Frames/s, bits of a named layer, or `max` (None)."""
    if text == "max":
        return None
    return rates.bit_rate(text) or values.whole(text, _RATE)


def probe_rate(text: str, _known: Known) -> int | None:
    """Frames/s of the timed stream, or `none`."""
    return None if text == "none" else values.whole(text, _PROBE_RATE)


def pairs(text: str, _known: Known) -> int:
    """How many pairs: `4` or `4vs4`."""
    match = _PAIRS_NOTATION.fullmatch(text)
    if match and match[1] != match[2]:
        raise BadValueError(f"'{text}' is uneven; pairs have as many ends left as right, e.g. 2vs2")
    return values.whole(match[1] if match else text, _PAIRS)


def scenario(text: str, known: Known) -> str:
    """Names with numbers in them (`loopback-3`) are known by the pattern (`loopback-N`)."""
    if known.scenarios is None:
        return values.choice(text, None, "scenario")
    patterns = {
        re.sub(r"[MN]", r"[1-9]\\d{0,3}", written, flags=re.ASCII) for written in known.scenarios
    }
    if any(re.fullmatch(pattern, text, re.ASCII) for pattern in patterns):
        return text
    return values.choice(text, known.scenarios, "scenario")


def vnf(text: str, _known: Known) -> str:
    """A kind of VNF, or the absolute path of a program."""
    if text.startswith("/"):
        if not re.fullmatch(model.VNF_PATTERN, text, re.ASCII):
            raise BadValueError(
                f"'{values.shorten(text)}' is not a path that can be written here; use letters, "
                "digits, '.', '_', '+', '-' and '/'"
            )
        return text
    return values.choice(text, model.VNFS, "kind of VNF (or absolute path)")


def cpu_limit(text: str, _known: Known) -> float | None:
    """A share above 0, or `none`."""
    if text == "none":
        return None
    limit = values.share(text)
    if limit <= 0:
        raise BadValueError(f"{text} leaves the switch no CPU time; use e.g. 50%")
    return limit


def cores(words: tuple[str, ...]) -> Callable[[str, Known], str]:
    """One of some words, or cores joined by `+`."""

    def read(text: str, _known: Known) -> str:
        if text in words or re.fullmatch(model.CORES_PATTERN, text, re.ASCII):
            return text
        raise BadValueError(
            f"'{values.shorten(text)}' are no cores; write e.g. 2+3, or {' or '.join(words)}"
        )

    return read


def one_core(text: str, _known: Known) -> str:
    """A core's number, or `auto`."""
    if text == "auto" or re.fullmatch(r"\d{1,4}", text, re.ASCII):
        return text
    raise BadValueError(f"'{values.shorten(text)}' is no core; write its number, or auto")


def neighbour(text: str, _known: Known) -> str:
    """A kind of background load, or the absolute path of a program."""
    if text.startswith("/"):
        return vnf(text, _known)
    return values.choice(text, model.NEIGHBOURS, "kind of neighbour (or absolute path)")


def connect_mode(text: str, _known: Known) -> ConnectMode | None:
    """A connect mode; `auto` is None."""
    word = values.choice(text, ("auto", *ConnectMode), "connect mode")
    return None if word == "auto" else ConnectMode(word)


def port_kind(text: str, _known: Known) -> PortKind | None:
    """A kind of port; `auto` is None."""
    word = values.choice(text, ("auto", *PortKind), "port kind")
    return None if word == "auto" else PortKind(word)


def switch_options(text: str, _known: Known) -> str:
    """Options in their one form: sorted by name."""
    try:
        return options.join(options.parse(text))
    except ValueError as error:
        raise BadValueError(str(error)) from None


def words(read: Callable[[str], str]) -> Callable[[str, Known], str]:
    """A reader of words of another module, whose ValueError is the message."""

    def checked(text: str, _known: Known) -> str:
        try:
            return read(text)
        except ValueError as error:
            raise BadValueError(str(error)) from None

    return checked


def packet_size(text: str, _known: Known) -> int:
    """Bytes with FCS; points out a mix of sizes."""
    if re.match(r"imix$|genome:|random:|\d+[+*]", text):
        raise BadValueError(f"'{text}' is a mix of sizes in one trial; write packet_mix: {text}")
    return values.whole(text, _FRAME)


def time(text: str, _known: Known) -> float:
    """Seconds, within what a trial can last."""
    return values.seconds(text, model.MIN_TIME_S, model.MAX_TIME_S)


def whole(limits: Limits) -> Callable[[str, Known], int]:
    """A whole number within these limits."""
    return lambda text, _known: values.whole(text, limits)
