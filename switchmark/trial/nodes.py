"""Makes the nodes of a trial with their ports, and says which ports the switch gets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from switchmark.environment.support.base import Node, VirtualMachine
from switchmark.host.host import Session
from switchmark.host.interface_check import check_facing
from switchmark.model.nics import is_pci
from switchmark.model.node import NodePort, NodeSpec
from switchmark.model.ports import MadePort, NetworkEnd, SwitchPort

if TYPE_CHECKING:
    from switchmark.remote.site import FarSide
    from switchmark.trial.plan import TrialPlan


def create_nodes(
    session: Session, plan: TrialPlan, specs: Sequence[NodeSpec], made: dict[str, Node]
) -> None:
    """Make the nodes, into `made` by name: node by node or, without a switch, wire by wire."""
    nodes = plan.topology.nodes
    places = [plan.environment_of(node.place) for node in nodes]
    far = plan.far
    if plan.topology.direct and far is not None:
        _create_ends_of_cable(session, plan, specs, far, made)
        return
    if plan.topology.direct:
        for k in range(0, len(specs), 2):
            ends = places[k].create_wire(session, specs[k], specs[k + 1])
            made.update((node.spec.name, node) for node in ends)
        return
    for node, place, spec in zip(nodes, places, specs, strict=True):
        if node.far and far is not None:
            made[spec.name] = far.create(spec, node.place)
        else:
            made[spec.name] = place.create(session, spec)


def _create_ends_of_cable(
    session: Session,
    plan: TrialPlan,
    specs: Sequence[NodeSpec],
    far: FarSide,
    made: dict[str, Node],
) -> None:
    """Make the applications of a cable without a switch: each has one end of it as its port."""
    cable = far.site.testbed.cable
    here, there = (
        replace(spec, ports=(replace(spec.port, lent=end),))
        for spec, end in zip(specs, (cable.near, cable.far), strict=True)
    )
    mtu_bytes = here.port.mtu_bytes
    check_facing(session.host, cable.near, mtu_bytes)
    far.switch.check_facing(cable.far, mtu_bytes)
    near_place = plan.environment_of(plan.topology.nodes[0].place)
    made[here.name] = near_place.create(session, here)
    far_place = plan.topology.nodes[1].place
    made[there.name] = far.create(there, far_place)


def switch_ports(nodes: Iterable[Node]) -> list[SwitchPort]:
    """The switch's ports in the order in which frames meet them, which is the order of the
    nodes."""
    ports = [(node, port) for node in nodes for port in node.spec.ports]
    return [
        SwitchPort(
            index=index,
            kind=port.kind,
            mac=port.mac,
            device=port.device_switch_side,
            socket=str(port.socket_host) if port.socket_host else None,
            mtu_bytes=port.mtu_bytes,
            far_device=None if isinstance(node, VirtualMachine) else port.device_inside,
            far_netns=node.netns,
            cable=port.nic is not None,
            pci=port.nic.switch if port.nic and is_pci(port.nic.switch) else None,
        )
        for index, (node, port) in enumerate(ports)
    ]


def with_switch_at(netns: str, spec: NodeSpec) -> NodeSpec:
    """The node's description, with the switch's ends of its ports in that namespace."""
    return replace(spec, ports=tuple(replace(port, switch_netns=netns) for port in spec.ports))


def with_made(specs: Sequence[NodeSpec], made: Sequence[MadePort]) -> list[NodeSpec]:
    """The nodes' descriptions, with the ports that a switch has made in their order."""
    if not made:
        return list(specs)
    left = iter(made)
    given = [
        replace(spec, ports=tuple(replace(port, made=next(left)) for port in spec.ports))
        for spec in specs
    ]
    ends = [one.end for one in made]
    if any(end is None for end in ends):
        return given
    return [
        replace(spec, ports=(_with_addresses(spec.port, made[k].end, made[k ^ 1].end),))
        for k, spec in enumerate(given)
    ]


def _with_addresses(port: NodePort, own: NetworkEnd | None, peer: NetworkEnd | None) -> NodePort:
    """The port with the addresses that a container network has given to it and to its peer."""
    assert own is not None and peer is not None
    return replace(
        port,
        mac=own.mac,
        ip=own.ip,
        device_mac=None,
        peer_mac=peer.mac,
        peer_ip=peer.reached_at or peer.ip,
        udp_port=own.port,
        peer_udp_port=peer.reached_port or peer.port,
        tcp_port=own.tcp_port,
        peer_tcp_port=peer.tcp_port,
    )
