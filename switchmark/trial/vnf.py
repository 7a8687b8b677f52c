"""VNFs of a chain between two ports, and their start.

A VNF that is the engine runs a trial without end. To read its counters, that trial is ended and the
next begins, only while no traffic runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from switchmark.engine.arguments import forwarder_args
from switchmark.engine.process import EngineProcess
from switchmark.environment.support.base import Node, VirtualMachine, patience_with
from switchmark.errors import SwitchmarkError, TrialFailed
from switchmark.host.cores.cpu_time import process_cpu_s
from switchmark.host.host import Session, Spawned
from switchmark.host.process_output import NOTHING, last_line
from switchmark.host.undo.entries import NetworkDevice
from switchmark.model.trial import Trial
from switchmark.record import VnfRun
from switchmark.trial.cost import ApplicationCpu


@dataclass
class Vnf:
    """A running VNF with two ports. This base class has no process, and counts nothing."""

    node: str
    pair: int
    kind: str  # as the record names it
    command: list[str]  # command line, or the lines that configured it
    cpu: ApplicationCpu | None = field(default=None, init=False)  # between the last two reads

    def wait_ready(self, timeout_s: float) -> None:
        """Return when it forwards, or will forward as soon as the peers of its ports exist."""

    def read(self) -> int:
        """Read its CPU time, and return the frames that it reports as dropped since its start; only
        while no traffic runs."""
        return 0

    def died(self) -> str | None:
        """Return the reason of its end, in one line; None while it runs."""
        return None

    def as_run(self) -> VnfRun:
        """Return the VNF as the record has it."""
        return VnfRun(node=self.node, pair=self.pair, kind=self.kind, command=self.command)

    def request_exit(self) -> None:
        """Request its end, without waiting for it."""

    def close(self) -> None:
        """End it. Idempotent."""


@dataclass
class SpawnedVnf(Vnf):
    """A VNF that is a program of the host, for example a virtual machine."""

    spawned: Spawned

    def wait_guest(self, timeout_s: float, problem: str) -> None:
        """Wait for the line that a guest prints when its ports are set up. Raises TrialFailed."""
        try:
            line = self.spawned.read_line(timeout_s)
        except TimeoutError:
            line = None
        if line is None:
            output = last_line(self.spawned.stderr_tail(), NOTHING)
            raise TrialFailed(f"VNF {self.node}: its guest {problem}: {output}")

    def died(self) -> str | None:
        """Return its exit code and the end of its standard error, if it has ended."""
        code = self.spawned.poll()
        if code is None:
            return None
        output = last_line(self.spawned.stderr_tail(), NOTHING)
        return f"VNF {self.node} ({self.command[0]}) ended with exit code {code}: {output}"

    def request_exit(self) -> None:
        """Close its input, which ends machines and many filters."""
        if self.spawned.poll() is None:
            self.spawned.close_input()

    def close(self) -> None:
        """End it, first by SIGTERM."""
        self.spawned.terminate(grace_s=1.0)


BRIDGE = "br0"


@dataclass
class BridgeVnf(Vnf):
    """A Linux bridge in the VNF's network namespace, between its two devices.

    It does not learn, since with two ports there is no choice, and an address occurs on both sides
    of a chain. The drops of its devices are counted as the node's."""

    undo: Callable[[], object] | None  # None: the kernel removes the bridge with its namespace

    @classmethod
    def make(cls, session: Session, node: Node, pair: int) -> BridgeVnf:
        """Join the two devices of a node with a bridge."""
        bridge = BRIDGE
        undo = None
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
        return cls(node.spec.name, pair, "bridge", lines, undo)

    def close(self) -> None:
        """Remove the bridge if it is a device of the host."""
        if self.undo is not None:
            self.undo()


@dataclass
class GuestBridgeVnf(SpawnedVnf):
    """A Linux bridge in the kernel of a virtual machine, whose devices are out of reach."""

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until the guest reports that its ports are joined. Raises TrialFailed."""
        self.wait_guest(timeout_s, "made no bridge")


@dataclass
class ProgramVnf(SpawnedVnf):
    """A program of the user with its two ports as arguments. It does not report when it is ready;
    the first frames that arrive show it."""

    _last: tuple[int, float] = field(default=(0, 0.0), init=False)  # time and CPU time of a read

    def read(self) -> int:
        """Read its CPU time; it counts no drops."""
        now_ns, used_s = time.monotonic_ns(), process_cpu_s(self.spawned.pid)
        then_ns, before_s = self._last
        self.cpu = ApplicationCpu(now_ns - then_ns, round((used_s - before_s) * 1e9))
        self._last = now_ns, used_s
        return 0


@dataclass
class GuestProgramVnf(ProgramVnf):
    """A program of the user in a virtual machine. Its CPU time is that of the machine."""

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until the guest has set up its ports, and starts the program."""
        self.wait_guest(timeout_s, f"did not start {self.command[0]}")


READ_TIMEOUT_S = 5.0


@dataclass
class EngineVnf(Vnf):
    """The engine's forwarder, over the fastest I/O. Kind `l2fwd` gathers frames, kind `pcap` makes
    a system call for each frame."""

    engine: EngineProcess
    _forwarded: int = 0
    _dropped: int = 0

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until it is ready and forwards."""
        self.engine.wait_ready(timeout_s)
        self.engine.start(duration=0)

    def read(self) -> int:
        """End its trial, begin the next, and return its drops until now."""
        self.engine.request_stop()
        result = self.engine.wait_result(READ_TIMEOUT_S)
        self._forwarded += result.totals.tx_offered
        self._dropped += result.totals.tx_dropped + result.totals.rx_socket_drops
        self.cpu = ApplicationCpu.of(self.engine)
        self.engine.start(duration=0)
        return self._dropped

    def died(self) -> str | None:
        """Return its exit code, if it has ended."""
        code = self.engine.spawned.poll()
        return None if code is None else f"VNF {self.node} ended with exit code {code}"

    def as_run(self) -> VnfRun:
        """Return the run with its latest counts."""
        counts = {"forwarded_frames": self._forwarded, "dropped_frames": self._dropped}
        return super().as_run().model_copy(update=counts)

    def request_exit(self) -> None:
        """Close its input."""
        self.engine.request_exit()

    def close(self) -> None:
        """End it."""
        self.engine.close()


def start_vnf(session: Session, trial: Trial, node: Node, pair: int, idle: str) -> Vnf:
    """Start the VNF of the trial between the node's two ports. Raises `TrialFailed`."""
    try:
        if trial.vnf == "bridge" and isinstance(node, VirtualMachine):
            command = [f"{BRIDGE} of the guest"]
            return GuestBridgeVnf(node.spec.name, pair, "bridge", command, node.spawn_bridge())
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
    return EngineVnf(node.spec.name, pair, trial.vnf, ["switchmark-traffic", *args], engine)


def _program(program: str, node: Node, pair: int) -> ProgramVnf:
    """Start a program of the user. Its arguments are the ports: device names, or paths of sockets
    on which it must listen. Environment variables have the MAC addresses of the ports and of their
    peers."""
    ports = node.spec.ports
    command = [program, *(port.device_inside or str(port.socket_inside) for port in ports)]
    env = {"SWITCHMARK_VNF": node.spec.name}
    for letter, port in zip("AB", ports, strict=True):
        env |= {f"SWITCHMARK_MAC_{letter}": port.mac, f"SWITCHMARK_NEXT_{letter}": port.peer_mac}
    kind = GuestProgramVnf if isinstance(node, VirtualMachine) else ProgramVnf
    return kind(node.spec.name, pair, "program", command, node.spawn_program(command, env))
