"""Checks the hosts of a testbed file: reachability, interfaces, clocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from switchmark.errors import SwitchmarkError
from switchmark.host.interface_check import check_facing
from switchmark.host.local import LocalHost
from switchmark.remote.connection import Connection
from switchmark.remote.contact import ClockReading
from switchmark.testbed.testbed import Target, Testbed


@dataclass(frozen=True, slots=True)
class HostSeen:
    """A host of a testbed. A host with a problem cannot take part in trials."""

    name: str
    address: str  # empty: this machine
    interface: str  # the interface that faces the other host; empty: no cable is used
    reached: bool
    problem: str = ""  # with the remedy
    hostname: str = ""
    kernel: str = ""
    cores: int | None = None
    clock: ClockReading | None = None  # relative to this machine's; None for this machine


def survey(testbed: Testbed) -> Iterator[HostSeen]:
    """Check this machine's end of the cable, and connect to the other hosts in turn. The agents
    undo their changes there."""
    problem = ""
    try:
        if testbed.cable.exists:
            check_facing(LocalHost(), testbed.cable.near, 0)
    except SwitchmarkError as error:
        problem = str(error)
    yield HostSeen(testbed.near, "", testbed.cable.near, reached=True, problem=problem)
    yield _reach(testbed.far, testbed.cable.far)
    for target in testbed.others:
        yield _reach(target, "")


def _reach(target: Target, interface: str) -> HostSeen:
    host = HostSeen(target.name, target.address, interface, reached=False)
    connection = Connection(target)
    try:
        hello = connection.open()
        host = replace(
            host,
            reached=True,
            hostname=hello.hostname,
            kernel=hello.facts.kernel,
            cores=len(hello.facts.usable_cpus),
        )
        host = replace(host, clock=connection.read_clock())
        if interface:
            connection.ask("facing", 5.0, device=interface, mtu_bytes=0)
    except SwitchmarkError as error:
        return replace(host, problem=str(error))
    finally:
        connection.close()
    return host
