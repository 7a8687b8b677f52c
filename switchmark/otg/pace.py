"""How fast a flow is sent, and for how long or how many frames."""

from __future__ import annotations

from dataclasses import dataclass

from switchmark.otg import types
from switchmark.otg.frames import MOST_FRAMES
from switchmark.otg.refusal import Refused, chosen

USUAL_GAP_BYTES = 12  # the least there is on a wire, and OTG's default


def rate_arguments(rate: types.FlowRate | None, path: str, speed_mbps: int | None) -> list[str]:
    """The engine's options for a load; bits are those of the frames with FCS."""
    rate = rate or types.FlowRate()
    match kind := chosen(rate):
        case "pps":
            return ["--rate", str(rate.pps)]
        case "percentage":
            if speed_mbps is None:
                raise Refused(f"{path}.percentage: the port has no known speed; say it in layer1")
            if rate.percentage <= 0:
                raise Refused(f"{path}.percentage: must be above 0")
            if rate.percentage == 100:
                return ["--rate", f"{speed_mbps}Mbps-l1"]
            return ["--rate", f"{rate.percentage:.10g}%", "--line-rate", f"{speed_mbps}Mbps"]
        case _:
            unit = {"bps": "", "kbps": "k", "mbps": "M", "gbps": "G"}[kind]
            return ["--rate", f"{getattr(rate, kind)}{unit}bps-l2"]


@dataclass(frozen=True, slots=True)
class SendingTime:
    """How long a flow is sent, or how many frames of it."""

    arguments: tuple[str, ...]
    frames: int | None = None  # a set number of frames
    step_ns: tuple[int, ...] | None = None  # when each of them is due

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
            raise Refused(f"{path}.{kind}.gap: {USUAL_GAP_BYTES} is supported; the rate says more")
        match kind:
            case "continuous":
                return cls(("--duration", "0", "--burst", "1"))
            case "fixed_seconds":
                seconds = (duration.fixed_seconds or types.FlowFixedSeconds()).seconds
                if seconds <= 0:
                    raise Refused(f"{path}.fixed_seconds.seconds: must be above 0")
                return cls(("--duration", f"{seconds:.9g}s", "--burst", "1"))
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
        on_ns = round(burst.packets * 1e9 / rate.pps)
        if burst.bursts == 0:
            return cls(
                ("--duration", "0", "--burst", "1", "--schedule", f"on-off:{on_ns}ns:{gap_ns}ns")
            )
        frames = burst.bursts * burst.packets
        if frames > MOST_FRAMES:
            raise Refused(f"{path}.bursts: {frames} frames in all; {MOST_FRAMES} are supported")
        due = tuple(
            number * (on_ns + gap_ns) + round(place * 1e9 / rate.pps)
            for number in range(burst.bursts)
            for place in range(burst.packets)
        )
        return cls(("--schedule", "recorded"), frames, due)


def _gap_ns(gap: types.FlowDurationInterBurstGap | None, path: str) -> int:
    gap = gap or types.FlowDurationInterBurstGap(choice="nanoseconds", nanoseconds=96)
    match chosen(gap):
        case "nanoseconds":
            return round(gap.nanoseconds)
        case "microseconds":
            return round(gap.microseconds * 1000)
        case _:
            raise Refused(f"{path}.bytes: is not supported; write nanoseconds or microseconds")
