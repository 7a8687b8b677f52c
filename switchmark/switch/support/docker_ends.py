"""Two ends of the bench in a Docker network of the user: containers that only hold a network.

Docker gives them their addresses and its firewall rules, and `docker rm -f` removes them.
"""

from __future__ import annotations

from switchmark.engine.binary import find_engine
from switchmark.environment.docker import HOLD
from switchmark.environment.support.rootfs import build_root, no_busybox
from switchmark.errors import Refusal, UnavailableError
from switchmark.host.containers import docker_daemon
from switchmark.host.host import Session
from switchmark.host.kernel import namespaces
from switchmark.host.network.handle import NamespaceHandle
from switchmark.host.process_output import stdout_of
from switchmark.host.undo.entries import DockerObject, Entered
from switchmark.model.ports import NetworkEnd
from switchmark.switch.support.private import Resources

DRIVERS = ("bridge", "macvlan", "ipvlan")


def docker_refusal(network: str, vlan: int | None) -> Refusal | None:
    """Return why two ends cannot be attached to a Docker network; None if they can."""
    if vlan is not None:
        return Refusal("attach_vlan: Docker decides the VLAN of its networks", "leave it out")
    if docker_daemon.user_daemon_version() is None:
        return Refusal("attach: no Docker daemon answers here", "start it, or use sudo")
    problem = no_busybox()
    if problem is not None and problem.refusal is not None:
        return problem.refusal
    driver = stdout_of(["docker", "network", "inspect", "-f", "{{.Driver}}", network])
    if driver is None:
        return Refusal(f"attach: Docker has no network {network}", "see `docker network ls`")
    if driver not in DRIVERS:
        return Refusal(
            f"attach: {network} is a Docker network of the driver {driver}, which is not supported",
            f"choose one of the driver {', '.join(DRIVERS)}",
        )
    return None


def docker_ends(
    session: Session, resources: Resources, network: str
) -> tuple[list[NetworkEnd], list[NamespaceHandle]]:
    """Start two containers in a network; return their ends. Raises UnavailableError."""
    daemon = docker_daemon.daemon_for(session, build_root(find_engine()))
    ends, handles = [], []
    for number in (0, 1):
        netns = f"sm{session.id}e{number}"
        holder = f"{netns}-net"
        resources.note(DockerObject("container", holder, daemon.host))
        pid = docker_daemon.hold_network(session, daemon, holder, HOLD, ("--network", network))
        handle = NamespaceHandle.open(f"/proc/{pid}/ns/net", f"end {number} of the bench")
        handles.append(handle)
        resources.at_end(handle.close)
        if handle.is_own:
            raise UnavailableError(f"docker: network {network} is that of the host")
        resources.note(Entered(netns, handle.inode, f"container {holder}"))
        namespaces.name_namespace(netns, pid)
        ends.append(NetworkEnd(netns, "", "", ""))
    return ends, handles
