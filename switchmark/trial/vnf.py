"""What stands in a chain between two ports: starting it.

A VNF that is the engine runs one endless trial; its counters are read by ending that trial
and beginning the next, which is done only while no traffic runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from switchmark.engine.arguments import forwarder_args
from switchmark.engine.process import EngineProcess
from switchmark.environment.support.base import Node, VirtualMachine, patience_with
from switchmark.errors import SwitchmarkError, TrialFailed
from switchmark.host.host import Session
from switchmark.model.trial import Trial
from switchmark.record import VnfRun
from switchmark.trial.cost.cpu import ApplicationCpu
from switchmark.trial.vnf_base import Vnf
from switchmark.trial.vnf_bridge import BRIDGE, BridgeVnf, GuestBridgeVnf
from switchmark.trial.vnf_program import GuestProgramVnf, ProgramVnf

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
        """The run with what was counted when it was last asked."""
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
