"""Everything of one trial that exists on the machine: nodes, switch, running applications.

Brought up in the order that costs least time: nodes first (the switch needs their ports),
then the applications (they make the vhost-user sockets and start slowly), then the switch;
only then is anything waited for. Taken down in reverse, whatever happened in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from types import TracebackType

from switchmark.campaign.expand import WIRE
from switchmark.campaign.model import Dimension, Io, Method, Trial
from switchmark.campaign.rates import CONSTANT, has_own_rate
from switchmark.campaign.traffic import mirrored_flows
from switchmark.environment.base import Environment, Node, NodePort, NodeSpec
from switchmark.environment.closing import close_nodes
from switchmark.errors import SwitchmarkError, TrialFailed
from switchmark.method.engine import EngineProcess, close_engines
from switchmark.method.reconcile import DeviceDrops, Reading
from switchmark.method.verification import PairEnds
from switchmark.results.record import Placement
from switchmark.switch.base import (
    MADE_BY_SWITCH,
    ConnectMode,
    MadePort,
    MakesPorts,
    PortKind,
    Switch,
    SwitchPort,
)
from switchmark.testbed.host import Session

READY_TIMEOUT_S = 20.0
UDP_PORT_A, UDP_PORT_B = 17000, 17001
ROLES = {Dimension.THROUGHPUT: ("sender", "receiver"), Dimension.LATENCY: ("client", "server")}


def resolve_io(io: Io, kind: PortKind) -> Io:
    """The I/O that `auto` stands for on a port of this kind: the fastest the engine has."""
    if io is not Io.AUTO:
        return io
    if kind in (PortKind.VHOST_USER, PortKind.MEMIF):
        return Io.DPDK
    return Io.NETMAP if kind is PortKind.VALE else Io.RAW_MMSG


class Deployment:
    """A context manager. Inside, every application is ready and every port is up."""

    def __init__(
        self,
        session: Session,
        trial: Trial,
        pairs: Sequence[tuple[NodeSpec, NodeSpec]],
        environment: Environment,
        switch: Switch,
        mode: ConnectMode,
        placement: Placement,
    ) -> None:
        self.session = session
        self.trial = trial
        self.pairs = pairs
        self.environment = environment
        self.switch = switch
        self.mode = mode
        self.placement = placement
        self.ends: list[PairEnds] = []
        self._nodes: list[Node] = []  # 2k and 2k+1 are the ends of pair k
        self._spawned: list[EngineProcess] = []
        self.switch_words = ""  # how the switch died, when a trial failed
        self._switch_runs = False
        self._undo = ExitStack()

    def __enter__(self) -> Deployment:
        try:
            self._deploy()
        except BaseException as error:  # a failure half-way undoes the first half
            self._take_down(error)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._take_down(error)

    @property
    def engines(self) -> list[EngineProcess]:
        """All applications, pair by pair."""
        return [engine for pair in self.ends for engine in (pair.a, pair.b)]

    def read(self) -> Reading:
        """All counters now; meaningful while no traffic runs."""
        return Reading(
            applications={engine.node: engine.counters() for engine in self.engines},
            devices={
                node.spec.name: DeviceDrops(*drops)
                for node in self._nodes
                if (drops := node.device_drops()) is not None
            },
            switch=self.switch.counters(),
        )

    def check_alive(self) -> None:
        """Raise `TrialFailed` when the switch has died."""
        if died := self.switch.alive():
            raise TrialFailed(f"{self.switch.name}: {died}")

    def _take_down(self, error: BaseException | None) -> None:
        """Undo everything. What fails while another error is on its way does not hide it (the
        ledger keeps what could not be undone)."""
        if error is not None and self._switch_runs:
            with suppress(SwitchmarkError, OSError):
                self.switch_words = self.switch.alive() or ""
        try:
            self._undo.close()
        except (SwitchmarkError, OSError) as problem:
            if error is None:
                raise
            error.add_note(f"and taking it down failed: {problem}")

    def _deploy(self) -> None:
        made = self._ports_made_by_switch()
        self._undo.callback(lambda: close_nodes(self._nodes))
        for first, second in self.pairs:
            self._create_pair(_with(first, made), _with(second, made))
        self._undo.callback(lambda: close_engines(self._spawned))
        for number in range(len(self.pairs)):
            # The receiving end first: it must be there before the first frame.
            b = self._spawn(number, end=1)
            a = self._spawn(number, end=0)
            self.ends.append(PairEnds(a, b))
        self._undo.callback(self.switch.stop)
        self.switch.start(
            self.session, self._switch_ports(), self.mode, self.placement.switch_cores
        )
        self._switch_runs = True
        for engine in self.engines:
            engine.wait_ready(READY_TIMEOUT_S)
        self.switch.wait_ports_up(READY_TIMEOUT_S)

    def _ports_made_by_switch(self) -> list[MadePort]:
        """Ports that exist only as part of the switch, in the order of the nodes."""
        specs = [spec for pair in self.pairs for spec in pair]
        if not isinstance(self.switch, MakesPorts) or specs[0].port.kind not in MADE_BY_SWITCH:
            return []
        self._undo.callback(self.switch.stop)
        wanted = [
            SwitchPort(index, spec.port.kind, spec.port.mac, mtu_bytes=spec.port.mtu_bytes)
            for index, spec in enumerate(specs)
        ]
        return list(reversed(self.switch.make_ports(self.session, wanted)))

    def _create_pair(self, a: NodeSpec, b: NodeSpec) -> None:
        if self.trial.switch == WIRE:
            self._nodes.extend(self.environment.create_wire(self.session, a, b))
            return
        for spec in (a, b):
            self._nodes.append(self.environment.create(self.session, spec))

    def _spawn(self, pair: int, *, end: int) -> EngineProcess:
        node = self._nodes[2 * pair + end]
        role = ROLES[self.trial.dimension][end]
        args = engine_args(self.trial, node.spec, role, pair, end, self.placement.idle)
        engine = EngineProcess(
            spawned=node.spawn_engine(args), node=node.spec.name, role=role, pair=pair, args=args
        )
        self._spawned.append(engine)
        return engine

    def _switch_ports(self) -> list[SwitchPort]:
        return [
            SwitchPort(
                index=index,
                kind=node.spec.port.kind,
                mac=node.spec.port.mac,
                device=node.spec.port.device_switch_side,
                socket=str(node.spec.port.socket_host) if node.spec.port.socket_host else None,
                mtu_bytes=node.spec.port.mtu_bytes,
                far_device=node.spec.port.device_inside,
                far_netns=node.netns,
            )
            for index, node in enumerate(self._nodes)
        ]


def _with(spec: NodeSpec, made: list[MadePort]) -> NodeSpec:
    """The node with the next of the made ports, if there are such."""
    return replace(spec, port=replace(spec.port, made=made.pop())) if made else spec


def engine_args(
    trial: Trial, spec: NodeSpec, role: str, pair: int, end: int, idle: str
) -> list[str]:
    """The engine's command line for one end of a pair."""
    own_ip, peer_ip = (ip.partition("/")[0] for ip in (spec.port.ip, spec.peer_ip))
    if trial.ip_version == 6:  # frames only; no device has these addresses
        own_ip, peer_ip = (f"2001:2:0:{pair:x}::{1 + one:x}" for one in (end, 1 - end))
    own_udp, peer_udp = (UDP_PORT_A, UDP_PORT_B) if end == 0 else (UDP_PORT_B, UDP_PORT_A)
    args = [
        role,
        "--port", port_spec(spec.port, resolve_io(trial.io, spec.port.kind)),
        "--src-mac", spec.port.mac,
        "--dst-mac", spec.peer_mac,
        "--src-ip", own_ip,
        "--dst-ip", peer_ip,
        "--src-port", str(own_udp),
        "--dst-port", str(peer_udp),
        "--frame-size", trial.packet_mix or str(trial.packet_size_bytes),
        "--stream", str(pair),
        "--burst", str(trial.burst),
        "--interval", str(trial.interval_s),
        "--idle", idle,
        "--session",
    ]  # fmt: skip
    plain = trial.method is Method.PLAIN  # the others say so trial by trial
    if role in ("sender", "client"):
        if not has_own_rate(trial.schedule):
            args += ["--rate", str(trial.rate_pps or "max")]
        if plain and trial.schedule != CONSTANT:
            args += ["--schedule", trial.schedule]
    if plain and trial.probe_rate_pps is not None:
        beside = ["--probe-rate", str(trial.probe_rate_pps)]
        args += beside if role == "client" else ["--probes", "1"]
    if trial.touch:
        args.append("--touch")
    if trial.flows != "1":
        args += ["--flows", trial.flows if end == 0 else mirrored_flows(trial.flows)]
    if trial.vlan:
        args += ["--vlan", trial.vlan]
    return args


def port_spec(port: NodePort, io: Io) -> str:
    """The engine's `--port` value for a node's port."""
    if io is Io.DPDK:
        return f"dpdk:{_dpdk_port(port)}"
    if io is Io.NETMAP and port.made is not None and port.made.netmap is not None:
        return f"netmap:{port.made.netmap}"
    if port.device_inside is None or io is Io.AUTO:
        raise TrialFailed(f"no way to use {io.value} on a {port.kind.value} port")
    if io is Io.NETMAP:
        return f"netmap:{port.device_inside}"
    backend, _, mmsg = io.value.partition("-")
    return f"{backend}:dev={port.device_inside}{',mmsg' if mmsg else ''}"


def _dpdk_port(port: NodePort) -> str:
    if port.made is not None and port.made.pci is not None:
        return f"pci={port.made.pci}"
    if port.socket_inside is None:
        return f"af-packet={port.device_inside}"
    if port.kind is PortKind.MEMIF:
        return f"memif={port.socket_inside},role={'client' if port.back_end else 'server'},id=0"
    if port.back_end:
        return f"vhost={port.socket_inside},client"
    return f"virtio-user={port.socket_inside},server"
