"""From the flow of a configuration to the command lines of its sender and its receiver.

Whatever cannot be done exactly is refused by its path.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import gcd, lcm
from pathlib import Path

from switchmark.otg import types
from switchmark.otg.frames import Cycle, frame, smallest_frame_bytes, write_pcap
from switchmark.otg.headers import Headers, read_headers
from switchmark.otg.ports import TrafficPort
from switchmark.otg.refusal import Refused, chosen

USUAL_GAP_BYTES = 12  # the least there is on a wire, and OTG's default
MOST_FRAMES = 65_536  # of a file that is replayed
MOST_SIZES = 1024  # that the engine takes in turn
LARGEST_FRAME = 9018
SIZE_SEED = 1


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """Frames that the engine sends from a file."""

    cycle: Cycle
    sizes: Sequence[int]  # in turn
    frames: int  # in the file
    step_ns: Sequence[int] | None = None  # their times, where the schedule is the file's own

    def write(self, path: Path) -> None:
        """Make the file."""
        found = (
            frame(self.cycle.at(n), self.cycle.vlans, self.sizes[n % len(self.sizes)])
            for n in range(self.frames)
        )
        write_pcap(path, found, self.step_ns or range(0, 1000 * self.frames, 1000))


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """How one flow is sent and received."""

    name: str
    tx_name: str
    rx_name: str | None  # None: nobody counts it
    tx: TrafficPort
    rx: TrafficPort | None
    sender: tuple[str, ...]  # arguments of the engine, but for a file to replay
    receiver: tuple[str, ...]
    replay: ReplayPlan | None
    frames: int  # in all; 0: until its time is over
    is_timed: bool
    counts_loss: bool


def plan_flows(config: types.Config, ports: Mapping[str, TrafficPort]) -> list[FlowPlan]:
    """All flows. Raises `Refused` for what cannot be."""
    named = _ports_of(config, ports)
    speeds = _speeds(config, named)
    found = [
        _plan(flow, f"flows[{n}]", n + 1, named, speeds)
        for n, flow in enumerate(config.flows or ())
    ]
    _check_names(config)
    _check_shared(found)
    return found


def _ports_of(config: types.Config, ports: Mapping[str, TrafficPort]) -> dict[str, TrafficPort]:
    found = {}
    for n, port in enumerate(config.ports or ()):
        if port.location is None or port.location not in ports:
            known = ", ".join(ports)
            raise Refused(f"ports[{n}].location: {port.location} is not offered; there is {known}")
        found[port.name] = ports[port.location]
    return found


def _check_names(config: types.Config) -> None:
    named = [
        (one.name, f"{kind}[{n}].name")
        for kind in ("ports", "flows", "layer1", "captures")
        for n, one in enumerate(getattr(config, kind) or ())
    ]
    seen: set[str] = set()
    for name, path in named:
        if name in seen:
            raise Refused(f"{path}: {name} is the name of something else, too")
        seen.add(name)


def _check_shared(plans: Iterable[FlowPlan]) -> None:
    """A port that one program takes whole has one flow."""
    used: dict[str, str] = {}
    for n, plan in enumerate(plans):
        for end, name, port in (("tx", plan.tx_name, plan.tx), ("rx", plan.rx_name, plan.rx)):
            if port is None or port.shared or name is None:
                continue
            if name in used:
                raise Refused(
                    f"flows[{n}].tx_rx.port.{end}_name: {port.spec.partition(':')[0]} gives port "
                    f"{name} to one flow alone, which is {used[name]}; offer it as raw"
                )
            used[name] = plan.name


def _speeds(config: types.Config, named: Mapping[str, TrafficPort]) -> dict[str, int]:
    """Mbit/s of each port, as layer1 says, else as its device does."""
    found = {name: speed for name, port in named.items() if (speed := port.speed_mbps)}
    for n, layer in enumerate(config.layer1 or ()):
        if not layer.promiscuous:
            raise Refused(f"layer1[{n}].promiscuous: false is not supported")
        for name in layer.port_names:
            if name not in named:
                raise Refused(f"layer1[{n}].port_names: there is no port {name}")
            mtu = named[name].mtu_bytes
            if mtu is not None and mtu < layer.mtu:
                raise Refused(f"layer1[{n}].mtu: the device of port {name} has {mtu}; raise it")
            if layer.speed is not None:
                _, amount, *_, unit = layer.speed.split("_")
                found[name] = int(amount) * (1000 if unit == "gbps" else 1)
    return found


def _plan(
    flow: types.Flow,
    path: str,
    stream: int,
    named: Mapping[str, TrafficPort],
    speeds: Mapping[str, int],
) -> FlowPlan:
    tx_name, rx_name = _ends(flow, path, named)
    headers = read_headers(flow.packet, f"{path}.packet")
    sizes = _Sizes.of(flow.size, f"{path}.size", headers)
    rate = _rate(flow.rate, f"{path}.rate", speeds.get(tx_name))
    duration = _Duration.of(flow.duration, f"{path}.duration", flow.rate)
    flows = headers.flows()
    is_simple = duration.frames is None and flows is not None and sizes.spec is not None
    replay = None
    if not is_simple:
        replay = _replay(headers.cycle, sizes, duration, f"{path}")
    tx = named[tx_name]
    metrics = flow.metrics or types.FlowMetrics()
    timed = bool(metrics.latency is not None and metrics.latency.enable)
    common = ("--stream", str(stream))
    sender = [*common, "--port", tx.spec, *headers.sender_arguments(), *rate, *duration.arguments]
    if replay is None:
        sender += ["--packet-size", str(sizes.spec)]
        sender += ["--flows", flows] if flows else []
    elif replay.step_ns is not None:  # the file's times are the schedule
        sender = [*common, "--port", tx.spec, *headers.sender_arguments(), *duration.arguments]
    receiver = [*common, *headers.receiver_arguments(flows if replay is None else None)]
    rx = named[rx_name] if rx_name is not None else None
    if rx is not None:
        receiver += ["--port", rx.spec]
    receiver += ["--latency", "1"] if timed else []
    return FlowPlan(
        name=flow.name,
        tx_name=tx_name,
        rx_name=rx_name,
        tx=tx,
        rx=rx,
        sender=tuple(sender),
        receiver=tuple(receiver),
        replay=replay,
        frames=duration.frames or 0,
        is_timed=timed,
        counts_loss=metrics.loss,
    )


def _ends(flow: types.Flow, path: str, named: Mapping[str, TrafficPort]) -> tuple[str, str | None]:
    if flow.tx_rx.port is None:
        raise Refused(f"{path}.tx_rx.port: is missing; only flows between ports are supported")
    ends = flow.tx_rx.port
    receivers = list(ends.rx_names or ([ends.rx_name] if ends.rx_name else []))
    if len(receivers) > 1:
        raise Refused(f"{path}.tx_rx.port.rx_names: one receiving port is supported, not several")
    for end, name in (("tx_name", ends.tx_name), *(("rx_names", one) for one in receivers)):
        if name not in named:
            raise Refused(f"{path}.tx_rx.port.{end}: there is no port {name}")
    if receivers == [ends.tx_name]:
        raise Refused(f"{path}.tx_rx.port.rx_names: is the sending port itself")
    return ends.tx_name, receivers[0] if receivers else None


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The sizes of the frames of a flow, FCS counted."""

    spec: str | None  # for the engine; None: it has no words for them
    in_turn: tuple[int, ...]  # for a file; empty: drawn
    weights: tuple[tuple[int, float], ...] = ()

    @classmethod
    def of(cls, size: types.FlowSize | None, path: str, headers: Headers) -> _Sizes:
        size = size or types.FlowSize()
        least = smallest_frame_bytes(headers.ip_version, len(headers.cycle.vlans))
        match chosen(size):
            case "fixed":
                _check_size(size.fixed, f"{path}.fixed", least)
                return cls(str(size.fixed), (size.fixed,))
            case "increment":
                one = size.increment or types.FlowSizeIncrement()
                _check_size(one.start, f"{path}.increment.start", least)
                _check_size(one.end, f"{path}.increment.end", least)
                if one.step < 1 or one.end < one.start:
                    raise Refused(f"{path}.increment: goes nowhere; start to end by 1 or more")
                steps = tuple(range(one.start, one.end + 1, one.step))
                spec = "+".join(map(str, steps)) if len(steps) <= MOST_SIZES else None
                return cls(spec, steps)
            case "random":
                drawn = size.random or types.FlowSizeRandom()
                _check_size(drawn.min, f"{path}.random.min", least)
                _check_size(drawn.max, f"{path}.random.max", drawn.min)
                all_sizes = tuple((one, 1.0) for one in range(drawn.min, drawn.max + 1))
                return cls(f"random:{drawn.min}-{drawn.max}", (), all_sizes)
            case _:
                pairs = size.weight_pairs or types.FlowSizeWeightPairs()
                return cls._weighted(pairs, f"{path}.weight_pairs", least)

    @classmethod
    def _weighted(cls, pairs: types.FlowSizeWeightPairs, path: str, least: int) -> _Sizes:
        if chosen(pairs) == "predefined":
            _check_size(64, f"{path}.predefined", least)
            return cls("random:imix", (), ((64, 7.0), (570, 4.0), (1518, 1.0)))
        if not pairs.custom:
            raise Refused(f"{path}.custom: holds no sizes")
        for n, one in enumerate(pairs.custom):
            _check_size(one.size, f"{path}.custom[{n}].size", least)
            if one.weight <= 0:
                raise Refused(f"{path}.custom[{n}].weight: must be above 0")
        weights = tuple((one.size, one.weight) for one in pairs.custom)
        return cls(_weighted_spec(weights), (), weights)

    def sequence(self, count: int) -> tuple[int, ...]:
        """The sizes of so many frames of a file, or those that come again and again."""
        if self.in_turn:
            return self.in_turn
        sizes, weights = zip(*self.weights, strict=True)
        return tuple(random.Random(SIZE_SEED).choices(sizes, weights, k=count))


def _weighted_spec(weights: Sequence[tuple[int, float]]) -> str | None:
    """The weights as the engine takes them, small whole numbers; None where there are none."""
    hundredths = [round(weight * 100) for _, weight in weights]
    common = gcd(*hundredths)
    exact = all(abs(w * 100 - n) < 1e-6 for (_, w), n in zip(weights, hundredths, strict=True))
    if not exact or not common or sum(hundredths) // common > MOST_SIZES:
        return None
    parts = (f"{one}*{n // common}" for (one, _), n in zip(weights, hundredths, strict=True))
    return "random:" + "+".join(parts)


def _check_size(size: int, path: str, least: int) -> None:
    if not least <= size <= LARGEST_FRAME:
        raise Refused(
            f"{path}: {size} cannot be; frames with these headers have {least} to {LARGEST_FRAME} "
            "bytes, FCS counted"
        )


def _rate(rate: types.FlowRate | None, path: str, speed_mbps: int | None) -> list[str]:
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
class _Duration:
    """How long, or how many frames."""

    arguments: tuple[str, ...]
    frames: int | None = None  # a set number of frames
    step_ns: tuple[int, ...] | None = None  # when each of them is due

    @classmethod
    def of(
        cls,
        duration: types.FlowDuration | None,
        path: str,
        rate: types.FlowRate | None,
    ) -> _Duration:
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
    def _bursts(cls, burst: types.FlowBurst, path: str, rate: types.FlowRate | None) -> _Duration:
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


def _replay(cycle: Cycle, sizes: _Sizes, duration: _Duration, path: str) -> ReplayPlan:
    """The file for what the engine has no option for."""
    period = _period(cycle, sizes)
    if duration.frames is None:
        if period > MOST_FRAMES:
            raise Refused(
                f"{path}.packet: {period} different frames; {MOST_FRAMES} are supported, or one "
                "field that counts up by 1"
            )
        return ReplayPlan(cycle, sizes.sequence(period), period)
    if duration.frames <= MOST_FRAMES:
        return ReplayPlan(
            cycle, sizes.sequence(duration.frames), duration.frames, step_ns=duration.step_ns
        )
    whole = next((n for n in _multiples(period) if duration.frames % n == 0), None)
    if whole is None:
        raise Refused(
            f"{path}.duration.fixed_packets.packets: above {MOST_FRAMES} it must be a multiple of "
            f"the {period} different frames"
        )
    return ReplayPlan(cycle, sizes.sequence(whole), whole)


def _period(cycle: Cycle, sizes: _Sizes) -> int:
    return lcm(cycle.length, len(sizes.in_turn) or MOST_FRAMES)


def _multiples(period: int) -> Iterator[int]:
    """The largest first, so that the file is not read again and again for a single frame."""
    most = MOST_FRAMES // period
    yield from islice((period * n for n in range(most, 0, -1)), most)
