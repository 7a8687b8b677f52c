"""What stands in a chain between two ports: starting it, its drops, its death.

A VNF that is the engine runs one endless trial; its counters are read by ending that trial
and beginning the next, which is done only while no traffic runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from switchmark.engine.arguments import forwarder_args
from switchmark.engine.process import EngineProcess
from switchmark.environment.support.base import Node, VirtualMachine, patience_with
from switchmark.errors import SwitchmarkError, TrialFailed
from switchmark.model.trial import Trial
from switchmark.results.record import VnfRun
from switchmark.testbed.cores.cpu_time import process_cpu_s
from switchmark.testbed.host import Session, Spawned
from switchmark.testbed.last_words import NOTHING, last_line
from switchmark.testbed.undo.entries import NetworkDevice
from switchmark.trial.cost.cpu import ApplicationCpu

READ_TIMEOUT_S = 5.0
BRIDGE = "br0"


@dataclass(frozen=True, slots=True)
class VnfCounters:
    """Frames that a VNF passed on since its start, both ways, and frames that it reports as
    dropped."""

    forwarded: int | None = None  # None: it does not say
    dropped: int = 0


class Vnf(Protocol):
    """A running VNF with two ports."""

    node: str
    cpu: ApplicationCpu | None  # what it used between the last two looks at its counters

    def wait_ready(self, timeout_s: float) -> None:
        """Return when it forwards, or will as soon as its ports' peers are there."""
        ...

    def counters(self) -> VnfCounters:
        """Its counters; they may be read only while no traffic runs."""
        ...

    def died(self) -> str | None:
        """How it ended, in one line; None while it runs."""
        ...

    def as_run(self) -> VnfRun:
        """What the record says of it."""
        ...

    def request_exit(self) -> None:
        """Ask it to end, without waiting for it."""
        ...

    def close(self) -> None:
        """End it. Idempotent."""
        ...


@dataclass
class EngineVnf:
    """The engine's forwarder, over the fastest I/O or, as kind `pcap`, with a system call a
    frame."""

    node: str
    kind: str
    engine: EngineProcess
    cpu: ApplicationCpu | None = None
    _forwarded: int = 0
    _dropped: int = 0

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until it is ready and forwards."""
        self.engine.wait_ready(timeout_s)
        self.engine.start(duration=0)

    def counters(self) -> VnfCounters:
        """Its counters until now."""
        self.engine.request_stop()
        result = self.engine.wait_result(READ_TIMEOUT_S)
        self._forwarded += result.totals.tx_offered
        self._dropped += result.totals.tx_dropped + result.totals.rx_socket_drops
        self.cpu = ApplicationCpu.of(self.engine)
        self.engine.start(duration=0)
        return VnfCounters(self._forwarded, self._dropped)

    def died(self) -> str | None:
        """Its exit code in words, if it has ended."""
        code = self.engine.spawned.poll()
        return None if code is None else f"VNF {self.node} ended with exit code {code}"

    def as_run(self) -> VnfRun:
        """The run with what was counted when it was last asked."""
        return VnfRun(
            node=self.node,
            pair=self.engine.pair,
            kind=self.kind,
            command=["switchmark-traffic", *self.engine.args],
            forwarded_frames=self._forwarded,
            dropped_frames=self._dropped,
        )

    def request_exit(self) -> None:
        """Close its input."""
        self.engine.request_exit()

    def close(self) -> None:
        """End it."""
        self.engine.close()


def _nothing() -> None:
    """Undo nothing."""


@dataclass
class BridgeVnf:
    """A Linux bridge in the VNF's network namespace, between its two devices.

    It learns nothing: with two ports there is nothing to choose, and addresses are seen on
    both sides of a chain."""

    node: str
    pair: int
    lines: list[str]
    undo: Callable[[], object]
    cpu: ApplicationCpu | None = None

    @classmethod
    def make(cls, session: Session, node: Node, pair: int) -> BridgeVnf:
        """Join the two devices of a node. Its bridge goes with the namespace, if it has one."""
        bridge = BRIDGE
        undo: Callable[[], object] = _nothing
        if node.netns is None:
            bridge = f"sm{session.id}{node.spec.name}"[:14] + "B"
            undo = partial(session.ledger.undo, session.ledger.record(NetworkDevice(bridge)))
        devices = [str(port.device_inside) for port in node.spec.ports]
        lines = [
            f"link add {bridge} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
            *(f"link set dev {device} master {bridge}" for device in devices),
            *(f"link set dev {device} type bridge_slave learning off" for device in devices),
            f"link set dev {bridge} up",
        ]
        inside = [] if node.netns is None else ["-n", node.netns]
        session.host.run(["ip", *inside, "-batch", "-"], input_text="\n".join(lines) + "\n")
        return cls(node.spec.name, pair, lines, undo)

    def wait_ready(self, timeout_s: float) -> None:
        """Return at once: a bridge forwards as soon as it is made."""

    def counters(self) -> VnfCounters:
        """No counters: the drops of its devices are counted as the node's."""
        return VnfCounters()

    def died(self) -> str | None:
        """None: it has no process."""
        return None

    def as_run(self) -> VnfRun:
        """How it was configured."""
        return VnfRun(node=self.node, pair=self.pair, kind="bridge", command=self.lines)

    def request_exit(self) -> None:
        """Do nothing: there is no process to end."""

    def close(self) -> None:
        """Remove the bridge where it is among the host's devices; elsewhere it goes with its
        namespace."""
        self.undo()


@dataclass
class SpawnedVnf:
    """A VNF that is a program of the host's, such as a virtual machine."""

    node: str
    pair: int
    spawned: Spawned

    def request_exit(self) -> None:
        """Close its input, at which machines and many filters end."""
        if self.spawned.poll() is None:
            self.spawned.close_input()

    def close(self) -> None:
        """End it, first by SIGTERM."""
        self.spawned.terminate(grace_s=1.0)


@dataclass
class GuestBridgeVnf(SpawnedVnf):
    """A Linux bridge in the kernel of a virtual machine, between its two devices."""

    cpu: ApplicationCpu | None = None

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until the guest says that its ports are joined."""
        try:
            line = self.spawned.read_line(timeout_s)
        except TimeoutError:
            line = None
        if line is None:
            words = last_line(self.spawned.stderr_tail(), NOTHING)
            raise TrialFailed(f"VNF {self.node}: its guest made no bridge: {words}")

    def counters(self) -> VnfCounters:
        """No counters: the guest's devices are out of reach."""
        return VnfCounters()

    def died(self) -> str | None:
        """Its machine's exit code, if it has one."""
        code = self.spawned.poll()
        return None if code is None else f"VNF {self.node} ended with exit code {code}"

    def as_run(self) -> VnfRun:
        """What the record says of the machine."""
        return VnfRun(node=self.node, pair=self.pair, kind="bridge", command=["br0 of the guest"])


@dataclass
class ProgramVnf(SpawnedVnf):
    """A program of the user's, given its two ports as arguments."""

    command: list[str]
    cpu: ApplicationCpu | None = None
    _looked: tuple[int, float] = (0, 0.0)  # when, and its CPU time then

    def wait_ready(self, timeout_s: float) -> None:
        """Return at once: a program cannot say when it is ready; the first frames that arrive show
        it."""

    def counters(self) -> VnfCounters:
        """No counters; its CPU time is read instead."""
        now_ns, used_s = time.monotonic_ns(), process_cpu_s(self.spawned.pid)
        then_ns, before_s = self._looked
        self.cpu = ApplicationCpu(now_ns - then_ns, round((used_s - before_s) * 1e9))
        self._looked = now_ns, used_s
        return VnfCounters()

    def died(self) -> str | None:
        """Its exit code and last words, if it has ended."""
        code = self.spawned.poll()
        if code is None:
            return None
        words = last_line(self.spawned.stderr_tail(), NOTHING)
        return f"VNF {self.node} ({self.command[0]}) ended with exit code {code}: {words}"

    def as_run(self) -> VnfRun:
        """The command line that was run."""
        return VnfRun(node=self.node, pair=self.pair, kind="program", command=self.command)


def start_vnf(session: Session, trial: Trial, node: Node, pair: int, idle: str) -> Vnf:
    """Start what the trial asks for between the node's two ports.

    Raises TrialFailed when it cannot be started."""
    try:
        if trial.vnf == "bridge" and isinstance(node, VirtualMachine):
            return GuestBridgeVnf(node.spec.name, pair, node.spawn_bridge())
        if trial.vnf == "bridge":
            return BridgeVnf.make(session, node, pair)
        if trial.vnf.startswith("/"):
            return _program(trial.vnf, node, pair)
    except SwitchmarkError as error:
        raise TrialFailed(f"VNF {node.spec.name}: {error}") from None
    args = forwarder_args(trial, node.spec.ports, idle)
    spawned = node.spawn_engine(args)
    engine = EngineProcess(
        spawned, node.spec.name, "forwarder", pair, args,
        in_guest=isinstance(node, VirtualMachine), patience=patience_with(node),
    )  # fmt: skip
    return EngineVnf(node.spec.name, trial.vnf, engine)


def _program(program: str, node: Node, pair: int) -> ProgramVnf:
    """The command of a program. Ports are device names, or socket paths where it must listen; the
    environment variables hold the MAC addresses of both, and of what lies beyond each."""
    ports = node.spec.ports
    command = [program, *(port.device_inside or str(port.socket_inside) for port in ports)]
    env = {"SWITCHMARK_VNF": node.spec.name}
    for letter, port in zip("AB", ports, strict=True):
        env |= {f"SWITCHMARK_MAC_{letter}": port.mac, f"SWITCHMARK_NEXT_{letter}": port.peer_mac}
    return ProgramVnf(node.spec.name, pair, node.spawn_program(command, env), command)
