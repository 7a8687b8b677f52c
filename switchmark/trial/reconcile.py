"""Finds where frames were lost, by the counters of the switch and of the applications.

Both are read before the traffic and after it, while no frame is in flight. Frames that one station
sent and the next did not receive were lost in between. Counters of dropped frames explain a part of
the loss. If the unexplained rest is more than a ten-thousandth of the sent frames, the result has
a mark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from switchmark.engine import loads
from switchmark.engine.events import EngineCounters
from switchmark.engine.process import EngineProcess
from switchmark.model.ports import PortCounters, Split, SwitchCounters
from switchmark.record import FramePath, Place, Reconciliation, Stage
from switchmark.record.reconciliation import RELAY, ChainFrames
from switchmark.trial.verification import PairEnds

UNEXPLAINED_SHARE = 1e-4  # share of the sent frames
NONE = PortCounters(0, 0)


@dataclass(frozen=True, slots=True)
class DeviceDrops:
    """Frames that the kernel dropped at a node's device; 0 without a device."""

    rx: int = 0
    tx: int = 0


@dataclass(frozen=True, slots=True)
class CounterReading:
    """All counters at one moment, of each node and of the switch."""

    applications: dict[str, EngineCounters]
    devices: dict[str, DeviceDrops]
    switch: SwitchCounters
    vnfs: dict[str, int] = field(default_factory=dict)  # frames that VNFs report as dropped
    denied: dict[str, int] = field(default_factory=dict)  # sent frames of denied flows, by node


@dataclass(frozen=True, slots=True)
class _Changes:
    """Frames counted between two readings."""

    before: CounterReading
    after: CounterReading

    def application(self, node: str, count: Callable[[EngineCounters], int]) -> int:
        return count(self.after.applications[node]) - count(self.before.applications[node])

    def denied(self, node: str) -> int:
        return self.after.denied.get(node, 0) - self.before.denied.get(node, 0)

    def device(self, node: str) -> DeviceDrops:
        before, after = (
            each.devices.get(node, DeviceDrops()) for each in (self.before, self.after)
        )
        return DeviceDrops(after.rx - before.rx, after.tx - before.tx)

    def vnf(self, node: str) -> int:
        """Return the frames that a VNF reports as dropped, and those dropped at its devices."""
        reported = self.after.vnfs.get(node, 0) - self.before.vnfs.get(node, 0)
        at_devices = self.device(node)
        return reported + at_devices.rx + at_devices.tx

    def port(self, index: int) -> PortCounters | None:
        before, after = (each.switch.ports.get(index) for each in (self.before, self.after))
        if after is None:
            return None
        return after.since(before or NONE)


@dataclass
class _CableCounts:
    """One direction of the cable between two hosts. All paths share it, so its losses cannot be
    attributed, and are charged to the first paths that lack frames."""

    lost: int  # on the cable itself
    left: int  # losses of the cable and of its ends that are not yet charged to a path
    ends_count: bool  # True if switches count frames at its ends

    @classmethod
    def crossed(cls, changes: _Changes, ends: tuple[int, ...] | None) -> _CableCounts | None:
        if ends is None:
            return None
        known = all(changes.port(index) is not None for index in ends)
        out, into = (changes.port(index) or NONE for index in ends)
        lost = max(0, out.tx_frames - into.rx_frames)
        return cls(lost, lost + max(0, out.tx_dropped) + max(0, into.rx_dropped), known)

    def alone(self, lost: int, counted: int) -> Stage:
        """Return the only stage of a path whose switches do not count at the ports of nodes. Only
        the counters at the ends of the cable can then explain losses."""
        if self.ends_count:
            return self.between(_stage("between the hosts", lost, counted))
        return self.bare(lost, counted)

    def bare(self, lost: int, counted: int) -> Stage:
        """Return the stage of a cable without switches: frames that no application dropped."""
        self.lost += max(0, lost - counted)
        return _stage("between the hosts", lost, max(lost, counted))

    def between(self, stage: Stage) -> Stage:
        taken = min(self.left, max(0, stage.lost - stage.counted))
        self.left -= taken
        return _stage("between the hosts", stage.lost, stage.counted + taken)


def reconcile(
    pairs: Sequence[PairEnds],
    before: CounterReading,
    after: CounterReading,
    via: Sequence[Sequence[str]] = (),
    cable: tuple[int, int] | None = None,
    split: Split | None = None,
    *,
    ends_connections: bool = False,
) -> Reconciliation:
    """Follow the frames of every pair in both directions; a direction without frames is left out.

    `via` names the VNFs of each pair. `cable`: the numbers of the two ends of the cable between two
    hosts in the counters. `split`: the ports between which the switch divides the frames.
    `ends_connections`: a program between the ports ends the connections of the applications, so the
    packets that enter are not those that leave."""
    changes = _Changes(before, after)
    ways = []
    forth = _CableCounts.crossed(changes, cable)
    back = _CableCounts.crossed(changes, cable[::-1] if cable else None)
    for number, pair in enumerate(pairs):
        vnfs = via[number] if via else ()
        first = 2 * (len(vnfs) + 1) * pair.a.pair  # port of the switch
        last = first + 2 * len(vnfs) + 1
        ways.append(_path(changes, pair.a, pair.b, (first, last), vnfs, forth))
        ways.append(_path(changes, pair.b, pair.a, (last, first), vnfs, back))
    cable_lost = (forth.lost if forth else 0) + (back.lost if back else 0)
    if ends_connections:
        ways = [_relayed(way) for way in ways]
    paths = [way for way in ways if way.sent or way.arrived or way.not_sent]
    sent = sum(path.sent for path in paths)
    stages = [stage for path in paths for stage in path.stages if stage.place != RELAY]
    unexplained = sum(abs(stage.unexplained) for stage in stages)
    return Reconciliation(
        paths=paths,
        sent=sent,
        unexplained_frames=unexplained,
        unexplained_ratio=unexplained / max(1, sent),
        agrees=unexplained <= UNEXPLAINED_SHARE * sent,
        chains=_chains(changes, split),
        cable_lost=cable_lost,
        findings=[finding for path in paths for finding in _findings(path)]
        + ([f"{cable_lost} frames lost on the cable between the hosts"] if cable_lost else []),
    )


def _path(
    changes: _Changes,
    sender: EngineProcess,
    receiver: EngineProcess,
    ports: tuple[int, int],
    vnfs: Sequence[str],
    cable: _CableCounts | None = None,
) -> FramePath:
    """One way, from one port of the switch to another, through VNFs if there are any."""
    # Frames that a function must drop are sent beside the load, and lost in the switch.
    denied = changes.denied(sender.node)
    sent = changes.application(sender.node, lambda one: one.tx_offered) + denied
    arrived = changes.application(receiver.node, loads.arrived)
    entry, leaving = changes.port(ports[0]), changes.port(ports[1])
    on_entry = changes.device(sender.node).tx
    on_leaving = changes.device(receiver.node).rx
    on_leaving += changes.application(receiver.node, lambda one: one.rx_socket_drops)
    if entry is None or leaving is None:
        lost, counted = sent - arrived, on_entry + on_leaving
        stages = [cable.alone(lost, counted) if cable else _stage("on the wire", lost, counted)]
    else:
        stages = _stages(sent, entry, leaving, arrived, on_entry, on_leaving, denied)
        if vnfs:
            stages[1] = _in_the_chain(changes, stages[1], ports, vnfs)
        if cable is not None:
            stages[1] = cable.between(stages[1])
    return FramePath(
        pair=sender.pair,
        sender=sender.node,
        receiver=receiver.node,
        not_sent=changes.application(sender.node, lambda one: one.tx_dropped),
        sent=sent,
        switch_received=None if entry is None else entry.rx_frames,
        switch_sent=None if leaving is None else leaving.tx_frames,
        arrived=arrived,
        stages=stages,
    )


def _chains(changes: _Changes, split: Split | None) -> list[ChainFrames]:
    """Return the frames that passed each chain; empty if the switch does not count."""
    chains = []
    for chain, ends in enumerate(zip(split.heads, split.tails, strict=True) if split else ()):
        head, tail = map(changes.port, ends)
        if head is not None and tail is not None:
            frames = ChainFrames(chain=chain, entered=head.tx_frames, left=tail.rx_frames)
            chains.append(frames)
    return chains


def _stages(
    sent: int,
    entry: PortCounters,
    leaving: PortCounters,
    arrived: int,
    on_entry: int,
    on_leaving: int,
    denied: int = 0,
) -> list[Stage]:
    """Return the stages of a path through the switch. Some switches count a frame that they drop on
    arrival as received, others do not. Receive drops of a port that explain no loss before the port
    may therefore explain a loss behind it."""
    into = sent - entry.rx_frames
    before_the_port = min(max(0, into - on_entry), entry.rx_dropped)
    return [
        _stage("into the switch", into, on_entry + before_the_port),
        _stage(
            "in the switch",
            entry.rx_frames - leaving.tx_frames,
            leaving.tx_dropped + entry.rx_dropped - before_the_port + denied,
        ),
        _stage("out of the switch", leaving.tx_frames - arrived, on_leaving),
    ]


def _relayed(path: FramePath) -> FramePath:
    """Return the way with the stage of a program between its ports, whose packets are its own."""
    stages = [
        stage.model_copy(update={"place": RELAY}) if stage.place == "in the switch" else stage
        for stage in path.stages
    ]
    return path.model_copy(update={"stages": stages})


def _in_the_chain(
    changes: _Changes, whole: Stage, ports: tuple[int, int], vnfs: Sequence[str]
) -> Stage:
    """Return the loss between the first port and the last. The switch may drop frames at any port
    in between, and so may a VNF or its devices."""
    inner = range(min(ports) + 1, max(ports))
    at_ports = (port for index in inner if (port := changes.port(index)) is not None)
    dropped = sum(port.rx_dropped + port.tx_dropped for port in at_ports)
    return _stage("in the chain", whole.lost, whole.counted + dropped + sum(map(changes.vnf, vnfs)))


def _stage(place: Place, lost: int, counted: int) -> Stage:
    return Stage(
        place=place,
        lost=lost,
        counted=max(0, counted),
        unexplained=min(lost, max(0, lost - max(0, counted))),
    )


def _findings(path: FramePath) -> list[str]:
    way = f"pair {path.pair}, {path.sender} to {path.receiver}"
    findings = []
    if path.not_sent:
        findings.append(f"{way}: {path.not_sent} frames not sent, given up by the sender")
    for stage in path.stages:
        if stage.place == RELAY:
            continue
        if stage.lost > 0:
            rest = f", {stage.unexplained} of them counted nowhere" if stage.unexplained else ""
            findings.append(f"{way}: {stage.lost} frames lost {stage.place}{rest}")
        elif stage.lost < 0:
            findings.append(f"{way}: {-stage.lost} frames too many {stage.place}")
    return findings
