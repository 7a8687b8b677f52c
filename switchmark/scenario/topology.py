"""What a scenario expands to: nodes, links and the paths that traffic takes. Plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from switchmark.campaign.model import Trial
from switchmark.environment.base import NodePort, NodeSpec
from switchmark.errors import UsageError
from switchmark.switch.base import PortKind

MOST_PAIRS = 500
APPLICATION_PREFIX, DEVICE_PREFIX = "02", "06"  # locally administered, unicast
ETHERNET_OVERHEAD_BYTES = 18  # header and FCS: what a frame has beyond its MTU


@dataclass(frozen=True, slots=True)
class TopologyNode:
    """A place for one traffic application, with the address of its one port."""

    name: str
    role: str  # of the engine: sender, receiver, client, server
    pair: int
    end: int  # 0: where traffic starts, 1: its peer
    mac: str
    ip: str  # with prefix length

    @property
    def port_index(self) -> int:
        """Of the port at the switch; 2k and 2k+1 are the ends of pair k."""
        return 2 * self.pair + self.end


@dataclass(frozen=True, slots=True)
class Link:
    """What a node is joined to: the switch under test, or the other node of its pair."""

    node: str
    peer: str | None  # None: the switch


@dataclass(frozen=True, slots=True)
class Path:
    """One stream of traffic, from node to node."""

    pair: int
    stream: int  # the engine's --stream
    source: str
    target: str
    both_ways: bool  # requests and answers


@dataclass(frozen=True, slots=True)
class Topology:
    """A trial's nodes, links and paths."""

    nodes: tuple[TopologyNode, ...]
    links: tuple[Link, ...]
    paths: tuple[Path, ...]
    direct: bool  # no switch: each pair on a wire of its own
    frame_size_bytes: int

    def node(self, name: str) -> TopologyNode:
        """The node of this name. Raises KeyError."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    def peer(self, node: TopologyNode) -> TopologyNode:
        """The other end of the node's pair."""
        return self.nodes[2 * node.pair + 1 - node.end]

    def pairs(self) -> tuple[tuple[str, ...], ...]:
        """Node names of each pair, the sending end first (for placement)."""
        return tuple((path.source, path.target) for path in self.paths)

    def pair_specs(
        self,
        kind: PortKind,
        cores: Mapping[str, Sequence[int]],
        *,
        past_ip_stack: bool = False,
        powers: tuple[str, ...] = (),
    ) -> list[tuple[NodeSpec, NodeSpec]]:
        """What an environment is asked to make, pair by pair; `cores` by node name.

        `past_ip_stack`: the applications read frames from the device themselves, and the
        kernel's IP stack is to leave them alone; the devices get addresses of their own.
        `powers`: see `NodeSpec`."""
        specs = []
        for node in self.nodes:
            peer = self.peer(node)
            device_mac = pair_mac(node.pair, node.end, DEVICE_PREFIX) if past_ip_stack else None
            port = NodePort(kind, node.mac, node.ip, self._mtu_bytes(), device_mac)
            specs.append(
                NodeSpec(node.name, port, tuple(cores[node.name]), peer.mac, peer.ip, powers)
            )
        return list(zip(specs[::2], specs[1::2], strict=True))

    def _mtu_bytes(self) -> int:
        return max(1500, self.frame_size_bytes - ETHERNET_OVERHEAD_BYTES)


def pair_mac(pair: int, end: int, prefix: str = APPLICATION_PREFIX) -> str:
    """A locally administered unicast address: prefix, "SM", the pair, the end from 1."""
    return f"{prefix}:53:4d:{pair >> 8:02x}:{pair & 255:02x}:{end + 1:02x}"


def pair_ip(pair: int, end: int) -> str:
    """Each pair has a /24 of its own from 10.64.0.0 on; its ends are .1 and .2."""
    return f"10.{64 + (pair >> 8)}.{pair & 255}.{end + 1}/24"


def check_pairs(trial: Trial) -> None:
    """Raises UsageError when there are more pairs than the address plan holds."""
    if trial.pairs > MOST_PAIRS:
        raise UsageError(
            f"pairs: {trial.pairs} is more than the {MOST_PAIRS} that addresses are planned for"
        )
