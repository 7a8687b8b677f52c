"""The rate of a flow, and its duration or number of frames."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from switchmark.model.rates import L1_OVERHEAD_BYTES
from switchmark.otg import types
from switchmark.otg.frames import MOST_FRAMES
from switchmark.otg.refusal import Refused, chosen

USUAL_GAP_BYTES = 12  # the smallest gap on a wire, and OTG's default
LONGEST_NS = 10**15  # the longest time that the engine takes
NEVER_TOO_LATE_US = 1_000_000_000  # the engine's largest bound: it skips no frame
_UNITS = {"bps": ("", 1), "kbps": ("k", 10**3), "mbps": ("M", 10**6), "gbps": ("G", 10**9)}


def plain(number: float) -> str:
    """Return the number without an exponent, which the engine cannot read."""
    return f"{Decimal(repr(number)):f}"


def rate_arguments(
    rate: types.FlowRate | None,
    path: str,
    speed_mbps: int | None,
    mean_bytes: Fraction,
    outer_bytes: int = 0,
) -> list[str]:
    """Return the engine's options for a load. Its bits are those of the frames with FCS, whose mean
    size is `mean_bytes`. The engine counts bits without the outer headers of tunnels."""
    rate = rate or types.FlowRate()
    inner_share = (mean_bytes - outer_bytes) / mean_bytes
    match kind := chosen(rate):
        case "pps":
            return ["--rate", str(rate.pps)]
        case "percentage":
            if speed_mbps is None:
                raise Refused(
                    f"{path}.percentage: the speed of the port is unknown; give it in layer1"
                )
            if rate.percentage <= 0:
                raise Refused(f"{path}.percentage: must be above 0")
            if outer_bytes:
                l1_bps = speed_mbps * 10_000 * Fraction(repr(rate.percentage))
                l2_bps = l1_bps * mean_bytes / (mean_bytes + L1_OVERHEAD_BYTES)
                return ["--rate", f"{max(1, round(l2_bps * inner_share))}bps-l2"]
            if rate.percentage == 100:
                return ["--rate", f"{speed_mbps}Mbps-l1"]
            return ["--rate", f"{plain(rate.percentage)}%", "--line-rate", f"{speed_mbps}Mbps"]
        case _:
            unit, bits = _UNITS[kind]
            if outer_bytes:
                l2_bps = getattr(rate, kind) * bits
                return ["--rate", f"{max(1, round(l2_bps * inner_share))}bps-l2"]
            return ["--rate", f"{getattr(rate, kind)}{unit}bps-l2"]


@dataclass(frozen=True, slots=True)
class SendingTime:
    """The duration of a flow, or its number of frames."""

    arguments: tuple[str, ...]
    frames: int | None = None
    step_ns: tuple[int, ...] | None = None  # the due time of each frame

    @classmethod
    def of(
        cls,
        duration: types.FlowDuration | None,
        path: str,
        rate: types.FlowRate | None,
    ) -> SendingTime:
        """Read it from a configuration. Raises `Refused`."""
        duration = duration or types.FlowDuration()
        kind = chosen(duration)
        part = getattr(duration, kind)
        if part is not None and part.gap != USUAL_GAP_BYTES:
            raise Refused(
                f"{path}.{kind}.gap: only {USUAL_GAP_BYTES} is supported; set the distance of "
                "frames by the rate"
            )
        match kind:
            case "continuous":
                return cls(("--duration", "0", "--burst", "1"))
            case "fixed_seconds":
                seconds = (duration.fixed_seconds or types.FlowFixedSeconds()).seconds
                if seconds <= 0:
                    raise Refused(f"{path}.fixed_seconds.seconds: must be above 0")
                return cls(("--duration", f"{plain(seconds)}s", "--burst", "1"))
            case "fixed_packets":
                packets = (duration.fixed_packets or types.FlowFixedPackets()).packets
                return cls(("--burst", "1"), packets)
            case _:
                burst = duration.burst or types.FlowBurst()
                return cls._bursts(burst, f"{path}.burst", rate)

    @classmethod
    def _bursts(cls, burst: types.FlowBurst, path: str, rate: types.FlowRate | None) -> SendingTime:
        rate = rate or types.FlowRate()
        if chosen(rate) != "pps":
            raise Refused(f"{path}: bursts need a rate in pps")
        gap_ns = _gap_ns(burst.inter_burst_gap, f"{path}.inter_burst_gap")
        frames = burst.bursts * burst.packets
        if gap_ns == 0:  # the bursts follow each other at the rate
            endless = () if frames else ("--duration", "0")
            return cls((*endless, "--burst", "1"), frames or None)
        # The remainder is cut: a longer time would include the first frame of the next burst.
        on_ns, remainder = divmod(burst.packets * 10**9, rate.pps)
        if on_ns > LONGEST_NS:
            raise Refused(f"{path}.packets: a burst would take more than {LONGEST_NS // 10**9} s")
        schedule = ("--burst", "1", "--schedule", f"on-off:{on_ns}ns:{gap_ns}ns")
        if burst.bursts == 0:
            return cls(("--duration", "0", *schedule))
        if remainder == 0:
            return cls(schedule, frames)
        if frames > MOST_FRAMES:
            raise Refused(
                f"{path}.bursts: {frames} frames in all; {MOST_FRAMES} are supported, or any "
                f"number if {burst.packets} frames at {rate.pps} pps take a whole number of ns"
            )
        if burst.bursts * (on_ns + 1 + gap_ns) > LONGEST_NS:
            raise Refused(f"{path}: all bursts take more than {LONGEST_NS // 10**9} s")
        due = tuple(
            (number * burst.packets + place) * 10**9 // rate.pps + number * gap_ns
            for number in range(burst.bursts)
            for place in range(burst.packets)
        )
        # A skipped frame would be missing in the count.
        late = ("--catch-up-us", str(NEVER_TOO_LATE_US))
        return cls(("--schedule", "recorded", *late), frames, due)


def _gap_ns(gap: types.FlowDurationInterBurstGap | None, path: str) -> int:
    gap = gap or types.FlowDurationInterBurstGap(choice="nanoseconds", nanoseconds=96)
    unit = chosen(gap)
    if unit == "bytes":
        raise Refused(f"{path}.bytes: is not supported; write nanoseconds or microseconds")
    gap_ns = gap.nanoseconds if unit == "nanoseconds" else gap.microseconds * 1000
    if not 0 <= gap_ns <= LONGEST_NS:
        raise Refused(f"{path}.{unit}: must be from 0 to {LONGEST_NS // 10**9} s")
    return round(gap_ns)
