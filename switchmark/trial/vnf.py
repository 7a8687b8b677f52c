"""VNFs of a chain between two ports, and their start.

A VNF that is the engine runs one endless trial; its counters are read by ending that trial
and beginning the next, which is done only while no traffic runs.
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
    """A running VNF with two ports; by itself one without a process, that counts nothing."""

    node: str
    pair: int
    kind: str  # as the record names it
    command: list[str]  # as it was run, or the lines that configured it
    cpu: ApplicationCpu | None = field(default=None, init=False)  # between the last two looks

    def wait_ready(self, timeout_s: float) -> None:
        """Return when it forwards, or will as soon as its ports' peers are there."""

    def look(self) -> int:
        """Take its CPU time, and the frames that it reports as dropped since its start; only while
        no traffic runs."""
        return 0

    def died(self) -> str | None:
        """Return the reason of its end, in one line; None while it runs."""
        return None

    def as_run(self) -> VnfRun:
        """Return the VNF as the record has it."""
        return VnfRun(node=self.node, pair=self.pair, kind=self.kind, command=self.command)

    def request_exit(self) -> None:
        """Ask it to end, without waiting for it."""

    def close(self) -> None:
        """End it. Idempotent."""


@dataclass
class SpawnedVnf(Vnf):
    """A VNF that is a program of the host's, such as a virtual machine."""

    spawned: Spawned

    def wait_guest(self, timeout_s: float, else_it: str) -> None:
        """Wait for the line that a guest prints when its ports are set up. Raises TrialFailed."""
        try:
            line = self.spawned.read_line(timeout_s)
        except TimeoutError:
            line = None
        if line is None:
            words = last_line(self.spawned.stderr_tail(), NOTHING)
            raise TrialFailed(f"VNF {self.node}: its guest {else_it}: {words}")

    def died(self) -> str | None:
        """Its exit code and last words, if it has ended."""
        code = self.spawned.poll()
        if code is None:
            return None
        words = last_line(self.spawned.stderr_tail(), NOTHING)
        return f"VNF {self.node} ({self.command[0]}) ended with exit code {code}: {words}"

    def request_exit(self) -> None:
        """Close its input, at which machines and many filters end."""
        if self.spawned.poll() is None:
            self.spawned.close_input()

    def close(self) -> None:
        """End it, first by SIGTERM."""
        self.spawned.terminate(grace_s=1.0)


BRIDGE = "br0"


@dataclass
class BridgeVnf(Vnf):
    """A Linux bridge in the VNF's network namespace, between its two devices.

    It learns nothing: with two ports there is nothing to choose, and addresses are seen on
    both sides of a chain. The drops of its devices are counted as the node's."""

    undo: Callable[[], object] | None  # None: it goes with its namespace

    @classmethod
    def make(cls, session: Session, node: Node, pair: int) -> BridgeVnf:
        """Join the two devices of a node. Its bridge goes with the namespace, if it has one."""
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
        """Remove the bridge where it is among the host's devices."""
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
    """A program of the user's, given its two ports as arguments. It cannot say when it is ready;
    the first frames that arrive show it."""

    _looked: tuple[int, float] = field(default=(0, 0.0), init=False)  # when, and its CPU time then

    def look(self) -> int:
        """Take its CPU time; it counts no drops."""
        now_ns, used_s = time.monotonic_ns(), process_cpu_s(self.spawned.pid)
        then_ns, before_s = self._looked
        self.cpu = ApplicationCpu(now_ns - then_ns, round((used_s - before_s) * 1e9))
        self._looked = now_ns, used_s
        return 0


@dataclass
class GuestProgramVnf(ProgramVnf):
    """A program of the user's in a virtual machine, whose CPU time is the machine's."""

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until the guest has set its ports up, and starts the program."""
        self.wait_guest(timeout_s, f"did not start {self.command[0]}")


READ_TIMEOUT_S = 5.0


@dataclass
class EngineVnf(Vnf):
    """The engine's forwarder, over the fastest I/O; as kind `l2fwd` it gathers frames, as `pcap` it
    makes a system call a frame."""

    engine: EngineProcess
    _forwarded: int = 0
    _dropped: int = 0

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until it is ready and forwards."""
        self.engine.wait_ready(timeout_s)
        self.engine.start(duration=0)

    def look(self) -> int:
        """End its trial and begin the next; returns its drops until now."""
        self.engine.request_stop()
        result = self.engine.wait_result(READ_TIMEOUT_S)
        self._forwarded += result.totals.tx_offered
        self._dropped += result.totals.tx_dropped + result.totals.rx_socket_drops
        self.cpu = ApplicationCpu.of(self.engine)
        self.engine.start(duration=0)
        return self._dropped

    def died(self) -> str | None:
        """Its exit code in words, if it has ended."""
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
    """Start what the trial asks for between the node's two ports.

    Raises TrialFailed when it cannot be started."""
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
    """The command of a program. Ports are device names, or socket paths where it must listen; the
    environment variables hold the MAC addresses of both, and of what lies beyond each."""
    ports = node.spec.ports
    command = [program, *(port.device_inside or str(port.socket_inside) for port in ports)]
    env = {"SWITCHMARK_VNF": node.spec.name}
    for letter, port in zip("AB", ports, strict=True):
        env |= {f"SWITCHMARK_MAC_{letter}": port.mac, f"SWITCHMARK_NEXT_{letter}": port.peer_mac}
    kind = GuestProgramVnf if isinstance(node, VirtualMachine) else ProgramVnf
    return kind(node.spec.name, pair, "program", command, node.spawn_program(command, env))
