"""Rates and schedules of traffic as campaigns write them.

A rate is frames a second, bits a second of a named layer, or a share of a named line. Bits
become whole frames a second by the frame size, so one value of `rate` may stand for several:
each trial carries its own. Schedules are checked here and handed to the engine as text, which
reads them by the same rules (docs/engine-protocol.md).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from switchmark.language import values
from switchmark.language.values import BadValueError, Limits
from switchmark.model.choices import MAX_RATE_PPS
from switchmark.model.written import WrittenValue

L1_OVERHEAD_BYTES = 20  # preamble, start delimiter, inter-frame gap
MAX_BPS = 10_000_000_000_000
_BITS = re.compile(r"(?P<amount>.+?)\s*(?:bps|bit/s)(?:-(?P<layer>[A-Za-z0-9]+))?")
_SHARE = re.compile(r"(?P<share>\S+?)\s*%(?:\s*of\s+(?P<line>.+))?")
_BPS = Limits(1, MAX_BPS, "not a bit rate", "above any link (10000G bit/s)", suffixes=True)
_FRAMES = re.compile(r"(?P<amount>.+?)\s*pps")
PPS = Limits(1, MAX_RATE_PPS, "not a rate", "above any link (10G packets/s)", suffixes=True)
_SEED = Limits(0, 2**63 - 1, "not a seed", "too large a seed", suffixes=True)
_FINEST_PERCENT = Decimal("0.000001")  # as the engine counts them
_EXAMPLES = "constant, poisson, poisson:7, on-off:10ms:90ms or ramp:1k:1M:10s"
_LEAST_S, _LONGEST_S = 1e-6, 604_800.0


@dataclass(frozen=True, slots=True)
class BitRate:
    """Bits per second, counted on layer 1 (as on the wire) or 2 (frames with FCS); layer 0: bits of
    an application's payload."""

    bps: Decimal
    layer: int

    def __str__(self) -> str:
        layer = f"-l{self.layer}" if self.layer else ""
        return f"{values.format_rate(round(self.bps))}bps{layer}"

    def pps(self, frame_bytes: float) -> int:
        """Frames of this size (with FCS) a second: the nearest whole number, at least 1. Bits of
        payload stay bits."""
        if not self.layer:
            return max(1, round(self.bps))
        more = L1_OVERHEAD_BYTES if self.layer == 1 else 0
        return max(1, round(float(self.bps) / (8 * (frame_bytes + more))))


def in_frames(rate: int | BitRate, frame_bytes: float) -> int:
    """A rate in frames of this size (with FCS) a second."""
    return rate.pps(frame_bytes) if isinstance(rate, BitRate) else rate


def rate(text: str, limits: Limits = PPS) -> int | BitRate | None:
    """Read frames/s (`1.5M`, `800kpps`), bits/s of a named layer, a share of a named line, or `max`
    (None). The limits are of frames/s. Raises `BadValueError`."""
    return None if text == "max" else bit_rate(text) or _frames(text, limits)


def load(text: str) -> int | BitRate | None:
    """Read a rate as `rate` does, or bits of payload without a layer (`1Gbps`), which only some
    workloads have. Raises `BadValueError`."""
    bits = None if "%" in text else _BITS.fullmatch(text)
    if bits is not None and bits["layer"] is None:
        return BitRate(Decimal(values.whole(bits["amount"], _BPS)), 0)
    return rate(text)


def _frames(text: str, limits: Limits) -> int:
    named = _FRAMES.fullmatch(text)
    return values.whole(named["amount"] if named else text, limits)


def bit_rate(text: str) -> BitRate | None:
    """Read `1Gbps-l1`, `500Mbit/s-l2` or `80% of 10Gbps`; None when the text is none of these.
    Raises `BadValueError` where it is one, but is incomplete or impossible."""
    share = _SHARE.fullmatch(text)
    if share is not None:
        return _share_of(text, share["share"], share["line"])
    bits = _BITS.fullmatch(text)
    if bits is None:
        return None
    if bits["layer"] not in ("l1", "l2"):
        bare = text.partition("-")[0]
        raise BadValueError(
            f"'{values.shorten(text)}' does not name its layer; write {bare}-l1 (20 bytes a frame "
            f"more, as on the wire) or {bare}-l2 (the frames with FCS)"
        )
    return BitRate(Decimal(values.whole(bits["amount"], _BPS)), int(bits["layer"][1]))


def _share_of(text: str, share: str, line: str | None) -> BitRate:
    found = None if line is None else _BITS.fullmatch(line.strip())
    if found is None or found["layer"] not in (None, "l1"):
        raise BadValueError(
            f"'{values.shorten(text)}' does not say of which line; write e.g. {share}% of 10Gbps"
        )
    part = Decimal(str(values.share(f"{share}%")))
    if part == 0:
        raise BadValueError(f"'{values.shorten(text)}' sends nothing; use more than 0%")
    if part * 100 % _FINEST_PERCENT != 0:
        raise BadValueError(f"'{values.shorten(text)}' is finer than {_FINEST_PERCENT:f}%")
    return BitRate(part * values.whole(found["amount"], _BPS), 1)


class Schedule(WrittenValue):
    """When bursts are sent, in the shortest form."""

    @property
    def shape(self) -> str:
        """The name of the schedule without its parameters."""
        return self.partition(":")[0]

    @property
    def is_steady(self) -> bool:
        """Return True if the schedule has the same mean rate all the time."""
        return self.shape in ("constant", "poisson")

    @property
    def has_own_rate(self) -> bool:
        """Return True if the schedule itself gives the rates, as a ramp does."""
        return self.shape == "ramp"


CONSTANT = Schedule("constant")


def schedule(text: str) -> Schedule:
    """Read a schedule. Raises `BadValueError`."""
    return Schedule.of(_shortest(text))


def _shortest(text: str) -> str:
    shape, *parts = text.strip().split(":")
    match shape, parts:
        case ("constant", []):
            return CONSTANT
        case ("poisson", []):
            return "poisson"
        case ("poisson", [seed]):
            return f"poisson:{values.whole(seed, _SEED)}"
        case ("on-off", [on, off]):
            return f"on-off:{_time(on)}:{_time(off)}"
        case ("ramp", [low, high, over]):
            ends = [_end(low), _end(high)]
            if ends == ["0", "0"]:
                raise BadValueError("a ramp from 0 to 0 sends nothing; give one end a rate")
            return f"ramp:{':'.join(ends)}:{_time(over)}"
        case _:
            raise BadValueError(f"'{values.shorten(text)}' is not a schedule; write {_EXAMPLES}")


def _time(text: str) -> str:
    return values.format_seconds(values.seconds(text, _LEAST_S, _LONGEST_S))


def _end(text: str) -> str:
    """One end of a ramp, which the engine turns into frames itself."""
    if "%" in text or text == "max":
        raise BadValueError(
            f"'{values.shorten(text)}' cannot be an end of a ramp; write packets/s or bits/s "
            "(1Gbps-l1)"
        )
    if text == "0":
        return text
    return text if bit_rate(text) is not None else values.format_rate(_frames(text, PPS))
