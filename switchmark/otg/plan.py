"""From the flow of a configuration to the command lines of its sender and its receiver.

Everything that cannot be done exactly is refused by its path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import lcm
from pathlib import Path

from switchmark.otg import types
from switchmark.otg.frames import MOST_FRAMES, Cycle, frame, write_pcap
from switchmark.otg.headers import read_headers
from switchmark.otg.pace import SendingTime, rate_arguments
from switchmark.otg.ports import TrafficPort
from switchmark.otg.refusal import Refused
from switchmark.otg.sizes import FlowSizes

MOST_FLOWS_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """Frames that the engine sends from a file."""

    cycle: Cycle
    sizes: Sequence[int]  # in turn
    frames: int  # in the file
    step_ns: Sequence[int] | None = None  # their times, where the schedule is the file's own

    @property
    def is_stamped(self) -> bool:
        """Whether the engine puts its stamp in the place of the payload."""
        return not self.cycle.payload

    def write(self, path: Path) -> None:
        """Write the file."""
        cycle, sizes = self.cycle, self.sizes
        found = (
            frame(cycle.at(n), cycle.vlans, sizes[n % len(sizes)], cycle.payload)
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
    """Plan all flows. Raises `Refused` for what cannot be done."""
    options = config.options and config.options.port_options
    if options and options.data_integrity:
        raise Refused("options.port_options.data_integrity: true is not supported; leave it out")
    flows = config.flows or ()
    if len(flows) > MOST_FLOWS_AT_ONCE:
        raise Refused(
            f"flows: {len(flows)} flows; {MOST_FLOWS_AT_ONCE} are supported, since each is two "
            "processes; let addresses or ports of one flow take several values"
        )
    named = _ports_of(config, ports)
    speeds = _speeds(config, named)
    found = [_plan(flow, f"flows[{n}]", n + 1, named, speeds) for n, flow in enumerate(flows)]
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
    """Refuse a second flow at a port that one program takes whole."""
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
    """The speed of each port in Mbit/s: layer1's, else its device's."""
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
    if headers.cycle.payload and rx_name is not None:
        raise Refused(
            f"{path}.packet[{len(flow.packet or ()) - 1}].custom: flows with a receiving port are "
            "counted by a stamp in their payload's place; leave out tx_rx.port.rx_names, or this"
        )
    sizes = FlowSizes.of(flow.size, f"{path}.size", headers)
    rate = rate_arguments(flow.rate, f"{path}.rate", speeds.get(tx_name))
    duration = SendingTime.of(flow.duration, f"{path}.duration", flow.rate)
    flows = headers.flows()
    is_simple = duration.frames is None and flows is not None and sizes.spec is not None
    replay = None if is_simple else _replay(headers.cycle, sizes, duration, path)
    tx = named[tx_name]
    metrics = flow.metrics or types.FlowMetrics()
    if metrics.timestamps:
        why = "the engine does not tell when a flow's first and last frame arrived"
        raise Refused(f"{path}.metrics.timestamps: is not supported: {why}; leave it out")
    timed = bool(metrics.latency is not None and metrics.latency.enable)
    common = ("--stream", str(stream))
    addresses = headers.sender_arguments(replays=replay is not None)
    if replay is not None and replay.step_ns is not None:  # the file's times are the schedule
        rate = []
    sender = [*common, "--port", tx.spec, *addresses, *rate, *duration.arguments]
    if replay is None:
        sender += ["--packet-size", str(sizes.spec)]
        sender += ["--flows", flows] if flows else []
    receiver = [*common, *headers.receiver_arguments(flows if replay is None else None)]
    rx = named[rx_name] if rx_name is not None else None
    if rx is not None:
        if rx.loses_outer_tag and len(headers.cycle.vlans) > 1:
            raise Refused(
                f"{path}.packet[2].vlan: DPDK's af-packet port {rx_name} gives the outer of two "
                "tags as 802.1Q; receive at a raw or packet_mmap port"
            )
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


def _replay(cycle: Cycle, sizes: FlowSizes, duration: SendingTime, path: str) -> ReplayPlan:
    """The file for a flow that the engine's options cannot describe."""
    period = lcm(cycle.length, len(sizes.in_turn) or MOST_FRAMES)
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
    # The largest multiple that fits, so that the file is not read again and again for one frame.
    multiples = range(MOST_FRAMES // period * period, 0, -period)
    whole = next((n for n in multiples if duration.frames % n == 0), None)
    if whole is None:
        raise Refused(
            f"{path}.duration.fixed_packets.packets: above {MOST_FRAMES} it must be a multiple of "
            f"the {period} different frames"
        )
    return ReplayPlan(cycle, sizes.sequence(whole), whole)
