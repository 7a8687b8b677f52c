"""The command lines of sender and receiver for each flow of a configuration.

A part that cannot be followed exactly is refused by its path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import lcm
from pathlib import Path

from switchmark.engine.process import tunnel_row
from switchmark.model.choices import ETHERNET_OVERHEAD_BYTES
from switchmark.otg import types
from switchmark.otg.frames import MOST_FRAMES, Cycle, write_pcap
from switchmark.otg.headers import Headers, read_headers
from switchmark.otg.pace import SendingTime, rate_arguments
from switchmark.otg.ports import TrafficPort
from switchmark.otg.refusal import Refused, chosen
from switchmark.otg.sizes import FlowSizes

MOST_FLOWS_AT_ONCE = 256
MOST_FILE_BYTES = 1 << 30  # all files together: each engine reads its file into memory
_TAG_BYTES = 4


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """Frames that the engine sends from a file."""

    cycle: Cycle
    sizes: Sequence[int]  # taken in turn
    frames: int  # the number in the file
    step_ns: Sequence[int] | None = None  # the due times, if the file has the schedule
    repeats: bool = True  # the engine repeats the file until the flow ends

    @property
    def is_stamped(self) -> bool:
        """Return True if the engine puts its stamp into the payload."""
        return not self.cycle.payload

    @property
    def size_bytes(self) -> int:
        """The size of all frames in the file."""
        rounds, rest = divmod(self.frames, len(self.sizes))
        return rounds * sum(self.sizes) + sum(self.sizes[:rest])

    @property
    def arguments(self) -> tuple[str, ...]:
        """The engine's options for the replay, except the path of the file."""
        stamp = ("--stamp",) if self.is_stamped else ()
        return (*stamp, "--loops", "0" if self.repeats else "1")

    def write(self, path: Path) -> None:
        """Write the file."""
        times = self.step_ns or range(0, 1000 * self.frames, 1000)
        write_pcap(path, self.cycle, self.sizes, self.frames, times)


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """The engines of one flow, and their options."""

    name: str
    tx_name: str
    rx_name: str | None  # None: there is no receiver
    tx: TrafficPort
    rx: TrafficPort | None
    sender: tuple[str, ...]  # arguments of the engine, without those of a replay
    receiver: tuple[str, ...]
    replay: ReplayPlan | None
    is_timed: bool
    counts_loss: bool
    outer_bytes: int  # the length of the outer headers of VXLAN, which the engine does not count
    tunnel_row: bytes  # the table that the sender gets before it starts; empty: there is no tunnel
    paths: Mapping[str, str]  # from an option of the engine to the part of the configuration
    path: str  # the flow in the configuration


def plan_flows(config: types.Config, ports: Mapping[str, TrafficPort]) -> list[FlowPlan]:
    """Plan all flows. Raises `Refused` for an unsupported part of the configuration."""
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
    plans = [_plan(flow, f"flows[{n}]", n + 1, named, speeds) for n, flow in enumerate(flows)]
    _check_names(config)
    _check_shared(plans)
    _check_memory(plans)
    return plans


def _check_memory(plans: Sequence[FlowPlan]) -> None:
    """Refuse the first flow whose file does not fit beside those of the flows before it."""
    used = 0
    for plan in plans:
        used += plan.replay.size_bytes if plan.replay else 0
        if used > MOST_FILE_BYTES:
            raise Refused(
                f"{plan.paths['replay']}: the files of frames that the engine cannot make itself "
                f"are larger than {MOST_FILE_BYTES >> 20} MiB; use smaller sizes, or fields that "
                "count up by 1"
            )


def _ports_of(config: types.Config, ports: Mapping[str, TrafficPort]) -> dict[str, TrafficPort]:
    named = {}
    names: dict[str, str] = {}  # by location
    for n, port in enumerate(config.ports or ()):
        if port.location is None or port.location not in ports:
            known = ", ".join(ports)
            raise Refused(f"ports[{n}].location: {port.location} is not offered; use {known}")
        if port.location in names:
            raise Refused(
                f"ports[{n}].location: {port.location} is also the location of port "
                f"{names[port.location]}; give each port a different location"
            )
        names[port.location] = port.name
        named[port.name] = ports[port.location]
    return named


def _check_names(config: types.Config) -> None:
    named = [
        (part.name, f"{kind}[{n}].name")
        for kind in ("ports", "flows", "layer1", "captures")
        for n, part in enumerate(getattr(config, kind) or ())
    ]
    paths: dict[str, str] = {}
    for name, path in named:
        if name in paths:
            raise Refused(f"{path}: {name} is also {paths[name]}; give each part a different name")
        paths[name] = path


def _check_shared(plans: Iterable[FlowPlan]) -> None:
    """Refuse a second flow at a port that only one program can open."""
    used: dict[str, str] = {}
    for n, plan in enumerate(plans):
        for end, name, port in (("tx", plan.tx_name, plan.tx), ("rx", plan.rx_name, plan.rx)):
            if port is None or port.shared or name is None:
                continue
            if name in used:
                raise Refused(
                    f"flows[{n}].tx_rx.port.{end}_name: {port.spec.partition(':')[0]} gives port "
                    f"{name} to one flow, and flow {used[name]} has it; offer it as raw"
                )
            used[name] = plan.name


def _speeds(config: types.Config, named: Mapping[str, TrafficPort]) -> dict[str, int]:
    """Return the speed of each port in Mbit/s: from `layer1`, otherwise from its device."""
    speeds = {name: speed for name, port in named.items() if (speed := port.speed_mbps)}
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
                speeds[name] = int(amount) * (1000 if unit == "gbps" else 1)
    return speeds


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
            f"{path}.packet[{len(flow.packet or ()) - 1}].custom: a flow with a receiving port has "
            "the engine's stamp as its payload; leave out custom, or tx_rx.port.rx_names"
        )
    sizes = FlowSizes.of(flow.size, f"{path}.size", headers)
    outer = headers.outer_bytes
    rate = rate_arguments(flow.rate, f"{path}.rate", speeds.get(tx_name), sizes.mean, outer)
    duration = SendingTime.of(flow.duration, f"{path}.duration", flow.rate)
    flows = headers.flows()
    is_simple = (
        duration.step_ns is None
        and sizes.spec is not None
        and not headers.cycle.payload
        and headers.are_short
    )
    if not is_simple and (headers.further or headers.outer):
        where = headers.outer.path if headers.outer else headers.further[0].path
        raise Refused(
            f"{where}: is not possible in frames from a file; leave it out, or leave out the parts "
            "that need a file: gaps and bursts, a custom payload, lists of sizes or values that "
            "are too long for the engine"
        )
    replay = None if is_simple else _replay(headers.cycle, sizes, duration, path)
    tx = named[tx_name]
    paths = _paths(flow, path, sizes_path := _size_path(flow, path))
    paths |= {f"modify {modifier.name}": modifier.path for modifier in headers.modifiers}
    _check_mtu(tx, tx_name, sizes.largest, headers, sizes_path)
    metrics = flow.metrics or types.FlowMetrics()
    if metrics.timestamps:
        reason = "the engine does not report when a flow's first and last frame arrived"
        raise Refused(f"{path}.metrics.timestamps: is not supported: {reason}; leave it out")
    is_timed = bool(metrics.latency is not None and metrics.latency.enable)
    common = ("--stream", str(stream))
    addresses = headers.sender_arguments(replays=replay is not None)
    if replay is not None and replay.step_ns is not None:  # the times in the file are the schedule
        rate = []
    sender = [*common, "--port", tx.spec, *addresses, *rate, *duration.arguments]
    sender += ["--frames", str(duration.frames)] if duration.frames else []
    if replay is None:
        sender += ["--packet-size", str(sizes.spec)]
        sender += ["--flows", flows] if flows else []
    # The receiver's port must have room for the largest frame.
    room = ("--packet-size", str(sizes.largest - outer))
    receiver = [*common, *room, *headers.receiver_arguments(flows, replays=replay is not None)]
    rx = named[rx_name] if rx_name is not None else None
    if rx is not None and rx.loses_outer_tag and len(headers.cycle.vlans) > 1:
        raise Refused(
            f"{path}.packet[2].vlan: DPDK's af-packet port {rx_name} gives the outer of two "
            "tags as 802.1Q; receive at a raw or packet_mmap port"
        )
    receiver += ["--latency", "1"] if is_timed else []
    return FlowPlan(
        name=flow.name,
        tx_name=tx_name,
        rx_name=rx_name,
        tx=tx,
        rx=rx,
        sender=tuple(sender),
        receiver=tuple(receiver),
        replay=replay,
        is_timed=is_timed,
        counts_loss=metrics.loss,
        outer_bytes=outer,
        tunnel_row=_tunnel_row(headers),
        paths=paths,
        path=path,
    )


def _tunnel_row(headers: Headers) -> bytes:
    """Return the row of the only tunnel: the MAC addresses of the inner frames. Modifiers set the
    VNI and the outer addresses."""
    if headers.outer is None:
        return b""
    cycle = headers.cycle
    return tunnel_row(0, bytes(4), bytes(4), cycle.dst_mac[0], cycle.src_mac[0])


def _size_path(flow: types.Flow, path: str) -> str:
    return f"{path}.size" + (f".{chosen(flow.size)}" if flow.size else "")


def _paths(flow: types.Flow, path: str, size: str) -> dict[str, str]:
    """Return the part of the configuration that each option of the engine comes from."""
    rate = f"{path}.rate" + (f".{chosen(flow.rate)}" if flow.rate else "")
    duration = f"{path}.duration" + (f".{chosen(flow.duration)}" if flow.duration else "")
    packet, ends = f"{path}.packet", f"{path}.tx_rx.port"
    headers = (
        "src-mac", "dst-mac", "src-ip", "dst-ip", "src-port", "dst-port", "vlan", "flows",
        "encap", "decap", "outer-src-mac", "outer-dst-mac",
    )  # fmt: skip
    return {
        **dict.fromkeys(headers, packet),
        **dict.fromkeys(("rate", "line-rate"), rate),
        **dict.fromkeys(("duration", "frames", "schedule", "burst"), duration),
        **dict.fromkeys(("packet-size", "replay"), size),
        "port": f"{ends}.tx_name",
        "receiver port": f"{ends}.rx_names",
        "latency": f"{path}.metrics.latency",
    }


def _check_mtu(port: TrafficPort, name: str, size: int, headers: Headers, path: str) -> None:
    """Refuse frames that are too large for the device of the sending port."""
    mtu = port.mtu_bytes
    tags = 0 if headers.outer else len(headers.cycle.vlans)  # the outer headers have no tag
    overhead = ETHERNET_OVERHEAD_BYTES + (_TAG_BYTES if tags == 1 else 0)
    if mtu is not None and size - overhead > mtu:
        raise Refused(
            f"{path}: frames of {size} bytes need an MTU of {size - overhead}; the device of port "
            f"{name} has {mtu}; raise it, or use frames of up to {mtu + overhead} bytes"
        )


def _ends(flow: types.Flow, path: str, named: Mapping[str, TrafficPort]) -> tuple[str, str | None]:
    if flow.tx_rx.port is None:
        raise Refused(f"{path}.tx_rx.port: is missing; only flows between ports are supported")
    ends = flow.tx_rx.port
    receivers = list(ends.rx_names or ([ends.rx_name] if ends.rx_name else []))
    if ends.rx_name and receivers != [ends.rx_name]:
        raise Refused(
            f"{path}.tx_rx.port.rx_name: {ends.rx_name} differs from rx_names; leave out rx_name"
        )
    if len(receivers) > 1:
        raise Refused(f"{path}.tx_rx.port.rx_names: one receiving port is supported, not several")
    for end, name in (("tx_name", ends.tx_name), *(("rx_names", name) for name in receivers)):
        if name not in named:
            raise Refused(f"{path}.tx_rx.port.{end}: there is no port {name}")
    if receivers == [ends.tx_name]:
        raise Refused(f"{path}.tx_rx.port.rx_names: is the sending port; use another port")
    device = named[ends.tx_name].device
    if receivers and device is not None and named[receivers[0]].device == device:
        raise Refused(
            f"{path}.tx_rx.port.rx_names: {receivers[0]} is device {device}, like the sending "
            "port; frames that leave a device do not arrive there; use another port"
        )
    return ends.tx_name, receivers[0] if receivers else None


def _replay(cycle: Cycle, sizes: FlowSizes, duration: SendingTime, path: str) -> ReplayPlan:
    """Return the replay of a flow that the engine's options cannot describe. Its file has each
    different frame once, or all frames of the flow if these are fewer."""
    if duration.step_ns is not None and duration.frames is not None:
        frames = duration.frames
        return ReplayPlan(cycle, sizes.sequence(frames), frames, duration.step_ns, repeats=False)
    period = lcm(cycle.length, len(sizes.in_turn) or 1)
    if duration.frames is not None and duration.frames <= MOST_FRAMES:
        period = min(period, duration.frames)
    if period > MOST_FRAMES:
        several = f", with {len(sizes.in_turn)} sizes in turn" if len(sizes.in_turn) > 1 else ""
        raise Refused(
            f"{path}.packet: {period} different frames{several}; {MOST_FRAMES} are supported, or "
            "fields that count up by 1 with up to 1,024 sizes; take fewer values or sizes"
        )
    # Drawn sizes repeat after as many whole periods of the fields as a file has room for.
    frames = period if sizes.in_turn else MOST_FRAMES // period * period
    frames = min(frames, duration.frames or frames)
    return ReplayPlan(cycle, sizes.sequence(frames), frames)
