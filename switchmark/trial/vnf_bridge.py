"""A Linux bridge as VNF: in the node's network namespace, or in the kernel of a guest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from switchmark.environment.support.base import Node
from switchmark.host.host import Session
from switchmark.host.undo.entries import NetworkDevice
from switchmark.trial.vnf_base import SpawnedVnf, Vnf

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
        """Wait until the guest says that its ports are joined. Raises TrialFailed."""
        self.wait_guest(timeout_s, "made no bridge")
