"""Makes the nodes of a trial with their ports, and lists the ports of the switch."""

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
    session: Session, plan: TrialPlan, specs: Sequence[NodeSpec], created: dict[str, Node]
) -> None:
    """Make the nodes, and add them to `created` by name. Without a switch, the two nodes of a pair
    are made together."""
    nodes = plan.topology.nodes
    places = [plan.environment_of(node.place) for node in nodes]
    far = plan.far
    if plan.topology.direct and far is not None:
        _create_ends_of_cable(session, plan, specs, far, created)
        return
    if plan.topology.direct:
        for k in range(0, len(specs), 2):
            ends = places[k].create_wire(session, specs[k], specs[k + 1])
            created.update((node.spec.name, node) for node in ends)
        return
    for node, place, spec in zip(nodes, places, specs, strict=True):
        if node.far and far is not None:
            created[spec.name] = far.create(spec, node.place)
        else:
            created[spec.name] = place.create(session, spec)


def _create_ends_of_cable(
    session: Session,
    plan: TrialPlan,
    specs: Sequence[NodeSpec],
    far: FarSide,
    created: dict[str, Node],
) -> None:
    """Make the applications of a cable without a switch. The port of each is one end of the
    cable."""
    cable = far.site.testbed.cable
    local, remote = (
        replace(spec, ports=(replace(spec.port, lent=end),))
        for spec, end in zip(specs, (cable.near, cable.far), strict=True)
    )
    mtu_bytes = local.port.mtu_bytes
    check_facing(session.host, cable.near, mtu_bytes)
    far.switch.check_facing(cable.far, mtu_bytes)
    near_place = plan.environment_of(plan.topology.nodes[0].place)
    created[local.name] = near_place.create(session, local)
    far_place = plan.topology.nodes[1].place
    created[remote.name] = far.create(remote, far_place)


def switch_ports(nodes: Iterable[Node]) -> list[SwitchPort]:
    """Return the switch's ports in the order in which frames pass them, the order of the nodes."""
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
    """Return the node's description, with the switch's ends of its ports in that namespace."""
    return replace(spec, ports=tuple(replace(port, switch_netns=netns) for port in spec.ports))


def with_made(specs: Sequence[NodeSpec], made_ports: Sequence[MadePort]) -> list[NodeSpec]:
    """Return the nodes' descriptions, with the ports that a switch has made in their order."""
    if not made_ports:
        return list(specs)
    remaining = iter(made_ports)
    given = [
        replace(spec, ports=tuple(replace(port, made_port=next(remaining)) for port in spec.ports))
        for spec in specs
    ]
    ends = [one.end for one in made_ports]
    if any(end is None for end in ends):
        return given
    return [
        replace(spec, ports=(_with_addresses(spec.port, made_ports[k].end, made_ports[k ^ 1].end),))
        for k, spec in enumerate(given)
    ]


def _with_addresses(port: NodePort, end: NetworkEnd | None, peer: NetworkEnd | None) -> NodePort:
    """Return the port with the addresses that a container network gave to it and to its peer."""
    assert end is not None and peer is not None
    return replace(
        port,
        mac=end.mac,
        ip=end.ip,
        device_mac=None,
        peer_mac=peer.mac,
        peer_ip=peer.reached_at or peer.ip,
        udp_port=end.port,
        peer_udp_port=peer.reached_port or peer.port,
        tcp_port=end.tcp_port,
        peer_tcp_port=peer.reached_tcp_port or peer.tcp_port,
    )
